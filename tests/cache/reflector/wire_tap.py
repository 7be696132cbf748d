"""A relay between a client and a server that notes which connection asked for what.

The proxy passes plain HTTP on as it is, and records for each connection the paths that it
requested. The records of a server do not distinguish connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK_BYTES = 1 << 16
_asked = re.compile(rb"^GET (\S+) HTTP/1\.1\r$", re.MULTILINE).findall


class WireTap:
    """Connections so far, in the order in which they were made."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = parts.hostname, parts.port
        self.url = ""
        self.connections: list[list[str]] = []

    def that_asked(self, path: str) -> list[list[str]]:
        """Return the connections on which a path was asked for, with all that each asked for."""
        return [
            asked for asked in self.connections if any(urlsplit(one).path == path for one in asked)
        ]

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until both halves have ended."""
        asked: list[str] = []
        self.connections.append(asked)
        from_server, to_server = await asyncio.open_connection(*self._server)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass(reader, to_server, asked))
                group.create_task(_pass(from_server, writer, []))
        except* OSError:
            pass  # either side may go at any time
        finally:
            to_server.transport.abort()
            with contextlib.suppress(OSError):
                await to_server.wait_closed()


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[str]
) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        asked.extend(target.decode() for target in _asked(data))
        writer.write(data)
    writer.close()


@asynccontextmanager
async def tapping(server_url: str) -> AsyncIterator[WireTap]:
    """Relay to a server until the end."""
    tap = WireTap(server_url)
    tasks: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(tap.relay(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # even if it never began

    listener = await asyncio.start_server(accepted, "127.0.0.1", 0)
    tap.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield tap
    finally:
        listener.close()
        left = set(tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        await listener.wait_closed()
