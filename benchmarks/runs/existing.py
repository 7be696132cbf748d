"""The run of the work queues, which needs no server.

Enters: a setting. Leaves: a bench that measures queues, each in processes of its own.
Invariant: client-go's program is built once for the whole run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.phases import Measurement
from benchmarks.runs import queues
from benchmarks.runs.run import Bench, Known, Run, Setting, Size

_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5}


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
