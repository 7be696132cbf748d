"""When timers and resyncs are due: keys spread over a period, and beats without drift.

No key is taken before it is due, or twice in a round. Missed rounds and beats are skipped.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar, final

_SPREAD_RATIO: Final = 0.9  # of the period: the last key is handled before the next round
_EARLY_SECONDS: Final = 0.001
_TICK_SECONDS: Final = 0.05  # keys due within it are taken together: 20 wake-ups a second
_TICKS_MIN: Final = 20  # per period, however short it is


_K = TypeVar("_K")


@final
class PacedRounds(Generic[_K]):
    """Spreads keys evenly over each period.

    Args:
        period_seconds: how long a round takes, more than 0.
        first_at: when the first round begins.
        keys: returns the keys of a round when it begins; the list is not used otherwise.
    """

    def __init__(
        self, period_seconds: float, *, first_at: float, keys: Callable[[], Sequence[_K]]
    ) -> None:
        self._period_seconds = period_seconds
        self._tick_seconds = min(_TICK_SECONDS, period_seconds / _TICKS_MIN)
        self._keys_now = keys
        self._began_at = first_at
        self._next_round_at = first_at
        self._keys: Sequence[_K] = ()
        self._taken = 0

    def take(self, now: float) -> _K | None:
        """Return the next key that is due; None if none is.

        Args:
            now: the loop's time.
        """
        if self._taken == len(self._keys):
            if now < self._next_round_at:
                return None
            self._begin(now)
        if self._taken == len(self._keys) or now < self._due_at():
            return None
        key = self._keys[self._taken]
        self._taken += 1
        if self._taken == len(self._keys):
            self._keys, self._taken = (), 0
        return key

    def wake_at(self) -> float:
        """Return the loop's time at which to take again."""
        if self._taken == len(self._keys):
            return self._next_round_at
        return self._due_at() + self._tick_seconds

    def _begin(self, now: float) -> None:
        # After a pause longer than a whole round (a suspended machine) the rounds start over.
        late = now - self._next_round_at > self._period_seconds
        self._began_at = now if late else self._next_round_at
        self._next_round_at = self._began_at + self._period_seconds
        self._keys, self._taken = self._keys_now(), 0

    def _due_at(self) -> float:
        spread_seconds = self._period_seconds * _SPREAD_RATIO
        return self._began_at + spread_seconds * self._taken / len(self._keys)


def next_beat_at(now: float, *, began_at: float, period_seconds: float) -> float:
    """Return the time of a timer's first beat after `now`; one that is due almost now has passed.

    A loop may call a timer a rounding early, that of uvloop up to a millisecond.

    Args:
        now: the loop's time.
        began_at: when the timer began; the first beat is one period later.
        period_seconds: from beat to beat, more than 0.
    """
    early_seconds = min(_EARLY_SECONDS, period_seconds / 10)
    beats = (now + early_seconds - began_at) // period_seconds + 1
    beat_at = began_at + beats * period_seconds
    return beat_at if beat_at > now else beat_at + period_seconds  # rounding
