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
        grace: returns how many seconds more are allowed at that moment.
    """

    __slots__ = ("_grace", "_idle_seconds", "_loop", "_on_idle", "_timer", "progressed_at")

    def __init__(
        self,
        idle_seconds: float,
        on_idle: Callable[[], None],
        *,
        grace: Callable[[], float] = float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = idle_seconds
        self._on_idle = on_idle
        self._grace = grace
        self.progressed_at: float = self._loop.time()
        """When something happened last; setting it is all that progress costs."""
        self._timer = self._loop.call_later(idle_seconds, self._look)

    def cancel(self) -> None:
        """Never call back."""
        self._timer.cancel()

    def _look(self) -> None:
        idle_seconds = self._idle_seconds + self._grace()
        left = self.progressed_at + idle_seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._on_idle()
