"""An event loop whose clock moves only while somebody waits for what happens in it.

Then it jumps to the next timer as soon as there is nothing else to do, so that a wait takes no time
and ends at exactly its second; otherwise it stands still, and no timer fires. Invariant: it never
jumps while a thread works for the loop, which would make every deadline of that work expire.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import TypeVar, TypeVarTuple, final

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class _StandingSelector(selectors.DefaultSelector):
    """A selector that moves a clock instead of waiting, or waits for others without moving it."""

    now = 0.0
    jumps = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; else jump, or wait for another thread."""
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
    """A loop that begins at second 0."""

    def __init__(self) -> None:
        self._clock = _StandingSelector()
        self._waiting = self._working = 0
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._clock.now

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Let the clock jump inside of the block; to be called in the loop."""
        self._waiting += 1
        self._set()
        try:
            yield
        finally:
            self._waiting -= 1
            self._set()

    def let_pass(self) -> None:
        """Let the clock jump from now on: nobody may be left to wait."""
        self._waiting += 1
        self._set()

    @contextmanager
    def hold_time(self) -> Iterator[None]:
        """Let the clock stand inside of the block, whoever waits: a thread works meanwhile."""
        self._working += 1
        self._set()
        try:
            yield
        finally:
            self._working -= 1
            self._set()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Run in a thread of a pool, as any loop does; time stands until it has answered."""
        future = super().run_in_executor(executor, func, *args)
        holding = ExitStack()
        holding.enter_context(self.hold_time())
        future.add_done_callback(lambda _: holding.close())
        return future

    async def shutdown_default_executor(self, *_timeout: float | None) -> None:
        """Wait for the threads of the pool, however long they take.

        Cancellation:
            As for any loop.
        """
        with self.hold_time():
            await super().shutdown_default_executor()

    def _set(self) -> None:
        self._clock.jumps = self._waiting > 0 and not self._working
