"""Wait in a test for a condition that no event announces.

A condition that does not become true fails the test, with the test's own words. The default timeout
is only a safety wall, which a busy machine does not reach.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["now", "pause", "poll", "settle", "until"]

_INTERVAL_SECONDS = 0.005


def poll(
    condition: Callable[[], object], *, timeout_seconds: float, interval_seconds: float = 0.05
) -> bool:
    """Call a condition in a thread until it returns true or the time is up.

    Args:
        condition: called at once, then at intervals, and a last time at the deadline.
        timeout_seconds: the time after which to stop.
        interval_seconds: the pause between two calls.

    Returns:
        Whether the condition was true in the end.
    """
    deadline = time.monotonic() + timeout_seconds
    pause_of_thread = threading.Event()
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        pause_of_thread.wait(min(interval_seconds, left))
    return True


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
