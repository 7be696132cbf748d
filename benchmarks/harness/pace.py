"""The pace of a load."""

from __future__ import annotations

import time
from collections.abc import Iterator


def evenly(count: int, per_second: float) -> Iterator[int]:
    """Count at a steady pace; after a number that took too long, the next ones are not hurried."""
    due = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, due - time.perf_counter()))
        yield number
        due = max(due + 1 / per_second, time.perf_counter())
