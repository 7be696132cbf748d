"""Run one peer in a process of its own and bring its figures home.

Nothing of a peer runs in the parent; the child is `python -m benchmarks.harness.measure`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import msgspec

from benchmarks.data.kinds import Sizes
from benchmarks.harness.phases import Measurement, Peer, Phases, Workload
from benchmarks.harness.processes import pin_to_cpu

ROOT = Path(__file__).parents[2]
_PEER_TIMEOUT_SECONDS = 900.0
_MARK = "MEASUREMENT "  # peers may print; the figures are on the line that begins so


@dataclass(frozen=True, slots=True)
class PeerProgram:
    """The module of a peer, and what it does in one sentence."""

    module: str
    function: str
    does: str
    environment: str | None = None
    """The virtual environment it needs; None: the one that runs the benchmarks."""
    loop: Literal["asyncio", "uvloop"] = "asyncio"
    """The event loop that it runs on."""


PEERS = {
    "bare": PeerProgram(
        "benchmarks.peers.bare", "run", "aiohttp readline, type and metadata, dict store"
    ),
    "kubernetes": PeerProgram(
        "benchmarks.peers.kubernetes_informer",
        "run",
        "SharedInformer of the official client: typed models in a dict, handlers on its thread",
        "kubernetes",
    ),
    "kubernetes-asyncio": PeerProgram(
        "benchmarks.peers.kubernetes_asyncio_watch",
        "run",
        "list and Watch.stream into a dict of dicts",
    ),
    "kubernetes-asyncio-typed": PeerProgram(
        "benchmarks.peers.kubernetes_asyncio_watch",
        "run_typed",
        "list and Watch.stream into a dict of typed models",
    ),
    "kopf-event": PeerProgram(
        "benchmarks.peers.kopf_operator",
        "run_event",
        "an operator with @kopf.on.event; it keeps no objects",
        "kopf",
    ),
    "kopf-index": PeerProgram(
        "benchmarks.peers.kopf_operator",
        "run_index",
        "an operator with @kopf.index of whole objects by namespace, and @kopf.on.event",
        "kopf",
    ),
    "lightkube": PeerProgram(
        "benchmarks.peers.lightkube_watch",
        "run",
        "list and watch into a dict of typed models",
        "lightkube",
    ),
    "kr8s": PeerProgram(
        "benchmarks.peers.kr8s_watch",
        "run",
        "get and watch into a dict of its objects",
        "kr8s",
    ),
    "cloudcoil": PeerProgram(
        "benchmarks.peers.cloudcoil_informer",
        "run",
        "its cache's informer: pydantic models, async handlers",
        "cloudcoil",
    ),
    "floor-asyncio": PeerProgram(
        "benchmarks.peers.floor", "run", "receives over TLS on asyncio and counts newlines"
    ),
    "pyinformer": PeerProgram("benchmarks.peers.own", "run", "the default: stripped"),
    "pyinformer-uvloop": PeerProgram(
        "benchmarks.peers.own", "run", "the default on uvloop", loop="uvloop"
    ),
    "pyinformer-prometheus": PeerProgram(
        "benchmarks.peers.own", "run_prometheus", "the default, with PrometheusMetrics"
    ),
    "pyinformer-recording": PeerProgram(
        "benchmarks.peers.own", "run_recording", "the default, and each update recorded in a file"
    ),
    "pyinformer-raw": PeerProgram("benchmarks.peers.own", "run_raw", "whole bodies"),
    "pyinformer-compact": PeerProgram(
        "benchmarks.peers.own", "run_compact", "bodies compressed with a trained dictionary"
    ),
    "pyinformer-metadata": PeerProgram(
        "benchmarks.peers.own", "run_metadata", "metadata alone, on the wire and in the cache"
    ),
    "pyinformer-dict": PeerProgram(
        "benchmarks.peers.own",
        "run_private_dict",
        "stripped; view, two indexes, handler that takes a private dict",
    ),
    "pyinformer-controller": PeerProgram(
        "benchmarks.peers.own_reconciles", "run", "the default, a controller, async reconcile"
    ),
    "pyinformer-controller-uvloop": PeerProgram(
        "benchmarks.peers.own_reconciles", "run", "the same on uvloop", loop="uvloop"
    ),
    "pyinformer-controller-plain": PeerProgram(
        "benchmarks.peers.own_reconciles", "run_plain", "the same with a plain reconcile"
    ),
    "pyinformer-reads": PeerProgram(
        "benchmarks.peers.own", "run_reads", "reads of cached, stripped objects"
    ),
    "pyinformer-audit": PeerProgram(
        "benchmarks.peers.own", "run_audit", "audits of cached, stripped objects"
    ),
}


CLIENT_GO_PEERS = {
    "client-go-json": "SharedIndexInformer of client-go, typed, over JSON",
    "client-go-protobuf": "the same over protobuf",
    "client-go-metadata": "its metadata informer: no bodies",
    "client-go-dynamic": "its dynamic informer: unstructured objects, over JSON",
}

CONTROLLER_RUNTIME_PEERS = {
    "controller-runtime": "a controller of typed pods, which it reads as deep copies",
    "controller-runtime-no-copy": "the same with DefaultUnsafeDisableDeepCopy",
}

FLOOR_C = "floor-c"
"""A program in C that receives over TLS and counts newlines."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A replay server that is ready."""

    workload: Workload
    sizes: Sizes


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the replay server is started."""

    objects: int
    updates: int = 0
    seed: int = 0
    cpu: int | None = None
    kind: str = "pods"
    """The resource that it serves: `pods`, `configmaps`, `leases` or `widgets`."""
    updates_per_second: float = 0.0
    """The rate of released updates; 0: as fast as the peer reads them."""
    small: int = 100
    """Objects in each of the namespaces small-0, small-1, ..."""
    tls: bool = False
    """Whether it speaks TLS; its authority is then in the workload's `ca_file`."""
    endless: bool = False
    """Whether pods are made while they are sent, of templates: for a million of them."""
    templates: int = 20_000
    """How many of them there are."""
    metadata: bool = False
    """Whether metadata alone is rendered beforehand, not while it is sent."""
    protobuf: bool = False
    """Whether protobuf is rendered, too; it needs the Go program of the client-go peers."""
    renderer: str | None = None
    """That program, if it was built already; None builds it."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        given = []
        for name, value in msgspec.structs.asdict(self).items():
            option = f"--{name.replace('_', '-')}"
            if value is True:
                given.append(option)
            elif value is not None and value is not False:
                given.append(f"{option}={value}")
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
        sizes = Sizes(**ready.pop("sizes"))
        try:
            yield RunningServer(msgspec.convert(ready, Workload), sizes)
        finally:
            process.communicate()  # closes its standard input, which ends it


def measure(
    peer: str,
    workload: Workload,
    *,
    cpu: int | None,
    folder: Path | None = None,
    prefix: Sequence[str] = (),
) -> Measurement:
    """Run `peer` once, in a fresh process pinned to `cpu`.

    Args:
        peer: its name.
        workload: what the server holds.
        cpu: where to run; None for anywhere.
        folder: where the packages are imported from; None for here.
        prefix: a command that becomes the peer's, given behind it.
    """
    command = command_of(peer, workload, cpu=cpu)
    if isinstance(command, str):
        return Measurement(peer=peer, error=command)
    try:
        done = subprocess.run(
            [*prefix, *command],
            cwd=folder or ROOT,
            env=os.environ | {"PYTHONPATH": str(folder or ROOT)},
            capture_output=True,
            text=True,
            timeout=_PEER_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(peer=peer, error=f"not done after {_PEER_TIMEOUT_SECONDS:.0f} s")
    sys.stderr.write(done.stderr)
    return measurement_in(done.stdout, peer, status=done.returncode)


def measurement_in(printed: str, peer: str, *, status: int) -> Measurement:
    """Read the figures from what a peer that has ended has printed.

    Args:
        printed: its standard output.
        peer: its name.
        status: its exit status, the reason if it has printed none.
    """
    for line in reversed(printed.splitlines()):
        if line.startswith(_MARK):
            return msgspec.json.decode(line.removeprefix(_MARK), type=Measurement)
    return Measurement(peer=peer, error=_ending(status))


def _ending(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed, as one that takes more memory than it may"
    return f"ended with exit status {status}"


def command_of(peer: str, workload: Workload, *, cpu: int | None = None) -> list[str] | str:
    """Return what starts a peer with a workload, or why nothing does."""
    if peer == FLOOR_C:
        from benchmarks.harness.c_floor import c_floor  # a peer's own process lacks its needs

        return c_floor(workload)
    command = _command(peer)
    if isinstance(command, str):
        return command
    command += [f"--peer={peer}", "--workload", msgspec.json.encode(workload).decode()]
    return command if cpu is None else [*command, f"--cpu={cpu}"]


def _command(peer: str) -> list[str] | str:
    if peer in CLIENT_GO_PEERS:
        from benchmarks.harness.go import client_go  # a peer's own process lacks its needs

        program = client_go()
        return program if isinstance(program, str) else [str(program), "informer"]
    if peer in CONTROLLER_RUNTIME_PEERS:
        from benchmarks.harness.go import controller_runtime  # as above

        program = controller_runtime()
        return program if isinstance(program, str) else [str(program), "follow"]
    python = _interpreter(peer)
    if isinstance(python, str):
        return python
    return [str(python), "-m", "benchmarks.harness.measure"]


def _interpreter(peer: str) -> Path | str:
    """Return what runs the peer, or why nothing does."""
    environment = PEERS[peer].environment
    if environment is None:
        return Path(sys.executable)
    from benchmarks.harness.environments import interpreter  # a peer's own process lacks its needs

    return interpreter(environment)


def _run(peer: str, workload: Workload) -> Measurement:
    try:
        with asyncio.Runner(loop_factory=_loop_factory(peer)) as runner:
            return runner.run(_run_phases(peer, workload))
    except Exception as error:  # noqa: BLE001  (a peer is foreign code: its failure is a result)
        traceback.print_exc()
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return Measurement(peer=peer, error=f"{type(error).__name__}: {error}")


def _loop_factory(peer: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if PEERS[peer].loop == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


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
