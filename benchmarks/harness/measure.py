"""Run one peer in a process of its own and bring its figures home.

Enters: the name of a peer and a workload. Leaves: a Measurement; a peer that fails or hangs
becomes a Measurement whose `error` says why.
Invariant: nothing of a peer runs in the parent; the child is
`python -m benchmarks.harness.measure`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from benchmarks.data.pods import PodSizes
from benchmarks.harness.phases import Measurement, Peer, Phases, Workload
from benchmarks.harness.processes import pin_to_cpu

_PEER_TIMEOUT_SECONDS = 900.0
_MARK = "MEASUREMENT "  # peers may print; the figures are on the line that begins so


@dataclass(frozen=True, slots=True)
class PeerProgram:
    """Where a peer's code stands, and what it does in a sentence."""

    module: str
    function: str
    does: str


PEERS = {
    "bare": PeerProgram(
        "benchmarks.peers.bare", "run", "aiohttp readline, type and metadata, dict store"
    ),
    "kubernetes_asyncio": PeerProgram(
        "benchmarks.peers.kubernetes_asyncio_dicts",
        "run",
        "list and Watch.stream into a dict of dicts",
    ),
    "pyinformer": PeerProgram(
        "benchmarks.peers.own",
        "run",
        "stripped; view, two indexes, handler that reads metadata",
    ),
    "pyinformer-raw": PeerProgram(
        "benchmarks.peers.own",
        "run_raw",
        "whole bodies; view, two indexes, handler that reads metadata",
    ),
    "pyinformer-dict": PeerProgram(
        "benchmarks.peers.own",
        "run_private_dict",
        "stripped; view, two indexes, handler that takes a private dict",
    ),
    "pyinformer-reads": PeerProgram(
        "benchmarks.peers.own", "run_reads", "reads of cached, stripped objects"
    ),
    "pyinformer-audit": PeerProgram(
        "benchmarks.peers.own", "run_audit", "audits of cached, stripped objects"
    ),
}


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A replay server that is ready."""

    workload: Workload
    sizes: PodSizes


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the replay server is started."""

    objects: int
    updates: int = 0
    seed: int = 0
    cpu: int | None = None

    def command(self) -> list[str]:
        """Return the command that starts it."""
        options = msgspec.structs.asdict(self)
        given = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in options.items()
            if value is not None
        ]
        return [sys.executable, "-m", "benchmarks.server.replay", *given]


@contextlib.contextmanager
def running_server(options: ServerOptions) -> Iterator[RunningServer]:
    """Start the replay server in a process of its own; it ends with the block."""
    command = options.command()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the replay server ended before it was ready")
        ready = json.loads(line)
        sizes = PodSizes(**ready.pop("sizes"))
        try:
            yield RunningServer(msgspec.convert(ready, Workload), sizes)
        finally:
            process.communicate()  # closes its standard input, which ends it


def measure(
    peer: str, workload: Workload, *, cpu: int | None, folder: Path | None = None
) -> Measurement:
    """Run `peer` once, in a fresh process pinned to `cpu`.

    Args:
        peer: its name.
        workload: what the server holds.
        cpu: where to run; None for anywhere.
        folder: where the packages are imported from; None for here.
    """
    command = [sys.executable, "-m", "benchmarks.harness.measure", f"--peer={peer}"]
    command += ["--workload", msgspec.json.encode(workload).decode()]
    command += [] if cpu is None else [f"--cpu={cpu}"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_PEER_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(peer=peer, error=f"not done after {_PEER_TIMEOUT_SECONDS:.0f} s")
    sys.stderr.write(done.stderr)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            return msgspec.json.decode(line.removeprefix(_MARK), type=Measurement)
    return Measurement(peer=peer, error=f"ended with exit status {done.returncode}")


def _run(peer: str, workload: Workload) -> Measurement:
    try:
        return asyncio.run(_run_phases(peer, workload))
    except Exception as error:  # noqa: BLE001  (a peer is foreign code: its failure is a result)
        traceback.print_exc()
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")


async def _run_phases(peer: str, workload: Workload) -> Measurement:
    program = PEERS[peer]
    run = cast("Peer", getattr(importlib.import_module(program.module), program.function))
    phases = Phases(peer, workload)
    await run(phases)
    return phases.finished()


def main() -> None:
    """Run one peer in this process and print its figures as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness.measure")
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    workload = msgspec.json.decode(options.workload, type=Workload)
    result = _run(options.peer, workload)
    print(_MARK + msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
