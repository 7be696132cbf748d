"""The work queue: keys that wait for work, each held by one worker at a time.

A key that is added while it is processed comes again once that is done, so no change is lost. One
dict holds both states of a key: the time at which it began to wait, or None while it is processed.
Decisions are made at once, in `*_nowait` methods; only `get` and `shut_down_with_drain` wait.
"""

from __future__ import annotations

import asyncio
import math
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from functools import partial
from itertools import islice
from threading import get_ident
from types import TracebackType
from typing import Final, Generic, Literal, TypeAlias, cast, final, get_args
from weakref import WeakMethod

import anyio
from msgspec import Struct
from typing_extensions import TypeVar

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, QueueClosedError
from pyinformer.objects import check_choice, check_seconds, check_text
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, Sample
from pyinformer.workqueue._limiters import (
    RateLimiter,
    default_controller_rate_limiter,
    remembered,
)
from pyinformer.workqueue._metrics import QueueMetrics
from pyinformer.workqueue._ordering import FIFO, Ordering
from pyinformer.workqueue._schedule import Schedule
from pyinformer.workqueue._thread_inbox import Host, ThreadInbox

T = TypeVar("T", bound=Hashable)

OnShutdown: TypeAlias = Literal["drop", "flush"]

_ABSENT: Final = math.nan  # compared by identity: neither a time nor None
_MARK_SECONDS: Final = 0.05  # reading the clock is a fifth of an add, so readings are shared
_SLICE: Final = 1_000  # due keys moved in one step: about 2 ms
_TURN_SECONDS: Final = 0.004  # busy workers yield to the event loop this often
_GRANT: Final = 7  # keys that are taken between two readings of the clock for that
_GRANT_SECONDS: Final = 0.001  # if they took longer than this, the clock is read for each key


@final
class WorkQueueStatistics(Struct, frozen=True, kw_only=True):
    """The state of a work queue at one moment."""

    name: str
    """The queue's name; empty if it has none."""
    depth: int
    """The number of keys that wait to be taken."""
    delayed: int
    """The number of keys whose delay is not over."""
    processing: int
    """The number of keys that were taken and are not done."""
    again: int
    """The number of these that come again once they are done."""
    handed_over: int
    """The number of calls from other threads that the loop has not made yet."""
    peak: int
    """The largest depth that a get has found."""
    waiters: int
    """The number of coroutines that wait for a key."""
    oldest_seconds: float
    """How long the oldest waiting key has waited, of all priorities; 0.0 if none waits.

    On a loop with asyncio's own time up to 0.05 s too much, or as long as a step of the loop takes:
    keys that are added in quick succession share a reading of the clock. Elsewhere it is exact.
    """
    dropped: int
    """The number of waiting keys that were dropped: at shutdown, or by `drop_waiting`."""
    failures: int
    """The number of keys whose failures the rate limiter remembers."""
    depth_by_priority: tuple[tuple[int, int], ...]
    """Priority and depth, highest first; empty for a queue without priorities."""
    is_shutting_down: bool
    """Whether the queue refuses new keys."""


