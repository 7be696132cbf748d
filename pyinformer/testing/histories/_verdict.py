"""What the checker found: violations of named rules, each with the lines that show it."""

# Pure: it knows no event loop.

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

import msgspec

from pyinformer.testing.histories._records import Record


@final
class Rule(enum.StrEnum):
    """What a history has to keep; the value says how it was broken."""

    NO_TRUTH = "the history has no truth, so nothing can be judged"
    UNKNOWN_VERSION = "a version that never existed"
    NOT_SELECTED = "a version that the reader does not select"
    INVENTED_DELETION = "an object was reported as gone that still existed"
    ADDED_TWICE = "an add of an object that was added before"
    NOT_ADDED = "an update or a deletion before the add"
    OTHER_OLD_STATE = "an update from another state than the handler was called with before"
    UID_CHANGED = "an update that changes the uid"
    NOTHING_CHANGED = "an update without a change"
    WENT_BACK = "an older state than the reader showed before"
    EPOCH_INVENTED = "an epoch began, and the server's history was the same as before"
    STALE = "a change is missing that is older than the age that was claimed"
    BEHIND_POSITION = "a change is missing up to the position that was claimed"
    POSITION_WENT_BACK = "the position went back within an epoch"
    POSITION_NOT_ADVANCED = "the position at rest is older than the last change"
    MISSING = "an object is missing at rest"
    PHANTOM = "an object is shown at rest that does not exist"
    OUTDATED = "an object is shown at rest in an older version"
    OTHER_CONTENT = "an object is shown with another content than the store has"
    WRONG_INDEX = "an index does not return at rest what it has to"
    NOT_FOLLOWING = "a cache at rest says that it cannot follow what the store has"
    NEVER_RESTED = "a reader was not looked at when everything was at rest"
    UNREPORTED_LIE = "a reader showed what a lying server said, and never reported it"
    WAIT_LEFT = "a wait never ended"
    RECONCILE_LEFT = "a reconcile never ended"
    TASK_LEFT = "a task is left"
    SOCKET_LEFT = "a socket is left"
    DESCRIPTOR_LEFT = "a file or a pipe is left open"
    THREAD_LEFT = "more threads are left than a pool keeps"
    MEMORY_LEFT = "memory did not return to its baseline"
    RECONCILED_AT_ONCE = "a key was reconciled by two workers at once"
    FORGOTTEN = "the last state of an object was not reconciled"
    STATUS_NOT_STORED = "a write of a status succeeded, and the status is not stored"
    STATUS_LOST = "a write of a status undid another one that it had not read"


KNOWN_OF_CLIENT_GO: Final = frozenset({Rule.UID_CHANGED, Rule.NOTHING_CHANGED})
"""What client-go is known to do after a gap: an object that was recreated under the same name is an
update, and so is an object that a list shows unchanged."""

_NO_REPLAY: Final = "(the history names no command)"
_EXPECTED, _EXCUSED, _VIOLATED = "expected", "excused", "violated"
_STORIES: Final = 20  # of each rule: one that is broken at every step would fill the memory
_encode = msgspec.json.Encoder().encode


@final
@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, and the shortest part of the history that shows it."""

    rule: Rule
    at_seconds: float
    who: str
    key: str
    """Empty if it is about no object."""
    text: str
    story: tuple[Record, ...]
    replay: str
    """The command that runs it again."""

    def __str__(self) -> str:
        subject = " ".join(part for part in (self.who, self.key) if part)
        lines = [f"{self.at_seconds:.3f} s: {subject}: {self.rule}: {self.text}"]
        lines += [f"    {_encode(record).decode()}" for record in self.story]
        return "\n".join([*lines, f"    replay: {self.replay}"])


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check."""

    violations: tuple[Violation, ...] = ()
    """At most 20 of each rule, in order of time."""
    expected: tuple[Violation, ...] = ()
    """What the program is known to do."""
    excused: tuple[Violation, ...] = ()
    """What a reader showed while the server lied, and reported afterwards."""
    others: Mapping[str, int] = field(default_factory=dict)
    """How many were `expected` and how many `excused`, those beyond 20 of a rule included."""
    counts: Mapping[Rule, int] = field(default_factory=dict)
    """All violations by rule, those beyond 20 included."""
    records: Mapping[str, int] = field(default_factory=dict)
    """How many records of each kind were judged."""

    @property
    def holds(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    def __str__(self) -> str:
        judged = ", ".join(f"{count} {kind}" for kind, count in sorted(self.records.items()))
        found = ", ".join(f"{count} x {rule}" for rule, count in self.counts.items())
        others = ", ".join(f"{self.others.get(one, 0)} {one}" for one in (_EXPECTED, _EXCUSED))
        head = f"{sum(self.counts.values())} violations ({others}) in {judged}"
        return "\n".join([head, *([found] if found else []), *map(str, self.violations)])


@final
class Findings:
    """Collects violations while a history is judged.

    Args:
        programs: the program of each reader.
        expected: what programs are known to do.
        replay: the command that runs the history again.
    """

    def __init__(
        self,
        programs: Mapping[str, str],
        expected: Mapping[str, Iterable[Rule]],
        replay: str,
    ) -> None:
        self._programs = programs
        self._expected = {name: frozenset(rules) for name, rules in expected.items()}
        self._replay = replay or _NO_REPLAY
        self._counts: Counter[tuple[str, Rule]] = Counter()
        self._told: dict[str, list[Violation]] = defaultdict(list)

    def report(
        self,
        rule: Rule,
        text: str,
        story: Iterable[Record | None],
        *,
        who: str = "",
        key: str = "",
        at_seconds: float,
        is_excused: bool = False,
    ) -> None:
        """Add a violation; None in a story is left out."""
        told = sorted({id(one): one for one in story if one is not None}.values(), key=_time)
        found = Violation(rule, at_seconds, who, key, text, tuple(told), self._replay)
        if rule in self._expected.get(self._programs.get(who, ""), ()):
            kind = _EXPECTED
        else:
            kind = _EXCUSED if is_excused else _VIOLATED
        self._counts[kind, rule] += 1
        if self._counts[kind, rule] <= _STORIES:
            self._told[kind].append(found)

    def verdict(self, records: Mapping[str, int]) -> Verdict:
        """Return everything that was found."""
        kinds = (_VIOLATED, _EXPECTED, _EXCUSED)
        violations, known, excused = (tuple(sorted(self._told[kind], key=_time)) for kind in kinds)
        counts: dict[str, dict[Rule, int]] = {kind: {} for kind in kinds}
        for (kind, rule), count in self._counts.items():
            counts[kind][rule] = count
        return Verdict(
            violations,
            known,
            excused,
            counts=counts.pop(_VIOLATED),
            others={kind: sum(found.values()) for kind, found in counts.items()},
            records=dict(records),
        )


def _time(one: Record | Violation) -> float:
    return one.at_seconds
