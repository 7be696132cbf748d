"""Repeated anomalies of a server's answers, and how strong the reaction to each is.

The same anomaly again within ten minutes causes at most one relist, so a faulty server is never
listed in a loop. Time is passed in.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from typing import Final, final

_WINDOW_SECONDS: Final = 600.0
_EARLY_ENDS: Final = 3  # a server that is restarted or restored ends a watch once or twice
_EARLY_SECONDS: Final = 15.0
_REFUSED_WATCHES: Final = 3  # a server that starts or a gateway that is replaced refuses fewer


class Reaction(enum.Enum):
    """What the reflector does about a suspect stream."""

    AUDIT = "list the doubtful key, continue the watch, and compare the cache with the server once"
    RELIST = "list everything"
    VIOLATION = "the server breaks the order of resource versions even after a complete list"


@final
class SuspectStreams:
    """Counts the streams of one reflector that were out of order."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=8)
        self._relisted_at = float("-inf")

    def count(self, now: float) -> Reaction:
        """Count a suspect stream, and return the reaction."""
        self._at.append(now)
        if now - self._relisted_at < _WINDOW_SECONDS:
            return Reaction.VIOLATION
        recent = sum(now - at < _WINDOW_SECONDS for at in self._at)
        if recent < 2:  # noqa: PLR2004 - one may be a replay's edge, two are not
            return Reaction.AUDIT
        self._relisted_at = now
        return Reaction.RELIST


@final
class RefusedWatches:
    """Counts the watches in a row that were refused although a list was answered just before."""

    def __init__(self) -> None:
        self.is_polling: bool = False
        """Whether everything is listed again and again, until a watch is accepted."""
        self.is_still: bool = False
        """Whether that is so because watches are accepted and do not follow lists."""
        self._count = 0
        self._lists_work = False

    @property
    def are_many(self) -> bool:
        """Whether a list is better than another watch."""
        return self._count >= _REFUSED_WATCHES

    def listed(self) -> None:
        """Record that a list was answered; what is refused next is refused to watches alone."""
        self._lists_work = True

    def watched(self) -> None:
        """Record that a watch worked."""
        self._count = 0
        self._lists_work = False  # as far as is known when the next watch is refused

    def accepted(self) -> bool:
        """Record that a watch was accepted, and return whether lists are still polled."""
        self.is_polling = self.is_still
        return self.is_polling

    def refused(self) -> bool:
        """Count a refused watch, and return whether to list everything next, after a delay."""
        is_alone, self._lists_work = self._lists_work, False
        was_enough = self.are_many  # a gateway may accept each watch, and then reset it
        self._count += is_alone
        return self.is_polling or (is_alone and was_enough)


@final
class EarlyEnds:
    """Watches that end early again and again while the server's history is intact each time.

    A proxy may end each quiet watch after some seconds. Each of the first ends has the history
    proven at once; then one proof in 15 s serves all ends before it.
    """

    def __init__(self) -> None:
        self._intact = 0
        self._proven_at = -math.inf
        self._owed_at: float | None = None
        self._is_asked = False

    @property
    def due_at(self) -> float:
        """When the history has to be proven, also if the watch is still open; inf for never."""
        return math.inf if self._owed_at is None else self._proven_at + _EARLY_SECONDS

    def ended(self, now: float) -> float | None:
        """Record an early end.

        Returns:
            The instant whose history has to be proven before the next watch; None if it may wait.
        """
        if self._intact < _EARLY_ENDS:
            self._is_asked = True
            return now
        due = self.due(now)
        if self._owed_at is None:
            self._owed_at = now
        return due

    def due(self, now: float) -> float | None:
        """Return the instant of the first end that is not proven, if it is time; it is then."""
        if now < self.due_at:
            return None
        self._is_asked = True
        owed_at, self._owed_at = self._owed_at, None
        return owed_at

    def lasted(self) -> None:
        """Record a watch that was not ended early."""
        self._intact = 0

    def proven(self, now: float, *, is_intact: bool) -> None:
        """Record the outcome of a proof."""
        is_asked, self._is_asked = self._is_asked, False
        if not is_intact:
            self._intact, self._owed_at = 0, None
        elif is_asked:
            self._intact += 1
            self._proven_at = now


@final
class UnreadableFrames:
    """Counts unreadable frames: the same frame again causes a list, at most once per window."""

    def __init__(self) -> None:
        self._digest = b""
        self._relisted_at = float("-inf")

    def needs_relist(self, digest: bytes, now: float) -> bool:
        """Count a frame by its digest, and return whether to list everything."""
        again, self._digest = digest == self._digest, digest
        if not again or now - self._relisted_at < _WINDOW_SECONDS:
            return False
        self._relisted_at = now
        return True


@final
class MalformedVersions:
    """Counts resource versions that cannot be compared: one load may cure it, a second cannot."""

    def __init__(self) -> None:
        self._is_curing = False
        self._cured_at = float("-inf")

    def is_hopeless(self, now: float) -> bool:
        """Count an occurrence, and return whether a load did not help."""
        if self._is_curing or now - self._cured_at < _WINDOW_SECONDS:
            return True
        self._is_curing = True
        return False

    def loaded(self, now: float) -> None:
        """Record a complete load."""
        if self._is_curing:
            self._is_curing, self._cured_at = False, now
