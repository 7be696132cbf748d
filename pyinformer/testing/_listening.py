"""Close a listener without leaking a connection that was just accepted."""

from __future__ import annotations

import asyncio
from typing import Final

_TURNS_TO_ACCEPT: Final = 5  # loop iterations; a connection needs two or three to be registered


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
