"""A circuit breaker for storms of no-op writes: it holds requests that no change asks for.

While it is open, one held request per probe time starts as a probe; a few in a row without no-op
writes close the breaker. A held request is never lost: it starts, or it is released. The breaker
needs no clock and no event loop.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final

if TYPE_CHECKING:
    from pyinformer.controller.sources import RequestId

BreakerState: TypeAlias = Literal["off", "closed", "open", "half-open"]
"""`half-open` while the last probe was good, and more are needed to close it."""

_GOOD_PROBES: Final = 3  # in a row: one key may be an exception


@final
class Probe(NamedTuple):
    """A held request that starts to find out whether the storm is over."""

    request_id: RequestId
    priority: int
    after_seconds: float


@final
class NoopStormBreaker:
    """The breaker of one controller.

    Args:
        is_enabled: whether it ever opens.
        probe_seconds: the time between two probes.
    """

    __slots__ = (
        "_good",
        "_is_enabled",
        "_probe",
        "_probe_at",
        "_probe_seconds",
        "_tried_at",
        "held",
        "held_total",
        "is_open",
    )

    def __init__(self, *, is_enabled: bool, probe_seconds: float) -> None:
        self._is_enabled = is_enabled
        self._probe_seconds = probe_seconds
        self._good = 0
        self.is_open: bool = False
        """Whether requests are held."""
        self.held: dict[RequestId, int] = {}
        """The held requests with their priorities, oldest first; always the same dict."""
        self._probe: RequestId | None = None  # the only held request that is in the queue
        self._probe_at = 0.0
        self._tried_at = -math.inf
        self.held_total: int = 0
        """The number of requests that were held so far."""

    @property
    def state(self) -> BreakerState:
        """The state for the status page."""
        if not self._is_enabled:
            return "off"
        if not self.is_open:
            return "closed"
        return "half-open" if self._good else "open"

    @property
    def aside(self) -> int:
        """The number of held requests that are not in the queue; the next probe is."""
        return len(self.held) - (self._probe in self.held)

    def open(self) -> bool:
        """Open the breaker; return whether it was closed before."""
        self._good = 0
        if self.is_open or not self._is_enabled:
            return False
        self.is_open = True
        return True

    def close(self) -> None:
        """Close the breaker; `release` returns what is held."""
        self.is_open = False
        self._good = 0
        self._probe = None

    def holds(self, request_id: RequestId, priority: int, now: float) -> bool:
        """Return whether a request that may wait has to wait; it is held then.

        Args:
            request_id: what was taken from the queue.
            priority: its priority there, which it keeps.
            now: monotonic seconds.
        """
        if not self.is_open:
            return False
        if request_id == self._probe:
            if now >= self._probe_at:
                return False
            self._probe = None  # it came too early, and has left the queue
        if request_id not in self.held:
            self.held[request_id] = priority
            self.held_total += 1
        return True

    def next_probe(self, now: float) -> Probe | None:
        """Return the request to be put into the queue as a probe; None if one is there already."""
        if not self.is_open or self._probe is not None or not self.held:
            return None
        request_id, priority = next(iter(self.held.items()))
        self._probe = request_id
        self._probe_at = max(now, self._tried_at + self._probe_seconds)
        return Probe(request_id, priority, self._probe_at - now)

    def started(self, request_id: RequestId, now: float, *, may_wait: bool) -> None:
        """Record that a request starts, as a probe or for another reason.

        Args:
            request_id: what starts.
            now: monotonic seconds.
            may_wait: no change asks for it.
        """
        if request_id == self._probe:
            self._probe = None
        if self.held:
            self.held.pop(request_id, None)
        if may_wait:
            self._tried_at = now

    def forget(self, request_id: RequestId) -> None:
        """Forget a request that was held: another process has it."""
        if request_id == self._probe:
            self._probe = None
        self.held.pop(request_id, None)

    def ended(self, *, is_noop: bool) -> bool:
        """Record how a request that may wait ended; return whether that has closed the breaker.

        Args:
            is_noop: its writes changed nothing, or it failed.
        """
        if not self.is_open:
            return False
        self._good = 0 if is_noop else self._good + 1
        if self._good < _GOOD_PROBES:
            return False
        self.close()
        return True

    def release(self, limit: int) -> list[tuple[RequestId, int]]:
        """Return some of the held requests with their priorities, once the breaker is closed."""
        if self.is_open or not self.held:
            return []
        released = list(islice(self.held.items(), limit))
        for request_id, _ in released:
            del self.held[request_id]
        return released
