"""Where user code runs: long-lived plain asyncio tasks, made here and nowhere else.

A task is cancelled once and awaited up to a grace; one that does not end is named, kept and left
alone. Cancellation is never delivered again, so a user's `finally: await rollback()` completes,
which under an anyio scope it would not. Waiting is shielded from the scopes of whoever waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import final

import anyio

from pyinformer._logging import get_logger
from pyinformer.tasks._failures import error_text

_log = get_logger("pyinformer.tasks")

DEFAULT_GRACE_SECONDS = 5.0  # a rollback over the network fits; a pod gets 30 s for everything


@final
class UserTask:
    """One task; made by UserTasks.spawn."""

    def __init__(self, name: str, task: asyncio.Task[None], owner: UserTasks) -> None:
        self.name = name
        self._task = task
        self._owner = owner
        self._was_cancelled = False
        self.is_detached: bool = False
        """Nobody waits for it or cancels it any more; see detach()."""

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs inside this very task."""
        try:
            return asyncio.current_task() is self._task
        except RuntimeError:  # no loop runs in this thread
            return False

    def detach(self) -> None:
        """Let it end in its own time: it waits for whoever would wait for it."""
        self.is_detached = True

    def cancel_once(self) -> None:
        """Ask it to end; asking again does nothing."""
        if not (self._was_cancelled or self._task.done()):
            self._was_cancelled = True
            self._task.cancel()

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait for it to end by itself.

        Returns:
            Whether it has ended; at once if called from inside the task.

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
        """Name it in the log and wait for it no more; it is kept, so that it can end later."""
        if not self._task.done():
            self._owner._abandon(self, waited_seconds)  # noqa: SLF001 - the other half of this class


@final
class UserTasks:
    """The tasks of one owner, a factory or an informer by itself.

    Args:
        on_crash: is told of an exception that escapes from a task's coroutine. User code is
            fenced inside it, so that would be an error of ours.
    """

    def __init__(self, *, on_crash: Callable[[BaseException], None] | None = None) -> None:
        self._on_crash = on_crash
        self._running: dict[asyncio.Task[None], UserTask] = {}
        self._abandoned: dict[asyncio.Task[None], str] = {}
        self._thrown_out: set[asyncio.Task[None]] = set()

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The names of the tasks that did not end in time and still run."""
        return tuple(self._abandoned.values())

    def spawn(self, name: str, coroutine: Coroutine[object, object, None]) -> UserTask:
        """Start a task on the running loop.

        Args:
            name: names it in logs; it is the task's name, too.
            coroutine: what to run; it fences the user's errors itself.
        """
        task = asyncio.create_task(coroutine, name=name)
        handle = UserTask(name, task, self)
        self._running[task] = handle
        task.add_done_callback(self._ended)
        return handle

    async def stop(self, grace_seconds: float) -> None:
        """Stop every task that still runs, all of them within the one grace.

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
        """End the tasks that ignored their cancellation, where they stand: the program is ending.

        The event loop could not end before them. Their `finally` blocks run, as far as they await
        nothing; whoever awaits there, too, is left alone for good.
        """
        for task, name in tuple(self._abandoned.items()):
            self._thrown_out.add(task)
            try:
                task.get_coro().close()
            except Exception as error:  # noqa: BLE001 - a fence: what user code raises at its end
                _log.error("%s raised %s when it was thrown out", name, error_text(error))
            task.cancel()  # what it waited for wakes it no more

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
            _log.warning("%s has ended after all", handle.name)
        error = None if task.cancelled() else task.exception()
        if task in self._thrown_out:  # its error is that it was closed
            self._thrown_out.remove(task)
        elif error is not None:
            _log.error("%s crashed with %s", handle.name, error_text(error))
            if self._on_crash is not None:
                self._on_crash(error)


async def wait_shielded(task: asyncio.Task[None], timeout_seconds: float) -> None:
    """Wait for a task's end, without letting go when the caller is cancelled.

    Args:
        task: is neither cancelled nor asked for its result.
        timeout_seconds: how long to wait.

    Raises:
        asyncio.CancelledError: the caller was cancelled meanwhile; it is raised at the end.

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
