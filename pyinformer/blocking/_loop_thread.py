"""A thread with an event loop, and the calls that other threads make to it.

It belongs to one process and is closed once. Closing it closes everything that was opened through
it, newest first and within a bound; the end of the interpreter closes it at the latest.

anyio's blocking portal is not used: it waits twice per call, does not report when cancelled work
has ended, and joins its thread without a bound.

No lock guards the state. From Python 3.14 on, Ctrl-C may come between a lock's `__enter__` and the
block that releases it, and the loop would wait for that lock forever. Instead, a caller announces
its call before it checks whether the thread is closed, and closing does the opposite: one of the
two sees the other.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, TypeVar, cast, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import UserTasks, error_text, run_on_asyncio, trace_text
from pyinformer.blocking._loop_calls import CUT_OFF, Call, Work, seconds_left
from pyinformer.blocking._sync_proxy import enter_on_loop
from pyinformer.client.cluster import CURRENT_CALLER
from pyinformer.errors import LifecycleError

_log = get_logger(__name__)

R = TypeVar("R")

_ABANDON_SECONDS: Final = 15.0  # twice what informers need to stop; a second Ctrl-C ends the wait
# For the loop itself, after everything in it has ended or was abandoned.
_LOOP_END_SECONDS: Final = 1.0
_CLOSED: Final = "the runner is closed: make a new one"


_thread: Final = threading.local()


def _context_of_thread() -> contextvars.Context:
    """Return a copy of the context in which the thread writes in its own name."""
    try:
        caller = _thread.caller
    except AttributeError:
        caller = _thread.caller = object()
    context = contextvars.copy_context()
    context.run(CURRENT_CALLER.set, caller)
    return context


@final
class LoopThread:
    """Runs an event loop in a daemon thread; constructing it starts nothing.

    Args:
        name: names the thread.
        grace_seconds: how long closing waits for everything that is still open, in total.
    """

    def __init__(self, name: str, *, grace_seconds: float) -> None:
        self._name = name
        self._grace_seconds = grace_seconds
        # Plain asyncio tasks: a callback of the loop starts them, and a group of anyio cannot be
        # used there if sniffio is installed, which knows asyncio only inside a task.
        self._tasks = UserTasks()
        self._process = os.getpid()
        self._start_right = threading.Lock()  # taken by the first start, and never released
        self._calls: set[Call] = set()
        self._open: dict[object, Callable[[], Awaitable[object]]] = {}
        self._ready = threading.Event()
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        # The Ctrl-C that ended a wait for the end of work.
        self._interrupt: BaseException | None = None
        self._is_closed = False
        self._has_stopped = False  # everything is closed, so that no call can start

    @property
    def is_running(self) -> bool:
        """Whether it accepts calls: it was started in this process, and not closed."""
        return self._ready.is_set() and not self._is_closed and self._process == os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether closing has begun, in this process."""
        return self._is_closed and self._process == os.getpid()

    def start(self) -> None:
        """Start the thread and wait until its loop runs.

        Raises:
            LifecycleError: it was started before or closed, or another process made it.
        """
        self.refuse_other_process()
        if self._is_closed or not self._start_right.acquire(blocking=False):
            raise LifecycleError("a runner can be started only once: make a new one")
        self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        atexit.register(self.close)
        self._thread.start()
        self._ready.wait()
        if self._crash is not None:
            raise LifecycleError(
                f"the event loop could not be started: {self._crash}"
            ) from self._crash

    def call(self, work: Callable[[], Awaitable[R]], *, undo: Work | None = None) -> R:
        """Run an asynchronous function on the loop and wait for its result.

        Args:
            work: the function.
            undo: reverts the work if it succeeds after this call was interrupted.

        Raises:
            LifecycleError: the thread does not run, it is the calling thread, or another process
                made it.
            TimeoutError: the deadline of this thread's `timeout` block has passed.
        """
        self._check()
        return cast("R", self._call(work, undo, seconds_left()))

    def do(self, step: Callable[[], R]) -> R:
        """Run a synchronous function on the loop and wait for its result.

        Raises:
            LifecycleError: as `call`.
            TimeoutError: as `call`.
        """
        self._check()
        return cast("R", self._call(step, None, seconds_left()))

    def enter(self, lifetime: AbstractAsyncContextManager[R]) -> R:
        """Enter an asynchronous context manager; closing the thread exits it if still open."""
        return self.call(
            partial(enter_on_loop, self, lifetime), undo=partial(self._leave, lifetime)
        )

    def adopt(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close this with the thread, unless it was closed before. Call it on the loop."""
        self._open[lifetime] = close

    def leave(
        self,
        lifetime: AbstractAsyncContextManager[object],
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Exit what was entered; do nothing if the thread is closed, or in a forked child.

        Raises:
            LifecycleError: called from the loop's own thread.
        """
        if exc is None or exc is not self._interrupt:  # otherwise closing the thread closes it
            self.close_on_exit(lifetime, partial(self._leave, lifetime, exc_type, exc, traceback))

    def close_on_exit(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close what was adopted, without a timeout; do nothing where `leave` does nothing.

        Raises:
            LifecycleError: called from the loop's own thread.
        """

        async def forget() -> None:
            """Close it on the loop, and not a second time."""
            self._open.pop(lifetime, None)
            await close()

        if self.is_running:
            self._refuse_own_thread()
            self._call(forget, None, None, is_closing=True)

    async def _leave(
        self,
        lifetime: AbstractAsyncContextManager[object],
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._open.pop(lifetime, None)
        await lifetime.__aexit__(exc_type, exc, traceback)

    def close(self, exc: BaseException | None = None) -> None:
        """Close everything that is still open, stop the loop, and wait for its end, with a bound.

        Calls that wait in other threads raise LifecycleError. A second call only waits. In a forked
        child it does nothing.

        Args:
            exc: the error that ends the `with` block. If it is the Ctrl-C that interrupted a wait,
                this one is short, too.

        Raises:
            LifecycleError: called from the loop's own thread.
        """
        if self._process != os.getpid():
            return
        self._refuse_own_thread()
        self.stop_nowait()
        if exc is not None and exc is self._interrupt:
            self.abandon_nowait()
        bound = _LOOP_END_SECONDS + self._grace_seconds
        is_begun = self._thread is not None and self._thread.is_alive()
        if is_begun and not self._over.wait(bound):
            _log.error("%s did not end in time and is left to itself", self._name)
        atexit.unregister(self.close)  # not earlier: at exit, an interrupted close is repeated

    def abandon_nowait(self) -> None:
        """Stop everything, and shorten every wait for it, also the one at exit."""
        self._grace_seconds = 0.0
        self.stop_nowait()

    def stop_nowait(self) -> None:
        """Cancel the calls and stop the loop, without waiting; a second call does nothing."""
        self._is_closed = True
        calls = self._calls.copy()  # in one step, as add() and discard()
        loop, stopping = self._loop, self._stopping
        if loop is None or stopping is None or self._over.is_set():
            return  # a loop that starts later sees that it was closed
        try:
            for call in calls:
                call.cancel(loop)
            loop.call_soon_threadsafe(stopping.set)
        except RuntimeError:  # the loop has just ended by itself
            _log.debug("%s has ended by itself", self._name)

    def _check(self) -> None:
        self.refuse_other_process()
        self._refuse_own_thread()
        if self._is_closed:
            raise LifecycleError(_CLOSED)
        if not self._ready.is_set():
            raise LifecycleError(
                "the runner is not started: with pyinformer.run_in_thread() as runner, or start()"
            )

    def refuse_other_process(self) -> None:
        """Raise in a forked child, which does not have the thread.

        Raises:
            LifecycleError: another process made it; the text says what to do.
        """
        if self._process != os.getpid():
            raise LifecycleError(
                f"this runner was made in process {self._process}, and this is its forked child"
                f" {os.getpid()}, which has no such thread: make the runner after the fork (in"
                " gunicorn's post_fork or the framework's start-up, not before a preload; with"
                ' multiprocessing, in the child, or use the "spawn" context)'
            )

    def _refuse_own_thread(self) -> None:
        if self._thread is not None and self._thread.ident == threading.get_ident():
            raise LifecycleError(
                "a blocking call from the event loop's own thread would wait for itself: call it"
                " from another thread, or await the same of `.asynchronous`"
            )

    def _call(
        self,
        work: Work,
        undo: Work | None,
        patience: float | None,
        *,
        is_closing: bool = False,
    ) -> object:
        call = Call(work)
        if patience == 0.0:
            raise TimeoutError(CUT_OFF)
        try:
            self._submit(call)
            if not call.wait(patience):
                raise TimeoutError(CUT_OFF)
        except LifecycleError:
            raise
        except BaseException as error:  # the timeout, or Ctrl-C, which may come at any time
            if is_closing:  # closing continues: it is never cancelled, only no longer waited for
                self._interrupt = error
            else:
                self._abandon(call, undo)
            raise
        finally:
            self._calls.discard(call)
        return call.result()

    def _submit(self, call: Call) -> None:
        self._calls.add(call)
        if self._is_closed or self._over.is_set() or self._loop is None:
            raise LifecycleError(_CLOSED)
        try:
            self._loop.call_soon_threadsafe(self._launch, call, context=_context_of_thread())
        except RuntimeError as error:  # the loop has just ended
            raise LifecycleError(_CLOSED) from error

    def _launch(self, call: Call) -> None:
        if self._has_stopped:
            call.refuse(LifecycleError(_CLOSED))
        else:
            call.task = self._tasks.spawn(f"a call of {self._name}", call.run())

    def _abandon(self, call: Call, undo: Work | None) -> None:
        """Cancel a call whose caller stopped waiting, wait for its end, and undo its work."""
        loop = self._loop
        if loop is None or self._over.is_set():
            return
        call.cancel(loop)
        try:
            has_ended = call.wait(_ABANDON_SECONDS)
        except BaseException as error:  # a second Ctrl-C
            self._interrupt = error
            raise
        if not has_ended:
            _log.warning(
                "a cancelled call of %s did not end in time and is left to itself", self._name
            )
        elif call.has_succeeded and undo is not None:
            undoing = Call(undo)
            self._submit(undoing)
            undoing.wait(_ABANDON_SECONDS)

    def _serve(self) -> None:
        try:
            run_on_asyncio(self._main())
        except BaseException as error:  # noqa: BLE001 - a fence: no thread joins this one
            self._crash = error
            _log.error("%s has crashed: %s\n%s", self._name, error_text(error), trace_text(error))
        finally:
            self._over.set()
            for call in self._calls.copy():
                call.refuse(LifecycleError("the runner's event loop has ended"))
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._ready.set()
        if not self._is_closed:  # by a caller that was interrupted while the loop started
            await self._stopping.wait()
        try:
            await self._close_all()
        finally:
            self._has_stopped = True
            await self._tasks.stop(self._grace_seconds)

    async def _close_all(self) -> None:
        """Close everything that is still open, newest first."""
        while self._open:
            lifetime, close = self._open.popitem()
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - a fence: the others are closed, too
                _log.error("%r failed to close: %s", lifetime, error_text(error))
