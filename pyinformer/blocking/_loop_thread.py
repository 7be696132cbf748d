"""A thread with an event loop, and the way into it for every other thread.

What enters are functions and lifetimes; what leaves are their results, or their errors, bare. It
belongs to one process and is closed once: whatever was opened through it and forgotten is closed
with it, in reverse order and within a bound, at the latest when the interpreter ends.

The loop is run here rather than by anyio's blocking portal: that one waits twice per call, cannot
say when cancelled work has ended, and joins its thread without a bound.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, TypeVar, cast, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import LifecycleError
from pyinformer.blocking._calls import Call, Work, seconds_left
from pyinformer.tasks import Host, error_text, trace_text

_log = get_logger("pyinformer.blocking")

R = TypeVar("R")

_ABANDON_SECONDS: Final = 15.0  # twice what informers take; who is more in a hurry repeats Ctrl-C
_LAST_WORDS_SECONDS: Final = 1.0  # for the loop itself, once all in it has ended or was left
_CUT_OFF: Final = "cut off: the time of the timeout() block is over"


@final
class LoopThread:
    """Runs an event loop in a daemon thread; constructing it starts nothing.

    Args:
        name: names the thread.
        grace_seconds: how long closing waits for what is still open, all of it together.
    """

    def __init__(self, name: str, *, grace_seconds: float) -> None:
        self._name = name
        self._grace_seconds = grace_seconds
        self._host = Host(name, grace_seconds=grace_seconds)
        self._process = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may call while its thread holds it
        self._calls: set[Call] = set()
        self._open: dict[object, Callable[[], Awaitable[object]]] = {}
        self._ready = threading.Event()
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._crash: BaseException | None = None
        self._interrupt: BaseException | None = None  # the Ctrl-C of somebody who waits no longer
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether calls are taken: it was started in this process, and not closed."""
        return self._ready.is_set() and not self._is_closed and self._process == os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or began to be, in this process."""
        return self._is_closed and self._process == os.getpid()

    def start(self) -> None:
        """Start the thread and wait until its loop runs.

        Raises:
            LifecycleError: it was started before, was closed, or is another process's.
        """
        self.refuse_other_process()
        with self._lock:
            if self._thread is not None or self._is_closed:
                raise LifecycleError("a runner is started once: make a new one")
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        atexit.register(self.close)
        self._thread.start()
        self._ready.wait()
        if self._crash is not None:
            raise LifecycleError(f"no event loop could be started: {self._crash}") from self._crash

    def call(self, work: Callable[[], Awaitable[R]], *, undo: Work | None = None) -> R:
        """Do something on the loop and wait for what comes of it.

        Args:
            work: what to do.
            undo: takes it back, if it was done when nobody waited for it any more.

        Raises:
            LifecycleError: the thread does not run, is the caller's own, or another process's.
            TimeoutError: the time of this thread's `timeout` block is over.
        """
        self._check()
        return cast("R", self._call(work, undo, seconds_left()))

    def do(self, step: Callable[[], R]) -> R:
        """Do something on the loop that needs no await, and wait for what comes of it.

        Raises:
            LifecycleError: as `call`.
            TimeoutError: as `call`.
        """
        self._check()
        return cast("R", self._call(step, None, seconds_left()))

    def enter(self, lifetime: AbstractAsyncContextManager[R]) -> R:
        """Enter an asynchronous lifetime; closing the thread leaves it, if nobody else has."""

        async def open_() -> R:
            """Open it, on the loop."""
            value = await lifetime.__aenter__()
            self.adopt(lifetime, partial(lifetime.__aexit__, None, None, None))
            return value

        return self.call(open_, undo=partial(self._leave, lifetime))

    def adopt(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close this when the thread is closed, unless it was closed before; on the loop."""
        self._open[lifetime] = close

    def leave(
        self,
        lifetime: AbstractAsyncContextManager[object],
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Leave what was entered; nothing to do where the thread is closed, or in a forked child.

        Raises:
            LifecycleError: called from the loop's own thread.
        """
        if exc is None or exc is not self._interrupt:  # else the thread closes it with itself
            self.close_on_exit(lifetime, partial(self._leave, lifetime, exc_type, exc, traceback))

    def close_on_exit(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close by this what was adopted, without a timeout; as `leave` where there is nothing.

        Raises:
            LifecycleError: called from the loop's own thread.
        """

        async def forget() -> None:
            """Close it, on the loop, and not a second time."""
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
        """Close what is still open, end the loop, and wait for that, with a bound.

        Whoever waits in another thread gets LifecycleError. A second call only waits; in a forked
        child there is nothing to do.

        Args:
            exc: why; the Ctrl-C of somebody who waits no longer is hardly waited for here either.

        Raises:
            LifecycleError: called from the loop's own thread.
        """
        if self._process != os.getpid():
            return
        self._refuse_own_thread()
        self.stop_nowait()
        if exc is not None and exc is self._interrupt:
            self.abandon_nowait()
        bound = _LAST_WORDS_SECONDS + self._grace_seconds
        is_begun = self._thread is not None and self._thread.is_alive()
        if is_begun and not self._over.wait(bound):
            _log.error("%s did not end in time and is left to itself", self._name)
        atexit.unregister(self.close)  # not before: what was interrupted here goes on at exit

    def abandon_nowait(self) -> None:
        """Tell everything to end, and let nobody wait long for it, not at exit either."""
        self._grace_seconds = 0.0
        self.stop_nowait()

    def stop_nowait(self) -> None:
        """Tell everything to end, and wait for nothing; a second time it says nothing new."""
        with self._lock:
            self._is_closed = True
            calls = tuple(self._calls)
        loop, stopping = self._loop, self._stopping
        if loop is None or stopping is None or self._over.is_set():
            return  # it looks itself whether it was closed before it ran
        try:
            for call in calls:
                call.cancel(loop)
            loop.call_soon_threadsafe(stopping.set)
        except RuntimeError:  # the loop has ended by itself in this moment
            _log.debug("%s has ended by itself", self._name)

    def _check(self) -> None:
        self.refuse_other_process()
        self._refuse_own_thread()
        if self._is_closed:
            raise LifecycleError("the runner is closed: make a new one")
        if not self._ready.is_set():
            raise LifecycleError(
                "the runner is not started: with pyinformer.run_in_thread() as runner, or start()"
            )

    def refuse_other_process(self) -> None:
        """Refuse a child process, which has no such thread, and say what to do instead.

        Raises:
            LifecycleError: this is another process than the one that made it.
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
            raise TimeoutError(_CUT_OFF)
        try:
            self._submit(call)
            if not call.wait(patience):
                raise TimeoutError(_CUT_OFF)
        except LifecycleError:
            raise
        except BaseException as error:  # the timeout, or Ctrl-C, which may come at any moment
            if is_closing:  # which goes on: nothing that closes may be cut off, only not waited for
                self._interrupt = error
            else:
                self._abandon(call, undo)
            raise
        finally:
            with self._lock:
                self._calls.discard(call)
        return call.result()

    def _submit(self, call: Call) -> None:
        with self._lock:
            if self._is_closed or self._over.is_set() or self._loop is None:
                raise LifecycleError("the runner is closed: make a new one")
            self._calls.add(call)
            self._loop.call_soon_threadsafe(self._launch, call)

    def _launch(self, call: Call) -> None:
        if self._host.is_running:
            self._host.task_group.start_soon(call.run)
        else:
            call.refuse(LifecycleError("the runner is closed: make a new one"))

    def _abandon(self, call: Call, undo: Work | None) -> None:
        """Cancel what nobody waits for any more, wait for its end, and undo what it has done."""
        loop = self._loop
        if loop is None or self._over.is_set():
            return
        call.cancel(loop)
        try:
            has_ended = call.wait(_ABANDON_SECONDS)
        except BaseException as error:  # once more
            self._interrupt = error
            raise
        if not has_ended:
            _log.warning("a cancelled call of %s did not end and is left to itself", self._name)
        elif call.has_succeeded and undo is not None:
            undoing = Call(undo)
            self._submit(undoing)
            undoing.wait(_ABANDON_SECONDS)

    def _serve(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - whatever ends a loop; nobody joins this
            self._crash = error
            _log.error("%s has crashed: %s\n%s", self._name, error_text(error), trace_text(error))
        finally:
            with self._lock:
                self._over.set()
                calls = tuple(self._calls)
            for call in calls:
                call.refuse(LifecycleError("the runner's event loop has ended"))
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with self._host:
            self._ready.set()
            if not self._is_closed:  # by somebody who was interrupted while this started
                await self._stopping.wait()
            await self._close_all()

    async def _close_all(self) -> None:
        """Close what was forgotten, the newest first."""
        while self._open:
            lifetime, close = self._open.popitem()
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - one of them keeps no other open
                _log.error("%r was not closed in order: %s", lifetime, error_text(error))
