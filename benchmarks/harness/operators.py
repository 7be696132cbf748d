"""Operators with hooks as processes of their own: their options, and their start, which is timed.

An operator gets its options as JSON. It prints a line when it has reconciled the only object and,
if it has hooks, listens; then it runs until it is killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness.measure import ROOT
from benchmarks.harness.phases import Workload
from benchmarks.harness.processes import thread_use

READY = "READY"
_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"  # where it is set, each start would compile our checkout
_LIFE_SECONDS = 900.0  # an operator that hangs is killed, so that a row names it


class OperatorOptions(msgspec.Struct, frozen=True):
    """How an operator is started."""

    workload: Workload
    """The API server, and the resource."""
    certificates: str
    """A folder with tls.crt and tls.key for 127.0.0.1."""
    port: int
    """Where its hooks are served; 0 for an operator without hooks."""


def operator_options() -> OperatorOptions:
    """Read the options of this process, which is an operator."""
    return msgspec.json.decode(sys.argv[1], type=OperatorOptions)


def operator_command(peer: str) -> list[str]:
    """Return what starts an operator.

    Raises:
        RuntimeError: nothing does; with the reason.
    """
    program, *further = _command(peer)
    if isinstance(program, str):
        raise RuntimeError(program)  # noqa: TRY004 - it is the reason
    return [str(program), *further]


def _command(peer: str) -> tuple[Path | str, *tuple[str, ...]]:
    # Imports that a peer's own process cannot make.
    if peer == "controller-runtime":
        from benchmarks.harness.go import controller_runtime

        return controller_runtime(), "webhooks"
    if peer == "kopf":
        from benchmarks.harness.environments import interpreter

        return interpreter("kopf"), "-m", "benchmarks.peers.kopf_webhooks"
    return Path(sys.executable), "-m", "benchmarks.peers.own_webhooks"


@dataclass(frozen=True, slots=True)
class StartedOperator:
    """An operator that runs."""

    wall_seconds: float
    """From its start until it was ready."""
    cpu_seconds: float
    _process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def figures(self) -> dict[str, float]:
        """Ask our own operator what it alone knows about its reviews since the last call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=dict[str, float])


@contextlib.contextmanager
def started_operator(command: list[str], options: OperatorOptions) -> Iterator[StartedOperator]:
    """Start an operator and wait until it is ready; it is killed when the block ends.

    Raises:
        RuntimeError: it has ended before.
    """
    environ = {name: of for name, of in os.environ.items() if name != _UNCOMPILED}
    began = time.perf_counter()
    with subprocess.Popen(
        [*command, msgspec.json.encode(options).decode()],
        cwd=ROOT,
        env=environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(_LIFE_SECONDS, process.kill)
        limit.start()
        try:
            line = process.stdout.readline().strip()
            wall_seconds = time.perf_counter() - began
            used = thread_use(Path(f"/proc/{process.pid}"))
            if line != READY or used is None:
                raise RuntimeError(f"the operator ended before it was ready; it printed {line!r}")
            yield StartedOperator(wall_seconds, used.cpu_seconds, process)
        finally:
            limit.cancel()
            process.kill()
