"""Listeners of the test kit: none leaks a connection that was just accepted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Final, TypeAlias

import anyio

_TURNS_TO_ACCEPT: Final = 5  # loop iterations; a connection needs two or three to be registered


Serve: TypeAlias = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter], Coroutine[object, object, None]
]
"""Serves one connection until it ends."""


async def serve_connections(
    accepting: socket.socket, serve: Serve, ready: Callable[[], None]
) -> None:
    """Serve each connection in a task of its own until cancelled.

    Args:
        accepting: the socket, which listens.
        serve: called for each connection.
        ready: called once connections are accepted.

    Cancellation:
        The only way to end it; connections are cancelled.
    """
    # A group of anyio cannot be used in a callback if sniffio is installed: see UserTasks.
    async with asyncio.TaskGroup() as group:

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            group.create_task(serve(reader, writer))

        listener = await asyncio.start_server(accepted, sock=accepting)
        ready()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await close_listener(listener)


async def close_listener(listener: asyncio.Server) -> None:
    """Stop accepting; every connection that was accepted has been handed over before.

    A socket that was just accepted must become a connection first: asyncio leaks it open if the
    listener is closed before that.

    Cancellation:
        Not safe; shield it.
    """
    for accepting in listener.sockets:
        asyncio.get_running_loop().remove_reader(accepting.fileno())
    for _ in range(_TURNS_TO_ACCEPT):
        await asyncio.sleep(0)
    listener.close()
