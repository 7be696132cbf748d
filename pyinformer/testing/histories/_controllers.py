"""What controllers did: no key by two workers at once, no last state forgotten, no status lost."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from pyinformer.testing.histories._records import (
    FollowedRecord,
    ReconciledRecord,
    ReconcilingRecord,
    Record,
    TruthRecord,
    Version,
    WroteRecord,
)
from pyinformer.testing.histories._truth import Point, ScopedTruth, Truth
from pyinformer.testing.histories._verdict import Rule

if TYPE_CHECKING:
    from pyinformer.testing.histories._verdict import Findings

_Place: TypeAlias = tuple[str, str]
"""A controller, and a key."""


class _Reconcile(Struct, gc=False):
    """One reconcile: its start, and how it ended."""

    began: ReconcilingRecord
    ended: ReconciledRecord | None = None


@final
class Controllers:
    """Judges the reconciles of each controller, and what they wrote.

    Args:
        scopes: the truth of each reader.
        truth: everything.
        findings: where violations go.
    """

    def __init__(self, scopes: Mapping[str, ScopedTruth], truth: Truth, findings: Findings) -> None:
        self._scopes = scopes
        self._truth = truth
        self._findings = findings
        self._running: dict[int, _Reconcile] = {}
        self._last: dict[_Place, _Reconcile] = {}
        self._saw_object: set[_Place] = set()

    def reconciling(self, record: ReconcilingRecord) -> None:
        """Judge that no other worker has the key."""
        place = (record.who, record.key)
        last = self._last.get(place)
        if last is not None and last.ended is None:
            self._report(Rule.RECONCILED_AT_ONCE, "", (last.began, record), record)
        self._running[record.number] = self._last[place] = _Reconcile(record)
        if record.uid:
            self._saw_object.add(place)

    def reconciled(self, record: ReconciledRecord) -> None:
        """Take over that a reconcile ended."""
        reconcile = self._running.pop(record.number, None)
        if reconcile is not None:
            reconcile.ended = record

    def wrote(self, record: WroteRecord) -> None:
        """Judge what a write of a status stored, and what it undid."""
        revisions = self._truth.of(record.resource, record.key)
        index = next((i for i, one in enumerate(revisions) if _is(one, record)), None)
        if index is None:
            text = f"the answer names version {record.resource_version}"
            self._report(Rule.UNKNOWN_VERSION, text, (*revisions[-1:], record), record)
            return
        stored = revisions[index]
        for name, wanted in record.status.items():
            if stored.status.get(name) != wanted:
                self._report(Rule.STATUS_NOT_STORED, name, (stored, record), record)
        self._check_undone(record, revisions[:index], stored)

    def _check_undone(
        self, record: WroteRecord, before: list[TruthRecord], stored: TruthRecord
    ) -> None:
        """Judge the fields that a version between the read and the write had changed."""
        read = next((one for one in before if str(one.revision) == record.based_on), None)
        if read is None or read is before[-1]:
            return
        latest = before[-1]
        for name in {*read.status, *latest.status, *stored.status} - record.status.keys():
            was, changed, now = (one.status.get(name) for one in (read, latest, stored))
            if now == was and changed != was:
                self._report(Rule.STATUS_LOST, name, (read, latest, stored, record), record)

    def _report(
        self,
        rule: Rule,
        text: str,
        story: tuple[Record, ...],
        record: ReconcilingRecord | WroteRecord,
    ) -> None:
        self._findings.report(
            rule, text, story, who=record.who, key=record.key, at_seconds=record.at_seconds
        )

    def finish(
        self, followed: Mapping[str, FollowedRecord], rested_at: float | None, end_seconds: float
    ) -> None:
        """Judge what needs the whole history.

        Args:
            followed: what each controller reconciles.
            rested_at: when everything was at rest; None if it never was.
            end_seconds: when the history ends.
        """
        for reconcile in self._running.values():
            began = reconcile.began
            text = f"it has run for {end_seconds - began.at_seconds:.1f} s"
            self._report(Rule.RECONCILE_LEFT, text, (began,), began)
        for who, record in followed.items():
            if record.role == "controller" and record.is_complete and rested_at is not None:
                self._check_forgotten(who, rested_at)

    def _check_forgotten(self, who: str, rested_at: float) -> None:
        for key, timeline in self._scopes[who].timelines():
            point, reconcile = timeline.point(timeline.at(rested_at)), self._last.get((who, key))
            text = self._forgotten(who, key, point, reconcile)
            if text and point is not None:
                began = None if reconcile is None else reconcile.began
                ended = None if reconcile is None else reconcile.ended
                self._findings.report(
                    Rule.FORGOTTEN,
                    text,
                    (point.record, began, ended),
                    who=who,
                    key=key,
                    at_seconds=rested_at,
                )

    def _forgotten(
        self, who: str, key: str, point: Point | None, reconcile: _Reconcile | None
    ) -> str:
        """Return what is wrong with the last reconcile of an object; empty if nothing is."""
        if point is None:
            return ""
        began = None if reconcile is None else reconcile.began
        if not point.is_there:
            is_owed = (who, key) in self._saw_object and began is not None and began.uid
            return "its end was not reconciled" if is_owed else ""
        if reconcile is None or began is None:
            return "it was never reconciled"
        if not point.is_version(Version(began.uid, began.resource_version)):
            return f"the last reconcile got version {began.resource_version or 'none'}"
        how = reconcile.ended.how if reconcile.ended is not None else "running"
        return "" if how == "done" else f"the last reconcile ended so: {how}"


def _is(one: TruthRecord, record: WroteRecord) -> bool:
    same_uid = not one.uid or one.uid == record.uid
    return one.verb == "put" and same_uid and str(one.revision) == record.resource_version
