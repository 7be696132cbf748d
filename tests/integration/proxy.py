"""A TCP proxy between client and server that breaks connections as a network does.

It passes bytes on and never reads them, TLS included, until it is asked
to cut: after a number of bytes of each connection, or all at once, with RST; or to hold back.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_CHUNK_BYTES = 16 * 1024


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    left: int | None
    """How many bytes of the server may still pass; None is all."""
    flows: asyncio.Event
    """What the server sends passes while this is set."""

    def cut(self) -> None:
        """Break both halves at once."""
        self.client.transport.abort()
        self.server.transport.abort()


@dataclass(eq=False)
class Proxy:
    """A running proxy.

    Attributes:
        cut_after: draws after how many bytes of the server a new connection breaks; None never.
        cuts: how many connections it has broken.
        connections: how many it has accepted.
        passed: how many of them have reached a server.
    """

    target_ports: tuple[int, ...]
    cut_after: Callable[[], int] | None = None
    port: int = 0
    cuts: int = 0
    connections: int = 0
    passed: int = 0
    _open: set[_Link] = field(default_factory=set)
    _refuses: bool = False

    @property
    def url(self) -> str:
        """The server's address by way of this proxy."""
        return f"https://127.0.0.1:{self.port}"

    def cut_now(self) -> None:
        """Break every open connection."""
        for link in tuple(self._open):
            link.cut()
            self.cuts += 1

    def refuse(self) -> None:
        """Break every open connection, and every new one, until `accept`."""
        self._refuses = True
        self.cut_now()

    def accept(self) -> None:
        """Let connections through again."""
        self._refuses = False

    def hold_back(self) -> None:
        """Keep from the client what the server sends on the connections that are open now."""
        for link in self._open:
            link.flows.clear()

    def let_flow(self) -> None:
        """Pass on everything that was held back."""
        for link in self._open:
            link.flows.set()

    def cut_open_after(self, size: int) -> None:
        """Break each open connection after so many more bytes of the server."""
        for link in self._open:
            link.left = size

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until either half ends."""
        self.connections += 1
        if self._refuses:
            writer.transport.abort()
            return
        target = await self._reach_a_server()
        if target is None:
            writer.transport.abort()
            return
        from_server, to_server = target
        self.passed += 1
        flows = asyncio.Event()
        flows.set()
        link = _Link(writer, to_server, self.cut_after() if self.cut_after else None, flows)
        self._open.add(link)
        ways = [
            asyncio.create_task(_pass_on(reader, to_server)),
            asyncio.create_task(self._pass_back(link, from_server)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(link)
            link.cut()
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)

    async def _reach_a_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the servers in turn, passing over those that are dead."""
        ports = self.target_ports
        turn = self.connections % len(ports)
        for port in (*ports[turn:], *ports[:turn]):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _pass_back(self, link: _Link, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await link.flows.wait()
                passed = data if link.left is None else data[: link.left]
                link.client.write(passed)
                await link.client.drain()
                if link.left is None:
                    continue
                link.left -= len(passed)
                if not link.left:
                    self.cuts += 1
                    return


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxying(
    *target_ports: int, cut_after: Callable[[], int] | None = None
) -> AsyncIterator[Proxy]:
    """Run a proxy in front of one port on loopback, or of several, until the block is left."""
    proxy = Proxy(target_ports, cut_after)
    tasks: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task that the block owns."""
        task = asyncio.create_task(proxy.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accepted, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        left = tuple(tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
