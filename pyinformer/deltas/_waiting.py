"""Those who wait for a queue to have something: the only module here that knows an event loop.

Each arrival wakes the one who waits longest; what was woken looks for itself whether there is
something to take. A wake-up whose owner was cancelled in the same moment goes to the next in line,
so that nobody sleeps beside a full queue.
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
        """Wake the one who waits longest, if anybody does."""
        if self._events:
            self._events.popleft().set()

    def wake_all(self) -> None:
        """Wake everybody."""
        while self._events:
            self._events.popleft().set()

    async def wait(self) -> None:
        """Wait to be woken.

        Cancellation:
            Safe; a wake-up that came too late for the cancelled goes to the next.
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
