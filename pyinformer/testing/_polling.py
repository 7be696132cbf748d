"""Poll, in a thread, for a condition that cannot notify, such as the state of another program."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyinformer._runtime.clock import monotonic


def poll(
    condition: Callable[[], object], *, timeout_seconds: float, interval_seconds: float = 0.05
) -> bool:
    """Call a condition until it returns true or the time is up.

    Args:
        condition: called at once, then at intervals, and a last time at the deadline.
        timeout_seconds: the time after which to stop.
        interval_seconds: the pause between two calls.

    Returns:
        The last result of the condition.
    """
    deadline = monotonic() + timeout_seconds
    pause = threading.Event()
    while not condition():
        left = deadline - monotonic()
        if left <= 0:
            return False
        pause.wait(min(interval_seconds, left))
    return True
