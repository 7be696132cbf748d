"""What an object costs in caches of a thousand, ten thousand, a hundred thousand and a million.

All sizes are served in the same way, made while they are sent; each server starts when its size is
first asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.harness.measure import ServerOptions
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import JSON, MICRO, OWN, OWN_MODES, per, rss_per_object
from benchmarks.runs.run import Bench, Known, Replay, ReplayBench, Run, Setting, Size, replayed

_COUNTS = {Size.SMOKE: (20, 40), Size.FULL: (1_000, 10_000, 100_000, 1_000_000)}
_BASE, _LARGEST = 10_000, 1_000_000
_COMPACT = OWN_MODES[2]


def _named(peer: str, count: int) -> str:
    return f"{peer}, {count:,} pods"


def _names(size: Size) -> dict[str, tuple[str, int]]:
    """Return peer and number of objects by the name in the report; client-go stops before 1M."""
    counts = _COUNTS[size]
    pairs = [(OWN, count) for count in counts]
    if size is Size.FULL:
        pairs += [(_COMPACT, count) for count in counts[:-1]]
        pairs += [(JSON, count) for count in counts[:-1]]
    return {_named(peer, count): (peer, count) for peer, count in pairs}


@dataclass(slots=True)
class _CurveBench:
    setting: Setting
    stack: contextlib.ExitStack
    known: Known
    servers: dict[int, ReplayBench] = field(default_factory=dict)

    def measure(self, peer: str) -> Measurement:
        program, count = _names(self.setting.size)[peer]
        if count not in self.servers:
            options = ServerOptions(objects=count, endless=True)
            bench = self.stack.enter_context(replayed(Replay(options), self.setting))
            self.servers[count] = bench
            self.known["object bytes, mean"] = bench.known["object bytes, mean"]
        found = self.servers[count].measure(program)
        found.peer = peer
        return found


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    known: Known = {
        "objects": ", ".join(f"{count:,}" for count in _COUNTS[setting.size]),
        "seed": setting.seed,
        "client and server CPU": f"{setting.client_cpu}, {setting.server_cpu}",
    }
    with contextlib.ExitStack() as stack:
        yield _CurveBench(setting, stack, known)


def _specs(_: Known) -> tuple[Spec, ...]:
    largest, base = _named(OWN, _LARGEST), _named(OWN, _BASE)
    return (
        Spec(
            "cost of an object: CPU of the initial sync",
            "us",
            lambda found: per(found.sync_cpu_seconds, found.objects, MICRO),
            {f"{largest} / {base}": "<= 1.3"},
            ((largest, base),),
        ),
        Spec("cost of an object: memory (RSS)", "bytes", rss_per_object, {}, ((largest, base),)),
    )


CURVE = Run(
    name="curve",
    title="Cost of an object, by the size of the cache",
    plots=("cost of an object: CPU of the initial sync", "cost of an object: memory (RSS)"),
    says="The initial sync of more and more pods; ideally the line is flat.",
    peers={size: tuple(_names(size)) for size in _COUNTS},
    rounds={Size.SMOKE: 1, Size.FULL: 2},
    open=_open,
    specs=_specs,
)
