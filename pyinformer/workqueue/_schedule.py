"""Keys that wait for a time: one entry per key, the earlier time wins.

What enters are keys with the moment at which they are due; what leaves are the due ones, by time
and then in the order in which they came. A heap of bare numbers says when, a dict says who: less
memory than a heap of tuples, and faster. What was withdrawn or moved leaves a stale moment behind;
it goes when it comes to the head, or when the stale ones outnumber the live ones.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, final

from typing_extensions import TypeVar

T = TypeVar("T", bound=Hashable)

_SPARE = 64  # so many stale moments are kept before anybody counts


@final
class _Together(OrderedDict[T, None]):
    """Keys that came for the same moment, in order. Not hashable, so no key can be one.

    A plain dict would walk over all that has left it whenever the first is asked for.
    """

    __slots__ = ()


@final
class Schedule(Generic[T]):
    """Who is due when."""

    __slots__ = ("_due_at", "_keys_at", "moments")

    def __init__(self) -> None:
        self._due_at: dict[T, float] = {}
        self._keys_at: dict[float, T | _Together[T]] = {}
        self.moments: list[float] = []
        """A heap of when somebody is due, the head never stale. Always this list."""

    def __len__(self) -> int:
        return len(self._due_at)

    def __contains__(self, item: T) -> bool:
        return item in self._due_at

    def __iter__(self) -> Iterator[T]:
        return iter(self._due_at)

    def put(self, item: T, due_at: float) -> None:
        """Note a key; if it is here already, the earlier moment stands."""
        before = self._due_at.get(item)
        if before is not None:
            if before <= due_at:
                return
            self.discard(item)
        self._due_at[item] = due_at
        self._seat(item, due_at)

    def discard(self, item: T) -> bool:
        """Withdraw a key; tell whether it was here."""
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
        """Take one due key after the other; what has not been asked for stays."""
        while self.moments and self.moments[0] <= now:
            there = self._keys_at[self.moments[0]]
            item = next(iter(there)) if isinstance(there, _Together) else there
            self.discard(item)
            yield item

    def clear(self) -> list[T]:
        """Take everything, by time; due or not."""
        return list(self.pop_due(math.inf))

    def shift(self, seconds: float) -> None:
        """Move every moment: the clock has been exchanged."""
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
