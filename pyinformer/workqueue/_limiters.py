"""Rate limiters: how long a failed key waits. They are client-go's, with bounds.

Nothing here waits or reads a clock. The number of remembered keys is bounded: the key that failed
longest ago is forgotten first.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import random
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Protocol, final

from pyinformer._runtime.tasks import TokenBucket
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_integer, check_number, check_seconds, check_type

_MAX_ITEMS: Final = 1_000_000  # about 150 MB; fewer would let failing keys push each other out
_LAST_DOUBLING: Final = 1_000  # beyond it every limit is reached, and a float overflows soon


class RateLimiter(Protocol):
    """Returns how long each failed key has to wait.

    Source:
        client-go util/workqueue/default_rate_limiters.go, RateLimiter.
    """

    @abstractmethod
    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait.

        Args:
            item: the key.
            now: monotonic seconds.
        """
        ...

    @abstractmethod
    def forget(self, item: Hashable) -> None:
        """Forget a key's failures: it succeeded, or was given up."""
        ...

    @abstractmethod
    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        ...


class _PerItem:
    """The failures of each key, for so many keys at most; the base of two limiters."""

    __slots__ = ("_counts", "_max_items")

    def __init__(self, max_items: int) -> None:
        check_integer("max_items", max_items)
        self._counts: OrderedDict[Hashable, int] = OrderedDict()
        self._max_items = max_items

    def __len__(self) -> int:
        """Count the keys whose failures are remembered."""
        return len(self._counts)

    def __bool__(self) -> bool:
        return True  # also without failures

    def forget(self, item: Hashable) -> None:
        """Forget a key's failures: it succeeded, or was given up."""
        self._counts.pop(item, None)

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        return self._counts.get(item, 0)

    def _count(self, item: Hashable) -> int:
        """Count a failure; return how many there were before."""
        before = self._counts.pop(item, 0)
        self._counts[item] = before + 1
        if len(self._counts) > self._max_items:
            self._counts.popitem(last=False)
        return before


@final
class ItemExponentialFailureRateLimiter(_PerItem):
    """Doubles the delay with each failure of a key, up to a limit.

    Args:
        base_seconds: the delay after the first failure.
        max_seconds: the longest delay.
        jitter_ratio: the share of each delay that is random, so that keys which failed together
            spread; 0 for none, as client-go.
        rng: the random number generator; None for one of its own.
        max_items: for how many keys failures are remembered.

    Raises:
        InvalidArgumentError: one of the numbers is invalid.

    Source:
        client-go util/workqueue/default_rate_limiters.go, ItemExponentialFailureRateLimiter.
    """

    __slots__ = ("_base_seconds", "_jitter_ratio", "_max_seconds", "_rng")

    def __init__(
        self,
        base_seconds: float,
        max_seconds: float,
        *,
        jitter_ratio: float = 0.0,
        rng: random.Random | None = None,
        max_items: int = _MAX_ITEMS,
    ) -> None:
        check_seconds("base_seconds", base_seconds)
        check_seconds("max_seconds", max_seconds)
        check_number("jitter_ratio", jitter_ratio)
        if not 0 <= jitter_ratio <= 1:
            raise InvalidArgumentError("jitter_ratio", f"must be 0 to 1, got {jitter_ratio}")
        if rng is not None:
            check_type("rng", rng, random.Random)
        super().__init__(max_items)
        self._base_seconds = base_seconds
        self._max_seconds = max_seconds
        self._jitter_ratio = jitter_ratio
        self._rng = rng or random.Random()

    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait.

        Args:
            item: the key.
            now: not used.
        """
        doublings = min(self._count(item), _LAST_DOUBLING)
        delay_seconds = min(self._base_seconds * 2.0**doublings, self._max_seconds)
        if self._jitter_ratio:
            delay_seconds *= 1.0 - self._jitter_ratio * self._rng.random()
        return delay_seconds


@final
class ItemFastSlowRateLimiter(_PerItem):
    """Gives a key some short delays, then long ones.

    Args:
        fast_seconds: the delay after each of the first failures.
        slow_seconds: the delay after each later one.
        max_fast_attempts: how many failures count as the first.
        max_items: for how many keys failures are remembered.

    Raises:
        InvalidArgumentError: one of the numbers is invalid.

    Source:
        client-go util/workqueue/default_rate_limiters.go, ItemFastSlowRateLimiter.
    """

    __slots__ = ("_fast_seconds", "_max_fast_attempts", "_slow_seconds")

    def __init__(
        self,
        fast_seconds: float,
        slow_seconds: float,
        max_fast_attempts: int,
        *,
        max_items: int = _MAX_ITEMS,
    ) -> None:
        check_seconds("fast_seconds", fast_seconds)
        check_seconds("slow_seconds", slow_seconds)
        super().__init__(max_items)
        self._fast_seconds = fast_seconds
        self._slow_seconds = slow_seconds
        self._max_fast_attempts = max_fast_attempts

    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait.

        Args:
            item: the key.
            now: not used.
        """
        is_fast = self._count(item) < self._max_fast_attempts
        return self._fast_seconds if is_fast else self._slow_seconds


