"""Measure what the line costs: `python -m benchmarks.kopf_line --publish docs/benchmarks/kopf.md`.

Plain kopf and kopf with the line run by turns, each in a new process, at the same replay server;
who is first changes with each turn. A ratio is that of one turn; the table has the median of all
turns. Memory does not vary, and is weighed in the first turn only. Three turns take about six
minutes on an idle machine with two CPUs. No figure fails anything. It needs kopf:
`pip install -e '.[kopf]'`.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.harness.measure import ServerOptions, running_server
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.harness.processes import pick_cpus
from benchmarks.report.record import machine_now

_TIMEOUT_SECONDS = 900.0
_MICRO, _KILOBYTE, _THOUSAND = 1e6, 1e3, 1e3
_PAGE = """# kopf on pyinformer: what it costs

Plain kopf {kopf} beside kopf with [`pyinformer.kopf.install()`](../howto/kopf-on-pyinformer.md), by
turns: medians of {rounds} turns, who is first changes. A ratio or difference is formed inside a
turn. Times are CPU time of the operator's process. Operators are embedded, with an `@kopf.on.event`
handler, each in a process of its own, at a replay server on another CPU. A pod has 6.9 KB of JSON,
a Lease 0.6 KB. Memory is what Python's allocators hold when no event is being handled, in one turn;
of a pod it is that of 4,000 less that of 400, divided by 3,600.

| figure | plain kopf | with the line | ratio or difference | goal |
|---|---|---|---|---|
{rows}

