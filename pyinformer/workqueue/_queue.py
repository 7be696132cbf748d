"""The plain work queue, and what every work queue does about loops, threads and the end.

What enters are keys, from any thread; what leaves are keys to be processed, each by one worker at
a time, in the order in which they came. Everything but waiting is decided in the core at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Generic, final

from typing_extensions import TypeVar

from pyinformer._clock import monotonic
from pyinformer.apimachinery import QueueClosedError, check_seconds
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.workqueue._core import QueueCore, unhashable
from pyinformer.workqueue._handover import Handover
from pyinformer.workqueue._meter import TICK_SECONDS, Meter
from pyinformer.workqueue._ordering import Ordering
from pyinformer.workqueue._statistics import WorkQueueStatistics

T = TypeVar("T", bound=Hashable)

_MARK_SECONDS = 0.05  # a reading of the clock is a fifth of an add: it serves those that follow
_TURN_SECONDS = 0.004  # workers that never wait for anything else give way to the loop this often


class Queue(QueueCore[T], Generic[T]):
    """Keys waiting for work: fair, without duplicates, and never one key at two workers.

    Nothing is started and no loop is needed until somebody waits. `add` may be called from any
    thread, also before there is a loop, and so may `statistics`; everything else belongs to the
    loop's thread.

    Source:
        client-go util/workqueue/queue.go.
    """

    __slots__ = (
        "__weakref__",
        "_drainers",
        "_handover",
        "_has_own_clock",
        "_is_forced",
        "_marking_loop",
        "_name",
        "_ticker",
        "_timer",
        "_turn_began",
    )

    def __init__(
        self,
        name: str = "",
        *,
        metrics: Metrics = NO_METRICS,
        ordering: Ordering[T] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            name: the label of its metrics.
            metrics: where its figures go, under client-go's names.
            ordering: who comes first, in place of the one who came first; it belongs to this
                queue from now on.
            clock: monotonic seconds; by default the loop's time, once there is a loop.
        """
        meter = None if metrics is NO_METRICS else Meter(name, metrics)
        super().__init__(ordering, clock or monotonic, meter)
        self._name = name
        self._has_own_clock = clock is not None
        self._handover = Handover()
        self._drainers: list[asyncio.Future[None]] = []
        self._is_forced = False
        self._timer: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._turn_began = 0.0
        self._marking_loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    @property
    def is_shutting_down(self) -> bool:
        """Nothing is added any more; something may still wait or be processed."""
        return self._closed

    def add(self, item: T) -> None:
        """Put a key into the queue; from any thread, also before there is a loop.

        As `add_nowait`, at once on the loop's thread, soon from another one.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
        """
        if self._handover.thread == get_ident() or self._is_here():
            self.add_nowait(item)
        else:
            self._hand_over(item, partial(self.add_nowait, item))

    async def get(self) -> T:
        """Wait for the key whose turn it is and take it.

        Returns:
            The key; nobody else gets it until `done`.

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

    def item(self) -> Lease[T]:
        """Take a key for the length of a block, which ends with `done` however it ends.

        `async with queue.item() as key:`; waits and raises as `get`.
        """
        lease: Lease[T] = Lease()
        lease._queue = self  # noqa: SLF001  (an __init__ would be one more call for every key)
        return lease

    def shut_down(self) -> list[T]:
        """Add nothing any more; what waits can still be taken. May be repeated.

        It also ends a drain that is under way.

        Returns:
            What was dropped: nothing, for a queue without delays.

        Source:
            client-go util/workqueue/queue.go, ShutDown.
        """
        self._is_forced = True
        return self._close()

    async def shut_down_with_drain(self, *, timeout_seconds: float) -> list[T]:
        """Add nothing any more, and wait until the workers are done with what there is.

        That is what is being processed and what waits to be taken; `drop_waiting` before it, to
        wait for the former alone. A `shut_down` meanwhile ends the waiting.

        Args:
            timeout_seconds: how long to wait; a worker that never says done must not be waited
                for without end.

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
            await self._drained(timeout_seconds)
        return list(self._states)

    def statistics(self) -> WorkQueueStatistics:
        """Return the queue's figures; from any thread.

        From another thread than the loop's nothing is moved: what has fallen due meanwhile still
        counts as delayed, and what was just added as handed over.
        """
        is_here = self._handover.thread in {0, get_ident()}
        depth = len(self) if is_here else len(self._ready)
        return WorkQueueStatistics(
            name=self._name,
            depth=depth,
            delayed=self._delayed(),
            processing=max(0, len(self._states) - depth),
            again=len(self._again),
            handed_over=len(self._handover),
            peak=max(self._peak, depth),
            waiters=len(self._waiters),
            oldest_seconds=max(0.0, self._clock() - self._oldest_at()) if depth else 0.0,
            dropped=self._dropped,
            failures=self._failures(),
            depth_by_priority=self._depth_by_priority(),
            is_shutting_down=self._closed,
        )

    def __len__(self) -> int:
        """Count the keys that wait to be taken; not those that are processed or delayed."""
        if self._handover.thread == 0:
            self._handover.run_nowait()
        return len(self._ready)

    def _get_late(self) -> T | None:
        """Look whether something arrived from elsewhere meanwhile."""
        if not self._handover:
            return None
        self._handover.run_nowait()
        return self.get_nowait()

    def _read_clock(self) -> float:
        """Read the clock; on a usual loop keep the reading until a timer has forgotten it.

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

    def _count_taken(self, meter: Meter, item: T) -> None:
        super()._count_taken(meter, item)
        self._tick_later()

    def _is_here(self) -> bool:
        """Tell whether this is the loop's thread; the first running loop is the queue's."""
        thread = self._handover.thread
        if thread:
            return thread == get_ident()
        try:
            self._bind()
        except RuntimeError:  # no loop runs in this thread
            return False
        return True

    def _hand_over(self, item: T, call: Callable[[], object]) -> None:
        try:
            hash(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        if item is None:
            self._refuse(item)
        self._handover.hand_over(call)

    def _bind(self) -> None:
        loop = self._handover.bind()
        if loop is None:
            return
        if not self._has_own_clock:
            is_usual = type(loop).time is asyncio.BaseEventLoop.time  # which only calls monotonic
            self._use_clock(monotonic if is_usual else loop.time)
            self._marking_loop = loop if is_usual else None
        self._timer = self._ticker = None
        self._handover.run_nowait()

    def _take_at_once(self) -> T | None:
        """Take a key, unless none waits or the loop must have its turn first."""
        handover = self._handover
        loop = handover.loop
        # In place of a look at the running loop, which is a system call before Python 3.12 and
        # took a fifth of a key's whole way: a thread never runs two loops at once.
        if loop is None or handover.thread != get_ident() or not loop.is_running():
            self._bind()
        if self._clock() - self._turn_began > _TURN_SECONDS:
            return None
        item = self.get_nowait()
        if self._closed and item is not None:
            self._settle()
        return item

    async def _take_later(self) -> T:
        if self._ready and (now := self._clock()) - self._turn_began > _TURN_SECONDS:
            self._turn_began = now
            await asyncio.sleep(0)
        while True:
            item = self.get_nowait()
            if item is not None:
                if self._closed:
                    self._settle()
                return item
            if self._closed and not self._again:
                raise QueueClosedError("the queue is shut down and empty: nothing more will come")
            await self._wait()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._note_quiet()
        self._arm()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake_one()  # its wake-up goes to the next in line
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
                self._note_quiet()
            raise
        self._turn_began = self._clock()

    def _arm(self) -> None:
        """See to it that those who wait hear of what falls due."""

    async def _drained(self, timeout_seconds: float) -> None:
        drainer = asyncio.get_running_loop().create_future()
        self._drainers.append(drainer)
        try:
            async with asyncio.timeout(timeout_seconds):
                await drainer
        except TimeoutError:
            pass
        finally:
            self._drainers.remove(drainer)

    def _close(self) -> list[T]:
        if self._handover.thread in {0, get_ident()}:
            self._handover.run_nowait()  # what was added before comes before
        self._closed = True
        self._note_quiet()
        if self._ticker is not None:
            self._ticker.cancel()
        self._settle()
        return []

    def _settle(self) -> None:
        if not self._ready and not self._again:
            self._wake_all()
        if not self._states or self._is_forced:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)

    def _tick_later(self) -> None:
        if self._handover.thread and self._ticker is None and not self._closed:
            self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        if self._meter is not None:
            self._meter.tick(self._clock())
            if self._meter.is_processing:
                self._tick_later()

    def _oldest_at(self) -> float:
        """Return since when the key at the head waits, infinity if none does; from any thread."""
        moments = list(self._states.values())  # in one step, whatever the loop does meanwhile
        return min((since for since in moments if since is not None), default=math.inf)

    def _delayed(self) -> int:
        return 0

    def _failures(self) -> int:
        return 0

    def _depth_by_priority(self) -> tuple[tuple[int, int], ...]:
        return ()


@final
class Lease(Generic[T]):
    """A key for the length of a block; made by `Queue.item`."""

    __slots__ = ("_item", "_queue")

    _item: T
    _queue: Queue[T]

    async def __aenter__(self) -> T:
        # What get() does, without a coroutine more.
        item = self._queue._take_at_once()  # noqa: SLF001  (a part of the queue)
        if item is None:
            item = await self._queue._take_later()  # noqa: SLF001  (as above)
        self._item = item
        return item

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.done(self._item)
