"""A client and a server in two network namespaces, and a network that swallows every packet.

Started by `unshare --net`, this program is the client; it starts the server in a namespace of its
own, joined by a veth pair. Both namespaces vanish with the processes. Then every packet of the
server is dropped, and the program prints, as JSON, what became of each stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a script

import pyinformer
from pyinformer.client.transport import ClusterConfig, Connection, ConnectionTimeouts
from pyinformer.errors import TransportError
from pyinformer.testing import APIServer, FaultProxy
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT, SERVER, PORT = "10.212.0.1", "10.212.0.2", 8001
PATIENCE_SECONDS = 45.0  # then it counts as not noticed
WATCH = [("watch", "true")]


def ip(command: str) -> None:
    """Change the network of this process's namespace."""
    subprocess.run(["ip", *command.split()], check=True, stdout=sys.stderr)


def say(line: object) -> None:
    """Write a line for the process that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def serve() -> None:
    """Be the server: each line on standard input is a command, answered by one line."""
    say("in a namespace of its own")
    await asyncio.to_thread(sys.stdin.readline)  # the pair is there
    for command in ("link set lo up", f"addr add {SERVER}/24 dev far", "link set far up"):
        ip(command)
    with APIServer(tls=True) as api, FaultProxy(api, host=SERVER, port=PORT) as proxy:
        say(api.ca_file)
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            match line:
                case "drop":
                    ip(f"route add blackhole {CLIENT}/32")
                case "pass":
                    ip(f"route del blackhole {CLIENT}/32")
                case name:
                    meta = {"name": name, "namespace": "default"}
                    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            say("done")
        proxy.cut()


class Peer:
    """The server, as the client sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, line: str) -> str:
        """Send it a line and return its answer."""
        print(line, file=self._process.stdin, flush=True)
        return self.hear()

    def hear(self) -> str:
        """Return the next line it says."""
        return self._process.stdout.readline().strip() if self._process.stdout else ""


@contextmanager
def server() -> Iterator[tuple[Peer, ClusterConfig]]:
    """Start the server, and join its namespace with this one."""
    command = ["unshare", "--net", sys.executable, __file__, "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            peer = Peer(process)
            peer.hear()
            ip(f"link add near type veth peer name far netns {process.pid}")
            for line in ("link set lo up", f"addr add {CLIENT}/24 dev near", "link set near up"):
                ip(line)
            ca_file = peer.say("joined")
            url = f"https://{SERVER}:{PORT}"
            yield peer, ClusterConfig(server=url, ca_file=ca_file, tls_server_name="localhost")
        finally:
            process.kill()


async def stream_fails(config: ClusterConfig, opened: asyncio.Event, *, watch: bool) -> str:
    """Follow a stream, and return with which words it ended."""
    connection = Connection(config, timeouts=ConnectionTimeouts(idle_seconds=600.0))
    try:
        async with connection.stream("/api/v1/pods", WATCH, watch=watch) as body:
            opened.set()
            await body.read()
    except TransportError as error:
        return str(error)
    finally:
        await connection.aclose()
    return "it ended in order"


async def plain_socket_fails(opened: asyncio.Event) -> str:
    """Wait on a socket with the system's defaults, which never notice a black hole."""
    reader, writer = await asyncio.open_connection(SERVER, PORT)
    opened.set()
    try:
        await reader.read(1)
    except OSError as error:
        return str(error)
    finally:
        writer.transport.abort()
    return "it ended in order"


async def informer_fails(informer: pyinformer.SharedInformer) -> str:
    """Return what an informer says of its watch, once it says something."""
    reflector = informer.status
    await until(lambda: reflector().reflector.last_error, timeout_seconds=PATIENCE_SECONDS + 1)
    return reflector().reflector.last_error or ""


async def run() -> None:
    """Open streams, let nothing through, and print how each ended, and after how many seconds."""
    with server() as (peer, config):
        async with (
            pyinformer.connect(config=config) as cluster,
            pyinformer.SharedInformer(cluster, "v1", "configmaps") as informer,
        ):
            await informer.wait_for_cache_sync(timeout_seconds=100)
            async with asyncio.TaskGroup() as group:
                opened = [asyncio.Event() for _ in range(3)]
                streams = {
                    "watch": stream_fails(config, opened[0], watch=True),
                    "aiohttp": stream_fails(config, opened[1], watch=False),
                    "plain": plain_socket_fails(opened[2]),
                }
                tasks = {name: group.create_task(one) for name, one in streams.items()}
                for event in opened:
                    await event.wait()
                peer.say("drop")
                tasks["informer"] = group.create_task(informer_fails(informer))
                told = await ends(tasks)
            peer.say("pass")
            peer.say("created-meanwhile")
            await until(lambda: len(informer.lister.list()) == 1, timeout_seconds=100)
            told["loads"] = informer.status().reflector.loads
    say(json.dumps(told))


async def ends(tasks: dict[str, asyncio.Task[str]]) -> dict[str, object]:
    """Note when each stream ends and how; the plain one is ended by us."""
    loop = asyncio.get_running_loop()
    dropped_at = loop.time()
    told: dict[str, object] = {}

    async def note(name: str) -> None:
        """Wait for one of them."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(dropped_at + PATIENCE_SECONDS):
                words = await asyncio.shield(tasks[name])
                told[name] = [loop.time() - dropped_at, words]

    async with asyncio.TaskGroup() as group:
        for name in tasks.keys() - {"plain"}:
            group.create_task(note(name))
    told["plain_is_open"] = not tasks["plain"].done()
    for task in tasks.values():
        task.cancel()
    return told


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else run())
