"""The truth by object, as one reader may see it: the states in which it selects the object.

Where the log leaves open which state a reader means, such as that of an object that is absent now
and was absent before, the state is taken in which the reader is right.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias, final

from msgspec import Struct, structs

from pyinformer.objects import FieldSelector, LabelSelector
from pyinformer.testing.histories._records import RestoredRecord, TruthRecord, Version

if TYPE_CHECKING:
    from pyinformer.testing.histories._records import FollowedRecord

BEFORE_ALL: Final = -1
"""The index of the state before the first revision: the object is absent."""

_SILENCE_SECONDS: Final = 0.5  # writers of a storm write a hundred times a second

_EQUAL_REVISIONS: Final = "events"  # those that expire together are deleted in one revision

_Identity: TypeAlias = tuple[str, str]
"""A uid and a resource version."""


@final
class Point(Struct, frozen=True, gc=False):
    """One state of an object, as a reader selects it."""

    is_there: bool
    """Whether the object exists and is selected."""
    record: TruthRecord
    """The revision that made the state."""

    @property
    def at_seconds(self) -> float:
        """When the revision was seen."""
        return self.record.at_seconds

    @property
    def revision(self) -> int:
        """The revision of the store."""
        return self.record.revision

    def is_version(self, version: Version) -> bool:
        """Return whether a reader that shows a version shows this state."""
        same_uid = not self.record.uid or self.record.uid == version.uid
        return self.is_there and same_uid and str(self.revision) == version.resource_version


@final
class Timeline:
    """The states of one object in order, for one scope; the object is absent before the first."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points
        self._there: dict[_Identity, list[int]] = {}
        self._gone: dict[_Identity, list[int]] = {}
        for index, point in enumerate(points):
            found = self._there if point.is_there else self._gone
            found.setdefault((point.record.uid, str(point.revision)), []).append(index)

    def of(self, version: Version) -> list[int]:
        """Return the indexes at which the object was in this version, in order.

        There are several if the store was put back: it uses its revisions again.
        """
        return _found(self._there, version)

    def gone_by(self, version: Version) -> list[int]:
        """Return the indexes at which this very revision made the object absent, in order."""
        return _found(self._gone, version)

    def last_of(self, version: Version, until_seconds: float) -> int:
        """Return the last index up to a time at which the object was in this version.

        Returns:
            The first such index if the version came later; BEFORE_ALL if it never was.
        """
        indexes = self.of(version)
        before = [one for one in indexes if self.points[one].at_seconds <= until_seconds]
        return max(before, default=min(indexes, default=BEFORE_ALL))

    def first_absence(self, after: int, until_seconds: float, uid: str = "") -> int | None:
        """Return the first index from `after` on, up to a time, at which the object is absent.

        Args:
            after: the first index that counts.
            until_seconds: the last time that counts.
            uid: of the object, if it is known. A store that was put back has another object under
                the key at once, without an absence.
        """
        if after == BEFORE_ALL:
            return BEFORE_ALL
        points = self.points
        others = {"", uid}
        index = next(
            (
                i
                for i in range(after, len(points))
                if not points[i].is_there or (uid and points[i].record.uid not in others)
            ),
            None,
        )
        return None if index is None or points[index].at_seconds > until_seconds else index

    def last_absence(self, until_seconds: float) -> int:
        """Return the last index up to a time at which the object is absent."""
        index = self.at(until_seconds)
        while index > BEFORE_ALL and self.points[index].is_there:
            index -= 1
        return index

    def at(self, seconds: float) -> int:
        """Return the index of the state at a time."""
        return bisect_right(self.points, seconds, key=_time) - 1

    def point(self, index: int) -> Point | None:
        """Return the state at an index; None before the first, and behind the last."""
        return self.points[index] if 0 <= index < len(self.points) else None

    def around(self, index: int) -> list[TruthRecord]:
        """Return the revisions that made the state at an index, and the next one."""
        both = (self.point(index), self.point(index + 1))
        return [point.record for point in both if point is not None]


def _found(known: dict[_Identity, list[int]], version: Version) -> list[int]:
    found = known.get((version.uid, version.resource_version))
    return found or known.get(("", version.resource_version), [])


def _time(point: Point) -> float:
    return point.at_seconds


