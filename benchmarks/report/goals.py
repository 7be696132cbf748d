"""What the project wants to reach, and whether a record says that it did.

Enters: a record. Leaves: a verdict for each goal, in the order of the table.
Invariant: a goal names one row of one run; ratios are those that the run formed within its rounds.
No goal decides about success or failure of a program: they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report.record import Record
from benchmarks.report.rows import Row
from benchmarks.runs.figures import BARE, DICTS, JSON, OFFICIAL, OWN, PROTOBUF

_COMPACT = "pyinformer-compact"
_RAW = "pyinformer-raw"
_CPU = "CPU per update, ratio"


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table "To reach"; all of them are upper limits."""

    work: str
    slug: str
    """Of the paragraph in misses.md that explains why it was missed."""
    run: str
    measures: str
    peer: str
    limit: float
    target: str = ""
    """The limit, as people say it; empty for the number."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a record says about a goal."""

    goal: Goal
    row: Row | None
    """None if the record does not have it."""

    @property
    def is_met(self) -> bool | None:
        """Compare the median with the limit; None if there is none."""
        if self.row is None or self.row.median is None:
            return None
        return self.row.median <= self.goal.limit


def _updates(work: str, slug: str, run: str, limits: dict[str, tuple[float, str]]) -> list[Goal]:
    return [
        Goal(work, slug, run, _CPU, f"{OWN} / {other}", limit, target)
        for other, (limit, target) in limits.items()
    ]


GOALS: tuple[Goal, ...] = (
    *_updates(
        "watch update, metadata or projection handler (CPU)",
        "metadata-handler",
        "updates-metadata",
        {
            JSON: (1 / 25, "<= 1/25"),
            PROTOBUF: (1 / 3, "<= 1/3"),
            OFFICIAL: (1 / 35, "<= 1/35"),
            DICTS: (1 / 5, "<= 1/5"),
        },
    ),
    *_updates(
        "watch update, handler decodes the whole object privately (CPU)",
        "object-handler",
        "updates-object",
        {JSON: (1 / 8, "<= 1/8"), PROTOBUF: (0.9, ""), DICTS: (0.6, "")},
    ),
    *_updates(
        "watch update, view, two indexes, metadata handler (CPU)",
        "bare-loop",
        "updates-indexed",
        {BARE: (1.4, "")},
    ),
)


def judged(record: Record, goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """Look every goal up in the record."""
    rows = {
        (section.name, row.measures, row.peer): row
        for section in record.sections
        for row in section.rows
    }
    return [Verdict(goal, rows.get((goal.run, goal.measures, goal.peer))) for goal in goals]


@dataclass(frozen=True, slots=True)
class Panel:
    """One half of the plot that says it all."""

    title: str
    run: str
    measures: str
    peers: tuple[str, ...]


_SHOWN = (OWN, PROTOBUF, JSON, DICTS, OFFICIAL, "kopf-index")

OVERVIEW: tuple[Panel, ...] = (
    Panel("CPU per update, us", "updates-metadata", "CPU per update", (BARE, *_SHOWN)),
    Panel("Memory per object, bytes", "sync", "large sync: memory (RSS) per object", _SHOWN),
)
