"""A token bucket: how long a request has to wait for a bounded rate.

Requests are served in the order of `reserve`; a token that is given back shortens later waits.
"""

from __future__ import annotations

from typing import final


@final
class TokenBucket:
    """Allows a burst at once and then a steady rate.

    Args:
        per_second: tokens added per second.
        burst: the most tokens it holds; it starts full.

    Source:
        client-go util/flowcontrol/throttle.go.
    """

    def __init__(self, *, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token, perhaps one that is available only later.

        Returns:
            The seconds until it is available; 0 for now.
        """
        passed = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        self._filled_at = now
        self._tokens = min(self._burst, self._tokens + passed * self._per_second) - 1.0
        return max(0.0, -self._tokens / self._per_second)

    def is_full(self, now: float) -> bool:
        """Return whether it holds its whole burst, as a new one does."""
        passed = 0.0 if self._filled_at is None else max(0.0, now - self._filled_at)
        return self._tokens + passed * self._per_second >= self._burst

    def give_back(self) -> None:
        """Return a token that was reserved and not used."""
        self._tokens += 1.0
