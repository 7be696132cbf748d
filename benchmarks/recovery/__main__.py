"""Measures how soon caches equal their server again: pyinformer, an earlier one, and client-go.

    python -m benchmarks.recovery --runs 20 --before 03dee5d

Each client is a process of its own that follows ConfigMaps of one real kube-apiserver, by way of a
TCP proxy of its own. What goes wrong goes wrong for all of them at the same moment. A cache is
equal when it has printed the versions that the server has of all objects. No figure fails anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

from benchmarks.recovery.following import (
    NAMESPACE,
    Client,
    Login,
    Server,
    all_equal_after,
    answers,
    check_equal,
    commands,
    started,
)
from pyinformer.testing import KubeAPIServer, ServerAddress

_PATIENCE_SECONDS = 120.0


class Proxy:
    """Passes TCP connections on, or does what a bad network does."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._flows = asyncio.Event()
        self._flows.set()
        self.refuses = False
        self.cut_after: int | None = None
        """After how many bytes of the server each connection breaks."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        task = asyncio.current_task()
        if self.refuses or task is None:
            writer.transport.abort()
            return
        self._links[task] = [writer]
        flows, ways = self._flows, []
        try:
            answers, questions = await asyncio.open_connection("127.0.0.1", self._target)
            self._links[task].append(questions)
            ways = [
                asyncio.create_task(self._pass(reader, questions, None, counted=False)),
                asyncio.create_task(self._pass(answers, writer, flows, counted=True)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for way in ways:
                way.cancel()
            for one in self._links.pop(task):
                one.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        flows: asyncio.Event | None,
        *,
        counted: bool,
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 14):
                if flows is not None:
                    await flows.wait()
                writer.write(data)
                await writer.drain()
                passed += len(data)
                if counted and self.cut_after is not None and passed > self.cut_after:
                    return

    def cut(self) -> None:
        """Break every connection."""
        for writers in self._links.values():
            for writer in writers:
                writer.transport.abort()

    def stall(self) -> None:
        """Deliver nothing more on the connections that are open; new ones work."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()

    def heal(self) -> None:
        """Do nothing bad to connections any more."""
        self.refuses, self.cut_after = False, None


Scene: TypeAlias = Callable[
    [Server, list[Client[Proxy]], random.Random], Coroutine[None, None, float]
]


async def faults(server: Server, clients: list[Client[Proxy]], rng: random.Random) -> float:
    """Cut, refuse and break off at random for 8 to 20 s; return when that was over."""
    clock = asyncio.get_running_loop().time
    end = clock() + rng.uniform(8.0, 20.0)
    while clock() < end:
        kind, size = rng.choice(["cut", "refuse", "break", "pass"]), rng.randrange(8000)
        for client in clients:
            client.proxy.heal()
            client.proxy.refuses = kind == "refuse"
            client.proxy.cut_after = size if kind == "break" else None
            if kind in {"cut", "refuse"}:
                client.proxy.cut()
        await server.write_for(rng.uniform(0.2, 4.0))
    return _healed(clients)


async def away(server: Server, clients: list[Client[Proxy]], _: random.Random) -> float:
    """Be away for 70 s, and write meanwhile."""
    for client in clients:
        client.proxy.refuses = True
        client.proxy.cut()
    await server.write_for(70.0)
    return _healed(clients)


async def restart(server: Server, _: list[Client[Proxy]], rng: random.Random) -> float:
    """Kill the API server, start it after 2 to 8 s, and return when it answered first."""
    await asyncio.to_thread(server.api.kill)
    await asyncio.sleep(rng.uniform(2.0, 8.0))
    starting = asyncio.create_task(asyncio.to_thread(server.api.restart))
    while not await answers(server.api):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    answered = asyncio.get_running_loop().time()
    await starting
    await server.write()
    return answered


async def stall(server: Server, clients: list[Client[Proxy]], _: random.Random) -> float:
    """Stall the connections that are open; return when."""
    for client in clients:
        client.proxy.stall()
    stalled = asyncio.get_running_loop().time()
    await server.write_for(5.0)
    return stalled


SCENES: dict[str, Scene] = {"faults": faults, "away": away, "restart": restart, "stall": stall}


def _healed(clients: list[Client[Proxy]]) -> float:
    for client in clients:
        client.proxy.heal()
    return asyncio.get_running_loop().time()


async def measure(
    scene: Scene, server: Server, clients: list[Client[Proxy]], rng: random.Random
) -> dict[str, float]:
    """Play a scene once, and return for each client how long it took afterwards."""
    await check_equal(server, clients, _PATIENCE_SECONDS)
    await server.write_for(1.0)
    began = await scene(server, clients, rng)
    await server.write()
    return await all_equal_after(server, clients, began, _PATIENCE_SECONDS)


@contextlib.asynccontextmanager
async def following(
    api: KubeAPIServer, commands: dict[str, tuple[list[str], Path]], files: Path
) -> AsyncIterator[list[Client[Proxy]]]:
    """Start a proxy and a client of each kind."""
    clients: list[Client[Proxy]] = []
    async with contextlib.AsyncExitStack() as stack:
        for name, (command, folder) in commands.items():
            proxy = Proxy(api.port)
            listener = await stack.enter_async_context(
                await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            )
            url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            address = ServerAddress(url=url, ca_file=api.ca_file, token=api.token)
            client = await started(name, command, folder, proxy, Login.put(address, files / name))
            stack.callback(client.process.kill)
            reading = asyncio.create_task(client.read())
            stack.callback(reading.cancel)
            clients.append(client)
        yield clients
        for client in clients:
            client.proxy.cut()


def rows(scene: str, figures: dict[str, list[float]]) -> str:
    """Return the rows of a table in Markdown."""
    lines = []
    for name, seconds in figures.items():
        in_time = sum(one <= 2.0 for one in seconds)
        middle = statistics.median(seconds)
        range_ = f"{min(seconds):.1f} to {max(seconds):.1f}"
        lines.append(
            f"| {scene} | {name} | {middle:.1f} | {range_} | {in_time} of {len(seconds)} |"
        )
    return "\n".join(lines)


async def main(arguments: argparse.Namespace) -> None:
    """Play every scene that was asked for, and print the table."""
    rng = random.Random(arguments.seed)
    with KubeAPIServer(build=True) as api, tempfile.TemporaryDirectory() as folder:
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        server = Server(api, rng)
        await server.write()
        kinds = await asyncio.to_thread(commands, arguments.before, Path(folder))
        table = ["| what | client | median, s | range, s | within 2 s |", "|---|---|---|---|---|"]
        for scene in arguments.scenes or SCENES:
            figures: dict[str, list[float]] = {}
            async with following(api, kinds, Path(folder)) as clients:
                for _ in range(arguments.runs):
                    took = await measure(SCENES[scene], server, clients, rng)
                    print(scene, took, file=sys.stderr)
                    for name, seconds in took.items():
                        figures.setdefault(name, []).append(seconds)
            table.append(rows(scene, figures))
        print("\n".join(table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery", description=__doc__)
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], help="all if none is named")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--before", default="", help="an earlier commit that takes part, too")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(main(parser.parse_args()))
