"""The clocks of code outside of an event loop; no other module reads the time itself.

Code on an event loop uses the loop's time, deciding code takes `now: float`. These clocks are for
threads that watch a loop, for synchronous programs, and for defaults of `clock` arguments.
"""

from __future__ import annotations

import time
from typing import Final, final

monotonic = time.monotonic
"""Return monotonic seconds. An alias, not a function: queues call it for each key."""


def wall_time() -> float:
    """Return the Unix time in seconds, from the system's clock, which may jump."""
    return time.time()


def pause(seconds: float) -> None:
    """Pause the calling thread, which must not be that of an event loop."""
    time.sleep(seconds)


def utc_text(at: float) -> str:
    """Return an instant as text, such as `2026-07-01 10:03:11 UTC`.

    Args:
        at: Unix time in seconds.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


@final
class Pace:
    """Pauses a working thread for a moment every half millisecond, so that others can run.

    The worker calls `step` often. Without the pauses, a waiting thread such as an event loop's
    would get the interpreter only after its switch interval of 5 ms. A pause of 0 s is not enough:
    the worker would take the interpreter back before the other thread has woken up.
    """

    def __init__(self) -> None:
        self._until = time.monotonic() + _STEP_SECONDS

    def step(self) -> None:
        """Pause if it is time."""
        if time.monotonic() >= self._until:
            time.sleep(_WAKE_UP_SECONDS)
            self._until = time.monotonic() + _STEP_SECONDS


def lease_time() -> float:
    """Return monotonic seconds that include suspends of the system, where it has such a clock.

    Elsewhere they stand still meanwhile, and only the wall clock shows it.
    """
    if _BOOTTIME is None:
        return time.monotonic()
    return time.clock_gettime(_BOOTTIME)


_STEP_SECONDS: Final = 0.0005
_WAKE_UP_SECONDS: Final = 50e-6  # more than a waiting thread needs to begin
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
