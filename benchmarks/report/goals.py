"""The goals of the project, and whether a record reaches them.

A goal names one row of one run; ratios are those that the run formed within its rounds. No goal
decides about success or failure of a program: they are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.report.record import Record
from benchmarks.report.rows import Row, Spec
from benchmarks.runs.children import CHILDREN, CHILDREN_PEER, UNCHANGED
from benchmarks.runs.figures import (
    BARE,
    DICTS,
    JSON,
    OFFICIAL,
    OWN,
    PROTOBUF,
    cpu_per_update,
    rss_per_object,
)
from benchmarks.runs.lone_event import (
    CONTROLLER,
    CONTROLLER_RUNTIME,
    FOUR,
    LONE_EVENT,
    METADATA,
    RECONCILE,
    SIXTEEN,
)
from benchmarks.runs.metrics import METRICS, PROMETHEUS
from benchmarks.runs.real_server import REST
from benchmarks.runs.recording import RECORDED, RECORDING
from benchmarks.runs.webhooks import HOOKED_START, HOOKED_WRITE, IN_SERVER, LARGE, WEBHOOKS

_COMPACT = "pyinformer-compact"
_RAW = "pyinformer-raw"
_CPU = "CPU per update, ratio"
_LONE = "CPU per lone event, ratio"
_MANY, _MILLION = 100_000, 1_000_000


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
    objects: int = 0
    """How many objects the goal speaks of, where that is what is hard about it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a record says about a goal."""

    goal: Goal
    row: Row | None
    """None if the record does not have it."""
    objects: float | int | str = 0
    """How many objects it was measured with."""
    is_elsewhere: bool = False
    """Whether it was measured on another machine than most of the record."""

    @property
    def is_of_another_size(self) -> bool:
        """Say whether the goal speaks of more objects, or fewer, than were measured."""
        return self.row is not None and self.goal.objects not in {0, self.objects}

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


def _sync(work: str, slug: str, limits: dict[str, tuple[float, str]]) -> list[Goal]:
    wall = "initial sync: wall time, ratio"
    return [
        Goal(work, slug, "sync", wall, f"{OWN} / {other}", limit, target, _MANY)
        for other, (limit, target) in limits.items()
    ]


def _goals(
    work: str, slug: str, run: str, measures: str, limits: dict[str, float], *, objects: int = 0
) -> list[Goal]:
    return [
        Goal(work, slug, run, measures, peer, limit, objects=objects)
        for peer, limit in limits.items()
    ]


GOALS: tuple[Goal, ...] = (
    *_goals(
        "a lone update at a real kube-apiserver over TLS (CPU)",
        "lone-event",
        LONE_EVENT.name,
        _LONE,
        {f"{OWN} / {PROTOBUF}": 0.52},
    ),
    *_goals(
        "the same with memory=metadata",
        "metadata-mode",
        LONE_EVENT.name,
        _LONE,
        {f"{METADATA} / {OWN}": 0.9},
    ),
    *_goals(
        "the same with further handlers",
        "further-handlers",
        LONE_EVENT.name,
        _LONE,
        {f"{FOUR} / {OWN}": 1.02, f"{SIXTEEN} / {OWN}": 1.15},
    ),
    *_goals(
        "a lone reconcile at a real kube-apiserver over TLS (CPU)",
        "reconcile",
        RECONCILE.name,
        _LONE,
        {f"{CONTROLLER} / {CONTROLLER_RUNTIME}": 0.8},
    ),
    *_goals(
        "start of 40 informers at a real kube-apiserver",
        "start-40",
        REST.name,
        "start: CPU until all have synced, ratio",
        {f"{OWN} / {PROTOBUF}": 1.5},
    ),
    *_goals(
        "start of 40 informers at a real kube-apiserver",
        "start-40",
        REST.name,
        "start: wall time until all have synced, ratio",
        {f"{OWN} / {PROTOBUF}": 1.5},
    ),
    *_goals(
        "40 informers at rest: CPU, ms per second",
        "rest",
        REST.name,
        "CPU at rest",
        {OWN: 0.2},
    ),
    *_goals(
        "40 informers at rest: wake-ups per second",
        "rest",
        REST.name,
        "wake-ups at rest",
        {OWN: 0.5},
    ),
    *_updates(
        "watch update, metadata or projection handler (CPU)",
        "metadata-handler",
        "updates-metadata",
        {
            JSON: (1 / 27, "<= 1/27"),
            PROTOBUF: (0.28, ""),
            OFFICIAL: (1 / 35, "<= 1/35"),
            DICTS: (0.17, ""),
        },
    ),
    *_updates(
        "watch update, handler decodes the whole object privately (CPU)",
        "object-handler",
        "updates-object",
        {JSON: (1 / 8, "<= 1/8"), PROTOBUF: (0.9, ""), DICTS: (0.6, "")},
    ),
    *_updates(
        "watch update, view, two indexes, metadata handler, beside the bare loop (CPU)",
        "bare-loop",
        "updates-indexed",
        {BARE: (1.4, "")},
    ),
    *_sync(
        "initial sync of 100,000 pods (wall time), client-go by its faster way",
        "initial-sync",
        {JSON: (1 / 10, "<= 1/10"), PROTOBUF: (1 / 3, "<= 1/3")},
    ),
    *_goals(
        "peak memory of that, beside client-go's lowest",
        "peak-memory",
        "sync",
        "initial sync: peak memory of the process, ratio",
        {f"{_RAW} / client-go": 0.5, f"{OWN} / client-go": 0.36},
        objects=_MANY,
    ),
    *_goals(
        "memory of an object over its JSON",
        "memory-per-object",
        "sync",
        "initial sync: memory per object over its JSON",
        {_RAW: 1.25, OWN: 0.9, _COMPACT: 0.4},
        objects=_MANY,
    ),
    *_goals(
        "1,000,000 pods, 6.5 GB of JSON: peak memory",
        "million-memory",
        "sync-million",
        "initial sync: peak memory of the process",
        {OWN: 6_500, _COMPACT: 3_200},
        objects=_MILLION,
    ),
    *_goals(
        "initial sync of 100,000 pods: longest block of the event loop, ms",
        "initial-sync",
        "sync",
        "initial sync: longest block of the event loop",
        {OWN: 15},
        objects=_MANY,
    ),
    *_goals(
        "latency at 400 updates/s, p50",
        "latency",
        "latency-400",
        "latency at 400 updates/s, p50, ratio",
        {f"{OWN} / {JSON}": 0.4},
    ),
    *_goals(
        "relist of 100,000 pods that did not change: handler calls",
        "relist",
        "relist",
        "relist, nothing changed: handler calls",
        {OWN: 0},
        objects=_MANY,
    ),
    *_goals(
        "relist of 100,000 pods that did not change: extra peak memory over the cache's",
        "relist",
        "relist",
        "relist, nothing changed: extra peak memory over the cache's",
        {OWN: 0.1},
        objects=_MANY,
    ),
    *_goals(
        "reconcile of an object with ten unchanged children (CPU)",
        "children",
        CHILDREN.name,
        UNCHANGED,
        {CHILDREN_PEER: 1.5},
    ),
    *_goals(
        "workqueue with PrometheusMetrics, beside one without (CPU)",
        "metrics",
        METRICS.name,
        "CPU per cycle of a queue, ratio",
        {f"{PROMETHEUS} / {OWN}": 2.0},
    ),
    *_goals(
        "reconcile: microseconds more with PrometheusMetrics (CPU)",
        "metrics",
        METRICS.name,
        "CPU per reconcile, more than without metrics",
        {PROMETHEUS: 3.0},
    ),
    *_goals(
        "scrape: longest wait of the event loop",
        "scrape",
        METRICS.name,
        "scrape: longest wait of the event loop",
        {PROMETHEUS: 2.0},
    ),
    *_goals(
        "watch update while everything is recorded (CPU)",
        "recording",
        RECORDING.name,
        _CPU,
        {f"{RECORDED} / {OWN}": 1.3},
    ),
    *_goals(
        "list(selector) over 10,000 pods, a quarter matches",
        "selector",
        "reads",
        "list(selector), a quarter matches, ratio",
        {f"{OWN} / {JSON}": 0.7},
    ),
    *_goals(
        "list(selector) over 10,000 pods, few match",
        "selector",
        "reads",
        "list(selector), few match, ratio",
        {f"{OWN} / {JSON}": 0.7},
    ),
    *_updates(
        "watch update at a real kube-apiserver over TLS (CPU)",
        "real-server",
        "real-server",
        {PROTOBUF: (0.8, ""), JSON: (0.4, "")},
    ),
    *_updates(
        "many watch updates there, so that Go's collector runs meanwhile (CPU)",
        "real-server",
        "real-server-updates",
        {PROTOBUF: (0.68, ""), JSON: (0.4, "")},
    ),
    *_updates(
        "the same with the client on all CPUs (CPU)",
        "real-server",
        "real-server-unpinned",
        {PROTOBUF: (0.8, "")},
    ),
    *_goals(
        "initial sync at a real kube-apiserver over TLS (CPU)",
        "real-server",
        "real-server",
        "initial sync: CPU per object, ratio",
        {f"{OWN} / {PROTOBUF}": 0.8},
    ),
    *_goals(
        "peak memory of that",
        "real-server",
        "real-server",
        "peak memory of the process, ratio",
        {f"{OWN} / {PROTOBUF}": 0.35},
    ),
    *(
        Goal(work, "webhooks", WEBHOOKS.name, measures, OWN, limit)
        for work, measures, limit in (
            *(
                (f"webhooks at 200 reviews/s: {hook}, ms in the server", f"{row}, {which}", limit)
                for hook, row in IN_SERVER.items()
                for which, limit in (("p50", 0.4), ("p99", 3.0))
            ),
            *(
                (f"webhooks: peak memory of 16 reviews of 2 MB at once: {hook}", row, 3.0)
                for hook, row in LARGE.items()
            ),
            ("webhooks: a write at a real kube-apiserver that asks two", HOOKED_WRITE, 1.6),
            *(("webhooks: start of an operator", row, 1.1) for row in HOOKED_START.values()),
        )
    ),
)


def judged(record: Record, goals: Sequence[Goal] = GOALS) -> list[Verdict]:
    """Look every goal up in the record."""
    rows = {
        (section.name, row.measures, row.peer): row
        for section in record.sections
        for row in section.rows
    }
    objects = {section.name: section.workload.get("objects", 0) for section in record.sections}
    elsewhere = {section.name for section in record.sections if section.machine}
    return [
        Verdict(
            goal,
            rows.get((goal.run, goal.measures, goal.peer)),
            objects.get(goal.run, 0),
            is_elsewhere=goal.run in elsewhere,
        )
        for goal in goals
    ]


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of the plot that says it all."""

    title: str
    spec: Spec
    peers: tuple[tuple[str, str], ...]
    """Each as the run that measures it, and its name there."""


