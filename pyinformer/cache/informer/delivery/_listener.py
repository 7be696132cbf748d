"""One handler, its mailbox and the task that calls the handler.

Events enter a bounded mailbox as fast as they arrive and are handled one after the other, each call
awaited before the next. A handler that raises is counted, logged by name and kept; one that never
returns delays no other. This is the informer's fence around user code.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio.tasks import _enter_task, _leave_task  # documented: "Extending asyncio"
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, cast, final

import anyio

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import (
    BUDGET_SECONDS,
    DEFAULT_GRACE_SECONDS,
    FailureLog,
    LogExceptions,
    Turn,
    UserTask,
    UserTasks,
    begin_user_code,
    ends_task,
    error_text,
    place_of,
    repeats_text,
    trace_text,
)
from pyinformer.cache.informer.delivery._handlers import Handler
from pyinformer.cache.informer.delivery._mailbox import Mailbox
from pyinformer.client.cluster import context_without_writer
from pyinformer.errors import CacheSyncTimeoutError, LifecycleError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, V

if TYPE_CHECKING:
    from pyinformer.telemetry.metrics import Histogram

_log = get_logger(__name__)

_current_call: ContextVar[object] = ContextVar("pyinformer_current_call", default=None)
"""Marks what runs inside an awaited call: tasks and threads that the handler starts inherit it."""

_NOTABLE_SECONDS = 0.01  # a call this slow is remembered for explanations
_NOTABLE_CALLS = 64
_LONG_CALL_SECONDS = 1.0  # a call this long is in the status line
_CALLS_PER_CLOCK_READ = 16  # reading the clock costs a third of a call
_QUICK_CALL_SECONDS = 0.001  # a handler this quick is called in the step that reads its event
_SLOW_CALL_SECONDS = BUDGET_SECONDS / _CALLS_PER_CLOCK_READ  # slower: read it at each call


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerStatus:
    """The status of one handler, without object content."""

    name: str
    has_synced: bool
    delivered: int
    """Calls that returned."""
    failed: int
    """Calls that raised."""
    coalesced: int
    """Events that were merged into one that waited already."""
    dropped_pairs: int
    """Additions that were dropped with their deletion before the handler was called."""
    depth: int
    """Waiting events."""
    peak: int
    """The most that were seen waiting."""
    oldest_seconds: float
    """An upper bound for how long the oldest event has waited; 0 if none waits."""
    in_flight_key: str | None
    """The key of the call in flight, `namespace/name` or `name`; None if it is idle."""
    in_flight_seconds: float
    """How long that call has taken; 0 if it is idle."""
    last_error: str | None
    """The type of the last error and where it was raised; None if there was none."""
    is_removed: bool
    """Whether it gets no more events."""

    def troubles(self) -> Iterator[str]:
        """Yield what is wrong with it, and how far it is behind."""
        if self.depth:
            oldest = f"the oldest for {self.oldest_seconds:.1f} s"
            events = "1 event" if self.depth == 1 else f"{self.depth} events"
            yield f"handler {self.name} is {events} behind, {oldest}"
        if self.in_flight_key is not None and self.in_flight_seconds > _LONG_CALL_SECONDS:
            took = f"{self.in_flight_seconds:.1f} s"
            yield f"handler {self.name} is busy with {self.in_flight_key} for {took}"
        if self.failed:
            times = "once" if self.failed == 1 else f"{self.failed} times"
            yield f"handler {self.name} failed {times}, last: {self.last_error}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerHistory:
    """What one handler knows of one key, without object content."""

    name: str
    has_synced: bool
    """Whether it has handled the whole initial list."""
    waits: bool
    """Whether an event of the key waits in its mailbox."""
    ahead: int
    """How many events wait in its mailbox, of all keys."""
    is_in_flight: bool
    """Whether a call for the key is in flight."""
    in_flight_seconds: float
    coalesced: int
    """Events of the key that were merged into others, as far as is remembered."""
    notes: tuple[str, ...]
    """Calls for the key that were slow or failed, as far as is remembered."""


@final
class Listener(Generic[V]):
    """Calls one handler with the events of its mailbox. Constructing it starts nothing.

    Args:
        handler: what to call.
        tasks: runs its task.
        informer: names the informer in errors and in the task's name.
        mailbox_size: how many events are kept in order before they are merged per key.
        resync_period_seconds: how often the informer adds a resync; 0 for never.
        log_exceptions: whether logs show the texts of the errors that it raises.
        turn: at its end an idle handler is called for a lone event, without waking its task.
    """

    def __init__(
        self,
        handler: Handler[V],
        *,
        tasks: UserTasks,
        informer: str,
        mailbox_size: int = 1024,
        resync_period_seconds: float = 0.0,
        log_exceptions: LogExceptions = "classes",
        turn: Turn | None = None,
    ) -> None:
        self.name: str = handler.name
        self.resync_period_seconds = resync_period_seconds
        self._informer = informer
        self._call = handler.call
        self._tasks = tasks
        self._mailbox: Mailbox[V] = Mailbox(size=mailbox_size, on_first=self._arrived)
        self.put_nowait: Callable[[Event[V]], None] = self._mailbox.put_nowait
        self._turn = turn or Turn()
        self._task: UserTask | None = None
        self._runner: asyncio.Task[object] | None = None  # the same task, to call inside of it
        self._context: Context = copy_context()  # the task's, once it has started
        self._waiter: asyncio.Future[None] | None = None
        self._unawaited: Awaitable[object] | None = None  # of a call at the end of a turn
        self._is_plain = True  # no call has returned an awaitable
        self._is_quick = False  # and the last one was short
        self._is_in_turn = False  # a lone event waits for the end of its turn
        self._in_flight: Event[V] | None = None
        self._in_flight_since = 0.0
        self._call_mark: object = None
        self.is_removed: bool = False
        """Whether it gets no more events."""
        self.has_synced: bool = False
        """Whether the handler has handled the whole initial list."""
        self._settled = anyio.Event()  # synced, or removed
        self._delivered = 0
        self._failed = 0
        self._last_error: str | None = None
        self._log_exceptions: LogExceptions = log_exceptions
        self._failures = FailureLog()
        self._processing: Histogram | None = None
        self._notable: deque[tuple[str, str]] = deque(maxlen=_NOTABLE_CALLS)

    @property
    def depth(self) -> int:
        """How many events wait."""
        return self._mailbox.depth

    def start_nowait(self, *, processing: Histogram | None = None) -> None:
        """Start calling the handler, on the running loop. A second call does nothing.

        Args:
            processing: records how long one slow call takes, or up to 16 calls together; None to
                record nothing.
        """
        self._processing = processing
        if self._task is None and not self.is_removed:
            name = f"handler {self.name} of {self._informer}"
            self._context = context_without_writer()
            self._task = self._tasks.spawn(name, self._run(), context=self._context)

    def count_bytes_nowait(self) -> None:
        """Bound what waits by bytes, too, from now on."""
        self._mailbox.count_bytes_nowait()

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Add the objects that exist already, as additions of the initial list.

        Args:
            objects: the cache's content; no key occurs twice. Call this before any event.
        """
        self._mailbox.preload_nowait(objects)

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Do nothing: handlers get only states that were in the cache."""

    def resync_nowait(self, objects: Iterable[KubeObject[V]]) -> None:
        """Add a resync: an update from each object to itself, unless an event waits for it.

        Args:
            objects: the cache's content as it is now.
        """
        self._mailbox.resync_nowait(objects)

    def on_initial_list_complete(self) -> None:
        """Record that every addition of the initial list has been added."""
        self._mailbox.on_initial_list_complete()
        if self._in_flight is None:
            self._check_synced()

    @property
    def is_busy(self) -> bool:
        """Whether a call is in flight."""
        return self._in_flight is not None

    @property
    def is_inside(self) -> bool:
        """Whether the caller runs inside the handler's call in flight.

        Tasks and threads that the call has started count, too: closing an informer from inside its
        handler must not wait for that handler.
        """
        return self._in_flight is not None and _current_call.get() is self._call_mark

    async def wait_synced(self, *, timeout_seconds: float = 30.0) -> None:
        """Wait until the handler has handled the whole initial list.

        Args:
            timeout_seconds: how long to wait.

        Raises:
            CacheSyncTimeoutError: it took longer.
            LifecycleError: the handler was removed before.

        Cancellation:
            Safe.
        """
        with anyio.move_on_after(timeout_seconds):
            await self._settled.wait()
        if self.has_synced:
            return
        if self.is_removed:
            raise LifecycleError(f"handler {self.name} was removed before it had synced")
        status = self.status(asyncio.get_running_loop().time())
        pending = (
            f"handler {self.name} of {self._informer}: {status.delivered} delivered,"
            f" {status.depth} waiting, last error: {status.last_error or 'none'}"
        )
        raise CacheSyncTimeoutError(waited_seconds=timeout_seconds, pending=(pending,))

    async def remove(self, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop calling it, and wait for the call in flight.

        The call may finish; one that does not is cancelled, named in the log and abandoned.
        Called from inside the handler itself, this returns at once, and that call may finish in
        its own time. A second call only waits.

        Args:
            grace_seconds: how long to wait.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds; the handler is removed
            in any case.
        """
        task = self._close()
        if task is None or self.is_inside:
            return
        try:
            await task.wait(grace_seconds)
        finally:
            if not (task.done or task.is_detached):
                task.cancel_once()
                task.abandon_if_running(grace_seconds)

    async def aclose(self, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop calling it, and cancel the call in flight once.

        What the handler does in its `finally` is awaited; if it does not end, it is named in the
        log and abandoned. Called from inside the handler, this returns at once, and the call it
        comes from may finish.

        Args:
            grace_seconds: how long to wait.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds; the handler is closed in
            any case.
        """
        task = self._close()
        if task is not None:
            if self.is_inside:
                task.detach()
            await task.stop(grace_seconds)

    def status(self, now: float) -> HandlerStatus:
        """Return its status.

        Args:
            now: the loop's time.
        """
        is_in_turn = self._is_in_turn  # read first: an event is stamped before it is false
        mailbox = self._mailbox.statistics(now)
        event = self._in_flight
        return HandlerStatus(
            name=self.name,
            has_synced=self.has_synced,
            delivered=self._delivered,
            failed=self._failed,
            coalesced=mailbox.coalesced,
            dropped_pairs=mailbox.dropped_pairs,
            depth=mailbox.depth,
            peak=mailbox.peak,
            oldest_seconds=0.0 if is_in_turn else mailbox.oldest_seconds,
            in_flight_key=None if event is None else event.key,
            in_flight_seconds=0.0 if event is None else max(0.0, now - self._in_flight_since),
            last_error=self._last_error,
            is_removed=self.is_removed,
        )

    def history(self, key: str, now: float) -> HandlerHistory:
        """Return what it knows of one key.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            now: the loop's time.
        """
        event = self._in_flight
        is_in_flight = event is not None and event.key == key
        return HandlerHistory(
            name=self.name,
            has_synced=self.has_synced,
            waits=self._mailbox.holds(key),
            ahead=self._mailbox.statistics(now).depth,
            is_in_flight=is_in_flight,
            in_flight_seconds=now - self._in_flight_since if is_in_flight else 0.0,
            coalesced=self._mailbox.coalesced_of(key),
            notes=tuple(what for about, what in self._notable.copy() if about == key),
        )

    def _close(self) -> UserTask | None:
        """Stop calling; return the task if there is one to wait for."""
        self.is_removed = True
        self._mailbox.close_nowait()
        self._settled.set()
        self._wake()
        return self._task

    def _arrived(self) -> None:
        if self._is_quick and self._turn.is_open:
            self._is_in_turn = True
            self._turn.calls.append(self._call_in_turn)
        else:
            self._wake_for_new()

    def _wake_for_new(self) -> None:
        self._mailbox.stamp_nowait(asyncio.get_running_loop().time())
        self._is_in_turn = False
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _check_synced(self) -> None:
        if not self.has_synced and self._mailbox.initial_list_taken and not self.is_removed:
            self.has_synced = True
            self._settled.set()

    def _call_in_turn(self) -> None:  # noqa: C901, PLR0912 - one call for a lone event
        """Call an idle handler for a lone event, in place of its task; else wake the task.

        To wake it costs an iteration of the event loop, a fifth of what such an event costs.
        """
        mailbox, waiter, runner = self._mailbox, self._waiter, self._runner
        is_lone = mailbox.room and len(mailbox.queue) == 1
        if waiter is None or waiter.done() or runner is None or not (is_lone and self.has_synced):
            self._wake_for_new()
            return
        loop = runner.get_loop()
        try:
            _enter_task(loop, runner)  # what the handler asks for its task finds this one
        except RuntimeError:  # the turn ends within another task
            self._wake_for_new()
            return
        mailbox.places_vacated += 1
        self._in_flight = event = mailbox.queue.popleft()
        self._is_in_turn = False
        self._in_flight_since = started = loop.time()
        try:
            result = self._context.run(self._call, event)
            is_done = result is None or not inspect.isawaitable(result)
        except ENDS_PROGRAM:
            raise
        except asyncio.CancelledError as error:
            if not waiter.cancelled():  # else the task ends now
                self._raised(event, error)
        except BaseException as error:  # noqa: BLE001 - the fence; test tools raise these
            self._raised(event, error)
        else:
            if is_done:
                self._delivered += 1
            else:
                self._unawaited = cast("Awaitable[object]", result)  # only a task can await it
                self._wake()
        finally:
            _leave_task(loop, runner)
            if self._unawaited is None:
                self._in_flight = None
        if self._unawaited is None:
            now = loop.time()
            if now - started >= _QUICK_CALL_SECONDS or self._processing is not None:
                self._calls_per_clock_read(event, now, now - started, 1)

    async def _run(self) -> None:
        self._runner = asyncio.current_task()
        self._mark_next_call()
        try:
            await self._deliver_until_removed(asyncio.get_running_loop())
        except asyncio.CancelledError:
            if not self.is_removed:
                self._cancelled_by_others()
            raise
        finally:
            self._drop_unawaited()

    def _drop_unawaited(self) -> None:
        """End what a call returned if the task was cancelled before it could await that."""
        result, self._unawaited, self._in_flight = self._unawaited, None, None
        if isinstance(result, Coroutine):
            result.close()
        elif isinstance(result, asyncio.Future):
            result.cancel()

    async def _deliver_until_removed(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self.is_removed or self._unawaited is not None:
            if self._unawaited is not None:
                await self._finish_call(self._unawaited, loop)
            elif await self._deliver_for_a_while(loop):
                await asyncio.sleep(0)
            elif not self.is_removed:
                self._waiter = loop.create_future()
                await self._waiter

    async def _deliver_for_a_while(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Call the handler until its budget is spent or no event waits; return whether one may."""
        mailbox, call = self._mailbox, self._call
        queue = mailbox.queue
        clock_read_at = loop.time()
        deadline = clock_read_at + BUDGET_SECONDS
        calls = 1
        while clock_read_at < deadline:
            mailbox.observe_nowait(clock_read_at)
            self._in_flight_since = clock_read_at
            self._is_quick = False  # until all of these calls have been timed
            for _ in range(calls):
                if not self.has_synced:
                    self._check_synced()  # the next call may never return
                if mailbox.room and queue:  # as take_nowait, which costs a fifth of a delivery
                    mailbox.places_vacated += 1
                    event = queue.popleft()
                elif (taken := mailbox.take_nowait()) is not None:
                    event = taken
                else:
                    return False
                self._in_flight = event
                try:
                    result = call(event)
                    if result is not None and inspect.isawaitable(result):
                        await self._wait_for(result, loop)
                except BaseException as error:  # noqa: BLE001 - the fence; test tools raise these
                    self._caught(event, error)
                else:
                    self._delivered += 1
                finally:
                    self._in_flight = None
            now = loop.time()
            calls = self._calls_per_clock_read(event, now, now - clock_read_at, calls)
            clock_read_at = now
            if self.has_synced and mailbox.room and not queue:
                return False  # nothing waits
        return True

    async def _finish_call(
        self, result: Awaitable[object], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Await what a call at the end of a turn returned; its event is still in flight."""
        event, started = cast("Event[V]", self._in_flight), self._in_flight_since
        try:
            await self._wait_for(result, loop)
        except BaseException as error:  # noqa: BLE001 - the fence; test tools raise these
            self._caught(event, error)
        else:
            self._delivered += 1
        finally:
            self._unawaited = self._in_flight = None
        now = loop.time()
        self._calls_per_clock_read(event, now, now - started, 1)

    async def _wait_for(self, result: Awaitable[object], loop: asyncio.AbstractEventLoop) -> None:
        self._is_plain = self._is_quick = False
        self._in_flight_since = loop.time()
        begin_user_code(self._runner)
        try:
            await result
        finally:
            self._mark_next_call()
        self._mailbox.observe_nowait(loop.time())

    def _mark_next_call(self) -> None:
        """Mark the next call before it: a plain handler may start the task that it returns."""
        self._call_mark = object()
        _current_call.set(self._call_mark)

    def _cancelled_by_others(self) -> None:
        """Record the removal: a handler that ended silently would look idle."""
        self._last_error = "its task was cancelled, and not by its informer"
        self._close()
        _log.error(
            "handler %s of %s: %s; it gets no more events",
            self.name,
            self._informer,
            self._last_error,
        )

    def _caught(self, event: Event[V], error: BaseException) -> None:
        """Record the handler's error; raise it if it ends more than the handler's call."""
        is_cancelled = self.is_removed and isinstance(error, asyncio.CancelledError)
        if is_cancelled or ends_task(error, self._runner):
            raise error
        self._raised(event, error)

    def _calls_per_clock_read(self, last: Event[V], now: float, seconds: float, calls: int) -> int:
        """Return after how many calls to read the clock again; record how long they took."""
        if self._processing is not None:
            self._processing.observe(seconds)
        took = now - self._in_flight_since
        if calls == 1 and took > _NOTABLE_SECONDS:
            what = f"a call for {_version_of(last)} took {took * 1000:.0f} ms"
            self._notable.append((last.key, what))
        self._is_quick = self._is_plain and seconds < _QUICK_CALL_SECONDS
        return 1 if seconds > calls * _SLOW_CALL_SECONDS else _CALLS_PER_CLOCK_READ

    def _raised(self, event: Event[V], error: BaseException) -> None:
        self._failed += 1
        self._last_error = f"{type(error).__name__} {place_of(error)}"
        what = f"a call for {_version_of(event)} failed: {self._last_error}"
        self._notable.append((event.key, what))
        unlogged = self._failures.due(error, asyncio.get_running_loop().time())
        if unlogged is not None:
            shown = self._log_exceptions
            _log.error(
                "handler %s of %s failed on %s: %s; it stays registered; failure %d%s%s",
                self.name,
                self._informer,
                event.key,
                error_text(error, shown),
                self._failed,
                repeats_text(unlogged),
                Lines(f"\n{trace_text(error)}" if shown == "full" else ""),
            )


def _version_of(event: Event[V]) -> str:
    match event:
        case Updated():
            return event.new.metadata.resource_version
        case Added():
            return event.object.metadata.resource_version
        case Deleted():
            return event.last_known.metadata.resource_version
