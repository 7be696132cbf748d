"""Work queues beside client-go's: what a key's way through costs, and what waiting keys weigh.

Enters: how many keys. Leaves: one Measurement per peer and round, figures by name.
Invariant: every figure comes from a process of its own, pinned to the same CPU; memory is the
growth of the resident set, the keys themselves included.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks._phases import Measurement
from benchmarks._rows import Round, Row, Spec, make_rows, named
from pyinformer.apimachinery import KubeAPIServerError
from pyinformer.testing._build import find_go

CLIENT_GO = "client-go"
PEERS = (CLIENT_GO, "queue", "priority-queue")
_MODULE = Path(__file__).parent / "client_go_queue"
_MODES = ("speed", "ready", "delayed", "passage")
_TIMEOUT_SECONDS = 600.0


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


def queue_rows(peers: Sequence[str], rounds: Sequence[Round]) -> list[Row]:
    """Make the rows of the queue run; memory is weighed without client-go."""
    own = [peer for peer in peers if peer != CLIENT_GO]
    return [*make_rows(_speed_specs(), peers, rounds), *make_rows(_memory_specs(), own, rounds)]


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


@contextlib.contextmanager
def client_go_program(*, wanted: bool) -> Iterator[Path | str]:
    """Build client-go's queue into a program; it is gone after the block.

    Yields:
        The program, or why there is none.
    """
    if not wanted:
        yield "not asked for"
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "client-go-queue"
        try:
            command = [str(find_go()), "build", "-o", str(program), "."]
            subprocess.run(command, cwd=_MODULE, check=True, capture_output=True, text=True)
        except KubeAPIServerError as error:
            yield error.reason
        except subprocess.CalledProcessError as error:
            yield str(error.stderr).strip()
        else:
            yield program


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
            extra |= _run(command)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")
    return Measurement(peer=peer, objects=workload.keys, extra=extra)


def _commands(
    peer: str, workload: QueueWorkload, program: Path | str, *, cpu: int | None
) -> list[list[str]]:
    if peer == CLIENT_GO:
        command = [str(program), str(workload.keys), str(workload.repeats)]
        pinned = [] if cpu is None else ["taskset", "--cpu-list", str(cpu)]
        return [[*pinned, *command]]
    counts: Mapping[str, int] = {
        "speed": workload.keys,
        "ready": workload.waiting,
        "delayed": workload.waiting,
        "passage": workload.passing,
    }
    return [
        [
            *(sys.executable, "-m", "benchmarks._peer_queue"),
            *(f"--kind={peer}", f"--mode={mode}", f"--keys={counts[mode]}"),
            *(f"--repeats={workload.repeats}",),
            *(() if cpu is None else (f"--cpu={cpu}",)),
        ]
        for mode in _MODES
    ]


def _run(command: Sequence[str]) -> dict[str, float]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    sys.stderr.write(done.stderr)
    done.check_returncode()
    return msgspec.json.decode(done.stdout, type=dict[str, float])
