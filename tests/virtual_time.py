"""An event loop whose clock jumps to the next timer as soon as nothing else is left to do.

An hour's wait takes no time and ends at exactly the expected second. Real sockets and threads do
not know of it: a timer that is due later than they answer fires before.
"""

from __future__ import annotations

import asyncio
import math
import selectors

_NANOSECOND = 1e-9
_Ready = list[tuple[selectors.SelectorKey, int]]


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves a clock instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> _Ready:
        if timeout is None:  # nothing is scheduled: only another thread can wake this loop
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that begins at second 0."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._clock.now

    @property
    def _clock_resolution(self) -> float:
        """How early asyncio may call a timer: more than what the rounding of the time loses."""
        return max(_NANOSECOND, 2 * math.ulp(self._clock.now))

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """Ignore the resolution of the real clock."""

    def advance(self, seconds: float) -> None:
        """Move the clock without running anything."""
        self._clock.now += seconds


def virtual_loop() -> VirtualTimeLoop:
    """Return the running loop, which has virtual time.

    Raises:
        TypeError: it has not.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("mark the test virtual_time: on the real clock, wait for an event")
    return loop


async def elapse(seconds: float) -> None:
    """Let virtual time pass; on a loop of the real clock there is nothing but a refusal."""
    loop = virtual_loop()
    passed = asyncio.Event()
    timer = loop.call_later(seconds, passed.set)
    try:
        await passed.wait()
    finally:
        timer.cancel()


def work(seconds: float) -> None:
    """Let virtual time pass as work does that leaves the loop to no other task."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError("work() needs a test marked virtual_time")
    loop.advance(seconds)