class Queue(Generic[T]):
    """A fair work queue without duplicates: one key is never with two workers.

    It has client-go's three interfaces in one: `add`, `add_after` for later, and
    `add_rate_limited`, which waits longer with each failure of a key. It starts no task, and no
    timer unless a worker waits for a key. `add*` may be called from any thread, also before an
    event loop runs, and so may `statistics`; everything else belongs to the loop's thread.

    It is a queue of its own, for programs that need no priorities, and the type to accept where
    either queue will do: a `PriorityQueue` only adds a priority to each way of adding.

    Args:
        name: the label of its metrics, unlike those of other queues; without one it has none.
        rate_limiter: returns how long a failed key waits; `default_controller_rate_limiter()` if
            not given. It must not be shared with another queue.
        on_shutdown: what becomes of delayed keys at shutdown: "drop" counts and returns them,
            "flush" makes them ready at once.
        metrics: where its metrics go, under client-go's names. Its series vanish when it is shut
            down and nothing is processed any more.
        ordering: the order of waiting keys, by default first come, first served. It must not be
            shared with another queue.
        clock: monotonic seconds; by default the loop's time, once there is a loop.

    Raises:
        InvalidArgumentError: `on_shutdown` is neither "drop" nor "flush".

    Source:
        client-go util/workqueue/queue.go, delaying_queue.go, rate_limiting_queue.go.
    """

    __slots__ = (
        "__weakref__",
        "_again",
        "_clock",
        "_closed",
        "_drainers",
        "_dropped",
        "_due_at",
        "_granted",
        "_has_own_clock",
        "_host",
        "_inbox",
        "_is_forced",
        "_is_plain",
        "_looked_at",
        "_mark",
        "_marking_loop",
        "_metrics",
        "_moments",
        "_name",
        "_on_shutdown",
        "_ordering",
        "_peak",
        "_pop",
        "_push",
        "_rate_limiter",
        "_ready",
        "_schedule",
        "_states",
        "_timer",
        "_turn_began",
        "_waiters",
    )

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter | None = None,
        on_shutdown: OnShutdown = "drop",
        metrics: Metrics = NO_METRICS,
        ordering: Ordering[T] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        check_choice("on_shutdown", on_shutdown, get_args(OnShutdown))
        check_text("name", name)
        self._name = name
        self._on_shutdown = on_shutdown
        default = default_controller_rate_limiter
        self._rate_limiter = default() if rate_limiter is None else rate_limiter
        self._states: dict[T, float | None] = {}
        self._again: set[T] = set()  # added while being processed
        if ordering is not None and not hasattr(ordering, "push"):
            reason = f"must have push, pop and discard, got {type(ordering).__name__}"
            raise InvalidTypeError("ordering", reason)
        self._ordering: Ordering[T] = FIFO[T]() if ordering is None else ordering
        ordering = self._ordering
        self._ready = ordering.items if isinstance(ordering, FIFO) else ordering
        self._push = ordering.push
        self._pop = ordering.pop
        self._schedule = Schedule[T]()
        self._moments = self._schedule.moments  # a list: testing it for emptiness calls nothing
        self._metrics = self._measured(metrics) if name and metrics is not NO_METRICS else None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._closed = False
        self._is_forced = False
        self._peak = 0
        self._dropped = 0
        self._inbox = ThreadInbox()
        self._has_own_clock = clock is not None
        self._clock = clock or monotonic
        self._mark = 0.0  # the shared reading of the clock; 0.0: read it
        self._marking_loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0  # the time of the loop at which the timer fires
        self._host: Host = self._inbox
        self._turn_began = 0.0
        self._looked_at = 0.0  # when the clock was last read to see whether the turn is over
        # So many keys may be taken before the next reading. More than 0 only while the queue is
        # plain and has no metrics, so that one number is read in place of all these.
        self._granted = 0
        # An added key needs only to be pushed: no waiters, delayed keys or shutdown. One flag in
        # place of three, read for every key.
        self._is_plain = True

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    @property
    def is_shutting_down(self) -> bool:
        """Whether the queue refuses new keys; some may still wait or be processed."""
        return self._closed

    def __len__(self) -> int:
        """Count the keys that wait to be taken; not those that are processed or delayed."""
        if self._inbox.thread == 0:
            self._inbox.run_nowait()
        if self._moments:
            self._promote()
        return len(self._ready)

    def add(self, item: T) -> None:
        """Add a key; from any thread, also before an event loop runs.

        As `add_nowait`, at once on the loop's thread, soon from another one.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
        """
        if self._inbox.thread != get_ident() and not self._is_here():
            self._hand_over(item, partial(self.add_nowait, item))
            return
        states = self._states  # from here on as add_nowait, without a call
        try:
            is_known = item in states
        except TypeError as error:
            raise unhashable(item, error) from error
        if is_known or not self._is_plain or item is None:
            Queue.add_nowait(self, item)
        else:
            self._push(item)
            states[item] = self._mark or self._read_clock()

    def add_nowait(self, item: T) -> None:
        """Add a key; only on the loop's thread.

        A key that waits already is not added twice, and one that was delayed is ready at once. One
        that is being processed comes again once that is done. After shutdown nothing is added.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.

        Source:
            client-go util/workqueue/queue.go, Add.
        """
        states = self._states
        try:
            is_known = item in states
        except TypeError as error:
            raise unhashable(item, error) from error
        if self._is_plain and not is_known and item is not None:
            self._push(item)
            states[item] = self._mark or self._read_clock()
        elif self._moments:
            self._add_beside_delayed(item)
        else:
            self._add_ready(item)

    def add_after(self, item: T, delay_seconds: float) -> None:
        """Add a key after a delay; from any thread, also before an event loop runs.

        As `add_after_nowait`; the delay begins with this call.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        self._add_after(item, delay_seconds, self.add_after_nowait)

    def add_after_nowait(self, item: T, delay_seconds: float) -> None:
        """Add a key after a delay; only on the loop's thread.

        Of several delays the earliest time counts, and a key that waits to be taken is not also
        delayed: it comes once. After shutdown nothing is added.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
            InvalidArgumentError: the delay is not a finite number.

        Source:
            client-go util/workqueue/delaying_queue.go, AddAfter.
        """
        check_delay(delay_seconds)
        if delay_seconds <= 0 or self._closed:
            Queue.add_nowait(self, item)  # a subclass has recorded the priority already
            return
        try:
            is_ready = self._is_ready_or_again(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        if item is None:
            check_hashable(item)
        if self._metrics is not None:
            self._metrics.retries += 1
        if not is_ready:
            self._schedule.put(item, self._clock() + delay_seconds)
            self._is_plain = False
            self._granted = 0
            if self._waiters:
                self._arm()

    def add_rate_limited(self, item: T) -> None:
        """Add a key that failed, after the rate limiter's delay; from any thread.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
        """
        if self._is_here():
            self.add_rate_limited_nowait(item)
        else:
            self._hand_over(item, partial(self.add_rate_limited_nowait, item))

    def add_rate_limited_nowait(self, item: T) -> None:
        """Add a key that failed, after the rate limiter's delay; only on the loop's thread.

        After shutdown nothing is added or counted.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.

        Source:
            client-go util/workqueue/rate_limiting_queue.go, AddRateLimited.
        """
        self.add_after_nowait(item, self._limited_delay(item))

    def forget(self, item: T) -> None:
        """Forget a key's failures: it succeeded, or was given up. A waiting key stays."""
        self._rate_limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """Return how many failures of a key are remembered."""
        return self._rate_limiter.num_requeues(item)

    async def get(self) -> T:
        """Wait for the next key and take it.

        Returns:
            The key; no other worker gets it until `done`.

        Raises:
            QueueClosedError: after shutdown, once nothing waits and nothing will come again.
            LifecycleError: the queue belongs to another event loop.

        Cancellation:
            Safe; a cancelled get takes nothing.

        Source:
            client-go util/workqueue/queue.go, Get.
        """
        item = self._take_at_once()
        return await self._take_later() if item is None else item

    def get_nowait(self) -> T | None:
        """Take the next key; only on the loop's thread.

        Returns:
            The key, which is processed until `done`; None if none waits, or none is due.
        """
        if self._moments:
            self._promote()
        depth = len(self._ready)
        if not depth:
            if not self._inbox.calls:
                return None
            self._inbox.run_nowait()
            return self.get_nowait()
        if depth > self._peak:  # noqa: PLR1730  (max() would be a call on the hot path)
            self._peak = depth
        item = self._pop()
        metrics = self._metrics
        if metrics is not None:  # here and in done(), not in methods: these cost a tenth each
            metrics.taken += 1
            metrics.taken_at[item] = now = self._clock()
            since = self._states[item] or 0.0
            if metrics.waits_since:
                since = metrics.waits_since.pop(item, since)
            metrics.queue_duration(now - since)
        self._states[item] = None
        return item

    def item(self) -> Lease[T]:
        """Take a key for the length of a block, which calls `done` however it ends.

        `async with queue.item() as key:`; waits and raises as `get`.
        """
        lease: Lease[T] = Lease()
        lease._queue = self  # noqa: SLF001  (an __init__ would be one more call for every key)
        return lease

    def done(self, item: T) -> None:
        """End the processing of a key; it comes again if it was added meanwhile.

        Nothing happens if the key is not being processed.

        Args:
            item: what a get returned.

        Source:
            client-go util/workqueue/queue.go, Done.
        """
        since = self._states.pop(item, _ABSENT)
        if since is not None:
            if since is not _ABSENT:  # it waits: no worker has it
                self._states[item] = since
            return
        if self._metrics is not None:
            self._metrics.work_duration(self._clock() - self._metrics.taken_at.pop(item))
        if self._is_plain and not self._again:
            return
        if self._again and item in self._again:
            self._again.remove(item)
            self._push(item)
            self._states[item] = self._mark or self._clock()
            if self._waiters:
                self._wake_one()
        if self._closed:
            self._wake_if_finished()

    def is_waiting(self, item: T) -> bool:
        """Return whether a key will come, or come again, without being added once more."""
        return self._is_ready_or_again(item) or item in self._schedule

    def is_processing(self, item: T) -> bool:
        """Return whether a key was taken and is not done."""
        return self._states.get(item, _ABSENT) is None

    def processing(self) -> list[T]:
        """Return the keys that were taken and are not done."""
        return [item for item, since in self._states.items() if since is None]

    def waiting(self) -> list[T]:
        """Return the keys that will come, or come again, without being added once more."""
        ready = (item for item, since in self._states.items() if since is not None)
        return [*ready, *self._again, *self._schedule]

    def forget_delayed(self, item: T) -> bool:
        """Drop a delayed key; return whether it was delayed."""
        found = self._schedule.discard(item)
        if found:
            self._forget(item)
        return found

    def drop_waiting(self) -> list[T]:
        """Remove and return every key that waits; what is being processed continues.

        The keys count as dropped in the statistics. Delayed keys are among them, and so are those
        that were to come again after their processing.
        """
        delayed = self._schedule.clear()
        dropped = [self._pop() for _ in range(len(self._ready))]
        for item in dropped:
            del self._states[item]
        dropped += self._again
        if self._metrics is not None:
            self._metrics.dropped += len(dropped)
        dropped += delayed
        self._again.clear()
        self._drop(dropped)
        if self._closed:
            self._wake_if_finished()
        return dropped

    def shut_down(self) -> list[T]:
        """Refuse new keys; what waits can still be taken. May be repeated.

        It also ends a drain that is under way.

        Returns:
            The delayed keys that were dropped.

        Source:
            client-go util/workqueue/queue.go, ShutDown.
        """
        self._is_forced = True
        return self._close()

    async def shut_down_with_drain(self, *, timeout_seconds: float) -> list[T]:
        """Refuse new keys, and wait until the workers have processed the present ones.

        These are the keys that are being processed and those that wait to be taken; call
        `drop_waiting` first to wait for the former alone. A `shut_down` meanwhile ends the waiting.

        Args:
            timeout_seconds: how long to wait for workers, one of which may never call `done`.

        Returns:
            What is left: being processed, or waiting; empty if everything was done.

        Cancellation:
            Safe; the queue stays shut down.

        Source:
            client-go util/workqueue/queue.go, ShutDownWithDrain.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._bind()
        self._close()
        if self._states and not self._is_forced:
            await self._wait_drained(timeout_seconds)
        return list(self._states)

    def statistics(self) -> WorkQueueStatistics:
        """Return the queue's statistics; from any thread.

        From another thread than the loop's nothing is moved: keys that have become due still count
        as delayed, and keys that were just added as handed over.
        """
        is_here = self._inbox.thread in {0, get_ident()}
        depth = len(self) if is_here else len(self._ready)
        return WorkQueueStatistics(
            name=self._name,
            depth=depth,
            delayed=len(self._schedule),
            processing=max(0, len(self._states) - depth),
            again=len(self._again),
            handed_over=len(self._inbox.calls),
            peak=max(self._peak, depth),
            waiters=len(self._waiters),
            oldest_seconds=max(0.0, self._clock() - self._oldest_at()) if depth else 0.0,
            dropped=self._dropped,
            failures=remembered(self._rate_limiter),
            depth_by_priority=self._depth_by_priority() or (),
            is_shutting_down=self._closed,
        )

    def _add_beside_delayed(self, item: T) -> None:
        """Add a key to a queue that has delayed keys; it may be one of them."""
        self._promote()
        self._add_ready(item)
        self._schedule.discard(item)
        self._update_is_plain()

    def _add_ready(self, item: T) -> None:
        """Add a key that is due."""
        if item is None:
            check_hashable(item)
        if self._closed:
            return
        since = self._states.get(item, _ABSENT)
        if since is None:
            if item not in self._again:
                self._again.add(item)
                if self._metrics is not None:
                    self._metrics.waits_since[item] = self._clock()
        elif since is not _ABSENT:
            self._ordering.touch(item)
        else:
            self._push(item)
            self._states[item] = self._mark or self._clock()
            if self._waiters:
                self._wake_one()

    def _add_after(self, item: T, delay_seconds: float, add: Callable[[T, float], None]) -> None:
        """Call `add` on the loop's thread, with what is left of a delay that begins now."""
        check_delay(delay_seconds)
        if self._is_here():
            add(item, delay_seconds)
            return
        # A clock that any thread may read, before there is a loop and after.
        clock = self._clock if self._has_own_clock else monotonic
        began_at = clock()
        self._hand_over(item, lambda: add(item, delay_seconds - (clock() - began_at)))

    def _limited_delay(self, item: T) -> float:
        if self._closed:
            return 0.0
        check_hashable(item)
        return self._rate_limiter.when(item, self._clock())

    def _is_ready_or_again(self, item: T) -> bool:
        return self._states.get(item) is not None or item in self._again

    def _promote(self) -> None:
        """Make the due delayed keys ready."""
        now = self._clock()
        if self._moments and self._moments[0] <= now:
            for item in islice(self._schedule.pop_due(now), _SLICE):
                self._add_ready(item)
            self._update_is_plain()

    def _drop(self, items: list[T]) -> None:
        self._dropped += len(items)
        for item in items:
            self._forget(item)

    def _forget(self, item: T) -> None:
        """Drop what else is known of a key that was dropped."""
        if self._metrics is not None:
            self._metrics.waits_since.pop(item, None)

    def _update_is_plain(self) -> None:
        """To be called after whatever may have changed one of these three."""
        self._is_plain = not (self._waiters or self._moments or self._closed)
        if not self._is_plain:
            self._granted = 0

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        self._update_is_plain()

    def _wake_if_finished(self) -> None:
        """Wake all waiters if nothing will come, and the drains if nothing is left."""
        if not self._ready and not self._again:
            while self._waiters:
                self._wake_one()
        if not self._states or self._is_forced:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)
        if not self._states and self._metrics is not None:
            self._metrics.close()

    def _read_clock(self) -> float:
        """Read the clock; on a usual loop share the reading until a timer has forgotten it.

        So no key seems younger than it is, and none older by more than the timer takes. In a
        queue that outlives its loop keys age from the loop's end on, until there is another one.
        """
        now = self._clock()
        loop = self._marking_loop
        if loop is not None and not loop.is_closed():
            self._mark = now
            loop.call_later(_MARK_SECONDS, self._forget_mark)
        return now

    def _forget_mark(self) -> None:
        self._mark = 0.0

    def _is_here(self) -> bool:
        """Return whether this is the loop's thread; the first running loop is the queue's."""
        thread = self._inbox.thread
        if thread:
            return thread == get_ident()
        try:
            self._bind()
        except RuntimeError:  # no loop runs in this thread
            return False
        return True

    def _hand_over(self, item: T, call: Callable[[], object]) -> None:
        check_hashable(item)
        self._inbox.put(call)

    def _bind(self) -> None:
        loop = self._inbox.bind()
        if loop is None:
            return
        if not self._has_own_clock:
            is_usual = type(loop).time is asyncio.BaseEventLoop.time  # which only calls monotonic
            self._use_clock(monotonic if is_usual else loop.time)
            # Readings are not shared with metrics: they are about single keys.
            self._marking_loop = loop if is_usual and self._metrics is None else None
        self._host = self._inbox.host()
        self._timer = None
        self._inbox.run_nowait()

    def _use_clock(self, clock: Callable[[], float]) -> None:
        """Read another clock from now on; the age and the delay of every key stay the same."""
        self._mark = 0.0
        if clock is self._clock:
            return
        seconds = clock() - self._clock()
        self._clock = clock
        for item, since in self._states.items():
            if since is not None:
                self._states[item] = since + seconds
        self._schedule.shift(seconds)
        if self._metrics is not None:
            self._metrics.shift(seconds)

    def _take_at_once(self) -> T | None:
        """Take a key, unless none waits or the loop must have its turn first."""
        granted = self._granted
        is_here = granted and self._host._thread_id == get_ident()  # noqa: SLF001  (the protocol's)
        if is_here and (depth := len(self._ready)):
            self._granted = granted - 1
            if depth > self._peak:  # noqa: PLR1730  (as in get_nowait)
                self._peak = depth
            item = self._pop()
            self._states[item] = None
            return item
        return self._take_guarded()

    def _take_guarded(self) -> T | None:
        """Take a key as `_take_at_once`; grant further ones if these are taken quickly."""
        inbox = self._inbox
        loop = inbox.loop
        # In place of asking for the running loop, which is a system call before Python 3.12 and
        # took a fifth of a key's whole way: a thread never runs two loops at once.
        if loop is None or inbox.thread != get_ident() or not loop.is_running():
            self._bind()
        now = self._clock()
        if now - self._turn_began > _TURN_SECONDS:
            return None
        if self._is_plain and self._metrics is None:
            self._granted = _GRANT if now - self._looked_at < _GRANT_SECONDS else 0
        self._looked_at = now
        item = self.get_nowait()
        if self._closed and item is not None:
            self._wake_if_finished()
        return item

    async def _take_later(self) -> T:
        now = self._clock()
        if now - self._turn_began <= _TURN_SECONDS:  # _take_at_once has just found no key
            await self._wait()
        elif self._ready:
            self._turn_began = now
            await asyncio.sleep(0)
        while (item := self.get_nowait()) is None:
            await self._wait()
        if self._closed:
            self._wake_if_finished()
        return item

    async def _wait(self) -> None:
        """Wait until a key may be there; raise if none will come."""
        if self._closed and not self._again:
            raise QueueClosedError("the queue is shut down and empty")
        # The running loop, which _take_guarded has checked: asking for it may be a system call.
        waiter: asyncio.Future[None] = asyncio.Future(loop=self._inbox.loop)
        self._waiters.append(waiter)
        self._is_plain = False
        self._granted = 0
        if self._moments:
            self._arm()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake_one()  # its wake-up belongs to the next in line
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
                self._update_is_plain()
            raise
        self._turn_began = self._clock()

    async def _wait_drained(self, timeout_seconds: float) -> None:
        drainer = asyncio.get_running_loop().create_future()
        self._drainers.append(drainer)
        try:
            with anyio.move_on_after(timeout_seconds):
                await drainer
        finally:
            self._drainers.remove(drainer)

    def _arm(self) -> None:
        """Set the timer that wakes a waiter when the first delayed key is due."""
        loop = asyncio.get_running_loop()
        at = self._moments[0]
        if self._has_own_clock:
            at += loop.time() - self._clock()
        if self._timer is not None:
            if self._due_at <= at:
                return
            self._timer.cancel()
        self._due_at = at  # that of uvloop does not say when it is due
        self._timer = loop.call_at(at, self._fall_due)

    def _fall_due(self) -> None:
        self._timer = None
        self._promote()
        if self._moments and (self._waiters or self._moments[0] <= self._clock()):
            self._arm()

    def _close(self) -> list[T]:
        if self._inbox.thread in {0, get_ident()}:
            self._inbox.run_nowait()  # what was added before the shutdown counts
        dropped: list[T] = []
        if not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            delayed = self._schedule.clear()
            if self._on_shutdown == "drop":
                dropped = delayed
                self._drop(dropped)
            else:
                for item in delayed:
                    self._add_ready(item)
            self._closed = True
            self._update_is_plain()
        self._wake_if_finished()
        return dropped

    def _measured(self, metrics: Metrics) -> QueueMetrics:
        """Return metrics that read this queue when they are collected, and do not keep it alive."""
        reference = WeakMethod(self._samples)

        def samples() -> Iterable[Sample]:
            """Read the queue, or forget it: it was not shut down, and is gone."""
            read = reference()
            if read is not None:
                return read()
            measured.close()
            return ()

        measured = QueueMetrics(self._name, metrics, samples)
        return measured

    def _samples(self) -> Iterable[Sample]:
        if self._metrics is None:
            return ()
        return self._metrics.samples(
            len(self._ready), len(self._again), self._depth_by_priority(), self._clock()
        )

    def _oldest_at(self) -> float:
        """Return when the oldest key began to wait, infinity if none waits; from any thread."""
        moments = list(self._states.values())  # one step: the loop cannot interfere
        return min((since for since in moments if since is not None), default=math.inf)

    def _depth_by_priority(self) -> tuple[tuple[int, int], ...] | None:
        return None


