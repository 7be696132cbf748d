"""Threads for functions that block.

The threads are daemons and each runs one call at a time. A call that never returns costs its
thread, but delays neither other calls nor the interpreter's end, as in a shared pool.
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
"""Runs a call in a thread; returns a function that hands the result to the loop."""

_IDLE_SECONDS = 5.0  # then a thread ends; starting another costs 0.1 ms


@final
class WorkerThreads:
    """The threads of one function: as many as it has concurrent calls.

    Args:
        name: the name of the threads.
        idle_seconds: how long a thread waits for its next call before it ends.
    """

    def __init__(self, name: str, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Job]] = []

    async def run(self, call: Callable[[], _R]) -> _R:
        """Run a call in a thread and wait for its result.

        Cancellation:
            The call cannot be interrupted: it is awaited, its result is dropped, then the
            cancellation is raised. A second cancellation does not wait for the thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> Callable[[], object]:
            """Run in the thread; return the function that hands over the result."""
            try:
                settle = partial(_settle, future, context.run(call), None)
            except BaseException as error:  # noqa: BLE001 - a fence: raised where it is awaited
                settle = partial(_settle, future, None, error)
            return partial(loop.call_soon_threadsafe, settle)

        self._submit(job)
        with _held_time(loop):
            try:
                await asyncio.wait((future,))
            except asyncio.CancelledError:
                if not future.done():
                    await asyncio.wait((future,))
                if future.done() and not future.cancelled():
                    future.exception()  # marked as retrieved, so that asyncio does not log it
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
                continue  # _submit() has chosen this thread and is about to put a job
            hand_over = job()
            with self._lock:  # before the loop can submit the next call
                self._idle.append(inbox)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                hand_over()


def _held_time(loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
    """Stop the clock of a loop with virtual time while a thread works."""
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
