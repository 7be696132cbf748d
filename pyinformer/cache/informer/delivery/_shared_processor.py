"""The handlers and event streams of one informer, from registration to end.

A handler or stream that is removed gets nothing from that moment on, and no task that was started
here outlives `aclose` by more than the grace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import anyio

from pyinformer._runtime.tasks import (
    DEFAULT_GRACE_SECONDS,
    LogExceptions,
    Turn,
    UserTasks,
    run_shielded,
    start_from_anywhere,
)
from pyinformer.cache.informer.delivery._listener import HandlerHistory, HandlerStatus, Listener
from pyinformer.errors import InformerError, LifecycleError
from pyinformer.objects import Event, KubeObject, V, check_seconds
from pyinformer.telemetry.tracing import outside_reconcile

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from pyinformer.cache.informer.delivery._event_stream import EventStream
    from pyinformer.cache.informer.delivery._handlers import Handler
    from pyinformer.telemetry.metrics import Histogram

_In = TypeVar("_In", contravariant=True)
_Both = TypeVar("_Both")


class Receiver(Protocol[_In]):
    """Receives every change in the step of the event: a listener, stream or controller's source."""

    @property
    def put_nowait(self) -> Callable[[Event[_In]], None]:
        """Take one event, which the cache holds already."""
        ...

    def preload_nowait(self, objects: Collection[KubeObject[_In]]) -> None:
        """Take the objects that exist already; other receivers share the collection."""
        ...

    def on_initial_list_complete(self) -> None:
        """Record that every object that existed has been put in."""
        ...

    def on_missed_state(self, was: KubeObject[_In], now: KubeObject[_In] | None) -> None:
        """Record that readers saw a written state, and no longer do, which no event reports."""
        ...


class EventFeed(Protocol[_Both]):
    """Feeds receivers with the events of one cache, or of one cache per namespace."""

    def announced(self) -> list[KubeObject[_Both]]:
        """Return the cached objects of the namespaces that have synced."""
        ...

    async def wait_announced(self) -> None:
        """Wait until the receivers know what the cache holds.

        Cancellation:
            Safe.
        """
        ...

    def attach(self, receiver: Receiver[_Both], *, preload: bool = True) -> None:
        """Feed a receiver from now on; with `preload`, what is cached comes first."""
        ...

    def detach(self, receiver: Receiver[_Both]) -> None:
        """Stop feeding a receiver."""
        ...


