"""The checker: it judges a history by the log alone.

It reads the history twice. The first time it collects what the store did, what each reader follows
and when the server lied; the second time it judges each record.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing.histories._at_rest import LeftBehind, Rest
from pyinformer.testing.histories._claims import Claims
from pyinformer.testing.histories._controllers import Controllers
from pyinformer.testing.histories._epoch_causes import EpochCauses
from pyinformer.testing.histories._records import (
    AuditedRecord,
    FaultRecord,
    FollowedRecord,
    HandledRecord,
    ReadRecord,
    ReconciledRecord,
    ReconcilingRecord,
    Record,
    ResourcesRecord,
    RestedRecord,
    RestoredRecord,
    RunRecord,
    SampledRecord,
    TruthRecord,
    WaitedRecord,
    WaitingRecord,
    WroteRecord,
)
from pyinformer.testing.histories._server_lies import ServerLies
from pyinformer.testing.histories._truth import ScopedTruth, Truth
from pyinformer.testing.histories._verdict import (
    KNOWN_OF_CLIENT_GO,
    Findings,
    Rule,
    Verdict,
)
from pyinformer.testing.histories._version_order import Lives, Order

EXPECTED: Final[Mapping[str, Iterable[Rule]]] = {"client-go": KNOWN_OF_CLIENT_GO}
"""What programs are known to do, by the `program` of a FollowedRecord."""

_TOLERANCE_SECONDS: Final = 2.0
_MEMORY_BYTES: Final = 64 << 20  # what the interpreter keeps after a storm of some thousand objects


def check_history(
    history: Iterable[Record],
    *,
    expected: Mapping[str, Iterable[Rule]] = EXPECTED,
    tolerance_seconds: float = _TOLERANCE_SECONDS,
    memory_bytes: int | None = None,
) -> Verdict:
    """Judge a history: whether anything was lost, invented, stuck, or shown out of order.

    Args:
        history: a History, or a list of records; it is read twice.
        expected: rules that programs are known to break, by program.
        tolerance_seconds: how much older than the claimed age a missing change may be.
        memory_bytes: by how much the memory may have grown between baseline and rest; None for what
            the history says, or for 64 MiB.

    Returns:
        The violations, each with the records that show it and the command that replays it.

    Raises:
        InvalidArgumentError: it is an iterator, which can be read once; or a record names a reader
            that no FollowedRecord describes.
    """
    if iter(history) is history:
        raise InvalidArgumentError("history", "must be readable twice: pass a History or a list")
    facts = _Facts(tolerance_seconds)
    for record in history:
        facts.collect(record)
    if memory_bytes is None:
        memory_bytes = facts.memory_bytes or _MEMORY_BYTES
    checker = _Checker(
        facts, expected, tolerance_seconds=tolerance_seconds, memory_bytes=memory_bytes
    )
    for record in history:
        checker.judge(record)
    return checker.finish()


@final
class _Facts:
    """What has to be known of a history before it is judged."""

    def __init__(self, tolerance_seconds: float) -> None:
        self.truth = Truth()
        self.followed: dict[str, FollowedRecord] = {}
        self.lies = ServerLies(tolerance_seconds)
        self.replay = ""
        self.memory_bytes = 0
        self.end = 0.0
        self.epochs: dict[str, list[SampledRecord]] = defaultdict(list)
        """By cache: the samples that were the first of an epoch."""
        self._sampled: dict[str, SampledRecord] = {}

    def collect(self, record: Record) -> None:
        """Take over a record."""
        self.end = max(self.end, record.at_seconds)
        match record:
            case TruthRecord():
                self.truth.add(record)
            case RestoredRecord():
                self.truth.restore(record)
            case RunRecord(command=command, memory_bytes=memory_bytes):
                self.replay, self.memory_bytes = command, memory_bytes
            case FollowedRecord(who=who):
                self.followed[who] = record
            case _:
                self._collect_lies(record)

    def _collect_lies(self, record: Record) -> None:
        """Take over when the server lied, and when a reader reported that it was wrong."""
        match record:
            case SampledRecord(who=who, epoch=epoch):
                before = self._sampled.get(who, record)
                if epoch > before.epoch:
                    self.lies.report(who, before.at_seconds, record.at_seconds)
                    self.epochs[who].append(record)
                self._sampled[who] = record
            case AuditedRecord():
                self.lies.audit(record)
            case FaultRecord(is_lie=True, phase=phase, number=number):
                if phase != "healed":
                    self.lies.begin(number, record.at_seconds)
                if phase != "began":
                    self.lies.heal(number, record.at_seconds)


@final
class _Checker:
    """Hands each record to the rules that it concerns."""

    def __init__(
        self,
        facts: _Facts,
        expected: Mapping[str, Iterable[Rule]],
        *,
        tolerance_seconds: float,
        memory_bytes: int,
    ) -> None:
        self._facts = facts
        self._scopes = _Scopes(
            {who: ScopedTruth(facts.truth, one) for who, one in facts.followed.items()}
        )
        programs = {who: one.program for who, one in facts.followed.items()}
        self._findings = Findings(programs, expected, facts.replay)
        self._epochs = EpochCauses(
            self._scopes, facts.lies, self._findings, tolerance_seconds=tolerance_seconds
        )
        self._epochs.add_causes(facts.truth.restored, facts.epochs)
        self._order = Order(
            self._scopes,
            self._findings,
            facts.lies,
            self._epochs,
            tolerance_seconds=tolerance_seconds,
        )
        self._lives = Lives(self._order, self._findings)
        self._claims = Claims(
            self._scopes,
            self._order,
            facts.lies,
            self._findings,
            tolerance_seconds=tolerance_seconds,
        )
        self._rest = Rest(self._scopes, self._findings)
        self._left = LeftBehind(self._findings, memory_bytes=memory_bytes)
        self._controllers = Controllers(self._scopes, facts.truth, self._findings)
        self._records: Counter[str] = Counter()

    def judge(self, record: Record) -> None:  # noqa: C901 - one case for each kind
        """Judge one record."""
        self._records[str(type(record).__struct_config__.tag)] += 1
        match record:
            case HandledRecord():
                self._lives.handled(record)
            case SampledRecord(who=who, epoch=epoch):
                self._epochs.enter(who, epoch, record)
                self._claims.sampled(record)
            case ReadRecord():
                self._order.read(record)
                self._claims.read(record, self._facts.followed[record.who].cache)
            case RestedRecord():
                self._rest.rested(record)
            case WaitingRecord():
                self._left.waiting(record)
            case WaitedRecord():
                self._left.waited(record)
            case ResourcesRecord():
                self._left.resources(record)
            case ReconcilingRecord():
                self._controllers.reconciling(record)
            case ReconciledRecord():
                self._controllers.reconciled(record)
            case WroteRecord():
                self._controllers.wrote(record)
            case _:  # collected before
                pass

    def finish(self) -> Verdict:
        """Judge what needs the whole history, and return what was found."""
        facts = self._facts
        if facts.followed and not facts.truth:
            self._findings.report(Rule.NO_TRUTH, "", (), at_seconds=facts.end)
        self._claims.finish()
        self._rest.finish(facts.followed)
        self._left.finish(facts.end)
        self._controllers.finish(facts.followed, self._rest.last_at, facts.end)
        return self._findings.verdict(self._records)


class _Scopes(dict[str, ScopedTruth]):
    """The truth of each reader, by its name."""

    def __missing__(self, who: str) -> ScopedTruth:
        reason = f"a record names the reader {who!r}, which no FollowedRecord describes"
        raise InvalidArgumentError("history", reason)
