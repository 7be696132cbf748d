"""When the server lied, what is excused therefore, and until when.

An excuse ends with the report of the lie, or with an audit after it.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.testing.histories._records import AuditedRecord, Record

if TYPE_CHECKING:
    from pyinformer.testing.histories._truth import Point

_Place: TypeAlias = tuple[str, str]
"""A reader, and a key."""

_UNKNOWN: Final = "inconclusive"


@final
class ServerLies:
    """When the server said what is not so, and when each reader reported it.

    Args:
        tolerance_seconds: how much later than a report the handlers of that cache may get what the
            lie had put into it.
    """

    def __init__(self, tolerance_seconds: float) -> None:
        self._tolerance_seconds = tolerance_seconds
        self._began: dict[int, float] = {}
        self._lies: list[tuple[float, float]] = []
        self._reports: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._audits: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._shown: dict[str, Record] = {}
        self._absent: set[_Place] = set()
        self._owed: dict[_Place, Record] = {}  # by cache: absences that outlived the lie

    def begin(self, number: int, at_seconds: float) -> None:
        """Record that a lie begins."""
        self._began[number] = at_seconds

    def heal(self, number: int, at_seconds: float) -> None:
        """Record that a lie ends."""
        self._lies.append((self._began.pop(number, 0.0), at_seconds))

    def report(self, who: str, since_seconds: float, at_seconds: float) -> None:
        """Record that a reader has reported that it was wrong, between two times."""
        self._reports[who].append((since_seconds, at_seconds))

    def audit(self, record: AuditedRecord) -> None:
        """Record that a reader was audited; one that could not be compared is not."""
        if record.differences:
            self.report(record.who, record.at_seconds, record.at_seconds)
        elif record.verdict != _UNKNOWN:
            ended = record.at_seconds
            self._audits[record.who].append((ended - record.seconds, ended))

    def excuses(self, who: str, record: Record, missing: Point | None = None) -> bool:
        """Return whether a reader may show a lie, which it then has to report.

        Args:
            who: the reader.
            record: what it shows.
            missing: the change that it does not show: of one after a lie the lie is not the reason.
        """
        is_excused = self.may_deceive(who, record, missing)
        if is_excused:
            self._shown.setdefault(who, record)
        return is_excused

    def end_by_itself(self, who: str, wrong_until_seconds: float) -> None:
        """Record that a cache has what it was found to miss.

        That leaves nothing to report, unless an audit had called it right while it was wrong.

        Args:
            who: the cache.
            wrong_until_seconds: when it was last seen without that.
        """
        shown = self._shown.get(who)
        if shown is None:
            return
        began, until = shown.at_seconds, wrong_until_seconds
        audits = self._audits.get(who, ())
        if not any(began <= first and last <= until for first, last in audits):
            del self._shown[who]

    def may_deceive(self, who: str, record: Record, missing: Point | None = None) -> bool:
        """Return whether a reader may be wrong at a record, since no report or audit followed.

        Args:
            who: the reader.
            record: what it shows.
            missing: the change that it does not show, as for `excuses`.
        """
        missed_at = -inf if missing is None else missing.at_seconds
        return any(
            began <= record.at_seconds <= self._ends_at(who, healed)
            for began, healed in self._all()
            if missed_at <= healed + self._tolerance_seconds
        )

    def excuses_absence(self, who: str, cache: str, key: str, record: Record) -> bool:
        """Return whether it may be a lie that a reader shows no object.

        The absence begins while the server lies. It is excused for as long as it lasts, which is
        until the lie is reported, or an audit follows. What ends before, such as by the next event
        of the object, leaves nothing to report.

        Args:
            who: the reader.
            cache: the cache that it reads, perhaps itself.
            key: of the object.
            record: what it shows.
        """
        at = record.at_seconds
        if any(began <= at <= healed + self._tolerance_seconds for began, healed in self._all()):
            self._absent.add((who, key))
            return True
        if self._absent.isdisjoint(((who, key), (cache, key))):
            return False
        healed = max(healed for began, healed in self._all() if began <= at)
        if at > self._ends_at(cache, healed):
            return False
        self._absent.add((who, key))
        if self._ends_at(cache, healed) == inf:
            self._owed.setdefault((cache, key), record)
        return True

    def shows(self, who: str, cache: str, key: str) -> None:
        """Record that a reader of a cache shows an object, which ends its absence."""
        self._absent.discard((who, key))
        self._owed.pop((cache, key), None)

    def _all(self) -> Iterable[tuple[float, float]]:
        yield from self._lies
        yield from ((began, inf) for began in self._began.values())

    def _ends_at(self, who: str, healed: float) -> float:
        """Return when what a lie has put into a cache is no longer excused; infinity for never.

        An audit that ends soon after the lie may have compared with the lie itself.
        """
        reports = (at for since, at in self._reports.get(who, ()) if since >= healed)
        begin = healed + self._tolerance_seconds
        audits = (at for _, at in self._audits.get(who, ()) if at > begin)
        return min((*reports, *audits), default=inf) + self._tolerance_seconds

    def unreported(self) -> Iterable[tuple[str, str, Record]]:
        """Yield the readers that showed a lie and never reported one after that.

        With the key of an object that has not been shown again since; empty for other lies.
        """
        for who, record in self._shown.items():
            if not any(at >= record.at_seconds for _, at in self._reports.get(who, ())):
                yield who, "", record
        yield from ((cache, key, record) for (cache, key), record in self._owed.items())
