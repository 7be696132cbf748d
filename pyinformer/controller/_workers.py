"""Workers: long-lived tasks that take requests from the queue and reconcile them, in turn.

What enters are requests; what leaves, for each, is one call of `attempt` and one of `conclude`.
The key of a request stays in processing until the user's function has really returned: no two
workers, and no second attempt, ever run for one key at once. A reconcile beyond its deadline is
cancelled once; if it does not end within the grace, its worker is stuck: named, and replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, cast, final

import anyio

from pyinformer._logging import get_logger
from pyinformer.apimachinery import QueueClosedError, ReconcileTimeoutError
from pyinformer.controller._outcomes import Outcome
from pyinformer.controller._worker import Deadlines, Ended, Worker
from pyinformer.sources._request import Request

if TYPE_CHECKING:
    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._result import Result
    from pyinformer.controller._status import WorkerStatus
    from pyinformer.tasks import UserTasks
    from pyinformer.workqueue import PriorityQueue

_log = get_logger("pyinformer.controller")

_FORCED_SECONDS = 0.25  # what a cancelled reconcile gets when somebody is in a hurry

Conclude: TypeAlias = Callable[[Request, Ended, float, float], Outcome]
"""Is told of a request how it ended, when, and after how many seconds."""


@final
class WorkerPool:
    """The workers of one controller. Constructing it starts nothing.

    Args:
        controller: names the tasks, so that a blocked loop has a name.
        queue: where requests wait.
        tasks: where the workers run.
        prepare: is called with what was taken; returns it with its reasons, or None if it has to
            wait and was put back.
        attempt: calls the user's function.
        conclude: is told how it ended, and puts back what has to come again.
        options: deadlines and limits.
    """

    def __init__(
        self,
        controller: str,
        queue: PriorityQueue[Request],
        *,
        tasks: UserTasks,
        prepare: Callable[[Request, float], Request | None],
        attempt: Callable[[Request], Awaitable[Result | None]],
        conclude: Conclude,
        options: ControllerOptions,
    ) -> None:
        self._controller = controller
        self._queue = queue
        self._tasks = tasks
        self._prepare = prepare
        self._attempt = attempt
        self._conclude = conclude
        self._options = options
        self._workers: list[Worker] = []
        self._deadlines = Deadlines(
            self._workers,
            timeout_seconds=options.reconcile_timeout_seconds,
            grace_seconds=options.grace_seconds,
            on_stuck=self._stuck,
        )
        self._made = 0
        self._is_closing = False
        self._is_forced = False
        self._changed = anyio.Event()
        self.late_results: int = 0
        """Reconciles that returned after their worker was stuck; what they returned is dropped."""
        self.cancelled: int = 0
        """Reconciles that closing has cancelled."""

    def start_nowait(self, workers: int) -> None:
        """Start so many workers on the running loop."""
        for _ in range(workers):
            self._spawn()

    def status(self, now: float) -> tuple[WorkerStatus, ...]:
        """Return what each worker is busy with; from any thread.

        Args:
            now: the loop's time.
        """
        return tuple(worker.status(now) for worker in tuple(self._workers))

    async def once(self, request: Request, conclude: Conclude) -> Outcome:
        """Reconcile one request in a worker of its own.

        Args:
            request: what to reconcile; the queue does not know of it.
            conclude: decides what follows from the end.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace.
        """
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        worker = self._new_worker(is_worker=False)
        running = self._run_once(worker, request, conclude, outcome)
        worker.user_task = self._tasks.spawn(worker.name, running)
        try:
            await asyncio.wait((outcome,))
        except asyncio.CancelledError:
            if worker.cancelled_at is None:
                await worker.user_task.stop(self._options.grace_seconds)
            raise
        return outcome.result()

    def excuse_current(self) -> None:
        """Let the worker that this is called from end in its own time: it waits for the close."""
        for worker in self._workers:
            if worker.user_task is not None and worker.user_task.is_current:
                worker.user_task.detach()

    def force_nowait(self) -> None:
        """Wait for nobody any more; a stop that is under way goes on at once."""
        self._is_forced = True
        self._changed.set()

    async def stop(self) -> None:
        """Take nothing more, let what is in flight finish, then cancel it, each once.

        Cancellation:
            Not to be cancelled: its owner shields it; the drain and the grace bound it.
        """
        self._is_closing = True
        self._queue.shut_down()
        self._queue.drop_waiting()
        await self._wait_left(self._options.drain_timeout_seconds)
        self._deadlines.stop_nowait()  # what is cancelled now is not cancelled again
        for worker in self._awaited():
            if worker.cancelled_at is None and worker.user_task is not None:
                worker.user_task.cancel_once()
        waited_seconds = self._options.grace_seconds
        await self._wait_left(waited_seconds)
        if self._is_forced:
            self._is_forced = False
            waited_seconds = _FORCED_SECONDS
            await self._wait_left(waited_seconds)
        for worker in self._workers:
            if worker.user_task is not None and not worker.is_detached:
                worker.user_task.abandon_if_running(waited_seconds)

    def _awaited(self) -> list[Worker]:
        """Name those whose end is worth waiting for."""
        return [worker for worker in self._workers if not (worker.is_stuck or worker.is_detached)]

    async def _wait_left(self, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            while self._awaited() and not self._is_forced:
                self._changed = anyio.Event()
                await self._changed.wait()

    def _new_worker(self, *, is_worker: bool = True) -> Worker:
        self._made += 1
        worker = Worker(
            f"worker {self._made} of controller {self._controller}", is_worker=is_worker
        )
        self._workers.append(worker)
        return worker

    def _spawn(self) -> None:
        worker = self._new_worker()
        worker.user_task = self._tasks.spawn(worker.name, self._run(worker))

    async def _run(self, worker: Worker) -> None:
        worker.task = _current_task()
        try:
            await self._work(worker)
        except QueueClosedError:
            pass
        except asyncio.CancelledError:
            if not self._is_closing:  # by somebody else: fewer workers in silence would be worse
                _log.error("%s was cancelled by others; another takes its place", worker.name)
                self._spawn()
            raise
        finally:
            self._leave(worker)

    async def _work(self, worker: Worker) -> None:
        queue = self._queue
        now = asyncio.get_running_loop().time
        while not worker.is_replaced:
            request = await queue.get()
            try:
                prepared = self._prepare(request, now())
                if prepared is not None:
                    ended = await self._reconcile(worker, prepared)
                    ended_at = now()
                    self._conclude(prepared, ended, ended_at, ended_at - worker.started_at)
            finally:
                queue.done(request)

    async def _run_once(
        self,
        worker: Worker,
        request: Request,
        conclude: Conclude,
        outcome: asyncio.Future[Outcome],
    ) -> None:
        worker.task = _current_task()

        def give(ended: Ended) -> None:
            if not outcome.done():
                now = asyncio.get_running_loop().time()
                outcome.set_result(conclude(request, ended, now, now - worker.started_at))

        worker.on_stuck = give
        try:
            give(await self._reconcile(worker, request))
        finally:
            self._leave(worker)
            outcome.cancel()  # unless it is done

    async def _reconcile(self, worker: Worker, request: Request) -> Ended:
        """Call the user's function; return how it ended, whatever it did: this is the fence."""
        task = worker.task
        worker.started_at = now = asyncio.get_running_loop().time()
        worker.request = request
        task.set_name(f"reconcile of {request} by controller {self._controller}")
        self._deadlines.started(now)
        try:
            ended: Ended = await self._attempt(request)
        except (KeyboardInterrupt, SystemExit):
            raise  # not the function's alone
        except BaseException as error:  # the fence; test tools raise these
            if isinstance(error, GeneratorExit) and not _is_current(task):
                raise  # the worker is thrown away with its loop
            ended = error
        finally:
            worker.request = None
            task.set_name(worker.name)
        if worker.cancelled_at is not None:
            return self._timed_out(worker, task, request, ended)
        if isinstance(ended, asyncio.CancelledError) and task.cancelling():
            self._cancelled(worker, request, ended)
        return ended

    def _cancelled(self, worker: Worker, request: Request, error: asyncio.CancelledError) -> None:
        """End the worker; what was cut short comes again, unless everything ends."""
        if self._is_closing:
            self.cancelled += 1
        elif worker.is_worker:
            now = asyncio.get_running_loop().time()
            self._conclude(request, error, now, now - worker.started_at)
        raise error

    def _timed_out(
        self, worker: Worker, task: asyncio.Task[object], request: Request, ended: Ended
    ) -> ReconcileTimeoutError:
        """Turn whatever came after the deadline into the one error that it is."""
        task.uncancel()
        worker.cancelled_at = None
        if worker.is_stuck:
            worker.is_stuck = False
            self.late_results += 1
            _log.warning(
                "controller %s: the reconcile of %s has ended after all; what it returned is"
                " dropped",
                self._controller,
                request,
            )
        error = self._timeout_error(request)
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            error.__cause__ = ended
        return error

    def _timeout_error(self, request: Request) -> ReconcileTimeoutError:
        timeout_seconds = self._options.reconcile_timeout_seconds or 0.0
        return ReconcileTimeoutError(request=str(request), timeout_seconds=timeout_seconds)

    def _stuck(self, worker: Worker) -> None:
        """Name a worker that is lost for now, and put another in its place if that is bounded."""
        worker.is_stuck = True
        request = worker.request
        stuck = sum(other.is_stuck for other in self._workers)
        is_bounded = stuck <= self._options.max_stuck_workers
        worker.is_replaced = worker.is_worker and is_bounded and not self._is_closing
        _log.error(
            "controller %s: the reconcile of %s ignores its cancellation since %.1f s;"
            " its key waits until it returns. %s",
            self._controller,
            request,
            self._options.grace_seconds,
            "Another worker works on"
            if worker.is_replaced
            else f"There are {len(self._workers) - stuck} workers left",
        )
        if worker.is_replaced:
            self._spawn()
        if worker.on_stuck is not None and request is not None:
            worker.on_stuck(self._timeout_error(request))
        self._changed.set()

    def _leave(self, worker: Worker) -> None:
        self._workers.remove(worker)
        self._changed.set()


def _current_task() -> asyncio.Task[object]:
    return cast("asyncio.Task[object]", asyncio.current_task())  # a coroutine is run by a task


def _is_current(task: asyncio.Task[object]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs
        return False