@final
class Truth:
    """All revisions of the store, by object; to be complete before a reader is judged."""

    def __init__(self) -> None:
        self.restored: list[float] = []
        """When the store turned out to have another history."""
        self._objects: dict[str, dict[str, list[TruthRecord]]] = {}
        self._silences: list[tuple[float, float]] = []
        self._heard_at = 0.0
        self._identities: set[tuple[str, str, str, str]] = set()
        self._relisted: set[tuple[str, str]] = set()
        self._to_come = 0
        self._restore: RestoredRecord | None = None

    def __bool__(self) -> bool:
        return bool(self._objects)

    def restore(self, record: RestoredRecord) -> None:
        """Take over another history, whose objects follow."""
        if self._objects:
            self.restored.append(record.at_seconds)
        self._restore, self._to_come = record, record.puts
        self._relisted.clear()
        self._end_restore()

    def add(self, record: TruthRecord) -> None:
        """Take over a revision."""
        if record.at_seconds - self._heard_at > _SILENCE_SECONDS:
            # What it is silent about may have been committed before the last that it named.
            begins_at = self._heard_at - _SILENCE_SECONDS
            self._silences.append((begins_at, record.at_seconds))
        self._heard_at = record.at_seconds
        known = self._objects.setdefault(record.resource, {}).setdefault(record.key, [])
        before = known[-1] if known else None
        if record.verb == "delete" and not record.uid and before is not None:
            record = structs.replace(record, uid=before.uid)
        is_same = before is not None and before.verb == record.verb == "put"
        is_same = is_same and before is not None and _identity(before) == _identity(record)
        if not is_same:
            known.append(record)
        self._identities.add((record.resource, record.key, *_identity(record)))
        if self._to_come:
            self._to_come -= 1
            self._relisted.add((record.resource, record.key))
            self._end_restore()

    def _end_restore(self) -> None:
        """Once everything that lives has been named: whatever else lived is gone."""
        restore = self._restore
        if self._to_come or restore is None:
            return
        self._restore = None
        for resource, objects in self._objects.items():
            for key, known in objects.items():
                if known[-1].verb == "put" and (resource, key) not in self._relisted:
                    known.append(
                        TruthRecord(
                            at_seconds=restore.at_seconds,
                            revision=restore.revision,
                            resource=resource,
                            key=key,
                            uid=known[-1].uid,
                            verb="delete",
                        )
                    )

    def restores_until(self, seconds: float) -> int:
        """Return how often the store had been put back at a time."""
        return bisect_right(self.restored, seconds)

    def recorded_by(self, seconds: float) -> float:
        """Return the time at which all is surely in the truth that was committed until a time.

        A store that is stopped has answered its last writes, and has not named them to the witness:
        within a silence of the truth, that is when the silence ends.
        """
        index = bisect_right(self._silences, (seconds, inf)) - 1
        return max(seconds, self._silences[index][1]) if index >= 0 else seconds

    def existed(self, resource: str, key: str, version: Version) -> bool:
        """Return whether an object was ever put in this version, or deleted by it."""
        place = (resource, key)
        return any(
            (*place, uid, version.resource_version) in self._identities for uid in (version.uid, "")
        )

    def keys(self, resource: str) -> Iterator[str]:
        """Yield the keys of all objects that ever existed."""
        return iter(self._objects.get(resource, ()))

    def of(self, resource: str, key: str) -> list[TruthRecord]:
        """Return the revisions of an object."""
        return self._objects.get(resource, {}).get(key, [])


def _identity(record: TruthRecord) -> _Identity:
    return record.uid, str(record.revision)


@final
class ScopedTruth:
    """The truth as one reader selects it.

    Args:
        truth: everything.
        followed: what the reader follows.
    """

    def __init__(self, truth: Truth, followed: FollowedRecord) -> None:
        self.truth = truth
        self.resource = followed.resource
        self.cache: str = followed.cache or followed.who
        """The cache that the reader reads, perhaps itself."""
        self.caches: int = len(followed.namespaces or ("all",))
        """How many caches it consists of: one for each namespace, or one for all of them."""
        self._namespaces = None if followed.namespaces is None else frozenset(followed.namespaces)
        self._labels = LabelSelector.parse(followed.label_selector)
        self._fields = FieldSelector.parse(followed.field_selector)
        self._timelines: dict[str, Timeline] = {}

    def timeline(self, key: str) -> Timeline:
        """Return the states of one object."""
        known = self._timelines.get(key)
        if known is None:
            known = self._timelines[key] = Timeline(list(self._points(key)))
        return known

    def lives(self, key: str) -> bool:
        """Return whether the reader selects the last state of an object."""
        points = self.timeline(key).points
        return bool(points) and points[-1].is_there

    def timelines(self) -> Iterator[tuple[str, Timeline]]:
        """Yield the states of every object that the reader ever selected, by key."""
        for key in self.truth.keys(self.resource):
            timeline = self.timeline(key)
            if timeline.points:
                yield key, timeline

    def latest(self) -> tuple[dict[str, Version], int]:
        """Return the versions that the reader has to show in the end, and its least position."""
        last = [(key, line.points[-1]) for key, line in self.timelines()]
        shown = {
            key: Version(point.record.uid, str(point.revision))
            for key, point in last
            if point.is_there
        }
        change = self.last_change(inf)
        return shown, 0 if change is None else change.revision

    def last_change(self, until_seconds: float) -> Point | None:
        """Return the change that the position has reached once nothing is outstanding.

        The position of several caches is that of the one furthest behind: each has reached the last
        change of its namespace, and says nothing of the others'.

        Args:
            until_seconds: later changes do not count.

        Returns:
            The change; None if there is none, or no single one.
        """
        if self.has_equal_revisions:
            return None
        restored = self.truth.restored
        since = restored[-1] if restored else 0.0  # revisions before that are of another history
        newest: dict[str, Point] = {}
        for key, line in self.timelines():
            point = line.point(line.at(until_seconds))
            if point is None or point.at_seconds < since:
                continue
            of = "" if self._namespaces is None else key.rpartition("/")[0]
            if of not in newest or newest[of].revision < point.revision:
                newest[of] = point
        if len(newest) < self.caches:
            return None
        return min(newest.values(), key=lambda point: point.revision)

    @property
    def has_equal_revisions(self) -> bool:
        """Whether one revision may change several objects, so that a position stays before it."""
        return self.resource == _EQUAL_REVISIONS

    def selects(self, record: TruthRecord) -> bool:
        """Return whether the reader selects the object in the state that a revision made."""
        namespace, _, name = record.key.rpartition("/")
        if self._namespaces is not None and namespace not in self._namespaces:
            return False
        known = {"metadata.name": name, "metadata.namespace": namespace, **record.fields}
        is_selected = self._fields.matches(lambda path: known.get(path, ""))
        return is_selected and self._labels.matches(record.labels)

    def _points(self, key: str) -> Iterator[Point]:
        is_there, uid = False, ""
        for record in self.truth.of(self.resource, key):
            was_there, is_there = is_there, record.verb == "put" and self.selects(record)
            if was_there and is_there and record.uid != uid:
                yield Point(False, record)  # a restore put another object in its place
            uid = record.uid
            if is_there or was_there:
                yield Point(is_there, record)
