"""As of when a cache holds what the server has, and when that has to be proven again.

A load is as of its first request, and a round trip as of its own once the position has reached the
version that it names. What arrives on a watch moves the position and proves nothing else: it may
have been on its way for minutes, or be the last that comes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, final

from pyinformer.objects import older, resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.reflector.lineage import RoundTrip

PERIOD_SECONDS: Final = 15.0
"""The usual time between two round trips of a storage while a reader asks for ages."""

UNREAD_PERIOD_SECONDS: Final = 30.0
"""The same while no reader does: a watch that stands still has to be noticed in any case."""

DOUBT_SECONDS: Final = 35.0
"""At this age a quiet watch may be compared with a list, in turn with others of its connection:
bookmarks come once a minute, and a watch that stands still has to be noticed before that."""

_PERIODS_IN_AGE: Final = 4  # a reader of a limit gets several round trips within it
_DOUBT_SHARE: Final = 0.5
_LEAST_SECONDS: Final = 1.0
_WANTED_SECONDS: Final = 60.0  # a reader of a limit reads again within that, or is forgotten
_READ_SECONDS: Final = 150.0  # metrics are collected once a minute, sometimes missed once
_MOST_PENDING: Final = 16
_REFUSED_SECONDS: Final = 5.0  # a server that has just started refuses what it will allow


@final
class AgeProof:
    """Knows as of when the cache of one reflector is what the server has; read from any thread."""

    def __init__(self) -> None:
        self.is_blind: bool = False
        """Round trips prove nothing here, since no list of one object is ever answered."""
        self.refused_at: float | None = None
        """When the server last answered a list of one object with an error."""
        self._was_answered = False
        self._refused_since: float | None = None  # None since a list was answered
        self.on_wanted: Callable[[], object] = lambda: None
        """Called, in the reader's thread, when a round trip is wanted sooner than planned."""
        self.has_stalled: bool = False
        """A second watch had what the first has not delivered, and none has delivered since."""
        self._as_of: float | None = None
        self._pending: tuple[RoundTrip, ...] = ()
        self._wanted_seconds = math.inf
        self._wanted_until = -math.inf
        self.asked_at: float = -math.inf
        """When a proof was asked for at once."""
        self.still_at: float = -math.inf
        """When the watch was last found not to follow what lists show."""
        self.tried_at: float = -math.inf
        """When the latest attempt at a proof that has ended was begun."""
        self.shares_nothing: bool = False
        """Lists of other resources show nothing, since this one is in another storage."""
        self._read_at = -math.inf

    def list_refused(self, now: float, *, is_final: bool) -> None:
        """Record that a list of one object was refused.

        Where one was answered before, rights may return: until then the age grows.

        Args:
            now: the time.
            is_final: the server knows no such lists.
        """
        self._refused_since = now if self._refused_since is None else self._refused_since
        lasts = now - self._refused_since >= _REFUSED_SECONDS
        self.is_blind = self.is_blind or is_final or (lasts and not self._was_answered)

    def list_answered(self) -> None:
        """Record that a list of one object was answered."""
        self.is_blind, self._was_answered, self._refused_since = False, True, None

    def as_of(self, position: str) -> float | None:
        """Return the instant whose state, or a later one, is cached; None if none is known.

        Args:
            position: the version up to which every change is cached.
        """
        latest = self._as_of
        for trip in self._pending:
            if reaches(position, trip.version) and (latest is None or trip.sent_at > latest):
                latest = trip.sent_at
        return latest

    def loaded(self, sent_at: float | None) -> None:
        """Record a complete load; None if the server could answer it with any old state."""
        self._as_of, self._pending = sent_at, ()
        self.shares_nothing = False

    def expect(self, trip: RoundTrip, position: str) -> None:
        """Record a round trip: it counts once the position has reached its version."""
        pending = []
        for one in self._pending:
            if not reaches(position, one.version):
                if one is not trip:
                    pending.append(one)
            elif self._as_of is None or one.sent_at > self._as_of:
                self._as_of = one.sent_at
        if len(pending) >= _MOST_PENDING:
            pending = pending[::2]
        self._pending = (*pending, trip)

    def proven(self, trip: RoundTrip) -> None:
        """Record that nothing has changed between the position and the version of a round trip."""
        if self._as_of is None or trip.sent_at > self._as_of:
            self._as_of = trip.sent_at

    def misses(self, position: str, at: float) -> bool:
        """Return whether the version of a round trip that was sent before is not reached."""
        return any(one.sent_at < at and not reaches(position, one.version) for one in self._pending)

    def read(self, now: float) -> None:
        """Renew the age often, since a reader asks for it; from any thread."""
        before, self._read_at = self._read_at, now
        if now - before >= _READ_SECONDS:
            self.on_wanted()

    def is_read(self, now: float) -> bool:
        """Return whether a reader has asked for the age lately."""
        return now - self._read_at < _READ_SECONDS

    def want(self, age_seconds: float, now: float) -> None:
        """Keep the age below a limit for a minute, as far as the server allows; from any thread."""
        if age_seconds >= DOUBT_SECONDS:
            return
        is_over = now >= self._wanted_until
        is_stricter = age_seconds < self._wanted_seconds
        if is_over or is_stricter:
            self._wanted_seconds = age_seconds
        if is_over or is_stricter or self._wanted_until - now < _WANTED_SECONDS / 2:
            self._wanted_until = now + _WANTED_SECONDS
        if is_over or is_stricter:
            self.on_wanted()

    def ask(self, now: float) -> None:
        """Have it proven at once that what is cached is what the server has at this instant."""
        self.asked_at = now
        self.on_wanted()

    def is_asked(self, position: str) -> bool:
        """Return whether a proof of a later instant than the latest one was asked for."""
        as_of = self.as_of(position)
        return self.asked_at > (-math.inf if as_of is None else as_of)

    def period_seconds(self, now: float) -> float:
        """Return the time between two round trips."""
        if now >= self._wanted_until:
            return PERIOD_SECONDS if self.is_read(now) else UNREAD_PERIOD_SECONDS
        wanted = max(_LEAST_SECONDS, self._wanted_seconds / _PERIODS_IN_AGE)
        return min(PERIOD_SECONDS, wanted)

    def doubt_seconds(self, now: float) -> float:
        """Return the age at which a quiet watch is compared with a list."""
        if now >= self._wanted_until:
            return DOUBT_SECONDS
        return min(DOUBT_SECONDS, max(_LEAST_SECONDS, self._wanted_seconds * _DOUBT_SHARE))


def reaches(position: str, version: str) -> bool:
    """Return whether a position is at a version, or behind it in time."""
    return resource_version_is_well_formed(position) and not older(position, version)
