"""Whose watch is compared with a list next: a few in a minute for each connection.

What makes a server's watches stand still usually stops all of them, so one comparison serves all.
The watch that has waited longest is the next one.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final, Protocol, final

_MINUTE: Final = 60.0
_MOST_COUNTED: Final = 16
_LEAST_PART: Final = 0.01  # of a turn, for the rounding of times


class TurnTaker(Protocol):
    """A member that waits for a turn."""

    def wants_turn(self) -> bool:
        """Return whether it still has a use for one; if not, others do not wait for it."""
        ...


@final
class ComparisonTurns:
    """Deals out a limited number of turns in a minute, in the order of the requests."""

    def __init__(self) -> None:
        self._waiting: dict[TurnTaker, None] = {}
        self._left: float | None = None
        self._counted_at = 0.0

    def take(self, member: TurnTaker, now: float, *, per_minute: float) -> bool:
        """Return whether a member may look now; if not, it keeps its place.

        Args:
            member: whose turn it is.
            now: the loop's time.
            per_minute: how many turns there are in a minute; half of them may come at once.
        """
        self._waiting.setdefault(member)
        if self.seconds_until(member, now, per_minute=per_minute) > 0.0:
            return False
        del self._waiting[member]
        self._left = (self._left or 0.0) - 1.0
        return True

    def seconds_until(self, member: TurnTaker, now: float, *, per_minute: float) -> float:
        """Return in how many seconds a member may look at the earliest."""
        most = max(1.0, per_minute // 2)
        left = most if self._left is None else self._left
        left += (now - self._counted_at) * per_minute / _MINUTE
        self._left, self._counted_at = min(left, most), now
        before = takewhile(lambda one: one is not member, self._waiting)
        wanting = (one for one in before if one.wants_turn())
        # A member far behind asks again: hundreds that each count all others would take seconds.
        missing = sum(1 for _ in islice(wanting, _MOST_COUNTED)) + 1 - self._left
        return 0.0 if missing < _LEAST_PART else missing * _MINUTE / per_minute

    def give_back(self) -> None:
        """Let another member have a turn that was taken and not used."""
        self._left = (self._left or 0.0) + 1.0

    def hurry(self, member: TurnTaker) -> None:
        """Let a member be the next."""
        self._waiting = {member: None, **self._waiting}

    def leave(self, member: TurnTaker) -> None:
        """Give up the place of a member, if it has one."""
        self._waiting.pop(member, None)
