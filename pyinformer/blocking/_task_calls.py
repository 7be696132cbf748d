"""A function in a thread, and the blocking calls that it makes to the loop that awaits it.

Every call runs in the context of the task that awaits the function, or in that of its thread if
that is a copy of it: it belongs to the same reconcile and to the same term of leader election,
whichever thread makes it. Cancelling that task cancels the calls once, and the function ends them
with an error as it would end an await.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, TypeVar, cast, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import UserTasks, WorkerThreads, error_text, released_time
from pyinformer.blocking._cluster import BlockingCluster
from pyinformer.blocking._loop_calls import CUT_OFF, Call, Work, seconds_left
from pyinformer.blocking._sync_proxy import enter_on_loop
from pyinformer.client.cluster import CURRENT_CALLER, Cluster
from pyinformer.errors import LifecycleError

_log = get_logger(__name__)

R = TypeVar("R")

_END_SECONDS: Final = 5.0  # for a request that is cancelled, and for what was left open
_CANCELLED: Final = (
    "the call was cancelled: the function took longer than its deadline, or its controller is being"
    " closed"
)
_CALLS: Final = contextvars.ContextVar["TaskCalls | None"]("pyinformer calls", default=None)
"""Of the function in whose thread, or in a copy of whose context, the program is."""
_RETURNED: Final = "the function that was given this cluster has returned: no thread may use it now"


async def run_with_cluster(
    threads: WorkerThreads, function: Callable[[BlockingCluster], R], cluster: Cluster
) -> R:
    """Run a function in a thread with the blocking face of a cluster; return its result.

    What the function opened and did not close is closed when it returns.

    Args:
        threads: where it runs.
        function: the function.
        cluster: the cluster, on this loop.

    Raises:
        BaseException: what the function raised.

    Cancellation:
        Cancels the calls in flight, or the next call, once: they raise LifecycleError in the
        thread. The function is awaited; a second cancellation does not wait for it.
    """
    caller = CURRENT_CALLER.set(object())  # each call has a task of its own, and all one writer
    calls = TaskCalls()
    token = _CALLS.set(calls)
    try:
        return await threads.run(
            partial(function, BlockingCluster(calls, cluster)), on_cancelled=calls.cancel_once
        )
    finally:
        _CALLS.reset(token)
        CURRENT_CALLER.reset(caller)
        calls.close_nowait()
        if calls.has_leftovers:
            await calls.settle()


@final
class TaskCalls:
    """The blocking calls of one function; made on the loop, by the task that awaits the function.

    `cancel_once`, `close_nowait` and `settle` belong to the loop, all other methods to threads.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._own_thread = threading.get_ident()
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._tasks = UserTasks()
        self._calls: set[Call] = set()
        self._open: dict[object, Callable[[], Awaitable[object]]] = {}
        self._must_stop = False
        self.is_closed: bool = False
        """Whether the function has returned."""

    def call(self, work: Callable[[], Awaitable[R]], *, undo: Work | None = None) -> R:
        """Run an asynchronous function on the loop and wait for its result.

        Args:
            work: the function.
            undo: not needed: what was opened is closed when the function returns.

        Raises:
            LifecycleError: the awaiting task was cancelled, or the function has returned; or this
                is the loop's thread, or a forked child.
            TimeoutError: the deadline of this thread's `timeout` block has passed.
        """
        return cast("R", self._call(work))

    def do(self, step: Callable[[], R]) -> R:
        """Run a synchronous function on the loop and wait for its result.

        Raises:
            LifecycleError: as `call`.
            TimeoutError: as `call`.
        """
        return cast("R", self._call(step))

    def enter(self, lifetime: AbstractAsyncContextManager[R]) -> R:
        """Enter an asynchronous context manager; it is exited when the function returns."""
        return self.call(partial(enter_on_loop, self, lifetime))

    def adopt(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close this when the function returns, unless it was closed before. On the loop."""
        self._open[lifetime] = close

    def leave(
        self,
        lifetime: AbstractAsyncContextManager[object],
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Exit what was entered; do nothing if the function has returned."""
        self.close_on_exit(lifetime, partial(lifetime.__aexit__, exc_type, exc, traceback))

    def close_on_exit(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close what was adopted; do nothing if the function has returned."""

        async def forget() -> None:
            """Close it on the loop, and not a second time."""
            self._open.pop(lifetime, None)
            await close()

        if not self.is_closed:
            self.call(forget)

    def refuse_other_process(self) -> None:
        """Raise in a forked child, which has no event loop.

        Raises:
            LifecycleError: another process made it.
        """
        if self._process != os.getpid():
            raise LifecycleError(
                f"this cluster belongs to process {self._process}, and this is its forked child"
                f" {os.getpid()}, which has no event loop: connect there"
            )

    def cancel_once(self) -> None:
        """Cancel the calls in flight, or else the next one: one of them raises LifecycleError."""
        with self._lock:
            self._must_stop = True
            calls = tuple(self._calls)
        for call in calls:
            call.cancel(self._loop)

    def close_nowait(self) -> None:
        """Refuse further calls, and cancel those of threads that the function has left behind."""
        with self._lock:
            self.is_closed = True
            calls = tuple(self._calls)
        for call in calls:
            call.cancel(self._loop)

    @property
    def has_leftovers(self) -> bool:
        """Whether something is open, or a call has not ended."""
        return bool(self._open or self._calls)

    async def settle(self) -> None:
        """Wait for the end of the calls, and close what is still open, newest first.

        Cancellation:
            Takes effect at once; what is not closed then stays open.
        """
        await self._tasks.stop(_END_SECONDS)
        while self._open:
            lifetime, close = self._open.popitem()
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - a fence: the others are closed, too
                _log.error("%r failed to close: %s", lifetime, error_text(error))

    def _call(self, work: Work) -> object:
        self.refuse_other_process()
        if self._own_thread == threading.get_ident():
            raise LifecycleError(
                "a blocking call from the event loop's own thread would wait for itself: make the"
                " function `async def`, which is given the asynchronous cluster"
            )
        patience = seconds_left()
        if patience == 0.0:
            raise TimeoutError(CUT_OFF)
        call = Call(work)
        self._submit(call)
        try:
            self._wait(call, patience)
        finally:
            with self._lock:
                self._calls.discard(call)
        if call.was_cancelled:
            self._must_stop = False
            raise LifecycleError(_RETURNED if self.is_closed else _CANCELLED)
        return call.result()

    def _submit(self, call: Call) -> None:
        with self._lock:
            if self.is_closed:
                raise LifecycleError(_RETURNED)
            if self._must_stop:
                self._must_stop = False
                raise LifecycleError(_CANCELLED)
            self._calls.add(call)
            # The function's thread may have a context variable more, such as a span of its own.
            context = contextvars.copy_context() if _CALLS.get() is self else self._context
            self._loop.call_soon_threadsafe(self._launch, call, context=context)

    def _wait(self, call: Call, patience: float | None) -> None:
        if call.wait(patience):
            return
        call.cancel(self._loop)
        call.wait(_END_SECONDS)
        raise TimeoutError(CUT_OFF)

    def _launch(self, call: Call) -> None:
        call.task = self._tasks.spawn("a blocking call", self._run(call))

    async def _run(self, call: Call) -> None:
        with released_time(self._loop):
            await call.run()
