"""Which epochs have a cause.

An epoch is what a program says: the server's history is another one than before, so that objects
may go back. That is so after a restore of the store. A server that lies makes it look so.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from pyinformer.testing.histories._records import Record, SampledRecord
from pyinformer.testing.histories._verdict import Rule

if TYPE_CHECKING:
    from pyinformer.testing.histories._server_lies import ServerLies
    from pyinformer.testing.histories._truth import ScopedTruth
    from pyinformer.testing.histories._verdict import Findings


@final
class EpochCauses:
    """Judges that each epoch of a cache has a cause of its own.

    A cache of several namespaces counts the epochs of all of them. What one cache takes for another
    history, others of the same connection believe.

    Args:
        scopes: the truth of each reader.
        lies: when the server lied.
        findings: where violations go.
        tolerance_seconds: how much later than a reader the truth may have seen a restore.
    """

    def __init__(
        self,
        scopes: Mapping[str, ScopedTruth],
        lies: ServerLies,
        findings: Findings,
        *,
        tolerance_seconds: float,
    ) -> None:
        self._scopes = scopes
        self._lies = lies
        self._findings = findings
        self._tolerance = tolerance_seconds
        self._causes: list[float] = []
        self._highest: dict[str, int] = {}
        self._entered: dict[str, list[float]] = defaultdict(list)
        self._invented: dict[str, set[int]] = defaultdict(set)

    def add_causes(self, restored: list[float], samples: Mapping[str, list[SampledRecord]]) -> None:
        """Take over when the store was put back, and which samples show another epoch."""
        deceived = (
            one.at_seconds
            for who, some in samples.items()
            for one in some
            if self._lies.may_deceive(who, one)
        )
        self._causes = [*restored, *deceived]

    def enter(self, who: str, epoch: int, record: Record) -> None:
        """Judge the epoch that a record of a reader names."""
        scope = self._scopes[who]
        cache = scope.cache
        highest = self._highest.setdefault(cache, 0)
        if epoch <= highest:
            return
        self._highest[cache] = epoch
        has_cause = self._lies.may_deceive(cache, record) or self._has_cause(scope, record)
        if not has_cause:
            self._invented[cache].update(range(highest + 1, epoch + 1))
            text = f"epoch {epoch}, and the store was not put back since epoch {highest}"
            self._findings.report(
                Rule.EPOCH_INVENTED, text, (record,), who=who, at_seconds=record.at_seconds
            )
        self._entered[cache].append(record.at_seconds)

    def _has_cause(self, scope: ScopedTruth, record: Record) -> bool:
        entered = self._entered[scope.cache]
        return any(
            cause <= record.at_seconds + self._tolerance
            and sum(at > cause - self._tolerance for at in entered) < scope.caches
            for cause in self._causes
        )

    def may_go_back(self, who: str, before: int, epoch: int) -> bool:
        """Return whether one of the epochs since another one has a cause."""
        invented = self._invented[self._scopes[who].cache]
        return any(one not in invented for one in range(before + 1, epoch + 1))
