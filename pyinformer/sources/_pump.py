"""Doing many small things on the event loop without holding it up.

What enters is a function that does one thing and says whether there was one; what leaves is a loop
that gives way to others by the time it spent, never by a count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

_BUDGET_SECONDS: Final = 0.004  # whoever shares the loop waits no longer than this for a turn


async def pump(step: Callable[[float], bool]) -> None:
    """Call a function until it says that there is nothing left for now.

    Args:
        step: does one thing, given the loop's time; returns whether there was anything to do.

    Cancellation:
        Safe; between two steps.
    """
    now = anyio.current_time()
    ends_at = now + _BUDGET_SECONDS
    while step(now):
        now = anyio.current_time()
        if now >= ends_at:
            await checkpoint()
            now = anyio.current_time()
            ends_at = now + _BUDGET_SECONDS
