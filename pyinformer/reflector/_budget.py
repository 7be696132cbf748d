"""A time budget for work on the event loop.

A socket with data in its buffer never suspends its reader, so whoever reads must let others run on
purpose: by the time that was really spent working, never by a count of items.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

BUDGET_SECONDS: Final = 0.004  # a handler on the same loop waits no longer than this for its turn


@final
class TimeBudget:
    """Adds up the time spent working and says when it is somebody else's turn."""

    __slots__ = ("_spent", "now")

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time
        self._spent = 0.0

    def spend_since(self, started_at: float) -> bool:
        """Add the time since then; return whether the budget is used up."""
        self._spent += self.now() - started_at
        return self._spent > BUDGET_SECONDS

    async def yield_now(self) -> None:
        """Let others run and start a new budget.

        Cancellation:
            A point at which it is delivered.
        """
        self._spent = 0.0
        await checkpoint()


async def spread(steps: Iterable[None], budget: TimeBudget | None = None) -> None:
    """Take short steps to their end, and let others run whenever the budget is used up.

    Args:
        steps: what to do, in steps far shorter than the budget.
        budget: the budget of a longer work that these steps are a part of; None is a new one.

    Cancellation:
        A point at which it is delivered; the steps that are left are not taken.
    """
    budget = budget or TimeBudget()
    started = budget.now()
    for _ in steps:
        if budget.spend_since(started):
            await budget.yield_now()
        started = budget.now()
