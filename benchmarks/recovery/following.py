"""Clients that follow one real kube-apiserver, each by way of a proxy of its own."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

from benchmarks.harness.go import client_go
from benchmarks.runs.against import export
from pyinformer.errors import InformerError
from pyinformer.testing import KubeAPIServer, ServerAddress

ROOT = Path(__file__).parents[2]
NAMESPACE = "recovery"
_OBJECTS = 20
_NAMES = {f"c{number}" for number in range(_OBJECTS)}
_POLL_SECONDS = 0.01
_WRITE_SECONDS = 0.2
P = TypeVar("P")


@dataclass
class Client(Generic[P]):
    """A process that follows, its proxy, and what it has printed."""

    name: str
    proxy: P
    login: Login
    process: asyncio.subprocess.Process
    holds: dict[str, str] = field(default_factory=dict)
    deletions: int = 0

    async def read(self) -> None:
        """Take what it prints."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            name, version = line.decode().split()
            if version == "-":
                self.deletions += 1
                self.holds.pop(name, None)
            else:
                self.holds[name] = version


class Server:
    """The kube-apiserver, and what it holds."""

    def __init__(self, api: KubeAPIServer, rng: random.Random) -> None:
        self.api = api
        self.holds: dict[str, str] = {}
        self.deletions: int = 0
        self._rng = rng
        self._written = 0

    async def write(self) -> None:
        """Create an object, or change or delete one."""
        name = f"c{self._rng.randrange(_OBJECTS)}"
        if name in self.holds and self._rng.random() < 0.1:
            await asyncio.to_thread(self.api.delete, "v1", "configmaps", name, NAMESPACE)
            del self.holds[name]
            self.deletions += 1
            return
        self._written += 1
        metadata = {"name": name, "namespace": NAMESPACE}
        wanted = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"n": str(self._written)},
        }
        call = self.api.update if name in self.holds else self.api.create
        done = await asyncio.to_thread(call, wanted)
        self.holds[name] = done["metadata"]["resourceVersion"]

    async def read_again(self) -> None:
        """Take what it holds now as the truth: it was restored."""
        while True:
            try:
                found = await asyncio.to_thread(self.api.list, "v1", "configmaps", NAMESPACE)
            except (InformerError, OSError):
                await asyncio.sleep(_POLL_SECONDS)
            else:
                break
        kept = [one["metadata"] for one in found]
        self.holds = {one["name"]: one["resourceVersion"] for one in kept if one["name"] in _NAMES}

    async def write_for(self, seconds: float) -> None:
        """Write now and then."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await self.write()
            await asyncio.sleep(_WRITE_SECONDS)


@dataclass(frozen=True)
class Login:
    """How a client reaches the server: by files, which can be replaced while it runs."""

    url: str
    token_file: Path
    ca_file: Path

    @classmethod
    def put(cls, address: ServerAddress, folder: Path) -> Self:
        """Write the files for an address."""
        folder.mkdir(parents=True, exist_ok=True)
        token_file, ca_file = folder / "token", folder / "ca.pem"
        token_file.write_text(address.token or "")
        assert address.ca_file is not None
        ca_file.write_bytes(address.ca_file.read_bytes())
        return cls(address.url, token_file, ca_file)


async def started(name: str, command: list[str], folder: Path, proxy: P, login: Login) -> Client[P]:
    """Start a client."""
    told = {one: str(value) for one, value in asdict(login).items()}
    process = await asyncio.create_subprocess_exec(
        *[json.dumps(told) if part == "WORKLOAD" else part for part in command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return Client(name, proxy, login, process)


async def _equal_after(
    server: Server, client: Client[P], began: float, patience_seconds: float
) -> float:
    """Return how long after an instant a client had what the server has."""
    clock = asyncio.get_running_loop().time
    while client.holds != server.holds and clock() - began < patience_seconds:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)
    return clock() - began


async def check_equal(
    server: Server, clients: Sequence[Client[P]], patience_seconds: float
) -> None:
    """Wait until all clients have what the server has.

    Raises:
        RuntimeError: one does not follow it.
    """
    now = asyncio.get_running_loop().time()
    for name, seconds in (await all_equal_after(server, clients, now, patience_seconds)).items():
        if seconds > patience_seconds:
            raise RuntimeError(f"{name} does not follow the server")


async def all_equal_after(
    server: Server, clients: Sequence[Client[P]], began: float, patience_seconds: float
) -> dict[str, float]:
    """Return how long after an instant each client, by its name, had what the server has."""
    took = await asyncio.gather(
        *(_equal_after(server, client, began, patience_seconds) for client in clients)
    )
    return {client.name: seconds for client, seconds in zip(clients, took, strict=True)}


async def answers(api: KubeAPIServer) -> bool:
    """Return whether the server answers HTTP requests, with any status."""
    command = ["curl", "-sk", "-o", "/dev/null", "--max-time", "1", f"{api.url}/livez"]
    process = await asyncio.create_subprocess_exec(*command)
    return await process.wait() == 0


def commands(
    before: str, folder: Path, *, audits_seconds: float = 0.0
) -> dict[str, tuple[list[str], Path]]:
    """Return how each client is started, and where."""
    peer = str(Path(__file__).with_name("informer.py"))
    python = [sys.executable, "-P", "-c", _RUN, peer, "WORKLOAD", NAMESPACE]
    found = {"pyinformer": (python, ROOT)}
    if audits_seconds:
        found[f"pyinformer, audits every {audits_seconds:g} s"] = (
            [*python, str(audits_seconds)],
            ROOT,
        )
    if before:
        found[f"pyinformer {export(before, ROOT, folder)}"] = (python, folder)
    program = client_go()
    if isinstance(program, str):
        print(f"client-go does not take part: {program}", file=sys.stderr)
    else:
        command = [str(program), "states", "--namespace", NAMESPACE, "--workload", "WORKLOAD"]
        found["client-go"] = (command, ROOT)
    return found


_RUN = """
import runpy, sys
sys.path.insert(0, ".")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
