"""Wait in a test for a condition that no event announces.

A condition that does not become true fails the test, with the test's own words. The default timeout
is only a safety wall, which a busy machine does not reach.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyinformer.testing._polling import poll  # for threads: the one door to it for all tests

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["now", "pause", "poll", "settle", "until"]

_INTERVAL_SECONDS = 0.005


async def until(
    condition: Callable[[], object], *, timeout_seconds: float = 100.0, what: object = ""
) -> None:
    """Wait until a condition holds.

    Args:
        condition: called again and again, on the loop.
        timeout_seconds: after how long the test fails.
        what: what the test waits for; printed if it fails.

    Raises:
        AssertionError: the condition did not become true in time.

    Cancellation:
        Safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    while not condition():
        assert loop.time() < deadline, f"not after {timeout_seconds:.0f} s: {what or condition}"
        await pause(_INTERVAL_SECONDS)


async def pause(seconds: float) -> None:
    """Let time pass, on the clock of the loop.

    Cancellation:
        Safe.
    """
    passed = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, passed.set)
    try:
        await passed.wait()
    finally:
        timer.cancel()


def now() -> float:
    """Return the loop's time."""
    return asyncio.get_running_loop().time()


async def settle() -> None:
    """Run every task that can run, and those that they wake."""
    for _ in range(20):
        await asyncio.sleep(0)
