"""An event loop whose clock moves only while a caller waits for it.

Then, as soon as there is nothing else to do, the clock jumps to the next timer: a wait takes no
real time and ends at exactly its second. Otherwise the clock stands still, and no timer fires. It
never jumps while a thread works for the loop, which would expire every deadline of that work.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import TypeVar, TypeVarTuple, final

from pyinformer._runtime.clock import monotonic

_NANOSECOND = 1e-9
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class _StandingSelector(selectors.DefaultSelector):
    """A selector that advances a clock instead of waiting, or waits without advancing it."""

    now = 0.0
    jumps = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the ready events; if there are none, jump or wait for another thread."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if not self.jumps:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


@final
class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock, which starts at 0."""

    def __init__(self) -> None:
        self._clock = _StandingSelector()
        self._waiting = self._working = 0
        self._worked_on_at = 0.0
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._clock.now

    @property
    def _clock_resolution(self) -> float:
        """How early asyncio may call a timer.

        It is a nanosecond, which is lost in the rounding of times after half a year: a timer whose
        time has come would never be called, and the clock would stand still.
        """
        return max(_NANOSECOND, 2 * math.ulp(self._clock.now))

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """Ignore the resolution of the real clock."""

    @property
    def is_held(self) -> bool:
        """Whether a thread works for the loop, and does not wait for it."""
        return self._working > 0

    @property
    def held_seconds(self) -> float:
        """How long, in real time, no thread has begun or ended, or waited for the loop; any thread.

        0 while none works.
        """
        return monotonic() - self._worked_on_at if self._working else 0.0

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Allow the clock to jump inside the block; must be called in the loop."""
        self._waiting += 1
        self._set()
        try:
            yield
        finally:
            self._waiting -= 1
            self._set()

    def let_pass(self) -> None:
        """Allow the clock to jump from now on, for the end of the loop."""
        self._waiting += 1
        self._set()

    @contextmanager
    def hold_time(self) -> Iterator[None]:
        """Stop the clock inside the block, while a thread works."""
        self._working += 1
        self._set()
        try:
            yield
        finally:
            self._working -= 1
            self._set()

    @contextmanager
    def release_time(self) -> Iterator[None]:
        """Let the clock run inside the block, while a thread waits for the loop."""
        self._working -= 1
        self._set()
        try:
            yield
        finally:
            self._working += 1
            self._set()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Run in a pool thread, as any loop does; the clock stands still meanwhile."""
        future = super().run_in_executor(executor, func, *args)
        holding = ExitStack()
        holding.enter_context(self.hold_time())
        future.add_done_callback(lambda _: holding.close())
        return future

    async def shutdown_default_executor(self, *_timeout: float | None) -> None:
        """Wait for the pool threads without a time limit.

        Cancellation:
            As for any loop.
        """
        with self.hold_time():
            await super().shutdown_default_executor()

    def _set(self) -> None:
        self._worked_on_at = monotonic()
        self._clock.jumps = self._waiting > 0 and not self._working
