"""One timer of the loop for the steps of many members, each of which knows when it is due again.

A step is a plain call: whatever is at rest costs no task that is woken to find that out.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.tasks._loop_time import loop_time, together

if TYPE_CHECKING:
    from collections.abc import Callable

SOON_SECONDS: Final = 0.01
"""Is now, whatever the rounding of times."""


@final
class SharedTimer:
    """Calls steps when they are due: those that are due within moments of each other, together."""

    def __init__(self) -> None:
        self._due: dict[Callable[[float], float], float] = {}
        self._failed: dict[Callable[[float], float], Callable[[Exception], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def join(
        self, step: Callable[[float], float], *, failed: Callable[[Exception], None]
    ) -> Callable[[], None]:
        """Add a step and call it; return the function that removes it.

        Args:
            step: gets the loop's time, and returns in how many seconds it has to be called again
                at the latest; infinity until it is woken.
            failed: called with what the step raises, once: it is not called again.
        """
        self._failed[step] = failed
        self._call(step, loop_time())
        self._arm()

        def leave() -> None:
            self._due.pop(step, None)
            self._failed.pop(step, None)
            if not self._due and self._timer is not None:
                self._timer.cancel()
                self._timer, self._timer_at = None, math.inf

        return leave

    def wake(self, step: Callable[[float], float]) -> None:
        """Call a step in the next iteration of the loop, unless it has been removed."""
        if step in self._due:
            self._due[step] = -math.inf
            self._arm()

    def wake_all(self) -> None:
        """Call all steps in the next iteration of the loop."""
        self._due = dict.fromkeys(self._due, -math.inf)
        self._arm()

    def _arm(self) -> None:
        at = min(self._due.values(), default=math.inf)
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer_at = at
            self._timer = loop.call_at(max(at, loop.time()), self._on_time)

    def _on_time(self) -> None:
        self._timer, self._timer_at = None, math.inf
        soon = (now := loop_time()) + SOON_SECONDS
        for step, at in tuple(self._due.items()):
            if at <= soon and step in self._due:
                self._call(step, now)
        self._arm()

    def _call(self, step: Callable[[float], float], now: float) -> None:
        self._due[step] = math.inf
        try:
            seconds = step(now)
        except Exception as error:  # noqa: BLE001 - it is raised in the task of its member
            self._due.pop(step, None)
            self._failed[step](error)
            return
        if self._due.get(step) == math.inf:  # it was neither removed nor woken meanwhile
            self._due[step] = now + together(now, seconds)
