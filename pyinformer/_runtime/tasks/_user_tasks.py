"""Run user code in long-lived plain asyncio tasks.

A task is cancelled once and awaited for a grace period; one that does not end is logged, kept and
left alone. Cancellation is not delivered again, so a user's `finally: await rollback()` completes;
an anyio scope would cancel it again. Waiting is shielded from the scopes of the waiting caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks._user_error_logging import error_text

_log = get_logger(__name__)

_T = TypeVar("_T")
_AGAIN_SECONDS = 0.1  # between cancellations of what did not end in its grace period
DEFAULT_GRACE_SECONDS = 5.0  # a rollback over the network fits; a pod gets 30 s for everything


@final
class UserCodeTask(asyncio.Task[None]):
    """A task that knows whether it is cancelled for good.

    `cancelling()` does not show it: that is above 0 while a block of the user's `asyncio.timeout`
    or TaskGroup is left, and in Python 3.11 and 3.12 it stays so for good after a TaskGroup of
    which a child has failed.
    """

    is_ending: bool = False
    """Its owner has cancelled it, or the end of the event loop has."""
    cancelled_before: int = 0
    """What `cancelling()` was when the present call of user code began."""
    shown_name: Callable[[], str] | None = None
    """Returns what it works on, from any thread; None for a task whose name stays."""

    def get_name(self) -> str:
        """Return its name, for logs; it is made when it is read."""
        shown_name = self.shown_name  # read once: its owner may end the task meanwhile
        return super().get_name() if shown_name is None else shown_name()

    def set_name(self, value: object) -> None:
        """Give it another name, until its owner shows its own again."""
        self.shown_name = None
        super().set_name(value)

    def cancel(self, msg: object = None) -> bool:
        """Cancel it; once the loop runs no more, that is the end of the program."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # asyncio.run cancels all tasks when its main task has ended
            self.is_ending = True
        return super().cancel(msg)


def cancel_for_good(task: asyncio.Task[Any]) -> None:
    """Cancel a task that has to end; its owner does not cancel it again."""
    if isinstance(task, UserCodeTask):
        task.is_ending = True
    task.cancel()


def begin_user_code(task: asyncio.Task[Any] | None) -> None:
    """Let `ends_task` ignore the cancellations that earlier calls have left."""
    if isinstance(task, UserCodeTask):
        task.cancelled_before = task.cancelling()


