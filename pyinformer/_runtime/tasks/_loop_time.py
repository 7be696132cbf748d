"""The time of the running event loop, which a World can make virtual."""

from __future__ import annotations

import asyncio


def loop_time() -> float:
    """Return the running loop's time in seconds, also in a callback.

    There `anyio.current_time` fails if sniffio is installed, which knows asyncio only in a task.
    """
    return asyncio.get_running_loop().time()
