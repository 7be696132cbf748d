"""Tasks that live beside a controller's reconciles: at most one for each object.

A reconcile starts, feeds and cancels the task of its object, and never waits for it: the end of a
task requests the object again. So a task that ignores its cancellation holds up its own object
alone, and everything that concerns reconciles, such as gates, guards and retries, concerns tasks.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import FailureLog, ends_task, repeats_text
from pyinformer.controller._failure_text import level_of, text_of
from pyinformer.controller._status import DaemonsStatus
from pyinformer.controller.sources import request_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator, Mapping

    from pyinformer._runtime.tasks import UserTask, UserTasks
    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller.sources import RequestId

_log = get_logger(__name__)

T = TypeVar("T")

_SHOWN: Final = 20  # of those that ignore their cancellation: people read no more
_FORCED_SECONDS: Final = 0.25  # the grace period of a forced stop


@final
class ObjectTask(Generic[T]):
    """The task of one object, running or ended.

    Args:
        request_id: of the object.
        uid: of the object; another one under the same name gets another task.
        seen: what identifies the state of the object that the task was given last.
        inbox: how the task is given further states.
    """

    __slots__ = (
        "_timer",
        "cancelled_at",
        "error",
        "handle",
        "has_failed",
        "ignores_cancellation",
        "inbox",
        "request_id",
        "seen",
        "started_at",
        "uid",
    )

    def __init__(self, request_id: RequestId, uid: str, seen: Hashable, inbox: T) -> None:
        self.request_id: RequestId = request_id
        self.uid: str = uid
        self.seen: Hashable = seen
        self.inbox: T | None = inbox
        """None once it has ended."""
        self.error: BaseException | None = None
        """What it raised; None if it has not, and once its reconcile has raised it."""
        self.has_failed: bool = False
        """Whether it ended with an error, and was not cancelled."""
        self.started_at: float = 0.0
        self.cancelled_at: float | None = None
        self.ignores_cancellation: bool = False
        """It runs still, though its grace period is over."""
        self.handle: UserTask
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, grace_seconds: float, on_ignored: Callable[[ObjectTask[T]], None]) -> None:
        """Call a function if the task still runs when its grace period is over."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(grace_seconds, on_ignored, self)

    def ended(self) -> None:
        """Release what only a running task needs."""
        self.inbox = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __str__(self) -> str:
        return request_text(self.request_id)


