"""Wait in a thread for something that cannot notify, such as another program.

In goes a question; out comes its last answer, at the latest when the time is up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyinformer._clock import monotonic


def poll(
    condition: Callable[[], object], *, timeout_seconds: float, interval_seconds: float = 0.05
) -> bool:
    """Ask until the answer is yes or the time is up.

    Args:
        condition: asked at once, then at intervals, and a last time at the deadline.
        timeout_seconds: how long to go on asking.
        interval_seconds: the pause between two questions.

    Returns:
        Whether the last answer was yes.
    """
    deadline = monotonic() + timeout_seconds
    pause = threading.Event()
    while not condition():
        left = deadline - monotonic()
        if left <= 0:
            return False
        pause.wait(min(interval_seconds, left))
    return True
