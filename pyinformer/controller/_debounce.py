"""Debounce: a request waits until no other has come for its object for some time.

Only the moments are kept here; the queue holds the requests. A request with a time of its own, a
retry or a requeue, is not delayed.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller.sources import RequestId

_MOST_PERIODS: Final = 10  # an object that always changes costs a tenth of the reconciles, not none


@final
class Debounce:
    """When the waiting requests of one controller may start.

    Args:
        seconds: how long no other request may have come for the same object.
        clock: the loop's time; from any thread.

    Source:
        kube-rs kube-runtime scheduler.rs, debounce; which has no bound.
    """

    __slots__ = ("_clock", "_moments", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds: float = seconds
        """How long the queue holds a request before it is taken and `wait_seconds` is read."""
        self._clock = clock
        # By request: when it is quiet, and when it starts although it is not. Infinity: never.
        self._moments: dict[RequestId, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Count the requests that are debounced; from any thread."""
        return sum(quiet_at < math.inf for quiet_at, _ in tuple(self._moments.values()))

    def requested(self, request_id: RequestId) -> None:
        """Record a request that comes now; from any thread."""
        now = self._clock()
        quiet_at, latest_at = self._moments.get(request_id, (math.inf, math.inf))
        if quiet_at == math.inf:
            latest_at = min(latest_at, now + _MOST_PERIODS * self.seconds)
        self._moments[request_id] = now + self.seconds, latest_at

    def requested_after(self, request_id: RequestId, seconds: float) -> None:
        """Record a request with a time of its own, at which it starts; from any thread."""
        quiet_at, latest_at = self._moments.get(request_id, (math.inf, math.inf))
        self._moments[request_id] = quiet_at, min(latest_at, self._clock() + seconds)

    def wait_seconds(self, request_id: RequestId, now: float) -> float:
        """Return how long a request that was taken from the queue has to wait; 0 to start.

        Args:
            request_id: the request.
            now: the loop's time.
        """
        quiet_at, latest_at = self._moments.get(request_id, (math.inf, math.inf))
        return 0.0 if quiet_at == math.inf else max(0.0, min(quiet_at, latest_at) - now)

    def forget(self, request_id: RequestId) -> None:
        """Forget a request that starts, or that another process has."""
        self._moments.pop(request_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._moments.clear()