@final
class ObjectTasks(Generic[T]):
    """The tasks of one controller's objects. On the event loop, unless a method names threads.

    Args:
        controller: the controller's name.
        tasks: where the tasks run.
        options: how long a cancelled task may clean up, and what logs show of errors.
        limit: how many tasks run at once.
        enqueue: requests the reconcile of an object.
    """

    def __init__(
        self,
        controller: str,
        tasks: UserTasks,
        options: ControllerOptions,
        *,
        limit: int,
        enqueue: Callable[[RequestId], None],
    ) -> None:
        self._controller = controller
        self._tasks = tasks
        self._options = options
        self._limit = limit
        self._enqueue = enqueue
        self._running: dict[RequestId, ObjectTask[T]] = {}
        self._ended: dict[RequestId, ObjectTask[T]] = {}
        self._waiting: dict[RequestId, None] = {}
        self._invited: set[RequestId] = set()  # of those that waited: requested, for a free place
        self._lines = FailureLog()
        self._closed_at: float | None = None
        self._is_forced = False
        self._changed = anyio.Event()
        self.changes: int = 0
        """How often a task has started or ended."""

    @property
    def running(self) -> Collection[ObjectTask[T]]:
        """The tasks that have not ended, whether or not they were cancelled."""
        return self._running.values()

    @property
    def ended(self) -> Mapping[RequestId, ObjectTask[T]]:
        """The tasks that ended by themselves, until they are forgotten or started again."""
        return self._ended

    @property
    def may_start(self) -> bool:
        """Whether there is a free place, and the controller is not being closed."""
        return self._closed_at is None and len(self._running) < self._limit

    def get(self, request_id: RequestId) -> ObjectTask[T] | None:
        """Return the task of an object that has not ended; None if there is none."""
        return self._running.get(request_id)

    def start(self, task: ObjectTask[T], coroutine: Coroutine[object, object, None]) -> None:
        """Start the task of an object that has none; `may_start` is true."""
        request_id = task.request_id
        self._ended.pop(request_id, None)
        task.started_at = asyncio.get_running_loop().time()
        name = f"daemon of {task} by controller {self._controller}"
        task.handle = self._tasks.spawn(name, self._run(task, coroutine))
        self._running[request_id] = task
        self.changes += 1
        task.handle.on_end(lambda: self._task_ended(task, coroutine))

    async def _run(self, task: ObjectTask[T], coroutine: Coroutine[object, object, None]) -> None:
        try:
            await coroutine
        except BaseException as error:
            if ends_task(error, asyncio.current_task()):
                raise
            task.error = error

    def _task_ended(self, task: ObjectTask[T], coroutine: Coroutine[object, object, None]) -> None:
        coroutine.close()  # it has ended, unless it was cancelled before its first step
        task.ended()
        del self._running[task.request_id]
        self.changes += 1
        self._changed.set()
        if task.cancelled_at is None:
            if task.handle.was_cancelled:
                task.error = asyncio.CancelledError("by foreign code")
            task.has_failed = task.error is not None
            self._ended[task.request_id] = task
        elif task.error is not None:
            self._log_failed_end(task, task.error)
        if task.ignores_cancellation:
            _log.warning("controller %s: the daemon of %s has ended", self._controller, task)
        if self._closed_at is None:
            self._enqueue(task.request_id)
            self.invite()

    def _log_failed_end(self, task: ObjectTask[T], error: BaseException) -> None:
        unlogged = self._due(f"failed end {type(error).__qualname__}")
        if unlogged is not None:
            _log.log(
                level_of(error),
                "controller %s: the daemon of %s failed when it was cancelled: %s%s",
                self._controller,
                task,
                text_of(error, self._options.log_exceptions),
                unlogged,
            )

    def cancel(self, task: ObjectTask[T]) -> None:
        """Cancel a task, once; its end requests the object."""
        if task.cancelled_at is None:
            task.cancelled_at = asyncio.get_running_loop().time()
            task.handle.cancel_once()
            task.watch(self._options.grace_seconds, self._ignored)

    def _ignored(self, task: ObjectTask[T]) -> None:
        task.ignores_cancellation = True
        self._changed.set()
        unlogged = self._due("ignored")
        if unlogged is not None:
            _log.error(
                "controller %s: the daemon of %s has ignored its cancellation for %.1f s; its"
                " object waits until it returns: do not catch asyncio.CancelledError in it, and let"
                " clean-ups end sooner, or raise grace_seconds%s",
                self._controller,
                task,
                self._options.grace_seconds,
                unlogged,
            )

    def _due(self, kind: str) -> str | None:
        """Return the end of a line that is due: one for each kind per minute; None for none."""
        unlogged = self._lines.due_kind(kind, asyncio.get_running_loop().time())
        return None if unlogged is None else repeats_text(unlogged)

    def wait(self, request_id: RequestId) -> None:
        """Let an object wait for a free place; then it is requested."""
        self._waiting[request_id] = None
        unlogged = self._due("limit")
        if unlogged is not None:
            _log.warning(
                "controller %s: %d daemons run, as many as limit= allows; %s and later objects wait"
                " until one ends: raise the limit, or share the objects among replicas%s",
                self._controller,
                len(self._running),
                request_text(request_id),
                unlogged,
            )

    def arrived(self, request_id: RequestId) -> None:
        """Record that the reconcile of an object begins: it does not wait for a place any more."""
        self._waiting.pop(request_id, None)
        self._invited.discard(request_id)

    def invite(self) -> None:
        """Request objects that wait, as many as there are free places."""
        free = self._limit - len(self._running) - len(self._invited)
        if free <= 0 or not self._waiting or self._closed_at is not None:
            return
        for request_id in tuple(islice(self._waiting, free)):
            del self._waiting[request_id]
            self._invited.add(request_id)
            self._enqueue(request_id)

    def forget(self, request_id: RequestId) -> None:
        """Forget an object that is gone, or that another replica has; a running task continues."""
        self._ended.pop(request_id, None)
        self._waiting.pop(request_id, None)
        self._invited.discard(request_id)

    def remembered(self) -> Iterator[RequestId]:
        """Return the objects of which something is remembered beside running tasks."""
        yield from tuple(self._ended)
        yield from tuple(self._waiting)
        yield from tuple(self._invited)

    def cancel_all(self) -> None:
        """Cancel all tasks."""
        for task in self._running.values():
            self.cancel(task)

    def close_nowait(self) -> None:
        """Cancel all tasks, and start none any more."""
        if self._closed_at is None:
            self._closed_at = asyncio.get_running_loop().time()
            self._waiting.clear()
            self._invited.clear()
            self.cancel_all()

    def force_nowait(self) -> None:
        """Stop waiting for tasks."""
        self._is_forced = True
        self._changed.set()

    async def wait_closed(self) -> None:
        """Wait until the grace period is over, at the longest; abandon what still runs.

        Cancellation:
            Not to be cancelled: its owner shields it, and the grace period bounds it.
        """
        waited_seconds = self._options.grace_seconds
        now = asyncio.get_running_loop().time()
        since = now if self._closed_at is None else self._closed_at
        await self._wait_ended(since + waited_seconds - now)
        if self._is_forced:
            self._is_forced = False
            waited_seconds = _FORCED_SECONDS
            await self._wait_ended(waited_seconds)
        for task in tuple(self._running.values()):
            task.handle.abandon_if_running(waited_seconds)

    async def _wait_ended(self, timeout_seconds: float) -> None:
        with anyio.move_on_after(max(0.0, timeout_seconds)):
            while not self._is_forced and self._awaited():
                self._changed = anyio.Event()
                await self._changed.wait()

    def _awaited(self) -> bool:
        return any(not task.ignores_cancellation for task in self._running.values())

    def status(self) -> DaemonsStatus:
        """Return the numbers, and the names of the tasks that ignore cancellation; any thread."""
        running = tuple(self._running.values())
        ignoring = [task for task in running if task.ignores_cancellation]
        return DaemonsStatus(
            running=sum(task.cancelled_at is None for task in running),
            stopping=sum(task.cancelled_at is not None for task in running) - len(ignoring),
            waiting=len(self._waiting) + len(self._invited),
            limit=self._limit,
            ignoring_total=len(ignoring),
            ignoring=tuple(map(str, ignoring[:_SHOWN])),
        )
