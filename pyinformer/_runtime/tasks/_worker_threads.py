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
from typing import TypeAlias, TypeVar, final

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
        self._lock = threading.RLock()
        self._idle: list[queue.SimpleQueue[_Job]] = []

    async def run(
        self, call: Callable[[], _R], *, on_cancelled: Callable[[], None] = lambda: None
    ) -> _R:
        """Run a call in a thread and wait for its result.

        Args:
            call: the function to run.
            on_cancelled: called once, if the caller is cancelled while the function runs.

        Cancellation:
            The call cannot be interrupted: it is awaited, its result is dropped, then the
            cancellation is raised. A second cancellation does not wait for the thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_R] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()  # a cancellation ends this one alone
        context = contextvars.copy_context()

        def wake(settle: Callable[[], None]) -> None:
            """Hand over the result, on the loop."""
            settle()
            if not ended.done():
                ended.set_result(None)

        def job() -> Callable[[], object]:
            """Run in the thread; return the function that hands over the result."""
            settle = _result_of(partial(context.run, call), future)
            return partial(loop.call_soon_threadsafe, wake, settle)

        self._submit(job)
        with _held_time(loop):
            try:
                await ended
            except asyncio.CancelledError:
                if not future.done():
                    on_cancelled()
                    await asyncio.wait((future,))
                raise
        return future.result()

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


def run_in_daemon(name: str, call: Callable[[], _R]) -> asyncio.Future[_R]:
    """Run a call in a separate daemon thread; return the future of its result.

    The call cannot be interrupted. As a daemon it delays neither other calls nor the program's end;
    if the future is not awaited any more, the result is dropped. Meanwhile virtual time stands
    still.

    Args:
        name: the name of the thread.
        call: the function to run.

    Raises:
        RuntimeError: the process cannot start another thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_R] = loop.create_future()
    holding = contextlib.ExitStack()

    def run() -> None:
        settle = _result_of(call, future)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name=name, daemon=True).start()
    holding.enter_context(_held_time(loop))
    future.add_done_callback(lambda _: holding.close())
    return future


def _result_of(call: Callable[[], _R], future: asyncio.Future[_R]) -> Callable[[], None]:
    """Call a function; return the function that hands its result or its error to a future."""
    try:
        return partial(_set_result, future, call())
    except BaseException as error:  # noqa: BLE001 - a fence: raised where it is awaited
        return partial(_set_error, future, error)


def _held_time(loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
    """Stop the clock of a loop with virtual time while a thread works."""
    hold: Callable[[], AbstractContextManager[None]]
    hold = getattr(loop, "hold_time", contextlib.nullcontext)
    return hold()


def released_time(loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
    """Let the clock of a loop with virtual time run while a thread waits for the loop."""
    release: Callable[[], AbstractContextManager[None]]
    release = getattr(loop, "release_time", contextlib.nullcontext)
    return release()


def _set_result(future: asyncio.Future[_R], result: _R) -> None:
    if not future.done():
        future.set_result(result)


def _set_error(future: asyncio.Future[_R], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # which a future cannot carry
        found = error  # its traceback has the line of the function
        error = RuntimeError("the function raised StopIteration")
        error.__cause__ = found
    future.set_exception(error)
    future.exception()  # marked as retrieved: the caller may have left
