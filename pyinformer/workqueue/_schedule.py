"""The delayed keys of a queue, by the time at which they are due.

Each key is here once, with the earliest of its times; keys of one time leave in the order in which
they came. A heap of bare numbers holds the times and a dict the keys: less memory than a heap of
tuples, and faster. A key that is withdrawn or moved leaves a stale time in the heap, which is
removed at the head, or when stale times outnumber the live ones.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, final

from typing_extensions import TypeVar

T = TypeVar("T", bound=Hashable)

_SPARE = 64  # so many stale times are kept before they are cleaned up


@final
class _Together(OrderedDict[T, None]):
    """Keys that are due at the same time, in order. Not hashable, so a key is never one.

    Finding the first key of a plain dict would step over all keys that were removed before it.
    """

    __slots__ = ()


@final
class Schedule(Generic[T]):
    """Keys and the times at which they are due."""

    __slots__ = ("_due_at", "_keys_at", "moments")

    def __init__(self) -> None:
        self._due_at: dict[T, float] = {}
        self._keys_at: dict[float, T | _Together[T]] = {}
        self.moments: list[float] = []
        """A heap of the times at which keys are due, the head never stale. Always this list."""

    def __len__(self) -> int:
        return len(self._due_at)

    def __contains__(self, item: T) -> bool:
        return item in self._due_at

    def __iter__(self) -> Iterator[T]:
        return iter(self._due_at)

    def put(self, item: T, due_at: float) -> None:
        """Store a key; if it is here already, the earlier time counts."""
        before = self._due_at.get(item)
        if before is not None:
            if before <= due_at:
                return
            self.discard(item)
        self._due_at[item] = due_at
        self._seat(item, due_at)

    def discard(self, item: T) -> bool:
        """Withdraw a key; return whether it was here."""
        due_at = self._due_at.pop(item, None)
        if due_at is None:
            return False
        there = self._keys_at[due_at]
        if isinstance(there, _Together) and len(there) > 1:
            del there[item]
        else:
            del self._keys_at[due_at]
            self._drop_stale()
        return True

    def pop_due(self, now: float) -> Iterator[T]:
        """Yield and remove one due key after the other."""
        while self.moments and self.moments[0] <= now:
            there = self._keys_at[self.moments[0]]
            item = next(iter(there)) if isinstance(there, _Together) else there
            self.discard(item)
            yield item

    def clear(self) -> list[T]:
        """Remove and return all keys, due or not, by time."""
        found: list[T] = []
        for due_at in sorted(self._keys_at):  # one by one, a heap of a million blocks for seconds
            there = self._keys_at[due_at]
            found += there if isinstance(there, _Together) else (there,)
        self._due_at.clear()
        self._keys_at.clear()
        self.moments.clear()
        return found

    def shift(self, seconds: float) -> None:
        """Move every time: the queue reads another clock."""
        due_at = dict(self._due_at)
        for item in self.clear():
            self.put(item, due_at[item] + seconds)

    def _seat(self, item: T, due_at: float) -> None:
        there = self._keys_at.get(due_at)
        if there is None:
            self._keys_at[due_at] = item
            heapq.heappush(self.moments, due_at)
        elif isinstance(there, _Together):
            there[item] = None
        else:
            self._keys_at[due_at] = _Together(((there, None), (item, None)))

    def _drop_stale(self) -> None:
        while self.moments and self.moments[0] not in self._keys_at:
            heapq.heappop(self.moments)
        if len(self.moments) > 2 * len(self._keys_at) + _SPARE:
            self.moments[:] = sorted(self._keys_at)  # a sorted list is a heap
