"""Notices keys that are reconciled again and again, and slows them: no loop, no clock.

What enters is each start of a reconcile; what leaves is how long a key has to wait before its next.
Most keys are only counted, in a dict that is thrown away with each window, so memory is bounded by
the keys of one window. A key that was found hot stays so while it would be, at its slower pace.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from pyinformer.sources._request import Request

_MAX_COUNTED: Final = 65_536  # keys per window; in a storm of more the count begins again earlier


@final
class HotLoops:
    """The keys of one controller.

    Args:
        limit: more starts than this within a window are a hot loop; 0 notices nothing.
        window_seconds: how long a window is.
        delay_seconds: the least time between two starts of a hot key.
    """

    __slots__ = (
        "_cool_below",
        "_counts",
        "_delay_seconds",
        "_ends_at",
        "_hot",
        "_limit",
        "_window_seconds",
    )

    def __init__(self, *, limit: int, window_seconds: float, delay_seconds: float) -> None:
        self._limit = limit or math.inf
        self._window_seconds = window_seconds
        self._delay_seconds = delay_seconds
        # A hot key that has used less than half of what it is allowed has come to rest.
        allowed = window_seconds / delay_seconds if delay_seconds else self._limit
        self._cool_below = min(allowed, self._limit) / 2
        self._ends_at = -math.inf
        self._counts: dict[Request, int] = {}
        self._hot: dict[Request, float] = {}  # when each may start again

    def wait_seconds(self, request: Request, now: float) -> float:
        """Return how long the key has to wait before its next start; nearly always 0."""
        if not self._hot:
            return 0.0
        return max(0.0, self._hot.get(request, now) - now)

    def started(self, request: Request, now: float) -> bool:
        """Count a start.

        Returns:
            Whether the key has been found hot just now.
        """
        if now >= self._ends_at:
            self._roll(now)
        elif len(self._counts) >= _MAX_COUNTED:
            self._counts = {key: self._counts.get(key, 0) for key in self._hot}
        count = self._counts[request] = self._counts.get(request, 0) + 1
        if request in self._hot:
            self._hot[request] = now + self._delay_seconds
            return False
        if count <= self._limit:
            return False
        self._hot[request] = now + self._delay_seconds
        return True

    def hot(self, now: float) -> tuple[Request, ...]:
        """Return the keys that are slowed."""
        is_stale = now >= self._ends_at + self._window_seconds  # nothing has started for so long
        return () if is_stale else tuple(self._hot)

    def _roll(self, now: float) -> None:
        counts = self._counts
        for request in list(self._hot):
            rests_since = self._hot[request] + self._delay_seconds  # it did not start when it might
            if counts.get(request, 0) < self._cool_below and rests_since <= now:
                del self._hot[request]
        self._counts = {}
        self._ends_at = now + self._window_seconds
