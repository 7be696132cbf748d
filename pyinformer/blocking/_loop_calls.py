"""One call from a thread to the event loop, and the deadline of such calls.

The waiting thread gets the result of the work, or its error. A caller that stops waiting cancels
the work once and can wait for its end, so no work continues after its caller has returned.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias, final

from pyinformer._runtime.clock import monotonic, pause
from pyinformer._runtime.tasks import UserTask
from pyinformer.client.cluster import begin_call
from pyinformer.errors import LifecycleError
from pyinformer.objects import check_seconds

CUT_OFF: Final = "the deadline of the timeout() block has passed"

Work: TypeAlias = Callable[[], object]
"""Is called on the loop; its result is awaited if it is awaitable."""


@final
class Call:
    """A call in flight. Only the loop calls `run` and `refuse`; the rest works from any thread.

    Args:
        work: what to do on the loop.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        # A bare lock, released at the end: a signal can interrupt Event.wait() while it holds the
        # event's own lock, and an Event costs a third of a call.
        self._ended = threading.Lock()
        self._ended.acquire()
        self._has_ended = False
        self.task: UserTask | None = None
        """The task that runs it; set with its start."""
        self._has_begun = False
        self._is_cancelled = False
        self._result: object = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Do the work in the current task, and keep its result or its error.

        Cancellation:
            Cancels the work; CancelledError is kept and not raised.
        """
        if self._is_cancelled:  # before it could start
            self.refuse(asyncio.CancelledError())
            return
        self._has_begun = True
        begin_call()
        try:
            outcome = self._work()
            self._result = await outcome if inspect.isawaitable(outcome) else outcome
        except BaseException as error:  # noqa: BLE001 - a fence: raised in the waiting thread
            self._error = error
        finally:
            self._has_begun = False
            self._end()

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the work once, without waiting for its end."""
        if not self._is_cancelled:
            self._is_cancelled = True
            loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self.task is not None and self._has_begun:
            self.task.cancel_once()  # as the end of the thread does
        else:  # not started, or never submitted since its caller was interrupted
            self.refuse(asyncio.CancelledError())

    def refuse(self, error: BaseException) -> None:
        """End the call with this error, since the work will not run. Call it on the loop."""
        if not self._has_ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._ended.release()

    def wait(self, timeout_seconds: float | None) -> bool:
        """Wait for the end, and return whether it came in time.

        Only the calling thread may wait. In the main thread, a signal interrupts the wait.
        """
        if self._has_ended:
            return True
        if timeout_seconds is None:
            return self._ended.acquire()
        return self._ended.acquire(timeout=min(timeout_seconds, threading.TIMEOUT_MAX))

    @property
    def has_succeeded(self) -> bool:
        """Whether the work has ended without an error."""
        return self._has_ended and self._error is None

    @property
    def was_cancelled(self) -> bool:
        """Whether the work was cancelled."""
        return isinstance(self._error, asyncio.CancelledError)

    def result(self) -> object:
        """Return the result of the work, or raise its error; call it after the end.

        Raises:
            LifecycleError: the work was cancelled, and not by the waiting thread.
        """
        error, self._error = self._error, None  # otherwise the error and its traceback form a cycle
        try:
            if isinstance(error, asyncio.CancelledError):
                raise LifecycleError(
                    "the call was cancelled while it waited: the runner was closed, or the called"
                    " function cancelled itself"
                ) from error
            if error is not None:
                raise error
        finally:
            error = None
        return self._result


class _Deadline(threading.local):
    """The deadline of the thread; not a context variable, since other threads inherit contexts."""

    until: float | None = None


_deadline = _Deadline()


@contextmanager
def timeout(seconds: float) -> Iterator[None]:
    """Bound the total time of this thread's blocking calls within a block.

        with timeout(30.0):
            for event in events: ...

    At the deadline the call in flight is cancelled. Closing is not bounded, and neither are calls
    of other libraries. In nested blocks the earlier deadline counts.

    Args:
        seconds: how long from now.

    Raises:
        TimeoutError: raised by the call that reaches the deadline, in the block.
        InvalidArgumentError: seconds is not a valid duration.
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
    """Return how long this thread may still wait; None for no bound."""
    until = _deadline.until
    return None if until is None else max(0.0, until - monotonic())


def pause_between_attempts(seconds: float) -> None:
    """Pause this thread, no longer than until its deadline.

    Raises:
        TimeoutError: the deadline has passed.
    """
    left = seconds_left()
    if left is None or seconds < left:
        pause(seconds)
        return
    pause(left)
    raise TimeoutError(CUT_OFF)
