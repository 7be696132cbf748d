"""Threads for handlers that block.

What enters is a call, what leaves is its result, on the loop that asked. The threads are daemons
and each serves one call at a time: one that never returns is lost, but it keeps neither another
call waiting nor the interpreter from ending, as threads of a shared pool would.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias, TypeVar, cast, final

_R = TypeVar("_R")
_Job: TypeAlias = Callable[[], Callable[[], object]]
"""Runs the call; what it returns hands over the result."""

_IDLE_SECONDS = 5.0  # then a thread ends; starting another costs 0.1 ms


@final
class WorkerThreads:
    """The threads of one function; as many as there are calls at once.

    Args:
        name: names the threads.
        idle_seconds: how long a thread waits for its next call before it ends.
    """

    def __init__(self, name: str, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Job]] = []

    async def run(self, call: Callable[[], _R]) -> _R:
        """Call in a thread and wait for the result.

        Cancellation:
            The call cannot be interrupted: it is waited for, its result is dropped, and the
            cancellation goes on. A second one leaves the thread to itself.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> Callable[[], object]:
            """Run in the thread; return how to hand over what came of it."""
            try:
                settle = partial(_settle, future, context.run(call), None)
            except BaseException as error:  # noqa: BLE001 - a fence: raised where it is awaited
                settle = partial(_settle, future, None, error)
            return partial(loop.call_soon_threadsafe, settle)

        self._submit(job)
        with _time_standing(loop):
            try:
                await asyncio.wait((future,))
            except asyncio.CancelledError:
                if not future.done():
                    await asyncio.wait((future,))
                if future.done() and not future.cancelled():
                    future.exception()  # taken note of, so that nobody logs it as never retrieved
                raise
        return cast("_R", future.result())

    def _submit(self, job: _Job) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(
                target=self._serve, args=(inbox,), name=f"pyinformer {self._name}", daemon=True
            ).start()
        inbox.put(job)

    def _serve(self, inbox: queue.SimpleQueue[_Job]) -> None:
        while True:
            try:
                job = inbox.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # somebody has chosen this thread and is about to put a job
            hand_over = job()
            with self._lock:  # before the loop can ask for the next call
                self._idle.append(inbox)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                hand_over()


def _time_standing(loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
    """Ask a loop of virtual time not to jump over the deadlines of what a thread does."""
    hold: Callable[[], AbstractContextManager[None]]
    hold = getattr(loop, "hold_time", contextlib.nullcontext)
    return hold()


def _settle(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # which a future cannot carry
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(error)