@final
class SharedProcessor(Generic[V]):
    """The handlers and streams of one informer.

    Args:
        informer: names the informer in errors and in the names of tasks.
        feed: feeds the handlers and streams.
        on_crash: called with the error if a bug of pyinformer ends a handler's task.
        check_loop: raises for a caller outside of the informer's event loop.
        turn: at its end, idle handlers are called for the event that was applied in it.

    Source:
        client-go tools/cache/shared_informer.go, sharedProcessor.
    """

    def __init__(
        self,
        informer: str,
        feed: EventFeed[V],
        *,
        on_crash: Callable[[BaseException], None],
        check_loop: Callable[[], None] = lambda: None,
        turn: Turn | None = None,
    ) -> None:
        self.informer: str = informer
        """The informer's name, for errors."""
        self.check_loop: Callable[[], None] = check_loop
        """Raises for a caller outside of the informer's event loop."""
        self._feed = feed
        self._tasks = UserTasks(on_crash=on_crash)
        self._turn = turn or Turn()
        self._listeners: list[Listener[V]] = []
        self._leaving: list[Listener[V]] = []  # removed from inside their own calls
        self._streams: list[EventStream[V]] = []
        self._resyncs: dict[Listener[V], anyio.CancelScope | None] = {}  # None: it starts
        self._group: TaskGroup | None = None
        self._processing: Histogram | None = None
        self._counts_bytes = False
        self._is_closed = False

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The handlers that were cancelled, did not end in time, and still run."""
        return self._tasks.abandoned

    @property
    def handler_names(self) -> tuple[str, ...]:
        """The names of the registered handlers; readable from any thread."""
        return tuple(listener.name for listener in tuple(self._listeners))

    @property
    def depth(self) -> int:
        """How many events wait for handlers; readable from any thread."""
        return sum(listener.depth for listener in tuple(self._listeners))

    def count_bytes_nowait(self) -> None:
        """Bound mailboxes by bytes, too: the informer has received a large object."""
        if self._counts_bytes:
            return
        self._counts_bytes = True
        for listener in self._listeners:
            listener.count_bytes_nowait()

    def add(
        self,
        handler: Handler[V],
        *,
        mailbox_size: int,
        resync_period_seconds: float,
        log_exceptions: LogExceptions = "classes",
    ) -> Registration[V]:
        """Call a handler for the objects that exist and for every change from now on.

        Raises:
            LifecycleError: the informer is closed.
        """
        self._refuse_if_closed()
        listener = Listener(
            handler,
            tasks=self._tasks,
            informer=self.informer,
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
            turn=self._turn,
        )
        if self._counts_bytes:
            listener.count_bytes_nowait()
        self._listeners.append(listener)
        self._feed.attach(listener)
        if self._group is not None:
            self._start(listener, self._group)
        return Registration(listener, self)

    def start_nowait(self, group: TaskGroup, *, processing: Histogram | None = None) -> None:
        """Start calling handlers, on the running loop; later handlers start at once.

        Args:
            group: runs the periodic resyncs.
            processing: records how long handlers take; None to record nothing.
        """
        self._group = group
        self._processing = processing
        for listener in self._listeners:
            self._start(listener, group)

    async def detach_current_task(self) -> None:
        """Release the handler that this is called from, so that closing does not wait for it.

        Cancellation:
            Never waits.
        """
        for listener in (*self._listeners, *self._leaving):
            if listener.is_inside:
                await listener.aclose()

    async def aclose(self, grace_seconds: float) -> None:
        """Stop delivery, cancel every call in flight once, and wait for it to end.

        A second call does nothing. `end_streams_nowait` ends the streams.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._group = None
        await run_shielded("the close of handlers", self._close(grace_seconds))

    async def _close(self, grace_seconds: float) -> None:
        async with anyio.create_task_group() as closing:
            for listener in self._listeners:
                closing.start_soon(listener.aclose, grace_seconds)
            closing.start_soon(self._tasks.stop, grace_seconds)  # of handlers removed before

    def end_streams_nowait(self, error: InformerError | None = None) -> None:
        """End every stream after what is buffered.

        Args:
            error: raised at the end of the streams.
        """
        for stream in self._streams:
            stream.end_nowait(error)

    def status(self, now: float) -> tuple[HandlerStatus, ...]:
        """Return the status of each handler; callable from any thread.

        Args:
            now: the loop's time.
        """
        return tuple(listener.status(now) for listener in tuple(self._listeners))

    def histories(self, key: str, now: float) -> tuple[HandlerHistory, ...]:
        """Return what each handler knows of one key.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            now: the loop's time.
        """
        return tuple(listener.history(key, now) for listener in tuple(self._listeners))

    def _start(self, listener: Listener[V], group: TaskGroup) -> None:
        with outside_reconcile():
            listener.start_nowait(processing=self._processing)
            if listener.resync_period_seconds > 0:
                self._resyncs[listener] = None
                start_from_anywhere(group, self._resync, listener)

    async def _resync(self, listener: Listener[V]) -> None:
        if listener not in self._resyncs:  # removed before its first step
            return
        with anyio.CancelScope() as self._resyncs[listener]:
            while True:
                await anyio.sleep(listener.resync_period_seconds)
                # A list is handed over in steps. A resync must not overtake it: an update would
                # come before its addition.
                await self._feed.wait_announced()
                listener.resync_nowait(self._feed.announced())

    def detach_listener(self, listener: Listener[V]) -> None:
        """Stop feeding a listener."""
        self._feed.detach(listener)
        if listener in self._listeners:
            self._listeners.remove(listener)
        scope = self._resyncs.pop(listener, None)
        if scope is not None:
            scope.cancel()
        self._leaving = [known for known in self._leaving if known.is_busy]
        if listener.is_inside and listener not in self._leaving:
            self._leaving.append(listener)

    def attach_stream(self, stream: EventStream[V]) -> None:
        """Feed a stream from now on.

        Raises:
            LifecycleError: the informer is closed, or runs in another event loop.
        """
        self.check_loop()
        self._refuse_if_closed()
        self._streams.append(stream)
        self._feed.attach(stream, preload=stream.wants_initial)

    def detach_stream(self, stream: EventStream[V]) -> None:
        """Stop feeding a stream."""
        self._feed.detach(stream)
        if stream in self._streams:
            self._streams.remove(stream)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise LifecycleError(f"the informer of {self.informer} is closed: make a new one")


@final
class Registration(Generic[V]):
    """A registered handler, as `add_event_handler` returns it; it can be awaited and removed.

    Args:
        listener: the handler.
        processor: where it is registered.
    """

    def __init__(self, listener: Listener[V], processor: SharedProcessor[V]) -> None:
        self._listener = listener
        self._processor = processor

    @property
    def name(self) -> str:
        """The handler's name."""
        return self._listener.name

    @property
    def has_synced(self) -> bool:
        """Whether the handler was called for every object that existed when it was added."""
        return self._listener.has_synced

    def is_of(self, processor: SharedProcessor[V]) -> bool:
        """Return whether the handler is registered there."""
        return self._processor is processor

    async def wait_synced(self, *, timeout_seconds: float = 30.0) -> None:
        """Wait until the handler was called for every object that existed when it was added.

        Raises:
            CacheSyncTimeoutError: it took longer.
            LifecycleError: the handler was removed before, or the informer runs in another event
                loop.
            InvalidArgumentError: the timeout is not a duration.

        Cancellation:
            Safe.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._processor.check_loop()
        await self._listener.wait_synced(timeout_seconds=timeout_seconds)

    async def remove(self, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Stop calling the handler at once, and wait for the call in flight.

        A call that does not end in time is named in the log and abandoned. Called from inside the
        handler, this returns at once. A second call only waits.

        Args:
            grace_seconds: how long to wait.

        Raises:
            InvalidArgumentError: the grace is not a duration; nothing was removed.
            LifecycleError: the informer runs in another event loop; nothing was removed.

        Cancellation:
            Takes effect when the wait is over; the handler is removed in any case.
        """
        check_seconds("grace_seconds", grace_seconds)
        self._processor.check_loop()
        self._processor.detach_listener(self._listener)
        await self._listener.remove(grace_seconds)

    def __repr__(self) -> str:
        return f"<Registration of {self.name}>"
