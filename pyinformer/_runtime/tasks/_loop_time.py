"""The time of the running event loop, which a World can make virtual."""

from __future__ import annotations

import asyncio
import math
from typing import Final

_LONGER: Final = 8.0


def loop_time() -> float:
    """Return the running loop's time in seconds, also in a callback.

    There `anyio.current_time` fails if sniffio is installed, which knows asyncio only in a task.
    """
    return asyncio.get_running_loop().time()


def together(now: float, seconds: float) -> float:
    """Return a wait up to an eighth longer, whose end is one that others choose as well.

    Timers that are due within moments of each other would each wake a program that is at rest.

    Args:
        now: the loop's time.
        seconds: how long to wait at least; below a second it stays as it is.
    """
    if not 1.0 <= seconds < math.inf:
        return seconds
    grid_seconds: float = 2.0 ** math.floor(math.log2(seconds / _LONGER))
    return math.ceil((now + seconds) / grid_seconds) * grid_seconds - now
