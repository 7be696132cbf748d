"""A time budget for work on the event loop.

A socket with data in its buffer never suspends its reader, and neither does a loop over objects in
memory. Such code yields on purpose: by the time that it spent working, never by a count of items.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BUDGET_SECONDS: Final = 0.004
"""How long work may keep the event loop before other tasks get a turn."""


@final
class TimeBudget:
    """Adds up the time spent working until it is time to yield to other tasks."""

    __slots__ = ("_spent", "now")

    def __init__(self) -> None:
        self.now: Callable[[], float] = asyncio.get_running_loop().time
        self._spent = 0.0

    def spend_since(self, started_at: float) -> bool:
        """Add the time since `started_at`; return whether the budget is used up."""
        self._spent += self.now() - started_at
        return self._spent > BUDGET_SECONDS

    async def yield_now(self) -> None:
        """Let other tasks run and start a new budget.

        Cancellation:
            A point at which it is delivered.
        """
        self._spent = 0.0
        await checkpoint()


async def spread(steps: Iterable[None], budget: TimeBudget | None = None) -> None:
    """Run short steps to their end, and yield to other tasks whenever the budget is used up.

    Args:
        steps: an iterator that does a piece of work for each value, far shorter than the budget.
        budget: the budget of a longer work that these steps are a part of; None makes a new one.

    Cancellation:
        A point at which it is delivered; the remaining steps are not run.
    """
    budget = budget or TimeBudget()
    started = budget.now()
    for _ in steps:
        if budget.spend_since(started):
            await budget.yield_now()
        started = budget.now()
