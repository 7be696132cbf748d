"""Waiting for an entry of a queue: the only module of this folder that uses an event loop.

Each arrival wakes the coroutine that waits longest, which then checks whether there is an entry. If
it is cancelled in the same moment, the next one is woken, so no coroutine sleeps beside an entry.
"""

from __future__ import annotations

from collections import deque
from typing import final

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Waiters", "checkpoint"]


@final
class Waiters:
    """Wakes coroutines in the order in which they began to wait."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: deque[anyio.Event] = deque()

    def __len__(self) -> int:
        return len(self._events)

    def wake_one(self) -> None:
        """Wake the coroutine that waits longest, if there is one."""
        if self._events:
            self._events.popleft().set()

    def wake_all(self) -> None:
        """Wake all."""
        while self._events:
            self._events.popleft().set()

    async def wait(self) -> None:
        """Wait to be woken.

        Cancellation:
            Safe; if it was woken already, the next coroutine is woken instead.
        """
        event = anyio.Event()
        self._events.append(event)
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class():
            if event.is_set():
                self.wake_one()
            else:
                self._events.remove(event)
            raise
