"""Controllers beside controller-runtime: what a reconcile costs, and how long an event waits.

Enters: how many objects. Leaves: one Measurement per peer and round, figures by name.
Invariant: every figure comes from a process of its own, pinned to one CPU; the server has another,
and is the same for both peers.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness.go import go_program, pinned
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Round, Row, Spec, make_rows, named
from benchmarks.runs.queues import run_child
from benchmarks.server.embedded import config_map_server

CONTROLLER_RUNTIME = "controller-runtime"
CONTROLLER = "controller"
PEERS = (CONTROLLER_RUNTIME, CONTROLLER)
MEMORY_PEERS = ("controller-memory",)
_MODULE = Path(__file__).parents[1] / "peers" / "controller_runtime"
_TIMEOUT_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class ControllerWorkload:
    """How much the controllers are given."""

    objects: int
    """Reconciled after a start."""
    reminded: int
    """Reminded of while latency is measured."""
    passing: int
    """Passing through controller and queue, to see whether anything stays."""
    period_seconds: float = 30.0
    """Of the paced reminders."""
    noops: int = 20_000
    repeats: int = 3


def controller_rows(peers: Sequence[str], rounds: Sequence[Round]) -> list[Row]:
    """Make the rows of the controllers; the start alone is compared."""
    own = [peer for peer in peers if peer == CONTROLLER]
    return [*make_rows(_start_specs(), peers, rounds), *make_rows(_own_specs(), own, rounds)]


def memory_rows(rounds: Sequence[Round]) -> list[Row]:
    """Make the rows of the keys that passed."""
    specs = (
        Spec("controller: memory before the keys passed", "MB", named("before_mb"), {}),
        Spec("controller: memory left by them", "MB", named("left_mb"), {MEMORY_PEERS[0]: "< 10"}),
    )
    return make_rows(specs, MEMORY_PEERS, rounds)


def _start_specs() -> tuple[Spec, ...]:
    ratios = ((CONTROLLER, CONTROLLER_RUNTIME),)
    after = "controller: start, CPU per object"
    return (
        Spec(f"{after}, over the informer's", "us", named("overhead_us"), {CONTROLLER: "< 60"}),
        Spec(f"{after}, the informer alone", "us", named("informer_us"), {}),
        Spec(f"{after}, both", "us", named("controlled_us"), {}, ratios),
        Spec("controller: start, wall time until all reconciled", "ms", named("reconciled_ms"), {}),
    )


def _own_specs() -> tuple[Spec, ...]:
    rate, waits = "controller: no-op reconciles per second", "controller: an event waits"
    paced, at_once = "reminders paced", "reminders at once, no priority"
    return (
        Spec(f"{rate}, async function", "/s", named("async_per_second"), {CONTROLLER: ">= 5,000"}),
        Spec(f"{rate}, plain function", "/s", named("plain_per_second"), {CONTROLLER: ">= 5,000"}),
        Spec(f"{waits}, {paced}: p50", "ms", named("paced_p50_ms"), {}),
        Spec(f"{waits}, {paced}: p99", "ms", named("paced_p99_ms"), {}),
        Spec(f"{waits}, {paced}: max", "ms", named("paced_max_ms"), {CONTROLLER: "< 100"}),
        Spec("controller: reminders worked off meanwhile", "", named("paced_reminders"), {}),
        Spec(f"{waits}, {at_once}: p50", "ms", named("at_once_p50_ms"), {}),
        Spec(f"{waits}, {at_once}: p99", "ms", named("at_once_p99_ms"), {}),
        Spec(f"{waits}, {at_once}: max", "ms", named("at_once_max_ms"), {}),
    )


def controller_runtime_program(*, wanted: bool) -> AbstractContextManager[Path | str]:
    """Build controller-runtime's peer, or say why not; it is gone after the block."""
    return go_program(_MODULE, wanted=wanted)


def measure_round(
    peers: Sequence[str],
    workload: ControllerWorkload,
    program: Path | str,
    *,
    cpu: int | None,
    server_cpu: int | None,
) -> dict[str, Measurement]:
    """Run each peer once, on a server of the round's."""
    with config_map_server(workload.objects, cpu=server_cpu) as url:
        found = {peer: _measure_start(peer, workload, program, url, cpu=cpu) for peer in peers}
    with config_map_server(workload.reminded, cpu=server_cpu) as url:
        latency = [f"--url={url}", f"--period-seconds={workload.period_seconds}"]
        for arguments in (
            ["--mode=noop", f"--objects={workload.noops}"],
            ["--mode=latency", f"--objects={workload.reminded}", *latency],
        ):
            _add(found[CONTROLLER], _own(arguments, cpu=cpu))
    return found


def measure_memory(workload: ControllerWorkload, *, cpu: int | None) -> dict[str, Measurement]:
    """Let the keys pass, once."""
    found = Measurement(peer=MEMORY_PEERS[0], objects=workload.passing)
    _add(found, _own(["--mode=passage", f"--objects={workload.passing}"], cpu=cpu))
    return {MEMORY_PEERS[0]: found}


def _measure_start(
    peer: str, workload: ControllerWorkload, program: Path | str, url: str, *, cpu: int | None
) -> Measurement:
    found = Measurement(peer=peer, objects=workload.objects)
    if peer == CONTROLLER:
        arguments = ["--mode=start", f"--objects={workload.objects}", f"--url={url}"]
        _add(found, _own([*arguments, f"--repeats={workload.repeats}"], cpu=cpu))
    elif isinstance(program, str):
        found.error = program
    else:
        command = [str(program), url, str(workload.objects), str(workload.repeats)]
        _add(found, pinned(command, cpu))
    return found


def _own(arguments: Sequence[str], *, cpu: int | None) -> list[str]:
    pin = () if cpu is None else (f"--cpu={cpu}",)
    return [sys.executable, "-m", "benchmarks.peers.own_controller", *arguments, *pin]


def _add(found: Measurement, command: Sequence[str]) -> None:
    """Add what a program measures, or why it measured nothing."""
    try:
        found.extra |= run_child(command, timeout_seconds=_TIMEOUT_SECONDS)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        found.error = f"{type(error).__name__}: {error}"
