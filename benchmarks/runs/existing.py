"""The runs that stood here first, until a module of their own takes each of them over.

Enters: a setting. Leaves: benches at the replay server, and for the work queues one without.
Invariant: names and rows are those that the modules will keep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measure import ServerOptions
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import audit_specs, read_specs, sync_specs, update_specs
from benchmarks.runs import queues
from benchmarks.runs.run import Bench, Known, Replay, Run, Setting, Size, replayed

_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5}


def _replay(setting: Setting, bench: tuple[int, int], full: tuple[int, int]) -> Replay:
    sizes = {Size.SMOKE: (40, 120 if bench[1] else 0), Size.BENCH: bench, Size.FULL: full}
    objects, updates = sizes[setting.size]
    return Replay(ServerOptions(objects=objects, updates=updates))


def _updates(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(_replay(setting, (5_000, 10_000), (10_000, 20_000)), setting)


def _sync(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(_replay(setting, (20_000, 0), (100_000, 0)), setting)


def _reads(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(_replay(setting, (500, 0), (500, 0)), setting)


_UPDATE_PEERS = ("bare", "kubernetes_asyncio", "pyinformer", "pyinformer-dict")
_SYNC_PEERS = ("bare", "pyinformer", "pyinformer-raw")

UPDATES = Run(
    name="updates",
    title="Updates into the cache",
    says="What an update costs from the wire to the handler.",
    peers=dict.fromkeys(Size, _UPDATE_PEERS),
    rounds=_ROUNDS,
    open=_updates,
    specs=lambda _: update_specs(),
)
SYNC = Run(
    name="sync",
    title="Large sync",
    says="What the initial state costs, and what it weighs.",
    peers=dict.fromkeys(Size, _SYNC_PEERS),
    rounds=_ROUNDS,
    open=_sync,
    specs=lambda known: sync_specs(float(known["object bytes, mean"])),
)
READS = Run(
    name="reads",
    title="Reads from the cache",
    says="What a read of a cached object costs.",
    peers=dict.fromkeys(Size, ("pyinformer-reads",)),
    rounds=_ROUNDS,
    open=_reads,
    specs=lambda _: read_specs(),
)
AUDITS = Run(
    name="audits",
    title="Audits of the cache",
    says="How long a comparison of the whole cache with the server keeps the event loop.",
    peers=dict.fromkeys(Size, ("pyinformer-audit",)),
    rounds=_ROUNDS,
    open=_sync,
    specs=lambda _: audit_specs(),
)


@dataclass(frozen=True, slots=True)
class _QueueBench:
    known: Known
    workload: queues.QueueWorkload
    program: Path | str
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        return queues.measure_round([peer], self.workload, self.program, cpu=self.cpu)[peer]


@contextlib.contextmanager
def _queues(setting: Setting) -> Iterator[Bench]:
    keys, waiting, passing, repeats = {
        Size.SMOKE: (40, 40, 120, 1),
        Size.BENCH: (100_000, 200_000, 400_000, 5),
        Size.FULL: (100_000, 1_000_000, 10_000_000, 7),
    }[setting.size]
    workload = queues.QueueWorkload(keys, waiting, passing, repeats)
    known: Known = {
        "keys": keys,
        "keys for memory": waiting,
        "keys that pass": passing,
        "CPU": f"{setting.client_cpu}",
    }
    with queues.client_go_program(wanted=setting.size is not Size.SMOKE) as program:
        yield _QueueBench(known, workload, program, setting.client_cpu)


_OWN_QUEUES = ("queue", "priority-queue")

QUEUE = Run(
    name="queue",
    title="Work queue",
    says="What the way of a key through a work queue costs.",
    peers={
        Size.SMOKE: _OWN_QUEUES,
        Size.BENCH: (queues.CLIENT_GO, *_OWN_QUEUES),
        Size.FULL: (queues.CLIENT_GO, *_OWN_QUEUES),
    },
    rounds=_ROUNDS,
    open=_queues,
    specs=lambda _: queues.queue_specs(),
)
