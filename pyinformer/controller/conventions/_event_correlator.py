"""Decides which events are written, and when: series, a rate per object, and a bounded backlog.

Equal occurrences make one series. Its first and second are written at once, the others are counted
and written when the series ends, or half an hour later. Nothing here waits or raises; what is not
written is counted.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self, final

from pyinformer._runtime.tasks import TokenBucket
from pyinformer.controller.conventions._references import AnyObject, Reference
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import KubeObject

END_OF_SERIES_SECONDS: Final = 360.0  # silence after which upstream ends a series
_REFRESH_SECONDS: Final = 1800.0  # upstream's: an event of the server lives for an hour
_SHOWN: Final = 32
_MAX_NOTE: Final = 1024  # the server's limit: no more is kept
_MAX_SERIES: Final = 4096  # upstream's correlator has as many; its newer cache has no bound
_BURST: Final = 25  # new events for one object at once, as upstream's spam filter
_REFILL_SECONDS: Final = 300.0  # then one in five minutes


class EventOutcome(Enum):
    """The result of recording an occurrence."""

    QUEUED = "queued"
    AGGREGATED = "aggregated"
    RATE_LIMITED = "rate limited"
    OVERFLOWED = "overflowed"
    CLOSED = "closed"
    INVALID = "invalid"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One call of the recorder: what happened to an object."""

    regarding: Reference
    related: Reference | None
    type: str
    reason: str
    action: str
    note: str
    happened_at: float
    """Unix time in seconds."""

    @classmethod
    def of(
        cls,
        regarding: AnyObject,
        *,
        reason: str,
        note: str,
        event_type: str,
        action: str,
        related: AnyObject | None,
        happened_at: float,
    ) -> Self:
        """Return an occurrence; refuse what every server would refuse.

        Raises:
            InvalidArgumentError: a text is missing or invalid.
            InvalidTypeError: an argument is not text, or not an object.
        """
        about = Reference.of(regarding, "regarding")
        if not about.name:
            raise InvalidArgumentError("regarding", "has no name yet: create it first")
        for argument, text in (("reason", reason), ("note", note), ("action", action)):
            if not isinstance(text, str):
                raise InvalidTypeError(argument, f"must be text, not {type(text).__name__}")
        if not reason:
            raise InvalidArgumentError("reason", "must not be empty")
        if event_type not in ("Normal", "Warning"):
            shown = str(event_type)[:_SHOWN]
            raise InvalidArgumentError("type", f"must be Normal or Warning, got {shown!r}")
        return cls(
            regarding=about,
            related=None if related is None else Reference.of(related, "related"),
            type=event_type,
            reason=reason,
            action=action or reason,
            note=note[:_MAX_NOTE],
            happened_at=happened_at,
        )

    @property
    def series_key(self) -> Hashable:
        """The key of equal occurrences; their notes and resource versions may differ."""
        related = None if self.related is None else _identity(self.related)
        return (_identity(self.regarding), related, self.type, self.reason, self.action)


@final
@dataclass(slots=True, kw_only=True, eq=False)
class Series:
    """Equal occurrences, written as one event with a count."""

    first: Occurrence
    count: int = 1
    last_happened_at: float
    last_seen_at: float
    """Monotonic seconds."""
    written_count: int = 0
    written_at: float = 0.0
    is_queued: bool = True
    name: str = ""
    """The event's name, once it has one: a repeated attempt writes the same event."""
    stored: KubeObject[None] | None = None
    """The event as the server returned it."""