@final
class BucketRateLimiter:
    """Lets so many keys through per second, all keys together, after a burst.

    It does not distinguish keys: a burst of failures is spread out.

    Args:
        items_per_second: how fast the bucket is filled; positive.
        burst: how many go through at once; the bucket begins full.

    Raises:
        InvalidArgumentError: one of the numbers is invalid.

    Source:
        client-go util/workqueue/default_rate_limiters.go, BucketRateLimiter.
    """

    __slots__ = ("_bucket",)

    def __init__(self, items_per_second: float, burst: int) -> None:
        check_seconds("items_per_second", items_per_second, is_positive=True)
        check_integer("burst", burst)
        self._bucket = TokenBucket(per_second=items_per_second, burst=burst)

    def when(self, item: Hashable, now: float) -> float:
        """Take a token, a future one if the bucket is empty; return the seconds until it exists.

        Args:
            item: not used.
            now: monotonic seconds.
        """
        return self._bucket.reserve(now)

    def forget(self, item: Hashable) -> None:
        """Do nothing: keys are not remembered."""

    def num_requeues(self, item: Hashable) -> int:
        """Return 0: keys are not remembered."""
        return 0


@final
class MaxOfRateLimiter:
    """Combines several limiters; the longest of their delays counts.

    Args:
        limiters: one or more.

    Raises:
        InvalidArgumentError: none was given.

    Source:
        client-go util/workqueue/default_rate_limiters.go, MaxOfRateLimiter.
    """

    __slots__ = ("_limiters",)

    def __init__(self, *limiters: RateLimiter) -> None:
        if not limiters:
            raise InvalidArgumentError("limiters", "must be at least one")
        self._limiters = limiters

    def __len__(self) -> int:
        """Count the keys whose failures are remembered, by the limiter with the most keys."""
        return max(remembered(limiter) for limiter in self._limiters)

    def __bool__(self) -> bool:
        return True

    def when(self, item: Hashable, now: float) -> float:
        """Return the longest of the delays.

        Args:
            item: the key.
            now: monotonic seconds.
        """
        return max(limiter.when(item, now) for limiter in self._limiters)

    def forget(self, item: Hashable) -> None:
        """Forget a key's failures in every limiter."""
        for limiter in self._limiters:
            limiter.forget(item)

    def num_requeues(self, item: Hashable) -> int:
        """Return the largest of the counts."""
        return max(limiter.num_requeues(item) for limiter in self._limiters)


@final
class WithMaxWaitRateLimiter:
    """Bounds the delays of another limiter.

    Args:
        limiter: the other limiter.
        max_seconds: the longest delay.

    Raises:
        InvalidArgumentError: the delay is invalid.

    Source:
        client-go util/workqueue/default_rate_limiters.go, WithMaxWaitRateLimiter.
    """

    __slots__ = ("_limiter", "_max_seconds")

    def __init__(self, limiter: RateLimiter, max_seconds: float) -> None:
        check_seconds("max_seconds", max_seconds)
        self._limiter = limiter
        self._max_seconds = max_seconds

    def __len__(self) -> int:
        """Count the keys whose failures are remembered."""
        return remembered(self._limiter)

    def __bool__(self) -> bool:
        return True

    def when(self, item: Hashable, now: float) -> float:
        """Return the other's delay, or the longest.

        Args:
            item: the key.
            now: monotonic seconds.
        """
        return min(self._max_seconds, self._limiter.when(item, now))

    def forget(self, item: Hashable) -> None:
        """Forget a key's failures."""
        self._limiter.forget(item)

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        return self._limiter.num_requeues(item)


def remembered(limiter: RateLimiter) -> int:
    """Count the keys whose failures a limiter remembers; 0 if it has no length."""
    try:
        return len(limiter)  # type: ignore[arg-type]  # optional, not in the protocol
    except TypeError:
        return 0


def default_controller_rate_limiter() -> RateLimiter:
    """Return controllers' limiter: 5 ms to 1,000 s per key, and 10 keys/s after a burst of 100.

    Source:
        client-go util/workqueue/default_rate_limiters.go, DefaultTypedControllerRateLimiter.
    """
    return MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter(0.005, 1000.0), BucketRateLimiter(10.0, 100)
    )


def default_item_based_rate_limiter() -> RateLimiter:
    """Return a limiter of each key alone: 1 ms to 1,000 s.

    Source:
        client-go util/workqueue/default_rate_limiters.go, DefaultTypedItemBasedRateLimiter.
    """
    return ItemExponentialFailureRateLimiter(0.001, 1000.0)
