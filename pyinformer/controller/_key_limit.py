"""So many reconciles of one key per period, whatever they are caused by: no loop, no clock.

What enters is each start of a reconcile; what leaves is how long a key has to wait before its next.
It postpones and never drops. Only keys whose period lasts are remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from pyinformer.sources._request import Request


@final
class KeyLimit:
    """The keys of one controller.

    Args:
        limit: starts per period; 0 for no limit.
        period_seconds: a key's period begins with its first start.
    """

    __slots__ = ("_limit", "_period_seconds", "_periods")

    def __init__(self, *, limit: int, period_seconds: float) -> None:
        self._limit = limit
        self._period_seconds = period_seconds
        self._periods: dict[Request, tuple[float, int]] = {}  # its end and its starts; oldest first

    def __len__(self) -> int:
        """Count the keys that are remembered."""
        return len(self._periods)

    def wait_seconds(self, request: Request, now: float) -> float:
        """Return how long the key has to wait before its next start."""
        if not self._limit:
            return 0.0
        ends_at, starts = self._periods.get(request, (now, 0))
        return max(0.0, ends_at - now) if starts >= self._limit else 0.0

    def started(self, request: Request, now: float) -> None:
        """Count a start."""
        if self._limit:
            self._forget_ended(now)
            ends_at, starts = self._periods.get(request, (now + self._period_seconds, 0))
            self._periods[request] = ends_at, starts + 1

    def _forget_ended(self, now: float) -> None:
        periods = self._periods
        while periods:
            oldest = next(iter(periods))
            if periods[oldest][0] > now:
                return
            del periods[oldest]