@final
class Lease(Generic[T]):
    """A key for the length of a block; made by `Queue.item`."""

    __slots__ = ("_item", "_queue")

    _item: T
    _queue: Queue[T]

    async def __aenter__(self) -> T:
        # What get() does, without one more coroutine.
        item = self._queue._take_at_once()  # noqa: SLF001  (a part of the queue)
        if item is None:
            item = await self._queue._take_later()  # noqa: SLF001  (as above)
        self._item = item
        return item

    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Awaitable[None]:
        self._queue.done(self._item)
        return _READY


@types.coroutine
def _ended() -> Generator[None, None, None]:
    return
    yield


# To be awaited any number of times, without an object for each: it returns None at once.
_READY: Final[Awaitable[None]] = _ended()
next(cast("Generator[None, None, None]", _READY), None)


def check_hashable(item: object) -> None:
    """Refuse a key that a queue cannot hold.

    Raises:
        InvalidTypeError: it is not hashable, or None.
    """
    try:
        hash(item)
    except TypeError as error:
        raise unhashable(item, error) from error
    if item is None:
        raise InvalidTypeError("item", "must not be None, which get_nowait returns for no key")


def unhashable(item: object, error: TypeError) -> InvalidTypeError:
    """Return the error for a key that is not hashable."""
    kind = type(item).__name__
    return InvalidTypeError("item", f"a key must be hashable, and this {kind} is not: {error}")


def check_delay(delay_seconds: float) -> None:
    """Refuse a delay that is not a finite number.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    if not isinstance(delay_seconds, int | float) or not math.isfinite(delay_seconds):
        raise InvalidArgumentError("delay_seconds", f"must be finite, got {delay_seconds!r}")
