"""Waiting keys by priority: a queue per priority, and turns for those who have waited too long.

What enters are keys with a priority; what leaves is the oldest key of the highest priority, but
every fourth turn belongs to whoever has waited longest, if that was longer than the ageing time.
So nothing starves, and yet a crowd of old keys does not stand in the way of the urgent ones. A
key that moves up leaves a stale place behind; stale places never outnumber the live ones for long.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final, Generic, final

from typing_extensions import TypeVar

from pyinformer.apimachinery import InternalError

T = TypeVar("T", bound=Hashable)

AGED_TURN: Final = 4
"""Every such turn is for the oldest: the urgent keep three quarters of the workers' time."""
_SPARE: Final = 64  # so many stale places are kept before anybody counts


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
        """How many keys wait here."""
        return len(self.items) - self._stale_places

    def withdraw(self, item: T) -> None:
        """Make a key's place stale."""
        self.stale[item] = self.stale.get(item, 0) + 1
        self._stale_places += 1
        self.clean_head()
        if len(self.items) > 2 * self.depth + _SPARE:
            self._clean()

    def clean_head(self) -> None:
        """Remove the stale places at the head."""
        while self.items and self._is_stale(self.items[0]):
            self.items.popleft()

    def _clean(self) -> None:
        self.items = deque(item for item in self.items if not self._is_stale(item))

    def _is_stale(self, item: T) -> bool:
        """Tell whether the next place of a key is stale; if so, it is counted as removed."""
        places = self.stale.get(item, 0)
        if places > 1:
            self.stale[item] = places - 1
        elif places:
            del self.stale[item]
        self._stale_places -= places > 0
        return places > 0


@final
class PriorityBuckets(Generic[T]):
    """An ordering by priority, with ageing."""

    __slots__ = (
        "_ageing_seconds",
        "_buckets",
        "_depth",
        "_priorities",
        "_turn",
        "clock",
        "since",
        "wanted",
    )

    def __init__(self, ageing_seconds: float, clock: Callable[[], float]) -> None:
        self._ageing_seconds = ageing_seconds
        self._buckets: dict[int, _Bucket[T]] = {}  # none empty beside another
        self._priorities: list[int] = []  # of the buckets, ascending
        self._depth = 0
        self._turn = 0
        self.clock = clock
        """Monotonic seconds; the queue's."""
        self.since: Mapping[T, float | None] = {}
        """When each key here began to wait; the queue's."""
        self.wanted: dict[T, int] = {}
        """The priority of each key that waits, here or elsewhere; 0 is not written down."""

    def __len__(self) -> int:
        return self._depth

    def push(self, item: T, /) -> None:
        """Take a key that is not here, with its wanted priority."""
        priority = self.wanted.get(item, 0) if self.wanted else 0
        bucket = self._buckets.get(priority)
        if bucket is None:
            bucket = self._open(priority)
        bucket.items.append(item)
        self._depth += 1

    def pop(self) -> T:
        """Give the key whose turn it is; there is one. Its wanted priority stays noted."""
        priorities = self._priorities
        priority = priorities[-1] if len(priorities) == 1 else self._choose()
        bucket = self._buckets[priority]
        item = bucket.items.popleft()
        if bucket.stale:
            bucket.clean_head()
        self._depth -= 1
        if not bucket.items:
            self._empty(priority)
        return item

    def touch(self, item: T, /) -> None:
        """Leave the key where it stands; `withdraw` and `push` move it."""

    def withdraw(self, item: T) -> None:
        """Take a key out of the middle."""
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
        """Return since when the oldest of the heads waits, infinity if none does.

        From any thread: what is taken away meanwhile is left out.
        """
        oldest_at = math.inf
        for _, bucket in self._open_buckets():
            with suppress(IndexError):
                since = self.since.get(bucket.items[0])
                oldest_at = oldest_at if since is None else min(since, oldest_at)
        return oldest_at

    def _open_buckets(self) -> list[tuple[int, _Bucket[T]]]:
        """Return the buckets by priority, ascending, from any thread."""
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
        """Close a bucket that has become empty, but for the last one: it may be used again."""
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
