"""What readers and handlers showed of each object: versions that existed, in their order."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, final

from msgspec import Struct

from pyinformer.testing.histories._records import HandledRecord, ReadRecord, Record, Version
from pyinformer.testing.histories._truth import BEFORE_ALL, ScopedTruth
from pyinformer.testing.histories._verdict import Rule

if TYPE_CHECKING:
    from pyinformer.testing.histories._epoch_causes import EpochCauses
    from pyinformer.testing.histories._server_lies import ServerLies
    from pyinformer.testing.histories._verdict import Findings

_Place: TypeAlias = tuple[str, str]
"""A reader, and a key."""


class _Shown(Struct, gc=False):
    """What a reader showed last of an object."""

    index: int
    number: int
    """The newest resource version so far in the epoch."""
    epoch: int
    record: Record


@final
class Order:
    """Judges that no reader shows what never was, or goes back within an epoch.

    Args:
        scopes: the truth of each reader.
        findings: where violations go.
        lies: when the server lied, so that an absence may be its lie.
        epochs: those in which a reader may go back.
        tolerance_seconds: how much later than a reader the truth may have seen a deletion.
    """

    def __init__(
        self,
        scopes: Mapping[str, ScopedTruth],
        findings: Findings,
        lies: ServerLies,
        epochs: EpochCauses,
        *,
        tolerance_seconds: float,
    ) -> None:
        self._scopes = scopes
        self._findings = findings
        self._lies = lies
        self._epochs = epochs
        self._tolerance = tolerance_seconds
        self._shown: dict[_Place, _Shown] = {}

    def show(self, who: str, key: str, version: Version, *, epoch: int, record: Record) -> bool:
        """Judge that a reader shows a version; return whether it ever existed for the reader."""
        scope, before = self._scopes[who], self._shown.get((who, key))
        self._lies.shows(who, scope.cache, key)
        self._epochs.enter(who, epoch, record)
        timeline = scope.timeline(key)
        indexes = timeline.of(version)
        if not indexes:
            existed = scope.truth.existed(scope.resource, key, version)
            rule = Rule.NOT_SELECTED if existed else Rule.UNKNOWN_VERSION
            self._report(rule, _text(version), (who, key), record, before)
            return False
        after, newest = self._since(who, before, epoch)
        index = next((one for one in indexes if one >= after), None)
        if before is not None and (index is None or version.number < newest):
            text = f"{_text(version)} after version {newest}"
            self._report(Rule.WENT_BACK, text, (who, key), record, before)
        index = indexes[-1] if index is None else index
        self._shown[who, key] = _Shown(index, max(newest, version.number), epoch, record)
        return True

    def show_absence(
        self, who: str, key: str, *, epoch: int, record: Record, by: Version | None = None
    ) -> None:
        """Judge that a reader shows that there is no object.

        Args:
            who: the reader.
            key: of the object.
            epoch: of the reader.
            record: which shows it.
            by: the version of the deletion, if it is known.
        """
        timeline, before = self._scopes[who].timeline(key), self._shown.get((who, key))
        self._epochs.enter(who, epoch, record)
        after, newest = self._since(who, before, epoch)
        # A list that finds a deletion names the version that was lost. A later restore may put that
        # in the place of another object, which is a point of the same revision.
        until = timeline.at(record.at_seconds + self._tolerance)
        exact = () if by is None else timeline.gone_by(by)
        index = next((one for one in exact if after <= one <= until), None)
        if index is None:
            # While a server lies, the absence may be its lie rather than a deletion: what was
            # shown before may be shown again.
            is_lie = self._lies.excuses_absence(who, self._scopes[who].cache, key, record)
            tolerance = 0.0 if is_lie else self._tolerance
            uid = "" if by is None else by.uid
            recorded_by = self._scopes[who].truth.recorded_by(record.at_seconds)
            found = timeline.first_absence(after, recorded_by + tolerance, uid)
            if found is None:
                text = "no revision had deleted it, or taken it out of the selection"
                self._report(
                    Rule.INVENTED_DELETION, text, (who, key), record, before, is_excused=is_lie
                )
            index = after if found is None or is_lie else found
        if by is not None and before is not None and before.epoch == epoch:
            newest = max(newest, by.number)  # the first deletion of an epoch names a lost version
        self._shown[who, key] = _Shown(index, newest, epoch, record)

    def _since(self, who: str, before: _Shown | None, epoch: int) -> tuple[int, int]:
        """Return the index and the version behind which a reader may not go."""
        if before is None or self._epochs.may_go_back(who, before.epoch, epoch):
            return BEFORE_ALL, 0
        return before.index, before.number

    def read(self, record: ReadRecord) -> None:
        """Judge a read of one key."""
        who, key = record.who, record.key
        if record.uid:
            version = Version(record.uid, record.resource_version)
            self.show(who, key, version, epoch=record.epoch, record=record)
        else:
            self.show_absence(who, key, epoch=record.epoch, record=record)

    def _report(
        self,
        rule: Rule,
        text: str,
        place: _Place,
        record: Record,
        before: _Shown | None,
        *,
        is_excused: bool = False,
    ) -> None:
        who, key = place
        timeline = self._scopes[who].timeline(key)
        told = timeline.around(BEFORE_ALL if before is None else before.index)
        story = (*told, None if before is None else before.record, record)
        self._findings.report(
            rule, text, story, who=who, key=key, at_seconds=record.at_seconds, is_excused=is_excused
        )


def _text(version: Version) -> str:
    return f"version {version.resource_version} of uid {version.uid}"


@final
class Lives:
    """Judges that each handler is called with `add (update)* delete` for each object.

    Args:
        order: judges the versions.
        findings: where violations go.
    """

    def __init__(self, order: Order, findings: Findings) -> None:
        self._order = order
        self._findings = findings
        self._known: dict[_Place, HandledRecord] = {}

    def handled(self, record: HandledRecord) -> None:
        """Judge one call of a handler."""
        place = (record.who, record.key)
        before = self._known.get(place)
        alive = None if before is None or before.event == "delete" else before
        version = Version(record.uid, record.resource_version)
        for rule, text in _violations(record, alive):
            self._findings.report(
                rule,
                text,
                (before, record),
                who=record.who,
                key=record.key,
                at_seconds=record.at_seconds,
            )
        self._known[place] = record
        if record.event == "delete":
            self._order.show_absence(*place, epoch=record.epoch, record=record, by=version)
        else:
            self._order.show(*place, version, epoch=record.epoch, record=record)


def _violations(record: HandledRecord, alive: HandledRecord | None) -> list[tuple[Rule, str]]:
    if record.event == "add":
        return [] if alive is None else [(Rule.ADDED_TWICE, f"it lives as uid {alive.uid}")]
    if alive is None:
        return [(Rule.NOT_ADDED, record.event)]
    found: list[tuple[Rule, str]] = []
    is_update = record.event == "update"
    old = (record.old_uid or alive.uid, record.old_version) if is_update else (record.uid, "")
    if old[0] != alive.uid or old[1] not in {"", alive.resource_version}:
        was = f"version {alive.resource_version} of uid {alive.uid}"
        found.append((Rule.OTHER_OLD_STATE, f"the handler knew {was}"))
    if is_update and record.uid != alive.uid:
        found.append((Rule.UID_CHANGED, f"from {alive.uid} to {record.uid}"))
    elif is_update and not record.is_resync and record.resource_version == alive.resource_version:
        found.append((Rule.NOTHING_CHANGED, f"version {record.resource_version} again"))
    return found
