"""One call from a thread to the event loop, and the time that a thread gives such calls.

What enters is a function to be run on the loop; what leaves is its result or its own error, in the
thread that waits. Whoever stops waiting cancels the work, once, and can wait for its end: nothing
goes on behind somebody who has left.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, final

from pyinformer._clock import monotonic
from pyinformer.apimachinery import LifecycleError, check_seconds

Work: TypeAlias = Callable[[], object]
"""Is called on the loop; what it returns is awaited if it can be."""


@final
class Call:
    """A call in flight; `run` belongs to the loop, the rest may be used from any thread.

    Args:
        work: what to do on the loop.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        # A bare lock, let go of at the end: a signal can interrupt the wait for an Event where
        # that holds its own lock, and it costs a third of a call.
        self._ended = threading.Lock()
        self._ended.acquire()
        self._has_ended = False
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = False
        self._result: object = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Do it, as a task of its own, and keep what comes of it.

        Cancellation:
            Cancels the work; it never leaves from here.
        """
        if self._is_cancelled:  # before its turn came
            self.refuse(asyncio.CancelledError())
            return
        self._task = asyncio.current_task()
        try:
            outcome = self._work()
            self._result = await outcome if inspect.isawaitable(outcome) else outcome
        except BaseException as error:  # noqa: BLE001 - a fence: raised in the thread that waits
            self._error = error
        finally:
            self._task = None
            self._end()

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the work, once; it may need a moment to end."""
        if not self._is_cancelled:
            self._is_cancelled = True
            loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # its turn has not come, or never will: whoever handed it over was interrupted
            self.refuse(asyncio.CancelledError())

    def refuse(self, error: BaseException) -> None:
        """Let it end with this error, since nobody will run it; on the loop."""
        if not self._has_ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._ended.release()

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait for the end, and tell whether it came; a signal interrupts the main thread's.

        It is for the one thread that calls.
        """
        if self._has_ended:
            return True
        if timeout_seconds is None:
            return self._ended.acquire()
        return self._ended.acquire(timeout=min(timeout_seconds, threading.TIMEOUT_MAX))

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended, and not by an error."""
        return self._has_ended and self._error is None

    def result(self) -> object:
        """Return what came of it, or raise that; once it has ended.

        Raises:
            LifecycleError: it was cancelled by somebody else than the one who waits.
        """
        error, self._error = self._error, None  # else the error and its traceback hold each other
        try:
            if isinstance(error, asyncio.CancelledError):
                raise LifecycleError(
                    "the call was cancelled while it waited: the runner was closed, or what was"
                    " called has cancelled itself"
                ) from error
            if error is not None:
                raise error
        finally:
            error = None
        return self._result


class _Deadline(threading.local):
    """Until when a thread waits. Of the thread: contexts are handed down to others."""

    until: float | None = None


_deadline = _Deadline()


@contextmanager
def timeout(seconds: float) -> Iterator[None]:
    """Bound every blocking call of this thread within a block, all of them together.

        with timeout(30.0):
            for event in events: ...

    What was being waited for is cancelled. Closing is not cut off, and neither are calls of other
    libraries. In a block within a block the nearer end counts.

    Args:
        seconds: how long from now.

    Raises:
        TimeoutError: by the call that was cut off, in the block.
        InvalidArgumentError: it is no duration.
    """
    check_seconds("seconds", seconds)
    before = _deadline.until
    until = monotonic() + seconds
    _deadline.until = until if before is None else min(until, before)
    try:
        yield
    finally:
        _deadline.until = before


def seconds_left() -> float | None:
    """Return how long this thread may still wait; None for ever."""
    until = _deadline.until
    return None if until is None else max(0.0, until - monotonic())
