"""A timer that fires when nothing has happened for a while, at next to no cost for what happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class IdleTimer:
    """Calls back once when nothing has progressed for so long; until then, or until cancelled.

    Args:
        idle_seconds: how long nothing has to happen.
        on_idle: is called on the loop then, once.
    """

    __slots__ = ("_idle_seconds", "_loop", "_on_idle", "_timer", "progressed_at")

    def __init__(self, idle_seconds: float, on_idle: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = idle_seconds
        self._on_idle = on_idle
        self.progressed_at: float = self._loop.time()
        """When something happened last; setting it is all that progress costs."""
        self._timer = self._loop.call_later(idle_seconds, self._look)

    def progress(self) -> None:
        """Take note that something happened."""
        self.progressed_at = self._loop.time()

    def cancel(self) -> None:
        """Never call back."""
        self._timer.cancel()

    def _look(self) -> None:
        left = self.progressed_at + self._idle_seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._on_idle()