{machine}, Python {python}, {date}: `python -m benchmarks.kopf_line`. "Keys" is with
`install(bodies=False)`; it is the default for resources without `on.event`, daemons and timers.
"""


@dataclass(frozen=True)
class Scene:
    """What is measured in one turn.

    Attributes:
        name: of the operator's scene.
        sides: which operators run.
        server: what the server holds.
        namespaces: in how many namespaces the operator watches; 0 is all of them at once.
        is_exact: one turn is enough.
    """

    name: str
    sides: tuple[str, ...]
    server: ServerOptions
    namespaces: int = 0
    is_exact: bool = False

    def turn(
        self, cpus: tuple[int | None, int | None], *, is_reversed: bool = False
    ) -> dict[str, Measurement]:
        """Run each side once, from the first to the last or the other way round."""
        sides = self.sides[::-1] if is_reversed else self.sides
        with running_server(msgspec.structs.replace(self.server, cpu=cpus[1])) as server:
            workload = server.workload
            if self.namespaces:
                workload = msgspec.structs.replace(
                    workload,
                    handlers=self.namespaces,
                    objects=self.namespaces * self.server.small,
                )
            return {side: _measure(self.name, side, workload, cpus[0]) for side in sides}


def scenes(scale: float) -> dict[str, Scene]:
    """Return all scenes; a scale below 1 makes them smaller."""

    def some(count: int) -> int:
        return max(2, int(count * scale))

    both, keys = ("plain", "line"), ("plain", "line", "keys")
    pods = ServerOptions(objects=some(2_000), updates=some(3_000))
    small = ServerOptions(objects=some(400), small=10)
    many = ServerOptions(objects=some(10_000), kind="leases")
    return {
        "events": Scene("events", both, pods),
        "namespaces": Scene("namespaces", both, small, namespaces=some(200)),
        "memory": Scene("memory", keys, ServerOptions(objects=some(4_000)), is_exact=True),
        "few": Scene("memory", keys, ServerOptions(objects=some(400)), is_exact=True),
        "unindexed": Scene("events", ("line",), many),
        "indexed": Scene("index", ("line",), many),
        "few indexed": Scene("index", both, ServerOptions(objects=some(1_000), kind="leases")),
    }


Turn = Mapping[str, Mapping[str, Measurement]]
Reading = Callable[[Measurement], float]


@dataclass(frozen=True)
class Figure:
    """A row of the table: a figure of two measurements, and how they compare."""

    what: str
    unit: str
    reading: Reading
    plain: tuple[str, str]
    ours: tuple[str, str]
    goal: str
    is_difference: bool = False
    less: str = ""
    """The scene with fewer objects, whose memory is not counted."""

    def row(self, turns: Sequence[Turn]) -> str:
        """Return the row of all turns."""
        pairs = [
            (self._read(turn, self.plain), self._read(turn, self.ours))
            for turn in turns
            if self.plain[0] in turn
        ]
        plain = statistics.median(pair[0] for pair in pairs)
        ours = statistics.median(pair[1] for pair in pairs)
        compared = statistics.median(map(self._compare, pairs))
        text = f"{compared:+.2f} {self.unit}" if self.is_difference else f"{compared:.2f}x"
        cells = (
            self.what,
            *(f"{_shown(each)} {self.unit}" for each in (plain, ours)),
            text,
            self.goal,
        )
        return f"| {' | '.join(cells)} |"

    def _read(self, turn: Turn, which: tuple[str, str]) -> float:
        scene, side = which
        found = turn[scene][side]
        return self.reading(_minus(found, turn[self.less][side]) if self.less else found)

    def _compare(self, pair: tuple[float, float]) -> float:
        plain, ours = pair
        return ours - plain if self.is_difference else ours / plain


def _shown(figure: float) -> str:
    """Return a figure with three digits, or with all digits before the point."""
    return f"{figure:,.0f}" if figure >= _THOUSAND else f"{figure:.3g}"


def _minus(many: Measurement, few: Measurement) -> Measurement:
    """Return what the further objects hold: the memory of the operator itself is in both."""
    held = many.extra["held_bytes"] - few.extra["held_bytes"]
    objects = many.objects - few.objects
    return msgspec.structs.replace(many, objects=objects, extra={"held_bytes": held})


def _wall(found: Measurement) -> float:
    return found.sync_wall_seconds or 0.0


def _start_cpu(found: Measurement) -> float:
    return found.sync_cpu_seconds or 0.0


def _event_cpu(found: Measurement) -> float:
    return (found.update_cpu_seconds or 0.0) / max(1, found.updates) * _MICRO


def _held(found: Measurement) -> float:
    return found.extra["held_bytes"] / found.objects / _KILOBYTE


_EVENTS = (("events", "plain"), ("events", "line"))
_SPREAD = (("namespaces", "plain"), ("namespaces", "line"))
_FEW = (("few indexed", "plain"), ("few indexed", "line"))
_INDEXED = (("unindexed", "line"), ("indexed", "line"))
_KEYS = (("memory", "plain"), ("memory", "keys"))
_BODIES = (("memory", "plain"), ("memory", "line"))
_FIGURES = (
    Figure("CPU per event, pods", "us", _event_cpu, *_EVENTS, "<= 1.1x"),
    Figure("start, 2,000 pods", "s", _start_cpu, *_EVENTS, "<= 1.1x"),
    Figure("start, 200 namespaces of 10 pods", "s", _start_cpu, *_SPREAD, "<= 1.5x"),
    Figure("start, 1,000 Leases with an index", "s", _start_cpu, *_FEW, ""),
    Figure(
        "start, 10,000 Leases, with the line: no index, index", "s", _start_cpu, *_INDEXED, "<= 2x"
    ),
    Figure(
        "memory per pod, keys", "KB", _held, *_KEYS, "<= 0.3 KB", is_difference=True, less="few"
    ),
    Figure(
        "memory per pod, bodies", "KB", _held, *_BODIES, "<= 2 KB", is_difference=True, less="few"
    ),
)


def _measure(scene: str, side: str, workload: Workload, cpu: int | None) -> Measurement:
    command = [sys.executable, "-m", "benchmarks.kopf_line.operator", f"--scene={scene}"]
    command += [f"--side={side}", "--workload", msgspec.json.encode(workload).decode()]
    command += [] if cpu is None else [f"--cpu={cpu}"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_SECONDS, check=True
    )
    found = msgspec.json.decode(done.stdout.splitlines()[-1], type=Measurement)
    wall, cpu_time = _wall(found), _start_cpu(found)
    sys.stderr.write(f"{scene}, {side}: start {wall:.2f} s, {cpu_time:.2f} s CPU\n")
    return found


def measure(*, rounds: int, scale: float) -> Iterator[Turn]:
    """Measure everything in each round, what is exact only in the first."""
    cpus = pick_cpus()
    for number in range(rounds):
        yield {
            name: scene.turn(cpus, is_reversed=number % 2 == 1)
            for name, scene in scenes(scale).items()
            if number == 0 or not scene.is_exact
        }


def main() -> None:
    """Measure, and print or publish the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="for a quick look: 0.01")
    parser.add_argument("--publish", type=Path)
    given = parser.parse_args()
    turns = list(measure(rounds=given.rounds, scale=given.scale))
    page = _PAGE.format(
        kopf=version("kopf"),
        rounds=given.rounds,
        rows="\n".join(figure.row(turns) for figure in _FIGURES),
        machine=machine_now()["cpu"],
        python=platform.python_version(),
        date=datetime.now(UTC).date(),
    )
    if given.publish:
        given.publish.write_text(page)
    sys.stdout.write(page)


if __name__ == "__main__":
    main()
