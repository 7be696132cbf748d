"""Blocking calls in threads, and no more of them than needed, also if their callers give up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final
from weakref import WeakKeyDictionary

from pyinformer._runtime.tasks import run_in_daemon

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

R = TypeVar("R")

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, asyncio.Future[Any]]] = (
    WeakKeyDictionary()
)


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


async def run_in_turn(key: Hashable, name: str, call: Callable[[], R]) -> R:
    """Run a function in a thread, after an earlier call with this key has ended.

    A program may repeat a read that never ends, after a timeout for example: it blocks one thread.

    Args:
        key: what the call reads.
        name: the name of the thread.
        call: the function to run.

    Raises:
        Exception: what it raised.

    Cancellation:
        Safe; the call in the thread ends on its own.
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), {})
    while key in turns:
        await asyncio.wait((turns[key],))
    running = run_in_daemon(name, call)
    turns[key] = running
    running.add_done_callback(lambda _: turns.pop(key))
    await asyncio.wait((running,))
    return running.result()
