"""The inbox of a queue: calls from other threads, and from before the event loop runs.

The calls are made in order on the loop's thread. Putting one takes no lock and never waits: an
append, and at most one wake-up of the loop for everything that has piled up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Final, Protocol, TypeAlias, cast, final

from pyinformer.errors import LifecycleError

_SLICE: Final = 1_000  # calls made in one step of the loop: 1 to 2 ms

Call: TypeAlias = Callable[[], object]


class Host(Protocol):
    """Has the id of the thread in which an event loop runs; None while the loop does not run."""

    @property
    def _thread_id(self) -> int | None: ...


@final
class ThreadInbox:
    """Calls on their way to the loop's thread."""

    __slots__ = ("_is_announced", "calls", "loop", "thread")

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()
        """The calls that were not made yet. Always this deque."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that makes the calls; None until there is one."""
        self._is_announced = False
        self.thread: int = 0
        """The loop's thread; 0, which is not a thread, until there is a loop."""

    def bind(self) -> asyncio.AbstractEventLoop | None:
        """Use the running loop from now on; return it if it is a new one.

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

    @property
    def _thread_id(self) -> int | None:
        """The loop's thread while the loop runs."""
        return self.thread if self.loop is not None and self.loop.is_running() else None

    def host(self) -> Host:
        """Return the object whose `_thread_id` is that of the loop's thread while the loop runs.

        asyncio's own loops have it as an attribute, whose reading calls nothing.
        """
        loop = self.loop
        has_it = isinstance(loop, asyncio.BaseEventLoop) and hasattr(loop, "_thread_id")
        return cast("Host", loop) if has_it else self

    def put(self, call: Call) -> None:
        """Have a call made on the loop's thread, soon; from any thread.

        A call that is put after the loop was closed waits for the next loop, if there is one.
        """
        self.calls.append(call)  # before reading the loop: bind() does both in the other order
        loop = self.loop
        if loop is not None and not self._is_announced:
            self._announce(loop)

    def run_nowait(self) -> None:
        """Make every call that has arrived; on the loop's thread, or before there is a loop."""
        while self.calls:
            self.calls.popleft()()

    def _announce(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_announced = True
        try:
            loop.call_soon_threadsafe(self._run_slice)
        except RuntimeError:  # closed
            self._is_announced = False

    def _run_slice(self) -> None:
        self._is_announced = False  # before the first call: a later one announces itself
        for _ in range(_SLICE):
            if not self.calls:
                return
            self.calls.popleft()()
        if self.loop is not None:
            self._announce(self.loop)
