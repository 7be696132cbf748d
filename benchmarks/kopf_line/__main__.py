"""Measure what the line costs: `python -m benchmarks.kopf_line --publish docs/benchmarks/kopf.md`.

Plain kopf and kopf with the line run by turns, each in a new process, at the same replay server. A
ratio is that of one turn; the table has the median of all turns. No figure fails anything. It needs
kopf: `pip install -e '.[kopf]'`.
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
_MICRO, _KILOBYTE = 1e6, 1e3
_PAGE = """# kopf on pyinformer: what it costs

Plain kopf {kopf} beside kopf with `pyinformer.kopf.install()`, by turns: medians of {rounds} turns.
A ratio or difference is formed inside a turn. Operators are embedded, with an `@kopf.on.event`
handler, each in a process of its own, at a replay server on another CPU. A pod has 6.9 KB of JSON,
a Lease 0.6 KB. Memory is what Python's allocators hold when no event is being handled.

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
    """

    name: str
    sides: tuple[str, ...]
    server: ServerOptions
    namespaces: int = 0

    def turn(self, cpus: tuple[int | None, int | None]) -> dict[str, Measurement]:
        """Run each side once."""
        with running_server(msgspec.structs.replace(self.server, cpu=cpus[1])) as server:
            workload = server.workload
            if self.namespaces:
                workload = msgspec.structs.replace(
                    workload,
                    handlers=self.namespaces,
                    objects=self.namespaces * self.server.small,
                )
            return {side: _measure(self.name, side, workload, cpus[0]) for side in self.sides}


def scenes(scale: float) -> dict[str, Scene]:
    """Return all scenes; a scale below 1 makes them smaller."""

    def some(count: int) -> int:
        return max(2, int(count * scale))

    both, keys = ("plain", "line"), ("plain", "line", "keys")
    pods = ServerOptions(objects=some(2_000), updates=some(6_000))
    small = ServerOptions(objects=some(400), small=10)
    many = ServerOptions(objects=some(10_000), kind="leases")
    return {
        "events": Scene("events", both, pods),
        "namespaces": Scene("namespaces", both, small, namespaces=some(200)),
        "memory": Scene("memory", keys, ServerOptions(objects=some(5_000))),
        "unindexed": Scene("events", both, many),
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

    def row(self, turns: Sequence[Turn]) -> str:
        """Return the row of all turns."""
        pairs = [(self._read(turn, self.plain), self._read(turn, self.ours)) for turn in turns]
        plain = statistics.median(pair[0] for pair in pairs)
        ours = statistics.median(pair[1] for pair in pairs)
        compared = statistics.median(map(self._compare, pairs))
        text = f"+{compared:.2f} {self.unit}" if self.is_difference else f"{compared:.2f}x"
        cells = (self.what, f"{plain:.3g} {self.unit}", f"{ours:.3g} {self.unit}", text, self.goal)
        return f"| {' | '.join(cells)} |"

    def _read(self, turn: Turn, which: tuple[str, str]) -> float:
        scene, side = which
        return self.reading(turn[scene][side])

    def _compare(self, pair: tuple[float, float]) -> float:
        plain, ours = pair
        return ours - plain if self.is_difference else ours / plain


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
    Figure("start, 2,000 pods", "s", _wall, *_EVENTS, "<= 1.1x"),
    Figure("start, 2,000 pods, CPU", "s", _start_cpu, *_EVENTS, ""),
    Figure("start, 200 namespaces of 10 pods", "s", _wall, *_SPREAD, "<= 1.5x"),
    Figure("start, 1,000 Leases with an index", "s", _wall, *_FEW, ""),
    Figure(
        "start, 10,000 Leases, all with the line: no index, index", "s", _wall, *_INDEXED, "<= 2x"
    ),
    Figure("memory per pod, keys", "KB", _held, *_KEYS, "<= 0.3 KB", is_difference=True),
    Figure("memory per pod, bodies", "KB", _held, *_BODIES, "<= 2 KB", is_difference=True),
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
    """Measure everything in each round."""
    cpus = pick_cpus()
    for _ in range(rounds):
        yield {name: scene.turn(cpus) for name, scene in scenes(scale).items()}


def main() -> None:
    """Measure, and print or publish the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
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