@final
class UserTask:
    """A task of user code, made by UserTasks.spawn."""

    def __init__(self, name: str, task: UserCodeTask, owner: UserTasks) -> None:
        self.name = name
        self._task = task
        self._owner = owner
        self.is_detached: bool = False
        """Whether it is neither awaited nor cancelled any more; see detach()."""

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    @property
    def was_cancelled(self) -> bool:
        """Whether it has ended by its cancellation."""
        return self._task.cancelled()

    def on_end(self, function: Callable[[], None]) -> None:
        """Call a function on the loop when it has ended, also if it never began."""
        self._task.add_done_callback(lambda _: function())

    @property
    def is_current(self) -> bool:
        """Whether the caller runs inside this very task."""
        try:
            return asyncio.current_task() is self._task
        except RuntimeError:  # no loop runs in this thread
            return False

    def detach(self) -> None:
        """Do not wait for it or cancel it any more: it waits for the caller of stop() itself."""
        self.is_detached = True

    def cancel_once(self) -> None:
        """Cancel it; a second call does nothing, nor one after `asyncio.run` has cancelled all."""
        if not (self._task.is_ending or self._task.done()):
            cancel_for_good(self._task)

    async def join(self) -> None:
        """Wait for its end.

        Cancellation:
            Safe: the task continues.
        """
        await asyncio.wait((self._task,))

    async def end(self, grace_seconds: float) -> None:
        """Cancel it once and wait for its end; after a while, cancel it again and again.

        Args:
            grace_seconds: how long its clean-up is left alone.

        Cancellation:
            Takes effect when it has ended.
        """
        cancelled: asyncio.CancelledError | None = None
        self.cancel_once()
        wait_seconds = grace_seconds
        while not self._task.done():
            try:
                await wait_shielded(self._task, wait_seconds)
            except asyncio.CancelledError as error:
                cancelled = error
            wait_seconds = _AGAIN_SECONDS
            if not self._task.done():
                self._task.cancel()
        if cancelled is not None:
            raise cancelled

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait for it to end by itself.

        Returns:
            Whether it has ended. Called from inside the task, it returns at once.

        Cancellation:
            Takes effect when the wait is over, which the timeout bounds.
        """
        if not (self.is_current or self.is_detached):
            await wait_shielded(self._task, timeout_seconds)
        return self._task.done()

    async def stop(self, grace_seconds: float) -> bool:
        """Cancel it once, wait for its end, and abandon it if that does not come.

        Args:
            grace_seconds: how long to wait.

        Returns:
            Whether it has ended. Called from inside the task, it returns False at once, and the
            cancellation is delivered at the task's next await. One that is excused is left alone.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds.
        """
        if self.is_detached:
            return self._task.done()
        self.cancel_once()
        if self.is_current:
            return False
        try:
            await wait_shielded(self._task, grace_seconds)
        finally:
            self.abandon_if_running(grace_seconds)
        return self._task.done()

    def abandon_if_running(self, waited_seconds: float) -> None:
        """Log its name and stop waiting for it; it is kept, so that it can end later."""
        if not self._task.done():
            self._owner._abandon(self, waited_seconds)  # noqa: SLF001 - the other half of this class


@final
class UserTasks:
    """The tasks of one owner: a factory, or an informer without one.

    Args:
        on_crash: called with an exception that escapes from a task's coroutine. The coroutine
            catches the errors of user code, so such an exception is a bug in pyinformer.
    """

    def __init__(self, *, on_crash: Callable[[BaseException], None] | None = None) -> None:
        self._on_crash = on_crash
        self._running: dict[asyncio.Task[None], UserTask] = {}
        self._abandoned: dict[asyncio.Task[None], str] = {}
        self._closed: set[asyncio.Task[None]] = set()

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The names of the tasks that did not end in time and still run."""
        return tuple(self._abandoned.values())

    def spawn(
        self,
        name: str,
        coroutine: Coroutine[object, object, None],
        *,
        context: Context | None = None,
    ) -> UserTask:
        """Start a task on the running loop; no code of it runs before this returns.

        Args:
            name: the task's name, also in logs.
            coroutine: the coroutine to run; it must catch the user's errors itself.
            context: what it runs in; None for a copy of the caller's.
        """
        # Made without the loop's task factory, which may be an eager one: a handler that is called
        # before its registration was returned cannot use it.
        loop = asyncio.get_running_loop()
        task = UserCodeTask(coroutine, loop=loop, name=name, context=context)
        handle = UserTask(name, task, self)
        self._running[task] = handle
        task.add_done_callback(self._ended)
        return handle

    async def stop(self, grace_seconds: float) -> None:
        """Stop every task that still runs, all within the same grace period.

        Args:
            grace_seconds: how long to wait.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        waiting = [task for task in self._running.values() if not task.is_detached]
        for task in waiting:
            task.cancel_once()
        cancelled: asyncio.CancelledError | None = None
        for task in waiting:
            try:
                await task.wait(deadline - loop.time())
            except asyncio.CancelledError as error:
                cancelled = error
            task.abandon_if_running(grace_seconds)
        if cancelled is not None:
            raise cancelled

    def close_abandoned(self) -> None:
        """Close the coroutines of the tasks that ignored their cancellation, at the program's end.

        The event loop could not end before them. Their `finally` blocks run up to the first await;
        a task that awaits there as well is left alone.
        """
        for task, name in tuple(self._abandoned.items()):
            self._closed.add(task)
            try:
                task.get_coro().close()
            except ENDS_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001 - a fence: what user code raises at its end
                _log.error("%s raised %s when it was closed", name, error_text(error))
            task.cancel()  # it must not be woken again

    def _abandon(self, handle: UserTask, waited_seconds: float) -> None:
        task = handle._task  # noqa: SLF001 - the other half of this class
        if task not in self._abandoned:
            self._abandoned[task] = handle.name
            _log.error(
                "%s did not end within %.1f s and is left to itself", handle.name, waited_seconds
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        handle = self._running.pop(task)
        if self._abandoned.pop(task, None) is not None:
            _log.warning("%s finished late", handle.name)
        error = None if task.cancelled() else task.exception()
        if task in self._closed:  # its error is that it was closed
            self._closed.remove(task)
        elif error is not None and not isinstance(error, ENDS_PROGRAM):
            _log.error("%s crashed with %s", handle.name, error_text(error))
            if self._on_crash is not None:
                self._on_crash(error)


def ends_task(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether an error concerns the task that awaits user code, not that code alone.

    A cancellation of the task does, and the end of its coroutine, which is closed from outside of
    the task. User code can raise CancelledError and GeneratorExit itself.

    Args:
        error: what came out of the await.
        task: the task whose coroutine awaits.
    """
    if isinstance(error, asyncio.CancelledError):
        if not isinstance(task, UserCodeTask):
            return task is None or task.cancelling() > 0
        return task.is_ending or task.cancelling() > task.cancelled_before
    if isinstance(error, GeneratorExit):
        try:
            return asyncio.current_task() is not task
        except RuntimeError:  # no loop runs
            return True
    return isinstance(error, ENDS_PROGRAM)


async def wait_shielded(task: asyncio.Future[Any], timeout_seconds: float) -> None:
    """Wait for a task's end, even if the caller is cancelled meanwhile, by anyio or by asyncio.

    Args:
        task: the task or future; it is not cancelled, and its result is not retrieved.
        timeout_seconds: how long to wait.

    Raises:
        asyncio.CancelledError: the caller was cancelled meanwhile; raised at the end.

    Cancellation:
        Takes effect when the wait is over, which the timeout bounds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done() and (left := deadline - loop.time()) > 0:
            try:
                await asyncio.wait((task,), timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


async def run_shielded(name: str, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, even if the caller is cancelled, by anyio or by asyncio.

    A shielded scope of anyio is not enough: `asyncio.timeout`, `asyncio.run` and `Task.cancel`
    cancel the task itself, and interrupt what it awaits. So the coroutine has a task of its own.

    Args:
        name: what it does, for the task and the log.
        coroutine: what has to end, such as a close; it must be bounded in time.

    Raises:
        asyncio.CancelledError: the caller was cancelled meanwhile; raised at the end. An error of
            the coroutine is logged then.

    Cancellation:
        Takes effect when the coroutine has ended.
    """
    task = asyncio.create_task(coroutine, name=f"pyinformer {name}")
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as interruption:
                cancelled = interruption
    if cancelled is not None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("%s failed, and was cancelled: %s", name, error_text(error))
        raise cancelled
    return task.result()
