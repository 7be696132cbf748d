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


@final
class BadFrames:
    """Lines that cannot be read: the same again is worth one list, now and then."""

    __slots__ = ("_digest", "_loaded_at")

    def __init__(self) -> None:
        self._digest = b""
        self._loaded_at = float("-inf")

    def asks_load(self, digest: bytes, now: float) -> bool:
        """Count a line by its digest, and return whether everything is to be loaded."""
        again, self._digest = digest == self._digest, digest
        if not again or now - self._loaded_at < _WINDOW_SECONDS:
            return False
        self._loaded_at = now
        return True


@final
class MalformedVersions:
    """Resource versions that do not compare: one load may cure it; if it does not, nothing will."""

    __slots__ = ("_cured_at", "_is_curing")

    def __init__(self) -> None:
        self._is_curing = False
        self._cured_at = float("-inf")

    def is_hopeless(self, now: float) -> bool:
        """Count an occurrence, and return whether a load has been no cure."""
        if self._is_curing or now - self._cured_at < _WINDOW_SECONDS:
            return True
        self._is_curing = True
        return False

    def loaded(self, now: float) -> None:
        """Take note of a complete load."""
        if self._is_curing:
            self._is_curing, self._cured_at = False, now
