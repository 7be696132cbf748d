"""How fast requests may leave: a bucket of tokens that fills steadily.

What enters is the time of a request that wants to leave; what leaves is how long it has to wait.
Who asks first leaves first, and a place that was given back shortens the wait of those who come
later.
"""

from __future__ import annotations

from typing import final


@final
class TokenBucket:
    """Lets a burst through at once and then a steady rate.

    Args:
        per_second: tokens that flow in.
        burst: tokens it holds; it starts full.

    Source:
        client-go util/flowcontrol/throttle.go.
    """

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token, perhaps one that is yet to come.

        Returns:
            In how many seconds it is there; 0 for now.
        """
        passed = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(self._burst, self._tokens + passed * self._per_second) - 1.0
        return max(0.0, -self._tokens / self._per_second)

    def give_back(self) -> None:
        """Return a token that was reserved and not used."""
        self._tokens += 1.0
