"""A work queue that takes urgent keys first, and in which no key starves.

Waiting keys are in one bucket per priority. Every fourth turn belongs to the key that has waited
longest, if that is longer than the ageing time. A key that moves to a higher priority leaves a
stale place behind; stale places never outnumber the live ones for long.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Generic, final

from typing_extensions import TypeVar

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import InternalError, InvalidTypeError
from pyinformer.objects import check_seconds
from pyinformer.telemetry.metrics import NO_METRICS, Metrics
from pyinformer.workqueue._limiters import RateLimiter
from pyinformer.workqueue._queue import OnShutdown, Queue, check_delay, unhashable

T = TypeVar("T", bound=Hashable)

LOW_PRIORITY: Final = -100
"""For what is not urgent, such as initial lists and resyncs; controller-runtime's value."""

AGED_TURN: Final = 4
"""Every such turn is for the oldest key: urgent keys keep three quarters of the turns."""
_SPARE: Final = 64  # so many stale places are kept before they are cleaned up


@final
class _Bucket(Generic[T]):
    """The keys of one priority, in order; the one at the head is never stale."""

    __slots__ = ("_stale_places", "items", "stale")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.stale: dict[T, int] = {}  # how many places of a key, from the head on, are stale
        self._stale_places = 0

    @property
    def depth(self) -> int:
        """The number of keys that wait here."""
        return len(self.items) - self._stale_places

    def withdraw(self, item: T) -> None:
        """Make a key's place stale."""
        self.stale[item] = self.stale.get(item, 0) + 1
        self._stale_places += 1
        self.clean_head()
        if len(self.items) > 2 * self.depth + _SPARE:
            self.items = deque(item for item in self.items if not self._is_stale(item))

    def clean_head(self) -> None:
        """Remove the stale places at the head."""
        while self.items and self._is_stale(self.items[0]):
            self.items.popleft()

    def _is_stale(self, item: T) -> bool:
        """Return whether the next place of a key is stale; if so, count it as removed."""
        places = self.stale.get(item, 0)
        if places > 1:
            self.stale[item] = places - 1
        elif places:
            del self.stale[item]
        self._stale_places -= places > 0
        return places > 0


