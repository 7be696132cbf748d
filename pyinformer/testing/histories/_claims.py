"""What caches claim of themselves, beside the truth: their age and their position.

At an age of `a` seconds a cache has every change that is older than that; at a position `p` it has
every change up to revision `p`.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple, final

from pyinformer.testing.histories._records import ReadRecord, SampledRecord, Version
from pyinformer.testing.histories._truth import Point, ScopedTruth, Timeline
from pyinformer.testing.histories._verdict import Rule

if TYPE_CHECKING:
    from pyinformer.testing.histories._server_lies import ServerLies
    from pyinformer.testing.histories._verdict import Findings
    from pyinformer.testing.histories._version_order import Order


class _Next(NamedTuple):
    """The first change of an object that a cache does not have: when or at which revision."""

    due: tuple[int, float]
    """How often the store had been put back, and the revision; or 0, and the time."""
    key: str
    held: int
    """The index of the state that the cache has."""


@final
class _View:
    """One cache: what it holds, and what it misses first.

    Args:
        scope: the truth of the cache.
        tolerance_seconds: how much later than the cache the truth may have seen a revision, if the
            store was not stopped.
    """

    def __init__(self, scope: ScopedTruth, tolerance_seconds: float) -> None:
        self._scope = scope
        self._tolerance = tolerance_seconds
        self._held: dict[str, Version | None] = {}
        self._awaited: dict[str, int] = {}  # the state whose next change is in the heaps, by key
        self._by_time: list[_Next] = []
        self._by_revision: list[_Next] = []
        self._reported: set[tuple[str, int]] = set()
        self.last: SampledRecord | None = None

    def begin(self, now: float) -> None:
        """Take over that the cache is empty."""
        for key, _ in self._scope.timelines():
            self.hold(key, None, now)

    def hold(self, key: str, version: Version | None, now: float) -> None:
        """Take over which version the cache holds of an object; None if it is absent."""
        self._held[key] = version
        self._push(key, now)

    def _push(self, key: str, now: float) -> None:
        timeline = self._scope.timeline(key)
        index = self._index(key, timeline, now)
        following = timeline.point(index + 1)
        if self._awaited.get(key) == index:
            return
        self._awaited[key] = index
        if following is not None:
            self._look_at(key, index, following)

    def _look_at(self, key: str, index: int, point: Point) -> None:
        """Look at an object once more when a cache has to know of a change."""
        heappush(self._by_time, _Next((0, point.at_seconds), key, index))
        due = (self._scope.truth.restores_until(point.at_seconds), point.revision)
        heappush(self._by_revision, _Next(due, key, index))

    def _index(self, key: str, timeline: Timeline, now: float) -> int:
        held = self._held.get(key)
        until = self._scope.truth.recorded_by(now) + self._tolerance
        return timeline.last_absence(until) if held is None else timeline.last_of(held, until)

    def has_caught_up(self, now: float) -> bool:
        """Return whether the cache has by now each change that it was found to miss.

        Without a change of the cache, too: an object that it lacked may be deleted since.
        """
        return all(
            self._index(key, self._scope.timeline(key), now) != index
            for key, index in self._reported
        )

    def misses_before(self, cutoff: float, now: float) -> tuple[str, Point] | None:
        """Return a change that was seen before a time and is not in the cache; each once."""
        return self._first(self._by_time, (0, cutoff), now)

    def misses_up_to(self, revision: int, now: float) -> tuple[str, Point] | None:
        """Return a change up to a revision that is not in the cache; each once."""
        restores = self._scope.truth.restores_until(now)
        return self._first(self._by_revision, (restores, revision + 0.5), now)

    def _first(
        self, heap: list[_Next], limit: tuple[int, float], now: float
    ) -> tuple[str, Point] | None:
        while heap and heap[0].due < limit:
            entry = heappop(heap)
            if entry.held != self._awaited.get(entry.key):
                continue  # the cache holds another state by now
            timeline = self._scope.timeline(entry.key)
            index = self._index(entry.key, timeline, now)
            point = timeline.point(entry.held + 1)
            if index != entry.held:
                self._push(entry.key, now)  # what it holds is a later state of the same version
            elif point is not None and (entry.key, index) not in self._reported:
                self._reported.add((entry.key, index))
                gone = timeline.first_absence(index + 1, inf)
                if gone is not None:  # a cache without the object will be right by then
                    self._look_at(entry.key, index, timeline.points[gone])
                return entry.key, point
        return None

    def lacks(self, key: str, cutoff: float, now: float) -> Point | None:
        """Return the first change of one object that is missing, if it was seen before a time."""
        timeline = self._scope.timeline(key)
        following = timeline.point(self._index(key, timeline, now) + 1)
        is_due = following is not None and following.at_seconds < cutoff
        return following if is_due else None


@final
class Claims:
    """Judges what is claimed of caches.

    Args:
        scopes: the truth of each reader.
        order: judges the versions that they hold.
        lies: what is excused.
        findings: where violations go.
        tolerance_seconds: how much older a missing change may be than was claimed.
    """

    def __init__(
        self,
        scopes: Mapping[str, ScopedTruth],
        order: Order,
        lies: ServerLies,
        findings: Findings,
        *,
        tolerance_seconds: float,
    ) -> None:
        self._scopes = scopes
        self._order = order
        self._lies = lies
        self._findings = findings
        self._tolerance = tolerance_seconds
        self._views: dict[str, _View] = {}

    def sampled(self, record: SampledRecord) -> None:
        """Judge a cache, and what it claims."""
        view = self._views.get(record.who)
        if view is None:
            view = _View(self._scopes[record.who], self._tolerance)
            self._views[record.who] = view
            view.begin(record.at_seconds)
        self._take_over(view, record)
        self._check_age(view, record)
        self._check_position(view, record)
        if view.has_caught_up(record.at_seconds):
            before = record if view.last is None else view.last
            self._lies.end_by_itself(record.who, before.at_seconds)
        view.last = record

    def _take_over(self, view: _View, record: SampledRecord) -> None:
        who, epoch, now = record.who, record.epoch, record.at_seconds
        for key, version in record.changed.items():
            if version is None:
                self._order.show_absence(who, key, epoch=epoch, record=record)
                view.hold(key, None, now)
                continue
            if self._order.show(who, key, version, epoch=epoch, record=record):
                view.hold(key, version, now)

    def _check_age(self, view: _View, record: SampledRecord) -> None:
        if not record.ages:
            return
        name, age = min(record.ages.items(), key=lambda claim: claim[1])
        now = record.at_seconds
        while found := view.misses_before(now - age - self._tolerance, now):
            point = found[1]
            text = f"{name} {age:.1f} s, and {_change(point)} {now - point.at_seconds:.1f} s ago"
            self._report(Rule.STALE, text, record, view.last, found)

    def _check_position(self, view: _View, record: SampledRecord) -> None:
        if not record.position.isdecimal():
            return
        position, last = int(record.position), view.last
        is_same_epoch = last is not None and last.epoch == record.epoch
        before = last.position if last is not None and is_same_epoch else ""
        if before.isdecimal() and int(before) > position:
            self._report(Rule.POSITION_WENT_BACK, f"from {before} to {position}", record, last)
        if record.epoch < self._scopes[record.who].truth.restores_until(record.at_seconds):
            return  # the position is still one of the lost history
        while found := view.misses_up_to(position, record.at_seconds):
            point = found[1]
            text = f"position {position}, and {_change(point)}"
            self._report(Rule.BEHIND_POSITION, text, record, view.last, found)

    def read(self, record: ReadRecord, cache: str) -> None:
        """Judge a read that was promised to be young enough.

        Args:
            record: the read.
            cache: the cache that was read.
        """
        scope, now = self._scopes[record.who], record.at_seconds
        if record.max_age_seconds is None:
            return
        view = _View(scope, self._tolerance)
        if record.uid:
            view.hold(record.key, Version(record.uid, record.resource_version), now)
        point = view.lacks(record.key, now - record.max_age_seconds - self._tolerance, now)
        if point is not None:
            age = record.max_age_seconds
            text = f"at most {age:.1f} s, and {_change(point)} {now - point.at_seconds:.1f} s ago"
            excused = self._lies.excuses(cache or record.who, record, point)
            self._findings.report(
                Rule.STALE,
                text,
                (point.record, record),
                who=record.who,
                key=record.key,
                at_seconds=now,
                is_excused=excused,
            )

    def _report(
        self,
        rule: Rule,
        text: str,
        record: SampledRecord,
        last: SampledRecord | None,
        missing: tuple[str, Point] | None = None,
    ) -> None:
        revision = None if missing is None else missing[1].record
        story = (revision, _short(last), _short(record))
        self._findings.report(
            rule,
            text,
            story,
            who=record.who,
            key="" if missing is None else missing[0],
            at_seconds=record.at_seconds,
            is_excused=self._lies.excuses(record.who, record, missing and missing[1]),
        )

    def finish(self) -> None:
        """Judge what needs the whole history."""
        for who, key, record in self._lies.unreported():
            if key and not self._scopes[who].lives(key):
                continue  # it is gone by now: what was a lie has become true
            self._findings.report(
                Rule.UNREPORTED_LIE,
                "neither an audit with differences nor a new epoch follows",
                (_short(record) if isinstance(record, SampledRecord) else record,),
                who=who,
                key=key,
                at_seconds=record.at_seconds,
            )


def _change(point: Point) -> str:
    verb = "put" if point.is_there else "took away"
    return f"revision {point.revision} {verb} the object"


def _short(record: SampledRecord | None) -> SampledRecord | None:
    """Return a sample without the states of other objects."""
    if record is None:
        return None
    return SampledRecord(
        at_seconds=record.at_seconds,
        who=record.who,
        state=record.state,
        position=record.position,
        epoch=record.epoch,
        ages=record.ages,
    )
