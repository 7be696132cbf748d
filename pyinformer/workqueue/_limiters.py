"""How long a key that failed must wait: client-go's rate limiters, with bounds.

What enters are a key and the time; what leaves is a delay. Nothing here waits or reads a clock.
What is remembered of keys is bounded: the key that failed longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Protocol, final

from pyinformer.apimachinery import InvalidArgumentError, check_seconds

_MAX_ITEMS: Final = 1_000_000  # about 150 MB; fewer would let failing keys push each other out
_LAST_DOUBLING: Final = 1_000  # beyond it every limit is reached, and a float overflows soon


class RateLimiter(Protocol):
    """Says how long each key has to wait.

    Source:
        client-go util/workqueue/default_rate_limiters.go, RateLimiter.
    """

    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait.

        Args:
            item: the key.
            now: monotonic seconds.
        """
        ...

    def forget(self, item: Hashable) -> None:
        """Let a key begin anew: it succeeded, or was given up."""
        ...

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        ...


class _Failures:
    """Failures by key, for so many keys at most."""

    __slots__ = ("_counts", "_max_items")

    def __init__(self, max_items: int) -> None:
        if max_items < 1:
            raise InvalidArgumentError("max_items", f"{max_items!r} is not at least 1")
        self._counts: OrderedDict[Hashable, int] = OrderedDict()
        self._max_items = max_items

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, item: Hashable) -> int:
        """Count one; return how many there were before."""
        before = self._counts.pop(item, 0)
        self._counts[item] = before + 1
        if len(self._counts) > self._max_items:
            self._counts.popitem(last=False)
        return before

    def forget(self, item: Hashable) -> None:
        self._counts.pop(item, None)

    def of(self, item: Hashable) -> int:
        return self._counts.get(item, 0)


class _PerItem:
    """What the limiters share that remember failures by key."""

    __slots__ = ("_failures",)

    def __init__(self, max_items: int) -> None:
        self._failures = _Failures(max_items)

    def __len__(self) -> int:
        """Count the keys whose failures are remembered."""
        return len(self._failures)

    def __bool__(self) -> bool:
        return True  # a limiter without failures is a limiter

    def forget(self, item: Hashable) -> None:
        """Let a key begin anew: it succeeded, or was given up."""
        self._failures.forget(item)

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        return self._failures.of(item)


@final
class ItemExponentialFailureRateLimiter(_PerItem):
    """Doubles the delay with each failure of a key, up to a limit.

    Source:
        client-go util/workqueue/default_rate_limiters.go, ItemExponentialFailureRateLimiter.
    """

    __slots__ = ("_base_seconds", "_max_seconds")

    def __init__(
        self, base_seconds: float, max_seconds: float, *, max_items: int = _MAX_ITEMS
    ) -> None:
        """Remember nothing yet.

        Args:
            base_seconds: the delay after the first failure.
            max_seconds: the longest delay.
            max_items: for how many keys failures are remembered.

        Raises:
            InvalidArgumentError: one of the numbers cannot work.
        """
        check_seconds("base_seconds", base_seconds)
        check_seconds("max_seconds", max_seconds)
        super().__init__(max_items)
        self._base_seconds = base_seconds
        self._max_seconds = max_seconds

    def when(self, item: Hashable, now: float) -> float:
        """Count a failure of a key and return how many seconds it has to wait.

        Args:
            item: the key.
            now: monotonic seconds; this limiter does not look at it.
        """
        doublings = min(self._failures.add(item), _LAST_DOUBLING)
        return min(self._base_seconds * 2.0**doublings, self._max_seconds)


@final
class ItemFastSlowRateLimiter(_PerItem):
    """Gives a key some short delays, then long ones.

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
        """Remember nothing yet.

        Args:
            fast_seconds: the delay after each of the first failures.
            slow_seconds: the delay after each later one.
            max_fast_attempts: how many failures count as the first.
            max_items: for how many keys failures are remembered.

        Raises:
            InvalidArgumentError: one of the numbers cannot work.
        """
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
            now: monotonic seconds; this limiter does not look at it.
        """
        is_fast = self._failures.add(item) < self._max_fast_attempts
        return self._fast_seconds if is_fast else self._slow_seconds


