"""A blocking call in a thread that several waiting callers share, also if some of them give up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar, final

from pyinformer.tasks import run_in_daemon

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


@final
class BlockingCall(Generic[R]):
    """Runs a function in a thread. It blocks one thread at most, also if its callers give up.

    Args:
        name: the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: asyncio.Future[R] | None = None

    async def run(self, ask: Callable[[], R]) -> R:
        """Return what the function returns; wait for an earlier call if that still runs.

        Raises:
            Exception: what it raised.

        Cancellation:
            Safe; the call in the thread ends on its own.
        """
        running = self._running
        is_here = running is not None and running.get_loop() is asyncio.get_running_loop()
        if running is None or running.done() or not is_here:
            running = self._running = run_in_daemon(self._name, ask)
        await asyncio.wait((running,))
        return running.result()
