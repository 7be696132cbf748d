"""Work queues and those of client-go: CPU per key, and memory per waiting key.

Every figure comes from a process of its own, pinned to the same CPU; memory is the growth of the
resident set, the keys themselves included.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness.go import client_go
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import OWN, extra
from benchmarks.runs.run import Bench, Known, Run, Setting, Size

CLIENT_GO = "client-go"
PRIORITY = "pyinformer-priority"
_KINDS = {OWN: "queue", PRIORITY: "priority-queue"}
_RATIOS = ((OWN, CLIENT_GO), (PRIORITY, CLIENT_GO))
_WEIGHED = "keys for memory"  # in the report, of a run that weighs


@dataclass(frozen=True, slots=True)
class QueueWorkload:
    """How much the queues are given."""

    keys: int
    """Waiting at once while speed is measured."""
    repeats: int
    """Fresh queues, of which the median counts."""
    waiting: int = 0
    """Waiting at once while memory is measured; 0 weighs nothing."""
    passing: int = 0
    """Passing one by one, to see whether anything stays."""


_WORKLOADS = {
    Size.SMOKE: QueueWorkload(40, 1, 40, 120),
    Size.BENCH: QueueWorkload(100_000, 5),
    Size.FULL: QueueWorkload(100_000, 7, 1_000_000, 10_000_000),
}


@dataclass(frozen=True, slots=True)
class _QueueBench:
    known: Known
    workload: QueueWorkload
    program: Path | str
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        if isinstance(self.program, str) and peer == CLIENT_GO:
            return Measurement(peer=peer, error=self.program)
        found = Measurement(peer=peer, objects=self.workload.keys)
        try:
            for command in self._commands(peer):
                found.extra |= run_child(command)
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            found.error = f"{type(error).__name__}: {error}"
        return found

    def _commands(self, peer: str) -> list[list[str]]:
        keys, repeats = self.workload.keys, self.workload.repeats
        pin = [] if self.cpu is None else [f"--cpu={self.cpu}"]
        if peer == CLIENT_GO:
            return [[str(self.program), "queue", f"--keys={keys}", f"--repeats={repeats}", *pin]]
        counts = {"speed": keys}
        if self.workload.waiting:
            waiting = self.workload.waiting
            counts |= {"ready": waiting, "delayed": waiting, "passage": self.workload.passing}
        own = [sys.executable, "-m", "benchmarks.peers.own_queue", f"--kind={_KINDS[peer]}", *pin]
        return [
            [*own, f"--mode={mode}", f"--keys={count}", f"--repeats={repeats}"]
            for mode, count in counts.items()
        ]


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    workload = _WORKLOADS[setting.size]
    known: Known = {"keys": workload.keys, "repeats": workload.repeats}
    if workload.waiting:
        known |= {_WEIGHED: workload.waiting, "keys that pass": workload.passing}
    known["CPU"] = f"{setting.client_cpu}"
    program = "not asked for" if setting.size is Size.SMOKE else client_go()
    yield _QueueBench(known, workload, program, setting.client_cpu)


def _specs(known: Known) -> tuple[Spec, ...]:
    return (*_speed_specs(), *(_memory_specs() if _WEIGHED in known else ()))


def _speed_specs() -> tuple[Spec, ...]:
    target = {f"{OWN} / {CLIENT_GO}": "<= 1.5"}
    one = "CPU per key: add"
    return (
        Spec(f"{one}, `async with queue.item()`", "us", extra("item_us"), target, _RATIOS),
        Spec(f"{one}, get_nowait, done of a burst", "us", extra("waiting_us"), {}, _RATIOS),
        Spec(f"{one}, get_nowait, done one by one", "us", extra("passing_us"), {}, _RATIOS),
        Spec(f"{one} of one that waits already", "us", extra("duplicate_us"), {}, _RATIOS),
        Spec(f"{one} for an hour later", "us", extra("delayed_us"), {}, _RATIOS),
    )


def _memory_specs() -> tuple[Spec, ...]:
    own = (OWN, PRIORITY)
    target = dict.fromkeys(own, "< 250")
    return (
        Spec("memory of the keys that wait", "MB", extra("ready_mb"), target, only=own),
        Spec("memory of the keys that are delayed", "MB", extra("delayed_mb"), target, only=own),
        Spec("memory left by keys that passed", "MB", extra("passage_mb"), {}, only=own),
    )


QUEUE = Run(
    name="queue",
    title="Work queue",
    says=(
        "The cost of adding, taking and finishing a key, with one worker and no metrics: in a burst"
        " (all keys are added, then all are taken), and one by one. client-go can only block a"
        " goroutine for a key; pyinformer has a `with` block that calls done, and nowait."
    ),
    peers={
        Size.SMOKE: (OWN, PRIORITY),
        Size.BENCH: (CLIENT_GO, OWN, PRIORITY),
        Size.FULL: (CLIENT_GO, OWN, PRIORITY),
    },
    rounds={Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5},
    open=_open,
    specs=_specs,
)


def run_child(
    command: Sequence[str],
    timeout_seconds: float = 600.0,
    environ: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Run a program, perhaps in another environment, and read the figures that it prints.

    Raises:
        SubprocessError: it failed, or took too long.
        DecodeError: it did not print figures.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environ
    )
    sys.stderr.write(done.stderr)
    done.check_returncode()
    return msgspec.json.decode(done.stdout, type=dict[str, float])
