"""Rate limiters of controllers that leave nothing to chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.workqueue import ItemExponentialFailureRateLimiter, RateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable


def doubling(first_seconds: float, max_seconds: float = 1000.0) -> Callable[[], RateLimiter]:
    """Return what makes a limiter whose delays double."""
    return lambda: ItemExponentialFailureRateLimiter(first_seconds, max_seconds)
