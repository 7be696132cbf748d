"""Notices keys that are reconciled again and again, and slows them: no loop, no clock.

What enters is each start of a reconcile, with its reasons; what leaves is how long a key has to
wait before its next, and of one that is found hot how often its inputs had changed meanwhile. Most
keys are only counted, in a dict that is thrown away with each window, so memory is bounded by the
keys of one window. A key that was found hot stays so while it would be, at its slower pace.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.sources._request import Reason, Request

_MAX_COUNTED: Final = 65_536  # keys per window; in a storm of more the count begins again earlier
_MAX_INPUTS: Final = 4_096  # of one key; beyond, nobody needs the number
_MAX_CAUSES: Final = 16  # of one key: sources and what they saw; `enqueue` may be given any words
_OWN_WISHES: Final = frozenset({"requeue", "retry"})  # reasons that are no input


@final
class HotKey(NamedTuple):
    """A key that was found hot."""

    request: Request
    starts: int
    """How often it was reconciled within the window."""
    inputs: int
    """How many different versions of objects had asked for that: source, object and version."""
    causes: tuple[tuple[str, int], ...]
    """Sources and what they saw, and how often; the most frequent first."""


class _Repeats:
    """The starts of a key that has started more than once; the first one's reasons are lost."""

    __slots__ = ("causes", "inputs", "starts")

    def __init__(self) -> None:
        self.starts = 1
        self.inputs: set[int] = set()
        self.causes: dict[str, int] = {}

    def note(self, reasons: Sequence[Reason]) -> None:
        """Count a start."""
        self.starts += 1
        for reason in reasons:
            if reason.event not in _OWN_WISHES and len(self.inputs) < _MAX_INPUTS:
                self.inputs.add(hash((reason.source, reason.key, reason.resource_version)))
            cause = f"{reason.source} {reason.event}"
            if cause in self.causes or len(self.causes) < _MAX_CAUSES:
                self.causes[cause] = self.causes.get(cause, 0) + 1

    def found(self, request: Request) -> HotKey:
        """Return what is known."""
        causes = sorted(self.causes.items(), key=lambda item: -item[1])
        inputs = max(1, len(self.inputs))  # something asked for the first start
        return HotKey(request, self.starts, inputs, tuple(causes))


@final
class HotLoops:
    """The keys of one controller.

    Args:
        limit: more starts than this within a window are a hot loop; 0 notices nothing.
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
        self._limit = limit or math.inf
        self._window_seconds = window_seconds
        self._delay_seconds = delay_seconds
        # A hot key that has used less than half of what it is allowed has come to rest.
        allowed = window_seconds / delay_seconds if delay_seconds else self._limit
        self._cool_below = min(allowed, self._limit) / 2
        self._ends_at = -math.inf
        self._counts: dict[Request, _Repeats | None] = {}  # None for one start
        self._found: dict[Request, HotKey] = {}
        self._hot: dict[Request, float] = {}  # when each may start again

    def wait_seconds(self, request: Request, now: float) -> float:
        """Return how long the key has to wait before its next start; nearly always 0."""
        if not self._hot:
            return 0.0
        return max(0.0, self._hot.get(request, now) - now)

    def started(
        self, request: Request, now: float, reasons: Sequence[Reason] = ()
    ) -> HotKey | None:
        """Count a start.

        Args:
            request: what starts.
            now: monotonic.
            reasons: why it does.

        Returns:
            What is known of the key, if it has been found hot just now.
        """
        if now >= self._ends_at:
            self._roll(now)
        elif len(self._counts) >= _MAX_COUNTED:
            self._counts = {key: self._counts.get(key) for key in self._hot}
        repeats = self._count(request, reasons)
        if request in self._hot:
            self._hot[request] = now + self._delay_seconds
            return None
        if repeats is None or repeats.starts <= self._limit:
            return None
        self._hot[request] = now + self._delay_seconds
        found = self._found[request] = repeats.found(request)
        return found

    def hot(self, now: float) -> tuple[HotKey, ...]:
        """Return the keys that are slowed; from any thread."""
        is_stale = now >= self._ends_at + self._window_seconds  # nothing has started for so long
        return () if is_stale else tuple(self._found.values())

    def _count(self, request: Request, reasons: Sequence[Reason]) -> _Repeats | None:
        counts = self._counts
        if request not in counts:
            counts[request] = None
            return None
        repeats = counts.get(request)
        if repeats is None:
            repeats = counts[request] = _Repeats()
        repeats.note(reasons)
        return repeats

    def _roll(self, now: float) -> None:
        for request in list(self._hot):
            rests_since = self._hot[request] + self._delay_seconds  # it did not start when it might
            if self._starts_of(request) < self._cool_below and rests_since <= now:
                del self._hot[request]
                del self._found[request]
        self._counts = {}
        self._ends_at = now + self._window_seconds

    def _starts_of(self, request: Request) -> int:
        repeats = self._counts.get(request)
        return repeats.starts if repeats is not None else int(request in self._counts)
