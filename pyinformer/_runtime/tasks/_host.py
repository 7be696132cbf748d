"""Run the own tasks of an informer, a factory or a controller in one task group.

The group is opened in a separate task, not in the caller's: the caller's errors are not wrapped in
groups, and start and close may be called by two tasks. A crash inside cancels the whole group, and
is raised where the host is closed, or added as a note to the error under way.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, TypeVarTuple, final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks._user_error_logging import error_text
from pyinformer._runtime.tasks._user_tasks import DEFAULT_GRACE_SECONDS, wait_shielded
from pyinformer.errors import InformerError, InternalError, LifecycleError

_log = get_logger(__name__)

Ts = TypeVarTuple("Ts")

Main: TypeAlias = Callable[[TaskGroup, Callable[[], None]], Awaitable[None]]
"""The main function of a host: called with the task group, and with a function to call when ready.

It runs until it is cancelled. Clean-up that awaits must be shielded and bounded.
"""


class Runs(Protocol):
    """A function that runs until it is cancelled, and says when it has begun."""

    async def __call__(self, *, task_status: TaskStatus[None]) -> None:
        """Run."""


async def sleep_until_cancelled(_group: TaskGroup, ready: Callable[[], None]) -> None:
    """Wait until cancelled: the main function of a host that only holds a task group.

    Cancellation:
        The only way to end it.
    """
    ready()
    await anyio.sleep_forever()


_starting: Final[set[asyncio.Task[None]]] = set()  # a loop keeps no task alive


def start_from_anywhere(
    group: TaskGroup, function: Callable[[*Ts], Coroutine[None, None, None]], *args: *Ts
) -> None:
    """Start a function as `group.start_soon` does, also in a callback of the loop.

    There, if sniffio is installed, anyio does not know the loop: it asks for the current task. Then
    a task is made that only starts the function.

    Args:
        group: the task group; in a callback nothing is started if it has ended meanwhile.
        function: called with `args`.
        *args: its arguments.
    """
    if asyncio.current_task() is not None:
        group.start_soon(function, *args)
        return

    async def start() -> None:
        """Start it, unless the group ends."""
        if not group.cancel_scope.cancel_called:
            group.start_soon(function, *args)

    task = asyncio.create_task(start())
    _starting.add(task)
    task.add_done_callback(_starting.discard)


def start_later(
    group: TaskGroup, seconds: float, function: Callable[[], Coroutine[None, None, None]]
) -> asyncio.TimerHandle:
    """Start a function in a task group after a time: most such tasks would only sleep.

    Args:
        group: the task group; it must be cancelled when it ends.
        seconds: the time.
        function: called without arguments.

    Returns:
        The timer; cancel it before the group ends.
    """
    loop = asyncio.get_running_loop()
    return loop.call_later(seconds, partial(start_from_anywhere, group, function))


async def start_in(group: TaskGroup, run: Runs) -> None:
    """Start a function in a task group, and wait until it calls `task_status.started()`, or ends.

    As TaskGroup.start, which never returns if the task is cancelled by other code before its
    first step: `asyncio.run` cancels all tasks when a program fails while another part starts.
    The function runs as in `run_until_cancelled`.

    Args:
        group: the task group; what the function raises ends it.
        run: the function.

    Cancellation:
        Ends the wait; the function ends with the group.
    """
    ready = asyncio.Event()

    async def begin() -> None:
        """Run it, and release the starter in any case."""
        try:
            await run_until_cancelled(run, task_status=_Ready(ready))
        finally:
            ready.set()

    group.start_soon(begin)
    await ready.wait()


async def run_until_cancelled(run: Runs, *, task_status: TaskStatus[None]) -> None:
    """Run a function until it is cancelled.

    Args:
        run: the function.
        task_status: its `started()` is called when the function has begun.

    Raises:
        InternalError: it was cancelled, and no caller asked for it, as a library below may do: for
            a task group it would be the end that was asked for.

    Cancellation:
        The usual way to end it.
    """
    try:
        await run(task_status=task_status)
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        what = f"{getattr(run, '__qualname__', run)} was cancelled, and no caller asked for it"
        raise InternalError(what) from error


def _is_cancelled() -> bool:
    """Return whether the current task, or a scope around it, was asked to end."""
    task = asyncio.current_task()
    is_asked = task is not None and task.cancelling() > 0
    return is_asked or anyio.current_effective_deadline() == -math.inf


@final
class _Ready(TaskStatus[None]):
    """Releases the starter of a function."""

    def __init__(self, ready: asyncio.Event) -> None:
        self._ready = ready

    def started(self, value: None = None) -> None:
        """Release it."""
        self._ready.set()


async def close_on_exit(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """Close at the end of an `async with`; a crash is raised, or added to the block's own error.

    Args:
        close: closes the owner of the block.
        error: the error that the block has raised, or None.

    Raises:
        InformerError: what `close` raised, if the block raised no error.

    Cancellation:
        As that of `close`.
    """
    try:
        await close()
    except InformerError as crash:
        if error is None:
            raise
        error.add_note(f"meanwhile: {crash}")


class Closable(ABC):
    """A base class for objects that an `async with` closes; see `close_on_exit`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop everything and wait for it, for a bounded time; a second call only waits.

        Cancellation:
            Takes effect when everything has ended.
        """

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await close_on_exit(self.aclose, exc)


class Startable(Closable):
    """A base class for objects that an `async with` starts and closes."""

    @abstractmethod
    async def start(self) -> None:
        """Start and wait until it is running.

        Cancellation:
            What was started is stopped.
        """

    async def __aenter__(self) -> Self:
        await self.start()
        return self


@final
class Host(Startable):
    """A task group with a lifetime: start() and aclose(), or `async with`.

    Args:
        name: its name in errors and logs.
        main: the function to run in the task group.
        grace_seconds: how long closing waits for the tasks inside.
        on_crash: called at once with the error of a crash; it must not raise.
    """

    def __init__(
        self,
        name: str,
        main: Main = sleep_until_cancelled,
        *,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        on_crash: Callable[[InformerError], None] | None = None,
    ) -> None:
        self.name = name
        self._main = main
        self._grace_seconds = grace_seconds
        self._on_crash = on_crash
        self._task: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None
        self._ready: asyncio.Future[None] | None = None
        self._closing = False
        self._error: InformerError | None = None
        self._context = Context()  # of its start

    @property
    def is_running(self) -> bool:
        """Whether it is ready, is not being closed and has not crashed."""
        return self._group is not None and not self._closing

    @property
    def is_cancelled(self) -> bool:
        """Whether its task is being cancelled, by aclose() or by the end of the event loop."""
        return self._task is not None and self._task.cancelling() > 0

    @property
    def task_group(self) -> TaskGroup:
        """The task group, for tasks that are added later in the context of their caller.

        Raises:
            LifecycleError: the host is not running.
        """
        if self._group is None or self._closing:
            raise LifecycleError(f"{self.name} is not running: start it first, or a new one")
        return self._group

    def start_soon(
        self, function: Callable[[*Ts], Coroutine[None, None, None]], *args: *Ts
    ) -> None:
        """Run a function in a task of the group, in the context in which the host was started.

        What is shared outlives its first caller: it must not keep the term of leader election or
        the span of that caller, nor lack those of the host.

        Args:
            function: called with `args`.
            *args: its arguments.

        Raises:
            LifecycleError: the host is not running.
        """
        group = self.task_group

        def start() -> None:
            """Create the task, which copies the context."""
            start_from_anywhere(group, function, *args)

        self._context.copy().run(start)

    async def start(self) -> None:
        """Start and wait until the main function is ready.

        Raises:
            LifecycleError: it was started before, since a host runs once; or other code, such as
                the end of the loop, has cancelled its task.
            Exception: whatever the main function raised before it was ready, bare.

        Cancellation:
            Stops what was started, waits for it as aclose() does, then raises.
        """
        if self._task is not None:
            raise LifecycleError(f"{self.name} was started before; make a new one")
        self._ready = asyncio.get_running_loop().create_future()
        self._context = copy_context()
        self._task = asyncio.create_task(self._run(), name=f"pyinformer host of {self.name}")
        self._task.add_done_callback(self._ended)
        try:
            await asyncio.wait((self._ready,))
        except asyncio.CancelledError:
            await self._stop(self._grace_seconds)
            if self._ready.done() and not self._ready.cancelled():
                self._ready.exception()  # marked as retrieved: the cancellation has precedence
            raise
        if self._ready.cancelled():
            raise LifecycleError(f"{self.name} was cancelled by other code before it was ready")
        self._ready.result()

    async def wait_ready(self) -> None:
        """Wait until start(), called by another task, has succeeded or failed.

        Cancellation:
            Safe.
        """
        if self._ready is not None:
            await asyncio.wait((self._ready,))

    async def aclose(self, grace_seconds: float | None = None) -> None:
        """Cancel the tasks inside and wait for their end; a second call only waits.

        Args:
            grace_seconds: how long to wait; None for the host's own.

        Raises:
            InternalError: a task inside crashed; raised by the first call only.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds.
        """
        await self._stop(self._grace_seconds if grace_seconds is None else grace_seconds)
        error = self._take_error()
        if error is not None:
            raise error

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                if self._closing:
                    group.cancel_scope.cancel()
                await self._main(group, self._set_ready)
                group.cancel_scope.cancel()
        except asyncio.CancelledError:  # by other code, such as the end of the loop
            if self._ready is not None:
                self._ready.cancel()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - raised by start or aclose
            bare = _bare(error)
            self._crashed(bare, whole=error)
            if isinstance(bare, ENDS_PROGRAM):
                raise bare from None  # in a task, not in a group, it reaches the event loop
        finally:
            self._closing = True
            self._set_ready()

    def _ended(self, _: asyncio.Task[None]) -> None:
        """Release the starter of a task that was cancelled before its first step."""
        self._closing = True
        if self._ready is not None:
            self._ready.cancel()

    def _set_ready(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _crashed(self, error: BaseException, *, whole: BaseException) -> None:
        """Keep the first error, without its groups."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
            return
        if isinstance(error, ENDS_PROGRAM):
            self._error = LifecycleError(f"{self.name} ends with the program")
            return
        crash = error if isinstance(error, InformerError) else self._internal_error(error)
        self._error = crash
        several = isinstance(whole, BaseExceptionGroup) and len(whole.exceptions) > 1
        _log.error("%s crashed with %s", self.name, error_text(whole if several else error))
        if self._on_crash is not None:
            self._on_crash(crash)

    def _internal_error(self, error: BaseException) -> InternalError:
        crash = InternalError(f"{self.name} crashed with {type(error).__name__}")
        crash.__cause__ = error
        return crash

    def _take_error(self) -> InformerError | None:
        error, self._error = self._error, None
        return error

    async def _stop(self, grace_seconds: float) -> None:
        self._closing = True
        if self._group is not None:
            self._group.cancel_scope.cancel()
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        try:
            await wait_shielded(task, grace_seconds)
        finally:
            if not task.done():
                _log.error("%s did not stop within %.1f s", self.name, grace_seconds)


def _bare(error: BaseException) -> BaseException:
    """Return the error of a group that ends the program, else its first one."""
    if isinstance(error, BaseExceptionGroup):
        error = error.subgroup(ENDS_PROGRAM) or error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