LABELS = {
    BARE: "bare loop on aiohttp",
    PROTOBUF: "client-go, protobuf",
    JSON: "client-go, JSON",
    f"{PROTOBUF} list": "client-go, protobuf",
    f"{JSON} list": "client-go, JSON",
    DICTS: "kubernetes-asyncio, dicts",
    OFFICIAL: "kubernetes (official)",
    "kopf-index": "kopf, @kopf.index",
}
"""The names of the peers in the overview, for readers who know no other page."""

_SHOWN = tuple(("updates-metadata", peer) for peer in (OWN, PROTOBUF, DICTS, JSON, OFFICIAL))

OVERVIEW: tuple[Panel, ...] = (
    Panel(
        "CPU per watch update, us",
        Spec("CPU per update", "us", cpu_per_update, {}),
        (("updates-metadata", BARE), *_SHOWN, ("updates-frameworks", "kopf-index")),
    ),
    Panel(
        "The same at a real kube-apiserver over TLS, us",
        Spec("CPU per update", "us", cpu_per_update, {}),
        tuple(("real-server-updates", peer) for peer in (OWN, PROTOBUF, DICTS, JSON)),
    ),
    # Not kopf's: it is measured with too few objects to weigh one.
    Panel(
        "Memory per cached pod, bytes",
        Spec("memory", "bytes", rss_per_object, {}),
        _SHOWN,
    ),
)