@final
class PriorityBuckets(Generic[T]):
    """The ordering of a PriorityQueue: by priority, with ageing.

    Args:
        ageing_seconds: how long a key waits before it gets a share of the turns.
        clock: monotonic seconds.
    """

    __slots__ = (
        "_ageing_seconds",
        "_buckets",
        "_depth",
        "_priorities",
        "_turn",
        "clock",
        "since",
        "taken",
        "wanted",
    )

    def __init__(self, ageing_seconds: float, clock: Callable[[], float]) -> None:
        self._ageing_seconds = ageing_seconds
        self._buckets: dict[int, _Bucket[T]] = {}  # an empty bucket only if it is the only one
        self._priorities: list[int] = []  # of the buckets, ascending
        self._depth = 0
        self._turn = 0
        self.clock = clock
        self.since: Mapping[T, float | None] = {}
        """When each key began to wait; the queue's own dict."""
        self.wanted: dict[T, int] = {}
        """The priority of each key that waits, here or delayed; 0 is left out."""
        self.taken: dict[T, int] = {}
        """The priority of each key that was taken; 0 is left out."""

    def __len__(self) -> int:
        return self._depth

    def push(self, item: T, /) -> None:
        """Store a key that is not here, with its wanted priority."""
        priority = self.wanted.get(item, 0) if self.wanted else 0
        bucket = self._buckets.get(priority)
        if bucket is None:
            bucket = self._open(priority)
        bucket.items.append(item)
        self._depth += 1

    def pop(self) -> T:
        """Remove and return the next key, and move its priority to `taken`."""
        priorities = self._priorities
        priority = priorities[-1] if len(priorities) == 1 else self._choose()
        bucket = self._buckets[priority]
        item = bucket.items.popleft()
        if bucket.stale:
            bucket.clean_head()
        self._depth -= 1
        if not bucket.items:
            self._empty(priority)
        if priority:
            self.taken[item] = self.wanted.pop(item)
        return item

    def touch(self, item: T, /) -> None:
        """Leave the key in its place; `withdraw` and `push` move it."""

    def withdraw(self, item: T) -> None:
        """Remove a key that is not the next."""
        priority = self.wanted.get(item, 0)
        bucket = self._buckets[priority]
        bucket.withdraw(item)
        self._depth -= 1
        if not bucket.items:
            self._empty(priority)

    def depths(self) -> tuple[tuple[int, int], ...]:
        """Return priority and depth, highest first; from any thread."""
        if not self._depth:
            return ()
        return tuple((key, bucket.depth) for key, bucket in reversed(self._open_buckets()))

    def oldest_at(self) -> float:
        """Return when the oldest key began to wait, infinity if none waits.

        From any thread: keys that are removed meanwhile are left out.
        """
        oldest_at = math.inf
        for _, bucket in self._open_buckets():
            with suppress(IndexError):
                since = self.since.get(bucket.items[0])
                oldest_at = oldest_at if since is None else min(since, oldest_at)
        return oldest_at

    def _open_buckets(self) -> list[tuple[int, _Bucket[T]]]:
        """Return the buckets by priority, ascending; from any thread."""
        found = [(priority, self._buckets.get(priority)) for priority in tuple(self._priorities)]
        return [(priority, bucket) for priority, bucket in found if bucket is not None]

    def _choose(self) -> int:
        """Choose among several priorities."""
        self._turn += 1
        if self._turn % AGED_TURN == 0:
            oldest = min(self._priorities, key=self._head_at)
            if self.clock() - self._head_at(oldest) >= self._ageing_seconds:
                return oldest
        return self._priorities[-1]

    def _head_at(self, priority: int) -> float:
        since = self.since[self._buckets[priority].items[0]]
        if since is None:
            raise InternalError("a key waits and is being processed")
        return since

    def _empty(self, priority: int) -> None:
        """Close a bucket that has become empty, unless it is the last: that may be used again."""
        if self._depth:
            self._close(priority)
        else:
            self._turn = 0

    def _open(self, priority: int) -> _Bucket[T]:
        if self._priorities and not self._depth:
            self._close(self._priorities[0])
        bucket = self._buckets[priority] = _Bucket()
        insort(self._priorities, priority)
        return bucket

    def _close(self, priority: int) -> None:
        del self._buckets[priority]
        self._priorities.remove(priority)


