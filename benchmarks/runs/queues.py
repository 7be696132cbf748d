"""Work queues beside client-go's: what a key's way through costs, and what waiting keys weigh.

Enters: how many keys. Leaves: one Measurement per peer and round, figures by name.
Invariant: every figure comes from a process of its own, pinned to the same CPU; memory is the
growth of the resident set, the keys themselves included.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.harness.go import go_program, pinned
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec, named

CLIENT_GO = "client-go"
PEERS = (CLIENT_GO, "queue", "priority-queue")
_MODULE = Path(__file__).parents[1] / "peers" / "client_go_queue"
_MODES = ("speed", "ready", "delayed", "passage")


@dataclass(frozen=True, slots=True)
class QueueWorkload:
    """How much the queues are given."""

    keys: int
    """Waiting at once while speed is measured."""
    waiting: int
    """Waiting at once while memory is measured."""
    passing: int
    """Passing one by one, to see whether anything stays."""
    repeats: int = 7


def queue_specs() -> tuple[Spec, ...]:
    """List the rows of the queue run; memory is weighed without client-go."""
    own = tuple(peer for peer in PEERS if peer != CLIENT_GO)
    return (*_speed_specs(), *(replace(spec, only=own) for spec in _memory_specs()))


def _speed_specs() -> tuple[Spec, ...]:
    ratios = (("queue", CLIENT_GO), ("priority-queue", CLIENT_GO))
    target = {"queue / client-go": "<= 1.3"}
    return (
        Spec("queue: CPU per add+get+done, burst", "us", named("waiting_us"), target, ratios),
        Spec("queue: CPU per add+get+done, one by one", "us", named("passing_us"), {}, ratios),
    )


def _memory_specs() -> tuple[Spec, ...]:
    target = {"queue": "< 250", "priority-queue": "< 250"}
    return (
        Spec("queue: memory of the keys that wait", "MB", named("ready_mb"), target),
        Spec("queue: memory of the keys that are delayed", "MB", named("delayed_mb"), target),
        Spec("queue: memory left by keys that passed", "MB", named("passage_mb"), {}),
    )


def client_go_program(*, wanted: bool) -> AbstractContextManager[Path | str]:
    """Build client-go's queue into a program, or say why not; it is gone after the block."""
    return go_program(_MODULE, wanted=wanted)


def measure_round(
    peers: Sequence[str], workload: QueueWorkload, program: Path | str, *, cpu: int | None
) -> dict[str, Measurement]:
    """Run each peer once."""
    return {peer: _measure(peer, workload, program, cpu=cpu) for peer in peers}


def _measure(
    peer: str, workload: QueueWorkload, program: Path | str, *, cpu: int | None
) -> Measurement:
    if peer == CLIENT_GO and isinstance(program, str):
        return Measurement(peer=peer, error=program)
    extra: dict[str, float] = {}
    try:
        for command in _commands(peer, workload, program, cpu=cpu):
            extra |= run_child(command)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")
    return Measurement(peer=peer, objects=workload.keys, extra=extra)


def _commands(
    peer: str, workload: QueueWorkload, program: Path | str, *, cpu: int | None
) -> list[list[str]]:
    if peer == CLIENT_GO:
        return [pinned([str(program), str(workload.keys), str(workload.repeats)], cpu)]
    counts: Mapping[str, int] = {
        "speed": workload.keys,
        "ready": workload.waiting,
        "delayed": workload.waiting,
        "passage": workload.passing,
    }
    return [
        [
            *(sys.executable, "-m", "benchmarks.peers.own_queue"),
            *(f"--kind={peer}", f"--mode={mode}", f"--keys={counts[mode]}"),
            *(f"--repeats={workload.repeats}",),
            *(() if cpu is None else (f"--cpu={cpu}",)),
        ]
        for mode in _MODES
    ]


def run_child(command: Sequence[str], timeout_seconds: float = 600.0) -> dict[str, float]:
    """Run a program and read the figures that it prints.

    Raises:
        SubprocessError: it failed, or took too long.
        DecodeError: what it printed are no figures.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    sys.stderr.write(done.stderr)
    done.check_returncode()
    return msgspec.json.decode(done.stdout, type=dict[str, float])
