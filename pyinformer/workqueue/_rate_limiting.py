"""A work queue whose failed keys come again, later with each failure.

What enters are keys that failed; what leaves are the same keys, when the rate limiter allows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic

from typing_extensions import TypeVar

from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.workqueue._core import unhashable
from pyinformer.workqueue._delaying import DelayingQueue, OnShutdown
from pyinformer.workqueue._limiters import (
    RateLimiter,
    default_controller_rate_limiter,
    remembered,
)
from pyinformer.workqueue._ordering import Ordering

T = TypeVar("T", bound=Hashable)


class RateLimitingQueue(DelayingQueue[T], Generic[T]):
    """A DelayingQueue with `add_rate_limited`.

    Source:
        client-go util/workqueue/rate_limiting_queue.go.
    """

    __slots__ = ("_rate_limiter",)

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter | None = None,
        on_shutdown: OnShutdown = "drop",
        metrics: Metrics = NO_METRICS,
        ordering: Ordering[T] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            name: the label of its metrics.
            rate_limiter: how long a key that failed waits; `default_controller_rate_limiter()`
                if not given. It belongs to this queue from now on.
            on_shutdown: what becomes of keys that wait for their time when the queue is shut
                down: "drop" counts and returns them, "flush" has them taken at once.
            metrics: where its figures go, under client-go's names.
            ordering: who comes first, in place of the one who came first; it belongs to this
                queue from now on.
            clock: monotonic seconds; by default the loop's time, once there is a loop.

        Raises:
            InvalidArgumentError: `on_shutdown` is neither.
        """
        super().__init__(
            name, on_shutdown=on_shutdown, metrics=metrics, ordering=ordering, clock=clock
        )
        default = default_controller_rate_limiter
        self._rate_limiter = default() if rate_limiter is None else rate_limiter

    def add_rate_limited(self, item: T) -> None:
        """Put a key that failed into the queue, when the limiter allows; from any thread.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.
        """
        if self._is_here():
            self.add_rate_limited_nowait(item)
        else:
            self._hand_over(item, partial(self.add_rate_limited_nowait, item))

    def add_rate_limited_nowait(self, item: T) -> None:
        """Put a key that failed into the queue, when the limiter allows.

        Only on the loop's thread. After shutdown nothing is added or counted.

        Args:
            item: the key; hashable, not None.

        Raises:
            InvalidTypeError: the key is not hashable, or None; nothing was added.

        Source:
            client-go util/workqueue/rate_limiting_queue.go, AddRateLimited.
        """
        self.add_after_nowait(item, self._delay_of(item))

    def forget(self, item: T) -> None:
        """Let a key's failures be over: it succeeded, or was given up. It stays if it waits."""
        self._rate_limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """Return how many failures of a key are remembered."""
        return self._rate_limiter.num_requeues(item)

    def _delay_of(self, item: T) -> float:
        if self._closed or item is None:
            return 0.0
        try:
            hash(item)
        except TypeError as error:
            raise unhashable(item, error) from error
        return self._rate_limiter.when(item, self._clock())

    def _failures(self) -> int:
        return remembered(self._rate_limiter)