@final
class BucketRateLimiter:
    """Lets so many keys through per second, all keys together, after a burst.

    It remembers no key: a burst of failures is spread out, whoever fails.

    Source:
        client-go util/workqueue/default_rate_limiters.go, BucketRateLimiter.
    """

    __slots__ = ("_burst", "_items_per_second", "_seen_at", "_tokens")

    def __init__(self, items_per_second: float, burst: int) -> None:
        """Begin with a full burst.

        Args:
            items_per_second: how fast the bucket is filled; positive.
            burst: how many go through at once.

        Raises:
            InvalidArgumentError: one of the numbers cannot work.
        """
        check_seconds("items_per_second", items_per_second)
        if not items_per_second:
            raise InvalidArgumentError("items_per_second", "0 lets nothing through, ever")
        if burst < 1:
            raise InvalidArgumentError("burst", f"{burst!r} is not at least 1")
        self._items_per_second = items_per_second
        self._burst = burst
        self._tokens = float(burst)
        self._seen_at: float | None = None

    def when(self, item: Hashable, now: float) -> float:
        """Take a token, one of the future if need be; return the seconds until it is there.

        Args:
            item: the key; all are alike.
            now: monotonic seconds.
        """
        passed_seconds = 0.0 if self._seen_at is None else max(0.0, now - self._seen_at)
        self._seen_at = now
        filled = self._tokens + passed_seconds * self._items_per_second
        self._tokens = min(filled, self._burst) - 1
        return max(0.0, -self._tokens / self._items_per_second)

    def forget(self, item: Hashable) -> None:
        """Change nothing: no key is remembered."""

    def num_requeues(self, item: Hashable) -> int:
        """Return 0: no key is remembered."""
        return 0


@final
class MaxOfRateLimiter:
    """Asks several limiters and obeys the strictest.

    Source:
        client-go util/workqueue/default_rate_limiters.go, MaxOfRateLimiter.
    """

    __slots__ = ("_limiters",)

    def __init__(self, *limiters: RateLimiter) -> None:
        """Combine limiters.

        Raises:
            InvalidArgumentError: there is none.
        """
        if not limiters:
            raise InvalidArgumentError("limiters", "none was given")
        self._limiters = limiters

    def __len__(self) -> int:
        """Count the keys whose failures are remembered, by the one who remembers most."""
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
        """Let a key begin anew with every limiter."""
        for limiter in self._limiters:
            limiter.forget(item)

    def num_requeues(self, item: Hashable) -> int:
        """Return the largest of the counts."""
        return max(limiter.num_requeues(item) for limiter in self._limiters)


@final
class WithMaxWaitRateLimiter:
    """Obeys another limiter up to a longest delay.

    Source:
        client-go util/workqueue/default_rate_limiters.go, WithMaxWaitRateLimiter.
    """

    __slots__ = ("_limiter", "_max_seconds")

    def __init__(self, limiter: RateLimiter, max_seconds: float) -> None:
        """Bound a limiter.

        Args:
            limiter: whom to ask.
            max_seconds: the longest delay.

        Raises:
            InvalidArgumentError: the delay cannot work.
        """
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
        """Let a key begin anew."""
        self._limiter.forget(item)

    def num_requeues(self, item: Hashable) -> int:
        """Return how many failures of a key are remembered."""
        return self._limiter.num_requeues(item)


def remembered(limiter: RateLimiter) -> int:
    """Count the keys whose failures a limiter remembers; 0 if it does not say."""
    try:
        return len(limiter)  # type: ignore[arg-type]  # an offer, no part of the protocol
    except TypeError:
        return 0


def default_controller_rate_limiter() -> RateLimiter:
    """Make what controllers use: 5 ms to 1,000 s per key, and 10 keys/s after a burst of 100.

    Source:
        client-go util/workqueue/default_rate_limiters.go, DefaultTypedControllerRateLimiter.
    """
    return MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter(0.005, 1000.0), BucketRateLimiter(10.0, 100)
    )


def default_item_based_rate_limiter() -> RateLimiter:
    """Make one that looks at each key alone: 1 ms to 1,000 s.

    Source:
        client-go util/workqueue/default_rate_limiters.go, DefaultTypedItemBasedRateLimiter.
    """
    return ItemExponentialFailureRateLimiter(0.001, 1000.0)
