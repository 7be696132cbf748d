"""What to do about streams that contradict themselves: the more of them, the more is done.

What enters is each connection that ended in suspicion, and each complete list; what leaves is how
far to go: look again and audit, load everything, or say aloud that the server breaks the contract
and go on serving. Pure: the time is passed in.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final, final

_WINDOW_SECONDS: Final = 600.0


class Measure(enum.Enum):
    """How far to go."""

    AUDIT = "look again at what was doubtful, follow on, and compare everything once"
    LOAD = "load everything"
    VIOLATION = "the server breaks the order of resource versions even after a complete list"


@final
class Suspicions:
    """The suspect connections of one reflector."""

    __slots__ = ("_at", "_loaded_at")

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=8)
        self._loaded_at = float("-inf")

    def suspect(self, now: float) -> Measure:
        """Count a connection that ended in suspicion, and return what to do."""
        self._at.append(now)
        if now - self._loaded_at < _WINDOW_SECONDS:
            return Measure.VIOLATION
        recent = sum(now - at < _WINDOW_SECONDS for at in self._at)
        if recent < 2:  # noqa: PLR2004 - one may be a replay's edge, two are none
            return Measure.AUDIT
        self._loaded_at = now
        return Measure.LOAD
