"""Holds back what a storm of writes in vain is made of, and lets it go again: no loop, no clock.

What enters are requests of the storm's lane, those that start and those that end; what leaves is
which of them waits, which may try next and when, and at the end all that have waited. While it is
open one request per probe time tries whether the storm is over; a few in a row that do not write in
vain close it. A request that is held is never forgotten: it starts, or it is given back.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final

if TYPE_CHECKING:
    from pyinformer.sources._request import Request

BreakerState: TypeAlias = Literal["off", "closed", "open", "half-open"]
"""`half-open` while the last probe was good, and a few more have to be."""

_GOOD_PROBES: Final = 3  # in a row: one may be the odd key that is right


@final
class Probe(NamedTuple):
    """A held request whose turn it is to try."""

    request: Request
    priority: int
    after_seconds: float


@final
class StormBreaker:
    """The storm's lane of one controller.

    Args:
        is_enabled: else it never opens.
        probe_seconds: the time between two requests that may try.
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
        self.held: dict[Request, int] = {}
        """What is held, with its priority, in the order it came; always the same dict."""
        self._probe: Request | None = None  # the one that is in the queue; the others are not
        self._probe_at = 0.0
        self._tried_at = -math.inf
        self.held_total: int = 0
        """How many requests have been held, ever."""

    @property
    def state(self) -> BreakerState:
        """What it does."""
        if not self._is_enabled:
            return "off"
        if not self.is_open:
            return "closed"
        return "half-open" if self._good else "open"

    @property
    def aside(self) -> int:
        """How many of them are here only; the one that may try next is in the queue, too."""
        return len(self.held) - (self._probe in self.held)

    def open(self) -> bool:
        """Hold from now on; return whether it did not before."""
        self._good = 0
        if self.is_open or not self._is_enabled:
            return False
        self.is_open = True
        return True

    def close(self) -> None:
        """Hold no more; what is held is for `release` to give back."""
        self.is_open = False
        self._good = 0
        self._probe = None

    def holds(self, request: Request, priority: int, now: float) -> bool:
        """Decide about a request of the lane that could start; it is kept if it has to wait.

        Args:
            request: what was taken from the queue.
            priority: its priority there, which it gets back.
            now: monotonic.
        """
        if not self.is_open:
            return False
        if request == self._probe:
            if now >= self._probe_at:
                return False
            self._probe = None  # it came too early, and is not in the queue any more
        if request not in self.held:
            self.held[request] = priority
            self.held_total += 1
        return True

    def next_probe(self, now: float) -> Probe | None:
        """Return the request to be put into the queue for a try; None if one is there already."""
        if not self.is_open or self._probe is not None or not self.held:
            return None
        request, priority = next(iter(self.held.items()))
        self._probe = request
        self._probe_at = max(now, self._tried_at + self._probe_seconds)
        return Probe(request, priority, self._probe_at - now)

    def postponed(self, request: Request) -> None:
        """Take note that a request waits elsewhere: whoever is next in line may try meanwhile."""
        if request == self._probe:
            self._probe = None
        self.held.pop(request, None)

    def started(self, request: Request, now: float, *, is_storm: bool) -> None:
        """Take note that a request starts, as a try or for a reason of its own.

        Args:
            request: what starts.
            now: monotonic.
            is_storm: it belongs to the lane.
        """
        if request == self._probe:
            self._probe = None
        if self.held:
            self.held.pop(request, None)
        if is_storm:
            self._tried_at = now

    def ended(self, *, is_noop: bool) -> bool:
        """Take note of how a request of the lane ended; return whether that has closed it.

        Args:
            is_noop: it wrote, and nothing that changed anything; or it failed.
        """
        if not self.is_open:
            return False
        self._good = 0 if is_noop else self._good + 1
        if self._good < _GOOD_PROBES:
            return False
        self.close()
        return True

    def release(self, limit: int) -> list[tuple[Request, int]]:
        """Give back some of what was held, with the priorities, once it is closed."""
        if self.is_open or not self.held:
            return []
        given = list(islice(self.held.items(), limit))
        for request, _ in given:
            del self.held[request]
        return given