@final
@dataclass(slots=True)
class EventBook:
    """The open series, and those that wait to be written; for any thread.

    Args:
        max_waiting: how many series may wait to be written.
    """

    max_waiting: int
    counts: dict[EventOutcome, int] = field(default_factory=lambda: dict.fromkeys(EventOutcome, 0))
    is_closed: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _open: dict[Hashable, Series] = field(default_factory=dict)
    _waiting: deque[Series] = field(default_factory=deque)
    _waiting_of: Counter[str] = field(default_factory=Counter)
    """The number of waiting series by namespace; only namespaces with any."""
    _buckets: dict[Hashable, TokenBucket] = field(default_factory=dict)

    def observe(self, occurrence: Occurrence, now: float) -> EventOutcome:
        """Record an occurrence.

        Args:
            occurrence: what happened.
            now: monotonic seconds.
        """
        with self._lock:
            outcome = self._observe(occurrence, now)
            self.counts[outcome] += 1
            return outcome

    def count_invalid(self) -> None:
        """Count an invalid occurrence."""
        with self._lock:
            self.counts[EventOutcome.INVALID] += 1

    def take(self) -> Series | None:
        """Remove and return the series that has waited longest; None if none waits."""
        with self._lock:
            if not self._waiting:
                return None
            series = self._waiting.popleft()
            self._left(series)
            return series

    def sweep(self, now: float) -> None:
        """End silent series, and queue counts that the server does not have yet.

        Args:
            now: monotonic seconds.
        """
        with self._lock:
            for key, series in tuple(self._open.items()):
                has_ended = now - series.last_seen_at >= END_OF_SERIES_SECONDS
                is_stale = now - series.written_at >= _REFRESH_SECONDS
                fits = not (has_ended or is_stale) or self._settle(series)
                if has_ended and fits:
                    del self._open[key]
            for key, bucket in tuple(self._buckets.items()):
                if bucket.is_full(now):
                    del self._buckets[key]

    def close(self) -> None:
        """Refuse new occurrences, and queue all counts that the server does not have yet."""
        with self._lock:
            self.is_closed = True
            for series in self._open.values():
                self._settle(series, is_last=True)
            self._open.clear()

    def forget(self, series: Series) -> None:
        """End a series whose event cannot be written; the next occurrence begins another."""
        with self._lock:
            if self._open.get(series.first.series_key) is series:
                del self._open[series.first.series_key]

    @property
    def waiting(self) -> int:
        """The number of series that wait to be written."""
        return len(self._waiting)

    @property
    def open(self) -> int:
        """The number of series that may still grow."""
        return len(self._open)

    def _observe(self, occurrence: Occurrence, now: float) -> EventOutcome:
        if self.is_closed:
            return EventOutcome.CLOSED
        key = occurrence.series_key
        series = self._open.pop(key, None)
        if series is not None and now - series.last_seen_at < END_OF_SERIES_SECONDS:
            self._open[key] = series  # the newest is last
            series.count += 1
            series.last_happened_at = occurrence.happened_at
            series.last_seen_at = now
            is_second = series.count == 2  # noqa: PLR2004 - which makes it a series
            return (
                EventOutcome.QUEUED
                if is_second and self._settle(series)
                else EventOutcome.AGGREGATED
            )
        if series is not None and not self._settle(series):
            self._open[key] = series  # its last count is written first
            return EventOutcome.OVERFLOWED
        return self._begin(key, occurrence, now)

    def _begin(self, key: Hashable, occurrence: Occurrence, now: float) -> EventOutcome:
        namespace = occurrence.regarding.namespace
        if len(self._waiting) >= self.max_waiting and not self._has_made_room(namespace):
            return EventOutcome.OVERFLOWED
        bucket = self._bucket(_identity(occurrence.regarding))
        if bucket.reserve(now) > 0:
            bucket.give_back()
            return EventOutcome.RATE_LIMITED
        series = Series(first=occurrence, last_happened_at=occurrence.happened_at, last_seen_at=now)
        self._enqueue(series)
        self._open[key] = series
        if len(self._open) > _MAX_SERIES:
            self._settle(self._open.pop(next(iter(self._open))), is_last=True)
        return EventOutcome.QUEUED

    def _settle(self, series: Series, *, is_last: bool = False) -> bool:
        """Queue a series with unwritten counts; return whether nothing is left to queue."""
        if series.is_queued or series.written_count == series.count:
            return True
        if len(self._waiting) >= self.max_waiting and not is_last:
            return False
        self._enqueue(series)
        return True

    def _enqueue(self, series: Series) -> None:
        series.is_queued = True
        self._waiting.append(series)
        self._waiting_of[series.first.regarding.namespace] += 1

    def _left(self, series: Series) -> None:
        series.is_queued = False
        namespace = series.first.regarding.namespace
        self._waiting_of[namespace] -= 1
        if not self._waiting_of[namespace]:
            del self._waiting_of[namespace]

    def _has_made_room(self, namespace: str) -> bool:
        """Drop the newest event of the namespace with most waiting events, for one with fewer.

        Otherwise the objects of one tenant would keep out the events of all other tenants.
        """
        crowded = max(self._waiting_of, key=self._waiting_of.__getitem__)
        if self._waiting_of[crowded] <= self._waiting_of.get(namespace, 0) + 1:
            return False
        for series in reversed(self._waiting):
            if series.first.regarding.namespace == crowded and not series.written_count:
                self._waiting.remove(series)
                self._left(series)
                if self._open.get(series.first.series_key) is series:
                    del self._open[series.first.series_key]
                self.counts[EventOutcome.QUEUED] -= 1
                self.counts[EventOutcome.OVERFLOWED] += 1
                return True
        return False

    def _bucket(self, key: Hashable) -> TokenBucket:
        fresh = TokenBucket(per_second=1 / _REFILL_SECONDS, burst=_BURST)
        bucket = self._buckets.pop(key, fresh)
        self._buckets[key] = bucket
        if len(self._buckets) > _MAX_SERIES:
            del self._buckets[next(iter(self._buckets))]
        return bucket


def _identity(reference: Reference) -> tuple[str, ...]:
    return (
        reference.api_version,
        reference.kind,
        reference.namespace,
        reference.name,
        reference.uid,
    )