@final
class PriorityQueue(Queue[T], Generic[T]):
    """A Queue in which keys have a priority: higher first, 0 where none is given.

    A key that is added several times before it is taken waits once, with the highest of the
    priorities and the earliest of the times. Keys of one priority leave in the order in which they
    came. Every fourth turn goes to the key that has waited longest, whatever its priority, if it
    has waited longer than `ageing_seconds`. A key whose priority is raised begins to age again. Use
    only a few priorities: each operation takes longer the more different priorities wait.

    Args:
        name: as for a Queue.
        rate_limiter: as for a Queue.
        ageing_seconds: how long a key waits before it has a share of the turns whatever its
            priority. A minute is long against any burst and short against any resync.
        on_shutdown: as for a Queue.
        metrics: as for a Queue.
        clock: monotonic seconds; by default the loop's time, once there is a loop.

    Raises:
        InvalidArgumentError: `ageing_seconds` or `on_shutdown` is invalid.

    Source:
        controller-runtime pkg/controller/priorityqueue, without its starvation.
    """

    __slots__ = ("_buckets", "_wanted", "taken")

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
        self.taken: Mapping[T, int] = buckets.taken
        """The priority of each key that is being processed; 0 is left out. Always this mapping."""

    def add(self, item: T, *, priority: int = 0) -> None:
        """Add a key; from any thread, also before an event loop runs.

        As `add_nowait`, at once on the loop's thread, soon from another one.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
        """
        if self._is_here():
            self.add_nowait(item, priority=priority)
        else:
            check_priority(priority)
            self._hand_over(item, partial(self.add_nowait, item, priority=priority))

    def add_nowait(self, item: T, *, priority: int = 0) -> None:
        """Add a key; only on the loop's thread.

        As `Queue.add_nowait`; a key that waits already moves to the end of the higher priority.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
        """
        if priority != 0 or self._wanted:
            self._want(item, priority)
        Queue.add_nowait(self, item)

    def add_after(self, item: T, delay_seconds: float, *, priority: int = 0) -> None:
        """Add a key after a delay; from any thread, also before an event loop runs.

        As `add_after_nowait`; the delay begins with this call.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        check_priority(priority)
        self._add_after(item, delay_seconds, partial(self.add_after_nowait, priority=priority))

    def add_after_nowait(self, item: T, delay_seconds: float, *, priority: int = 0) -> None:
        """Add a key after a delay; only on the loop's thread.

        As `Queue.add_after_nowait`; the highest priority counts, also for a key that waits to be
        taken already.

        Args:
            item: the key; hashable, not None.
            delay_seconds: how long it waits; 0 or less is at once.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
            InvalidArgumentError: the delay is not a finite number.
        """
        if priority != 0 or self._wanted:
            check_delay(delay_seconds)
            self._want(item, priority)
        Queue.add_after_nowait(self, item, delay_seconds)

    def add_rate_limited(self, item: T, *, priority: int = 0) -> None:
        """Add a key that failed, after the rate limiter's delay; from any thread.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
        """
        if self._is_here():
            self.add_rate_limited_nowait(item, priority=priority)
        else:
            check_priority(priority)
            self._hand_over(item, partial(self.add_rate_limited_nowait, item, priority=priority))

    def add_rate_limited_nowait(self, item: T, *, priority: int = 0) -> None:
        """Add a key that failed, after the rate limiter's delay; only on the loop's thread.

        After shutdown nothing is added or counted.

        Args:
            item: the key; hashable, not None.
            priority: higher is earlier, once the delay is over.

        Raises:
            InvalidTypeError: the key is not hashable, or None, or the priority is not an integer;
                nothing was added.
        """
        check_priority(priority)
        self.add_after_nowait(item, self._limited_delay(item), priority=priority)

    def done(self, item: T) -> None:
        """End the processing of a key; it comes again if it was added meanwhile.

        Nothing happens if the key is not being processed.

        Args:
            item: what a get returned.
        """
        if self.taken:
            self._buckets.taken.pop(item, None)
        Queue.done(self, item)

    def priority_of(self, item: T) -> int:
        """Return the priority with which a key was taken, if it is being processed.

        Otherwise that with which it waits; 0 for an unknown key.
        """
        return (self.taken if self.is_processing(item) else self._wanted).get(item, 0)

    def remove(self, item: T) -> bool:
        """Drop a key that waits: for its turn, its delay, or the end of its processing.

        Returns:
            Whether it waited. What is being processed continues.
        """
        if self.forget_delayed(item):
            return True
        if not self._is_ready_or_again(item):
            return False
        if item in self._again:
            self._again.remove(item)
        else:
            self._buckets.withdraw(item)
            del self._states[item]
        if self._metrics is not None:
            self._metrics.dropped += 1
        self._forget(item)
        if self._closed:
            self._wake_if_finished()
        return True

    def _want(self, item: T, priority: int) -> None:
        """Record the highest priority that is wanted for a key, and move it there if it waits."""
        check_priority(priority)
        try:
            is_waiting = self.is_waiting(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        if item is None or self._closed or (is_waiting and priority <= self._wanted.get(item, 0)):
            return
        is_ready = self._states.get(item) is not None
        if is_ready:
            self._buckets.withdraw(item)
            if self._metrics is not None:
                self._metrics.waits_since.setdefault(item, self._states[item] or 0.0)
        if priority:
            self._wanted[item] = priority
        else:
            self._wanted.pop(item, None)
        if is_ready:
            self._push(item)
            self._states[item] = self._mark or self._clock()  # buckets stay in their order

    def _forget(self, item: T) -> None:
        self._wanted.pop(item, None)
        if item not in self._states:
            self._buckets.taken.pop(item, None)
        super()._forget(item)

    def _use_clock(self, clock: Callable[[], float]) -> None:
        super()._use_clock(clock)
        self._buckets.clock = clock

    def _oldest_at(self) -> float:
        return self._buckets.oldest_at()

    def _depth_by_priority(self) -> tuple[tuple[int, int], ...]:
        return self._buckets.depths()


def check_priority(priority: int) -> None:
    """Refuse a priority that is not an integer.

    Raises:
        InvalidTypeError: naming the argument.
    """
    if not isinstance(priority, int):
        raise InvalidTypeError("priority", f"must be an integer, got {priority!r}")
