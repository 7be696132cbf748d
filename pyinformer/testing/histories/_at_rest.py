"""What has to hold at rest: every view equals the truth, and nothing is left behind."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from pyinformer.testing.histories._records import (
    FollowedRecord,
    Record,
    ResourcesRecord,
    RestedRecord,
    Version,
    WaitedRecord,
    WaitingRecord,
)
from pyinformer.testing.histories._truth import Point, ScopedTruth
from pyinformer.testing.histories._verdict import Rule

if TYPE_CHECKING:
    from pyinformer.testing.histories._verdict import Findings

_ROLES = frozenset({"cache", "handler"})
_CANNOT_FOLLOW: Final = frozenset({"waiting", "forbidden", "absent", "failed", "stopped"})
_POOLED_THREADS: Final = 32  # asyncio's executor has so many at most, and keeps them


@final
class Rest:
    """Judges every view of a reader against the truth, each object at the moment of the view.

    Args:
        scopes: the truth of each reader.
        findings: where violations go.
    """

    def __init__(self, scopes: Mapping[str, ScopedTruth], findings: Findings) -> None:
        self._scopes = scopes
        self._findings = findings
        self._rested: set[str] = set()
        self.last_at: float | None = None
        """When the last view was recorded; None if none was."""

    def rested(self, record: RestedRecord) -> None:
        """Judge one view."""
        self._rested.add(record.who)
        self.last_at = record.at_seconds
        scope = self._scopes[record.who]
        wanted = self._wanted(scope, record.at_seconds)
        for key, version in record.objects.items():
            self._check_shown(record, scope, key, version, wanted.get(key))
        if record.what.startswith("index:"):
            for key, why in record.wrong.items():
                self._report(Rule.WRONG_INDEX, why, record, scope, key)
        else:
            for key in wanted.keys() - record.objects.keys():
                text = f"{record.what} lacks version {wanted[key].revision}"
                self._report(Rule.MISSING, text, record, scope, key)
        self._check_position(record, scope)
        if wanted and record.state in _CANNOT_FOLLOW:
            key = next(iter(wanted))
            self._report(Rule.NOT_FOLLOWING, record.state, record, scope, key)

    @staticmethod
    def _wanted(scope: ScopedTruth, at_seconds: float) -> dict[str, Point]:
        last = ((key, line.point(line.at(at_seconds))) for key, line in scope.timelines())
        return {key: point for key, point in last if point is not None and point.is_there}

    def _check_shown(
        self,
        record: RestedRecord,
        scope: ScopedTruth,
        key: str,
        version: Version,
        wanted: Point | None,
    ) -> None:
        shown = f"{record.what} shows version {version.resource_version} of uid {version.uid}"
        if wanted is None:
            self._report(Rule.PHANTOM, shown, record, scope, key)
        elif not wanted.is_version(version):
            text = f"{shown}, not {wanted.revision} of {wanted.record.uid or 'an unknown uid'}"
            self._report(Rule.OUTDATED, text, record, scope, key)
        elif version.digest and wanted.record.digest not in {"", version.digest}:
            self._report(Rule.OTHER_CONTENT, shown, record, scope, key)

    def _check_position(self, record: RestedRecord, scope: ScopedTruth) -> None:
        if not record.position.isdecimal():
            return
        last = scope.last_change(record.at_seconds)
        if last is not None and int(record.position) < last.revision:
            text = f"position {record.position}, and the last change is revision {last.revision}"
            self._report(Rule.POSITION_NOT_ADVANCED, text, record, scope, last.record.key)

    def _report(
        self, rule: Rule, text: str, record: RestedRecord, scope: ScopedTruth, key: str
    ) -> None:
        timeline = scope.timeline(key)
        last = timeline.around(timeline.at(record.at_seconds))[:1]
        story: tuple[Record, ...] = (*last, _short(record, key))
        self._findings.report(
            rule, text, story, who=record.who, key=key, at_seconds=record.at_seconds
        )

    def finish(self, followed: Mapping[str, FollowedRecord]) -> None:
        """Judge that no reader was left out, once one of them was looked at."""
        if self.last_at is None:
            return
        for who, record in followed.items():
            if record.role in _ROLES and who not in self._rested:
                self._findings.report(
                    Rule.NEVER_RESTED, record.role, (record,), who=who, at_seconds=self.last_at
                )


def _short(record: RestedRecord, key: str) -> RestedRecord:
    """Return a view of one object."""
    return RestedRecord(
        at_seconds=record.at_seconds,
        who=record.who,
        what=record.what,
        objects={key: record.objects[key]} if key in record.objects else {},
        wrong={key: record.wrong[key]} if key in record.wrong else {},
        position=record.position,
        state=record.state,
    )


@final
class LeftBehind:
    """Judges that every wait ends, and that the program holds no more than at its baseline.

    Args:
        findings: where violations go.
        memory_bytes: by how much its memory may have grown.
    """

    def __init__(self, findings: Findings, *, memory_bytes: int) -> None:
        self._findings = findings
        self._memory_bytes = memory_bytes
        self._waiting: dict[int, WaitingRecord] = {}
        self._baseline: ResourcesRecord | None = None

    def waiting(self, record: WaitingRecord) -> None:
        """Take over that a wait begins."""
        self._waiting[record.number] = record

    def waited(self, record: WaitedRecord) -> None:
        """Take over that it ends."""
        self._waiting.pop(record.number, None)

    def resources(self, record: ResourcesRecord) -> None:
        """Judge what the program holds at rest."""
        base = self._baseline
        if record.when == "baseline":
            self._baseline = record
        if base is None or record.when == "baseline":
            return
        left = Counter(record.tasks) - Counter(base.tasks)
        if left:
            self._left(Rule.TASK_LEFT, ", ".join(sorted(left.elements())), record)
        if record.sockets > base.sockets:
            self._left(Rule.SOCKET_LEFT, f"{base.sockets} before, {record.sockets} now", record)
        files, before = record.descriptors - record.sockets, base.descriptors - base.sockets
        if files > before:
            self._left(Rule.DESCRIPTOR_LEFT, f"{before} before, {files} now", record)
        if record.threads > base.threads + _POOLED_THREADS:
            self._left(Rule.THREAD_LEFT, f"{base.threads} before, {record.threads} now", record)
        grown = record.rss_bytes - base.rss_bytes
        if grown > self._memory_bytes:
            self._left(Rule.MEMORY_LEFT, f"{grown / 2**20:.0f} MiB more than before", record)

    def _left(self, rule: Rule, text: str, record: ResourcesRecord) -> None:
        story = (self._baseline, record)
        self._findings.report(rule, text, story, at_seconds=record.at_seconds)

    def finish(self, at_seconds: float) -> None:
        """Judge the waits that have not ended."""
        for record in self._waiting.values():
            text = f"{record.name} has waited for {at_seconds - record.at_seconds:.1f} s"
            self._findings.report(Rule.WAIT_LEFT, text, (record,), at_seconds=at_seconds)
