"""One timer of the loop for the steps of many members, each of which knows when it is due again.

A step is a plain call: whatever is at rest costs no task that is woken to find that out.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol, final

from pyinformer._runtime.tasks._loop_time import loop_time, together

if TYPE_CHECKING:
    from collections.abc import Callable

SOON_SECONDS: Final = 0.01
"""Is now, whatever the rounding of times."""


class Stepped(Protocol):
    """Has a step that a timer calls."""

    def step(self, now: float) -> float:
        """Do what is due.

        Args:
            now: the loop's time.

        Returns:
            In how many seconds this has to be called again at the latest; infinity until it is
            woken.
        """
        ...

    def fail(self, error: Exception) -> None:
        """Take what `step` has raised, which is not called again."""
        ...


@final
class SharedTimer:
    """Steps its members when they are due: those due within moments of each other, together."""

    def __init__(self) -> None:
        self._due: dict[Stepped, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def join(self, member: Stepped) -> Callable[[], None]:
        """Add a member and step it; return the function that removes it."""
        self._call(member, loop_time())
        self._arm()

        def leave() -> None:
            self._due.pop(member, None)
            if not self._due and self._timer is not None:
                self._timer.cancel()
                self._timer, self._timer_at = None, math.inf

        return leave

    def wake(self, member: Stepped) -> None:
        """Step a member in the next iteration of the loop, unless it has been removed."""
        if member in self._due:
            self._due[member] = -math.inf
            self._arm()

    def wake_all(self) -> None:
        """Step all members in the next iteration of the loop."""
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
        for member, at in tuple(self._due.items()):
            if at <= soon and member in self._due:
                self._call(member, now)
        self._arm()

    def _call(self, member: Stepped, now: float) -> None:
        self._due[member] = math.inf
        try:
            seconds = member.step(now)
        except Exception as error:  # noqa: BLE001 - it is raised in the task of its member
            self._due.pop(member, None)
            member.fail(error)
            return
        if self._due.get(member) == math.inf:  # it was neither removed nor woken meanwhile
            self._due[member] = now + together(now, seconds)
