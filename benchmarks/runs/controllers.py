"""Controllers and controller-runtime: the cost of a reconcile, and how long an event waits.

Every figure comes from a process of its own, pinned to one CPU; the server has another, and is the
same for both peers.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.harness.go import controller_runtime, pinned
from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import extra
from benchmarks.runs.queues import run_child
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.server.embedded import config_map_server

CONTROLLER_RUNTIME = "controller-runtime"
CONTROLLER = "controller"
PEERS = (CONTROLLER_RUNTIME, CONTROLLER)
MEMORY_PEERS = ("controller-memory",)
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


_WORKLOADS = {
    Size.SMOKE: ControllerWorkload(40, 40, 120, period_seconds=0.5, noops=120, repeats=1),
    Size.BENCH: ControllerWorkload(10_000, 13_000, 1_000_000),
    Size.FULL: ControllerWorkload(10_000, 13_000, 10_000_000),
}


def _specs(_: Known) -> tuple[Spec, ...]:
    """List the rows of the controllers; the start alone is compared."""
    return (*_start_specs(), *(replace(spec, only=(CONTROLLER,)) for spec in _own_specs()))


def _passing_specs(_: Known) -> tuple[Spec, ...]:
    """List the rows of the keys that passed."""
    return (
        Spec("controller: memory before the keys passed", "MB", extra("before_mb"), {}),
        Spec("controller: memory left by them", "MB", extra("left_mb"), {MEMORY_PEERS[0]: "< 10"}),
    )


def _start_specs() -> tuple[Spec, ...]:
    ratios = ((CONTROLLER, CONTROLLER_RUNTIME),)
    after = "controller: start, CPU per object"
    return (
        Spec(f"{after}, over the informer's", "us", extra("overhead_us"), {CONTROLLER: "< 60"}),
        Spec(f"{after}, the informer alone", "us", extra("informer_us"), {}),
        Spec(f"{after}, both", "us", extra("controlled_us"), {}, ratios),
        Spec("controller: start, wall time until all reconciled", "ms", extra("reconciled_ms"), {}),
    )


def _own_specs() -> tuple[Spec, ...]:
    rate, waits = "controller: no-op reconciles per second", "controller: an event waits"
    paced, at_once = "reminders paced", "reminders at once, no priority"
    return (
        Spec(f"{rate}, async function", "/s", extra("async_per_second"), {CONTROLLER: ">= 5,000"}),
        Spec(f"{rate}, plain function", "/s", extra("plain_per_second"), {CONTROLLER: ">= 5,000"}),
        Spec(f"{waits}, {paced}: p50", "ms", extra("paced_p50_ms"), {}),
        Spec(f"{waits}, {paced}: p99", "ms", extra("paced_p99_ms"), {}),
        Spec(f"{waits}, {paced}: max", "ms", extra("paced_max_ms"), {CONTROLLER: "< 100"}),
        Spec("controller: reminders worked off meanwhile", "", extra("paced_reminders"), {}),
        Spec(f"{waits}, {at_once}: p50", "ms", extra("at_once_p50_ms"), {}),
        Spec(f"{waits}, {at_once}: p99", "ms", extra("at_once_p99_ms"), {}),
        Spec(f"{waits}, {at_once}: max", "ms", extra("at_once_max_ms"), {}),
    )


@dataclass(frozen=True, slots=True)
class _ControllerBench:
    known: Known
    workload: ControllerWorkload
    program: Path | str
    setting: Setting

    def measure(self, peer: str) -> Measurement:
        cpu, server_cpu = self.setting.client_cpu, self.setting.server_cpu
        with config_map_server(self.workload.objects, cpu=server_cpu) as url:
            found = _measure_start(peer, self.workload, self.program, url, cpu=cpu)
        if peer == CONTROLLER:
            with config_map_server(self.workload.reminded, cpu=server_cpu) as url:
                self._measure_own(found, url)
        return found

    def _measure_own(self, found: Measurement, url: str) -> None:
        reminded = self.workload.reminded
        latency = [f"--url={url}", f"--period-seconds={self.workload.period_seconds}"]
        for arguments in (
            ["--mode=noop", f"--objects={self.workload.noops}"],
            ["--mode=latency", f"--objects={reminded}", *latency],
        ):
            _add(found, _own(arguments, cpu=self.setting.client_cpu))


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    workload = _WORKLOADS[setting.size]
    known: Known = {
        "objects": workload.objects,
        "reminded of": workload.reminded,
        "period of the reminders, seconds": workload.period_seconds,
        "no-ops": workload.noops,
        "client and server CPU": f"{setting.client_cpu}, {setting.server_cpu}",
    }
    program = "not asked for" if setting.size is Size.SMOKE else controller_runtime()
    yield _ControllerBench(known, workload, program, setting)


@dataclass(frozen=True, slots=True)
class _PassingBench:
    known: Known
    keys: int
    cpu: int | None

    def measure(self, peer: str) -> Measurement:
        found = Measurement(peer=peer, objects=self.keys)
        _add(found, _own(["--mode=passage", f"--objects={self.keys}"], cpu=self.cpu))
        return found


@contextlib.contextmanager
def _open_passing(setting: Setting) -> Iterator[Bench]:
    keys = _WORKLOADS[setting.size].passing
    known: Known = {"keys": keys, "CPU": f"{setting.client_cpu}"}
    yield _PassingBench(known, keys, setting.client_cpu)


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


CONTROLLERS = Run(
    name="controllers",
    title="Controllers",
    says=(
        "From the start of an informer and a controller until all objects were reconciled, beside "
        "controller-runtime; and how long an event waits behind reminders of all objects."
    ),
    peers={Size.SMOKE: (CONTROLLER,), Size.FULL: PEERS},
    rounds={Size.SMOKE: 1, Size.FULL: 3},
    open=_open,
    specs=_specs,
)
PASSING = Run(
    name="controllers-memory",
    title="Keys that passed through a controller",
    says="Whether memory remains of keys that were reconciled and deleted.",
    peers={Size.SMOKE: MEMORY_PEERS, Size.FULL: MEMORY_PEERS},
    rounds={Size.SMOKE: 1, Size.FULL: 1},
    open=_open_passing,
    specs=_passing_specs,
)
