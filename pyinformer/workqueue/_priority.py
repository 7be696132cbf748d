"""A work queue that takes urgent keys first and still starves nobody.

What enters are keys with a priority and perhaps a delay; what leaves is the oldest key of the
highest priority, or one that has waited too long. A key that is added several times before it is
taken waits once: with the highest priority and the earliest time of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, Generic, final

from typing_extensions import TypeVar

from pyinformer._clock import monotonic
from pyinformer.apimachinery import InvalidTypeError, check_seconds
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.workqueue._buckets import PriorityBuckets
from pyinformer.workqueue._core import QueueCore, unhashable
from pyinformer.workqueue._delaying import DelayingQueue, OnShutdown, check_delay
from pyinformer.workqueue._limiters import RateLimiter
from pyinformer.workqueue._rate_limiting import RateLimitingQueue

T = TypeVar("T", bound=Hashable)

LOW_PRIORITY: Final = -100
"""For what is not urgent, such as initial lists and resyncs; as controller-runtime has it."""


@final
class PriorityQueue(RateLimitingQueue[T], Generic[T]):
    """A RateLimitingQueue in which keys have a priority: higher first, 0 where none is given.

    Keys of one priority leave in the order in which they came. Whatever has waited longer than
    `ageing_seconds` gets every fourth turn, the oldest first, whatever its priority: a key is
    then taken within four turns for itself and for each key that has waited as long. A key that
    moves up begins to age anew in its new place. Priorities are classes, a handful of them: the
    queue's time grows with how many different ones wait.

    Source:
        controller-runtime pkg/controller/priorityqueue, without its starvation.
    """

    __slots__ = ("_buckets", "_taken", "_wanted")

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter | None = None,
        ageing_seconds: float = 60.0,
        on_shutdown: OnShutdown = "drop",
        metrics: Metrics = NO_METRICS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            name: the label of its metrics.
            rate_limiter: how long a key that failed waits; `default_controller_rate_limiter()`
                if not given. It belongs to this queue from now on.
            ageing_seconds: how long a key waits before it has a share of the turns whatever its
                priority. A minute is long against any burst and short against any resync.
            on_shutdown: what becomes of keys that wait for their time when the queue is shut
                down: "drop" counts and returns them, "flush" has them taken at once.
            metrics: where its figures go, under client-go's names.
            clock: monotonic seconds; by default the loop's time, once there is a loop.

        Raises:
            InvalidArgumentError: one of the arguments cannot work.
        """
        check_seconds("ageing_seconds", ageing_seconds)
        buckets = PriorityBuckets[T](ageing_seconds, clock or monotonic)
        super().__init__(
            name,
            rate_limiter=rate_limiter,
            on_shutdown=on_shutdown,
            metrics=metrics,
            ordering=buckets,
            clock=clock,
        )
        buckets.since = self._states
        self._buckets = buckets
        self._wanted = buckets.wanted
        self._taken: dict[T, int] = {}  # priorities of what is being processed, 0 left out

    def add(self, item: T, *, priority: int = 0) -> None:
        """Put a key into the queue; from any thread, also before there is a loop.

        As `add_nowait`, at once on the loop's thread, soon from another one.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
        """
        if self._is_here():
            self.add_nowait(item, priority=priority)
        else:
            check_priority(priority)
            self._hand_over(item, partial(self.add_nowait, item, priority=priority))

    def add_nowait(self, item: T, *, priority: int = 0) -> None:
        """Put a key into the queue; only on the loop's thread.

        As `Queue.add_nowait`; a key that waits already moves to the end of the higher priority,
        and one that waited for its time waits no longer.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
        """
        if priority != 0 or self._wanted:
            self._want(item, priority)
        if self._moments:
            DelayingQueue.add_nowait(self, item)
        else:
            QueueCore.add_nowait(self, item)  # at once: each step in between costs a tenth

    def add_after(self, item: T, delay_seconds: float, *, priority: int = 0) -> None:
        """Put a key into the queue after a delay; from any thread, also before there is a loop.

        As `add_after_nowait`; the delay begins with this call.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        check_delay(delay_seconds)
        if self._is_here():
            self.add_after_nowait(item, delay_seconds, priority=priority)
            return
        check_priority(priority)
        call = partial(self._add_since, item, delay_seconds, self._stamp(), priority=priority)
        self._hand_over(item, call)

    def add_after_nowait(self, item: T, delay_seconds: float, *, priority: int = 0) -> None:
        """Put a key into the queue after a delay; only on the loop's thread.

        As `DelayingQueue.add_after_nowait`; the highest priority counts, also for a key that
        waits to be taken anyway.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        check_delay(delay_seconds)
        if priority != 0 or self._wanted:
            self._want(item, priority)
        DelayingQueue.add_after_nowait(self, item, delay_seconds)

    def add_rate_limited(self, item: T, *, priority: int = 0) -> None:
        """Put a key that failed into the queue, when the limiter allows; from any thread.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
        """
        if self._is_here():
            self.add_rate_limited_nowait(item, priority=priority)
            return
        check_priority(priority)
        self._hand_over(item, partial(self.add_rate_limited_nowait, item, priority=priority))

    def add_rate_limited_nowait(self, item: T, *, priority: int = 0) -> None:
        """Put a key that failed into the queue, when the limiter allows.

        Only on the loop's thread. After shutdown nothing is added or counted.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is no integer;
                nothing was added.
        """
        check_priority(priority)
        self.add_after_nowait(item, self._delay_of(item), priority=priority)

    def get_nowait(self) -> T | None:
        """Take the key whose turn it is; only on the loop's thread.

        Returns:
            The key, now being processed until `done`; None if none waits, or none is due.
        """
        if self._moments:
            self._promote()
        item = QueueCore.get_nowait(self)
        if self._wanted and item in self._wanted and item is not None:
            self._taken[item] = self._wanted.pop(item)
        return item

    def done(self, item: T) -> None:
        """Say that a key's processing is over; it comes again if it was added meanwhile.

        A key that is not being processed is left as it is.

        Args:
            item: what a get gave.
        """
        if self._taken:
            self._taken.pop(item, None)
        QueueCore.done(self, item)

    def priority_of(self, item: T) -> int:
        """Return the priority with which a key was taken, if it is being processed.

        Otherwise that with which it waits; 0 for a key that is not here at all.
        """
        of = self._taken if self.is_processing(item) else self._wanted
        return of.get(item, 0)

    def remove(self, item: T) -> bool:
        """Drop a key that waits, for its turn, its time or the end of its processing.

        Returns:
            Whether it waited. What is being processed goes on.
        """
        if self.forget_delayed(item):
            return True
        if not self._waits_to_be_taken(item):
            return False
        if item in self._again:
            self._again.remove(item)
        else:
            self._buckets.withdraw(item)
            del self._states[item]
        self._forget(item)
        if self._closed:
            self._settle()
        return True

    def _want(self, item: T, priority: int) -> None:
        """Note the highest priority that is wanted for a key, and move it there if it waits."""
        check_priority(priority)
        try:
            waits = self.is_waiting(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        if item is None or self._closed or (waits and priority <= self._wanted.get(item, 0)):
            return
        is_ready = self._states.get(item) is not None
        if is_ready:
            self._buckets.withdraw(item)
        if priority:
            self._wanted[item] = priority
        else:
            self._wanted.pop(item, None)
        if is_ready:
            self._push(item)
            self._states[item] = self._mark or self._clock()  # buckets stay in their order

    def _add_since(self, item: T, delay_seconds: float, stamp: float, *, priority: int = 0) -> None:
        left_seconds = delay_seconds - (self._stamp() - stamp)
        self.add_after_nowait(item, left_seconds, priority=priority)

    def _forget(self, item: T) -> None:
        self._wanted.pop(item, None)
        super()._forget(item)

    def _use_clock(self, clock: Callable[[], float]) -> None:
        super()._use_clock(clock)
        self._buckets.clock = clock

    def _oldest_at(self) -> float:
        return self._buckets.oldest_at()

    def _depth_by_priority(self) -> tuple[tuple[int, int], ...]:
        return self._buckets.depths()


def check_priority(priority: int) -> None:
    """Refuse a priority that is no integer.

    Raises:
        InvalidTypeError: naming the argument.
    """
    if not isinstance(priority, int):
        raise InvalidTypeError("priority", f"{priority!r} is no integer")
