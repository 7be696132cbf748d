"""A Service on loopback: one port, whose connections go to the replicas in turn, past dead ones.

It is what the API server sees of a Service whose dead endpoints have been removed: connections that
are open when a replica dies break, and new ones reach the replicas that are left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Self

_CHUNK_BYTES = 1 << 16


class Service:
    """Forwards connections. Use it as `async with`."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        """The ports of the replicas that are ready; edit it."""
        self.connections: Counter[int] = Counter()
        """How many connections are open to each port."""
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.StreamWriter]()

    @property
    def port(self) -> int:
        """The port of the Service."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for one in tuple(self._open):
            one.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports = tuple(self.ports)
        self.ports.append(self.ports.pop(0))
        for port in ports:
            with suppress(OSError):
                there, here = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.close()
            return
        self._open |= {writer, here}
        self.connections[port] += 1
        await asyncio.gather(_pump(reader, here), _pump(there, writer))
        self.connections[port] -= 1
        self._open -= {writer, here}


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(_CHUNK_BYTES):
            target.write(piece)
            await target.drain()
    target.close()
