"""The clock of the queues: the only place here that reads the time.

It stamps what enters a queue, so that a queue can say how old its oldest entry is. It is the
default of the `clock` argument; tests, and loops with a time of their own, pass another.
"""

from __future__ import annotations

import time


def monotonic() -> float:
    """Return monotonic seconds, on the scale of asyncio's own `loop.time()`."""
    return time.monotonic()
