"""How other threads, and those who come before the loop runs, reach a queue: one inbox.

What enters, from any thread, are calls; what leaves are the same calls, in order, on the loop's
thread. Handing over takes no lock and never waits: an append, and at most one wake-up of the loop
for everything that piled up. Until a loop is known, the calls wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import final

from pyinformer.apimachinery import LifecycleError

_SLICE = 1_000  # calls made in one step of the loop: 1 to 2 ms

Call = Callable[[], object]


@final
class Handover:
    """Calls on their way to the loop's thread."""

    __slots__ = ("_calls", "_is_announced", "loop", "thread")

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop whose thread this is; None while no loop is known."""
        self._is_announced = False
        self.thread = 0
        """The loop's thread; 0 while no loop is known, which no thread is."""

    def __len__(self) -> int:
        return len(self._calls)

    def bind(self) -> asyncio.AbstractEventLoop | None:
        """Take the running loop, if it is another than before; return it if so.

        Raises:
            LifecycleError: another loop is in use and not closed.
        """
        loop = asyncio.get_running_loop()
        if loop is self.loop:
            return None
        if self.loop is not None and not self.loop.is_closed():
            raise LifecycleError(
                "the queue belongs to another event loop: take keys there, add from any thread"
            )
        self.loop = loop
        self.thread = get_ident()
        return loop

    def hand_over(self, call: Call) -> None:
        """Have a call made on the loop's thread, soon; from any thread.

        A call that comes after the loop was closed waits for the next loop, if there is one.
        """
        self._calls.append(call)  # before the loop is looked at: bind() looks the other way round
        loop = self.loop
        if loop is not None and not self._is_announced:
            self._announce(loop)

    def run_nowait(self) -> None:
        """Make every call that has arrived; on the loop's thread, or before there is a loop."""
        while self._calls:
            self._calls.popleft()()

    def _announce(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_announced = True
        try:
            loop.call_soon_threadsafe(self._run_slice)
        except RuntimeError:  # closed
            self._is_announced = False

    def _run_slice(self) -> None:
        self._is_announced = False  # before the first look: a later arrival announces itself
        for _ in range(_SLICE):
            if not self._calls:
                return
            self._calls.popleft()()
        if self.loop is not None:
            self._announce(self.loop)
