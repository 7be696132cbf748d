"""The clock of threads; the only place of the package that reads the time by itself.

Code on an event loop takes the loop's time, deciding code takes `now: float`. What is left are
threads that watch a loop and so cannot ask it, synchronous programs, and the default of a `clock`
argument that a loop with a time of its own replaces.
"""

from __future__ import annotations

import time

monotonic = time.monotonic
"""Return monotonic seconds; only differences mean anything. Itself: queues ask for each key."""


def wall_time() -> float:
    """Return the seconds since 1970, as the system's clock has them: it may jump."""
    return time.time()


def utc_text(at: float) -> str:
    """Return an instant for people, such as `2026-07-01 10:03:11 UTC`.

    Args:
        at: seconds since 1970.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
