"""Wait in a test for a claim that nobody announces.

In goes a question; out comes nothing, once the answer is yes. A claim that does not come true fails
the test with its own words.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_INTERVAL_SECONDS = 0.005


async def until(
    condition: Callable[[], object], *, timeout_seconds: float = 10.0, what: object = ""
) -> None:
    """Wait until a condition holds.

    Args:
        condition: asked again and again, on the loop.
        timeout_seconds: how long to go on asking.
        what: what is waited for; printed if it was in vain.

    Raises:
        AssertionError: it did not come true.

    Cancellation:
        Safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    while not condition():
        assert loop.time() < deadline, f"not after {timeout_seconds:.0f} s: {what or condition}"
        tick = asyncio.Event()
        timer = loop.call_later(_INTERVAL_SECONDS, tick.set)
        try:
            await tick.wait()
        finally:
            timer.cancel()


def now() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Let every task that can run do so, and those that they wake."""
    for _ in range(20):
        await asyncio.sleep(0)
