"""How long a key waits before its next reconcile: a brake on hot loops.

It decides without a clock or an event loop, postpones reconciles and drops none. Its memory is
bounded by the keys of one window.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.controller.sources import Reason, RequestId

_MAX_COUNTED: Final = 65_536  # keys per window; beyond, the counts start over
_MAX_INPUTS: Final = 4_096  # of one key; beyond, the number does not matter
_MAX_CAUSES: Final = 16  # of one key: sources and events; `enqueue` takes any text
_OWN_REQUESTS: Final = frozenset({"requeue", "retry"})  # of the reconcile itself: not inputs


@final
class HotKey(NamedTuple):
    """A key that is reconciled too often: a hot loop."""

    request_id: RequestId
    starts: int
    """How often it was reconciled within the window."""
    inputs: int
    """How many different inputs caused that: source, object and version."""
    causes: tuple[tuple[str, int], ...]
    """Sources and events, and how often; the most frequent first."""


class _Repeats:
    """The starts of a key that started more than once; the reasons of the first are not known."""

    __slots__ = ("causes", "inputs", "starts")

    def __init__(self) -> None:
        self.starts = 1
        self.inputs: set[int] = set()
        self.causes: dict[tuple[str, str], int] = {}

    def count(self, reasons: Sequence[Reason]) -> None:
        """Count a start."""
        self.starts += 1
        for reason in reasons:
            if reason.event not in _OWN_REQUESTS and len(self.inputs) < _MAX_INPUTS:
                self.inputs.add(hash((reason.source, reason.key, reason.resource_version)))
            cause = reason.source, reason.event
            if cause in self.causes or len(self.causes) < _MAX_CAUSES:
                self.causes[cause] = self.causes.get(cause, 0) + 1

    def found(self, request_id: RequestId) -> HotKey:
        """Return what is known of the key."""
        counted = sorted(self.causes.items(), key=lambda item: -item[1])
        causes = tuple((" ".join(cause), count) for cause, count in counted)
        inputs = max(1, len(self.inputs))  # something caused the first start
        return HotKey(request_id, self.starts, inputs, causes)


@final
class HotLoops:
    """Finds the hot loops of one controller, and slows them.

    Most keys are only counted, in a dict that is discarded with each window. A hot key stays slowed
    until it starts less than half as often as it may.

    Args:
        limit: more starts than this within a window are a hot loop.
        window_seconds: how long a window is.
        delay_seconds: the least time between two starts of a hot key.
    """

    __slots__ = (
        "_cool_below",
        "_counts",
        "_delay_seconds",
        "_ends_at",
        "_found",
        "_hot",
        "_limit",
        "_window_seconds",
    )

    def __init__(self, *, limit: int, window_seconds: float, delay_seconds: float) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._delay_seconds = delay_seconds
        # A hot key that has used less than half of its starts has come to rest.
        allowed = window_seconds / delay_seconds if delay_seconds else self._limit
        self._cool_below = min(allowed, self._limit) / 2
        self._ends_at = -math.inf
        self._counts: dict[RequestId, _Repeats | None] = {}  # None for one start
        self._found: dict[RequestId, HotKey] = {}
        self._hot: dict[RequestId, float] = {}  # when each may start again

    def wait_seconds(self, request_id: RequestId, now: float) -> float:
        """Return how long the key has to wait before its next start; nearly always 0."""
        if not self._hot:
            return 0.0
        return max(0.0, self._hot.get(request_id, now) - now)

    def started(
        self, request_id: RequestId, now: float, reasons: Sequence[Reason] = ()
    ) -> HotKey | None:
        """Count a start.

        Args:
            request_id: what starts.
            now: monotonic seconds.
            reasons: why it starts.

        Returns:
            The key, if it has just become hot; None otherwise.
        """
        if now >= self._ends_at:
            self._roll(now)
        elif len(self._counts) >= _MAX_COUNTED:
            self._counts = {key: self._counts.get(key) for key in self._hot}
        counts = self._counts
        repeats = counts.get(request_id)
        if repeats is not None:
            repeats.count(reasons)
        elif request_id in counts:
            repeats = counts[request_id] = _Repeats()
            repeats.count(reasons)
        else:
            counts[request_id] = None
        if request_id in self._hot:
            self._hot[request_id] = now + self._delay_seconds
            return None
        if repeats is None or repeats.starts <= self._limit:
            return None
        self._hot[request_id] = now + self._delay_seconds
        found = self._found[request_id] = repeats.found(request_id)
        return found

    def hot(self, now: float) -> tuple[HotKey, ...]:
        """Return the keys that are slowed; from any thread."""
        is_stale = now >= self._ends_at + self._window_seconds  # no reconcile started for so long
        return () if is_stale else tuple(self._found.values())

    def _roll(self, now: float) -> None:
        for request_id in list(self._hot):
            # It could start again, but has not started for a whole delay since.
            is_idle = self._hot[request_id] + self._delay_seconds <= now
            if is_idle and self._starts_of(request_id) < self._cool_below:
                del self._hot[request_id]
                del self._found[request_id]
        self._counts = {}
        self._ends_at = now + self._window_seconds

    def _starts_of(self, request_id: RequestId) -> int:
        repeats = self._counts.get(request_id)
        return repeats.starts if repeats is not None else int(request_id in self._counts)
