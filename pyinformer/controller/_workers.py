"""Workers: long-lived tasks that take requests from the queue and reconcile them, one at a time.

A key stays in processing until the user's function has really returned, so two workers never
reconcile one key at once. A reconcile beyond its deadline is cancelled once; if it does not end
within the grace period, its worker is stuck: it is logged, and another worker takes its place.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import ends_task
from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.controller._result import Result
from pyinformer.controller._status import WorkerStatus
from pyinformer.controller.sources import request_for
from pyinformer.errors import QueueClosedError, ReconcileTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from pyinformer._runtime.tasks import UserCodeTask, UserTask, UserTasks
    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._reconcile_spans import ReconcileSpans
    from pyinformer.controller._request_queue import RequestQueue
    from pyinformer.controller._requeue_policy import Outcome
    from pyinformer.controller.sources import Reason, Request, RequestId
    from pyinformer.errors import FencedError

_log = get_logger(__name__)

# Stuck workers that are replaced at a time. Beyond, the controller continues with fewer workers, so
# that leaked tasks are bounded.
_MOST_REPLACED: Final = 10
_FORCED_SECONDS: Final = 0.25  # the grace period of a forced stop

Ended: TypeAlias = Result | BaseException | None
"""How a reconcile ended: what it returned, or what it raised."""


class Decisions(Protocol):
    """What a controller decides before and after each reconcile."""

    def prepare(self, request_id: RequestId, now: float) -> tuple[Reason, ...] | None:
        """Return the reasons of a request that starts now; None if it has to wait."""
        ...

    def decide(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        """Decide what follows from the end of a reconcile."""
        ...

    def conclude(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        """Decide what follows, and enqueue the request again if it has to come again."""
        ...


@final
class Worker:
    """The state of one worker: its task, and the request that it reconciles.

    Args:
        number: of the worker.
        controller: the name of the controller.
        on_stuck: called when the reconcile of the worker is stuck; None for a worker of the queue,
            whose request then waits.
    """

    __slots__ = (
        "_controller",
        "cancelled_at",
        "is_replaced",
        "is_stuck",
        "name",
        "on_stuck",
        "request",
        "revoked",
        "started_at",
        "task",
        "user_task",
    )

    def __init__(
        self, number: int, controller: str, on_stuck: Callable[[Ended], None] | None = None
    ) -> None:
        self.name: str = f"worker {number} of controller {controller}"
        self._controller = controller
        self.on_stuck: Callable[[Ended], None] | None = on_stuck
        self.request: Request | None = None
        self.started_at: float = 0.0
        self.cancelled_at: float | None = None
        """When the reconcile was cancelled, because of its deadline or since it was revoked."""
        self.revoked: FencedError | None = None
        """Why it was cancelled, if that was not its deadline."""
        self.is_stuck: bool = False
        """The reconcile ignores its cancellation."""
        self.is_replaced: bool = False
        """Another worker has taken its place: it ends when the reconcile does."""
        self.task: UserCodeTask
        self.user_task: UserTask | None = None

    def enter(self) -> None:
        """Record the current task, which is its own, and show in its name what it reconciles."""
        self.task = cast("UserCodeTask", asyncio.current_task())
        self.task.shown_name = self.shown_name

    def shown_name(self) -> str:
        """Return what it does, for logs; from any thread."""
        request = self.request
        if request is None:
            return self.name
        return f"reconcile of {request} by controller {self._controller}"

    @property
    def is_detached(self) -> bool:
        """Whether closing does not wait for it, since its own reconcile called for the close."""
        return self.user_task is not None and self.user_task.is_detached

    def status(self, now: float) -> WorkerStatus:
        """Return what it reconciles.

        Args:
            now: the loop's time.
        """
        request = self.request
        return WorkerStatus(
            name=self.name,
            request=None if request is None else str(request),
            seconds=0.0 if request is None else max(0.0, now - self.started_at),
            is_stuck=self.is_stuck,
        )


@final
class Deadlines:
    """Cancels reconciles beyond their deadline, and finds those that ignore it.

    One timer serves all workers, and is never due later than the earliest deadline: a reconcile
    that ends in time rarely costs a timer.

    Args:
        workers: the present workers; always this collection.
        timeout_seconds: how long a reconcile may take; None for no deadline.
        grace_seconds: how long it may take to end once it is cancelled.
        on_stuck: called with a worker whose reconcile did not end.
    """

    def __init__(
        self,
        workers: Collection[Worker],
        *,
        timeout_seconds: float | None,
        grace_seconds: float,
        on_stuck: Callable[[Worker], None],
    ) -> None:
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._on_stuck = on_stuck
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = math.inf
        self._is_stopped = False

    def started(self, now: float) -> None:
        """Record that a reconcile begins at `now`; its deadline may be the earliest of all."""
        if self._timeout_seconds is not None:
            self._arm(now + self._timeout_seconds)

    def stop_nowait(self) -> None:
        """Stop the timer: no reconcile is cancelled from now on."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def cancel_nowait(self, worker: Worker) -> None:
        """Cancel the reconcile of a worker before its deadline; it has the grace period, too."""
        if not self._is_stopped:
            self._arm(self._cancel(worker, asyncio.get_running_loop().time()))

    def _cancel(self, worker: Worker, now: float) -> float:
        """Cancel a reconcile; return when it has ignored that."""
        worker.cancelled_at = now
        worker.task.cancel()
        return now + self._grace_seconds  # without a grace period it still gets one step

    def _arm(self, at: float) -> None:
        """Make the timer fire at `at`, unless it fires earlier already."""
        if at >= self._fires_at or self._is_stopped:
            return
        if self._timer is not None:  # it waits for a later moment, such as the end of a grace
            self._timer.cancel()
        self._fires_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._check)

    def _check(self) -> None:
        self._timer, self._fires_at = None, math.inf
        now = asyncio.get_running_loop().time()
        moments = [self._check_worker(worker, now) for worker in tuple(self._workers)]
        next_at = min(moments, default=math.inf)
        if next_at < math.inf:
            self._arm(next_at)

    def _check_worker(self, worker: Worker, now: float) -> float:
        """Do what is due for a worker; return when to check it again."""
        if worker.request is None or worker.is_stuck or self._is_stopped:
            return math.inf
        if worker.cancelled_at is None:
            if self._timeout_seconds is None:
                return math.inf
            due_at = worker.started_at + self._timeout_seconds
            return due_at if now < due_at else self._cancel(worker, now)
        due_at = worker.cancelled_at + self._grace_seconds
        if now < due_at:
            return due_at
        self._on_stuck(worker)
        return math.inf


@final
class WorkerPool:
    """The workers of one controller. Constructing it starts nothing.

    Args:
        controller: the name of the controller.
        requests: where the workers take requests from.
        invoke: calls the user's function.
        decisions: prepares each request, and decides what follows.
        options: deadlines, and how closing waits.
        tasks: where the workers run.
        is_cancelled: returns whether the controller is being cancelled, as by the event loop's end.
        spans: traces the reconciles; None for no traces.
    """

    def __init__(
        self,
        controller: str,
        requests: RequestQueue,
        invoke: Callable[[Request], Awaitable[Result | None]],
        *,
        decisions: Decisions,
        options: ControllerOptions,
        tasks: UserTasks,
        is_cancelled: Callable[[], bool],
        spans: ReconcileSpans | None = None,
    ) -> None:
        self._controller = controller
        self._requests = requests
        self._invoke = invoke
        self._decisions = decisions
        self._options = options
        self._tasks = tasks
        self._is_cancelled = is_cancelled
        self._spans = spans
        self._workers: list[Worker] = []
        self._deadlines = Deadlines(
            self._workers,
            timeout_seconds=self._options.reconcile_timeout_seconds,
            grace_seconds=self._options.grace_seconds,
            on_stuck=self._stuck,
        )
        self._made = 0
        self._is_closing = False
        self._is_forced = False
        self._skips_drain = self._is_draining = False
        self._changed = anyio.Event()
        self.late_results: int = 0
        """Reconciles that returned after their worker was stuck; what they returned is dropped."""
        self.cancelled: int = 0
        """Reconciles that closing has cancelled."""

    @property
    def _is_ending(self) -> bool:
        """Whether it is closing, or is about to: all tasks of a loop that ends are cancelled."""
        return self._is_closing or self._is_cancelled()

    def start_nowait(self, workers: int) -> None:
        """Start this number of workers on the running loop."""
        for _ in range(workers):
            self._spawn()

    def status(self, now: float) -> tuple[WorkerStatus, ...]:
        """Return what each worker reconciles; from any thread.

        Args:
            now: the loop's time.
        """
        return tuple(worker.status(now) for worker in tuple(self._workers))

    def figures(self) -> dict[str, float]:
        """Return the numbers of its workers by metric; from any thread."""
        workers = tuple(self._workers)
        return {
            "controller_runtime_active_workers": sum(one.request is not None for one in workers),
            "controller_stuck_workers": sum(one.is_stuck for one in workers),
            "controller_late_results_total": self.late_results,
            "controller_cancelled_reconciles_total": self.cancelled,
        }

    async def reconcile_once(self, request: Request) -> Outcome:
        """Reconcile one request in a separate worker, without the queue.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace period.
        """
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def finish(ended: Ended) -> None:
            """Decide what follows, once."""
            if not outcome.done():
                now = asyncio.get_running_loop().time()
                decided = self._decisions.decide(request, ended, now, now - worker.started_at)
                outcome.set_result(decided)

        async def run() -> None:
            """Reconcile in the worker's task."""
            worker.enter()
            span = None if self._spans is None else self._spans.start(request)
            try:
                now = asyncio.get_running_loop().time()
                finish(await self._reconcile(worker, request, now))
            finally:
                if span is not None:
                    if outcome.done() and not outcome.cancelled():
                        span.outcome = outcome.result()
                    span.end()
                self._leave(worker)
                outcome.cancel()  # unless it is done

        worker = self._new_worker(finish)
        worker.user_task = self._tasks.spawn(worker.name, run())
        try:
            await asyncio.wait((outcome,))
        except asyncio.CancelledError:
            if worker.cancelled_at is None:
                await worker.user_task.stop(self._options.grace_seconds)
            raise
        return outcome.result()

    def running(self) -> list[RequestId]:
        """Return the requests that are being reconciled."""
        return [one.request._id for one in self._workers if one.request is not None]

    def cancel_nowait(
        self, wanted: Callable[[RequestId], bool], because: Callable[[], FencedError]
    ) -> None:
        """Cancel the reconciles of some requests; each ends with such an error."""
        for worker in self._workers:
            request = worker.request
            if request is None or worker.cancelled_at is not None or not wanted(request._id):
                continue
            worker.revoked = because()
            self._deadlines.cancel_nowait(worker)

    def detach_current(self) -> None:
        """Detach the worker that this is called from: it waits for the close itself."""
        for worker in self._workers:
            if worker.user_task is not None and worker.user_task.is_current:
                worker.user_task.detach()

    def force_nowait(self) -> None:
        """Stop waiting for reconciles; a stop that is under way continues at once."""
        self._is_forced = True
        self._changed.set()

    def skip_drain_nowait(self) -> None:
        """Cancel running reconciles at a stop, or if one is under way, without a drain."""
        self._skips_drain = True
        self._changed.set()

    async def stop(self) -> None:
        """Close the queue, let running reconciles finish, then cancel them, each once.

        Cancellation:
            Not to be cancelled: its owner shields it; the drain and the grace period bound it.
        """
        self._is_closing = True
        self._requests.close()
        self._is_draining = not self._skips_drain
        await self._wait_idle(self._options.drain_timeout_seconds if self._is_draining else 0.0)
        self._is_draining = False
        self._deadlines.stop_nowait()  # a reconcile that is cancelled here is not cancelled again
        for worker in self._awaited():
            if worker.cancelled_at is None and worker.user_task is not None:
                worker.user_task.cancel_once()
        waited_seconds = self._options.grace_seconds
        await self._wait_idle(waited_seconds)
        if self._is_forced:
            self._is_forced = False
            waited_seconds = _FORCED_SECONDS
            await self._wait_idle(waited_seconds)
        for worker in self._workers:
            if worker.user_task is not None and not worker.is_detached:
                worker.user_task.abandon_if_running(waited_seconds)

    def _awaited(self) -> list[Worker]:
        """Return the workers that closing waits for."""
        return [worker for worker in self._workers if not (worker.is_stuck or worker.is_detached)]

    async def _wait_idle(self, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            while self._awaited() and not (
                self._is_forced or (self._is_draining and self._skips_drain)
            ):
                self._changed = anyio.Event()
                await self._changed.wait()

    def _new_worker(self, on_stuck: Callable[[Ended], None] | None = None) -> Worker:
        self._made += 1
        worker = Worker(self._made, self._controller, on_stuck)
        self._workers.append(worker)
        return worker

    def _spawn(self) -> None:
        worker = self._new_worker()
        worker.user_task = self._tasks.spawn(worker.name, self._run(worker))

    async def _run(self, worker: Worker) -> None:
        worker.enter()
        try:
            await self._work(worker)
        except QueueClosedError:
            pass
        except asyncio.CancelledError:
            if not self._is_ending:  # by foreign code: fewer workers would go unnoticed
                _log.error("%s was cancelled by foreign code; another takes its place", worker.name)
                self._spawn()
            raise
        finally:
            self._leave(worker)

    async def _work(self, worker: Worker) -> None:
        queue, decisions = self._requests.queue, self._decisions
        now, spans = asyncio.get_running_loop().time, self._spans
        while not worker.is_replaced:
            request_id = await queue.get()
            span = None
            try:
                began_at = now()
                reasons = decisions.prepare(request_id, began_at)
                if reasons is not None:
                    request = request_for(request_id, reasons)
                    if spans is not None:
                        span = spans.start(request)
                    ended = await self._reconcile(worker, request, began_at)
                    ended_at = now()
                    outcome = decisions.conclude(request, ended, ended_at, ended_at - began_at)
                    if span is not None:
                        span.outcome = outcome
            finally:
                if span is not None:
                    span.end()
                queue.done(request_id)

    async def _reconcile(self, worker: Worker, request: Request, now: float) -> Ended:
        """Call the user's function and return how it ended, whatever it raised."""
        task = worker.task
        worker.started_at = now
        worker.request = request
        task.shown_name = worker.shown_name  # the last reconcile may have named the task
        self._deadlines.started(now)
        task.cancelled_before = task.cancelling()  # as begin_user_code does, without another call
        try:
            guard = CURRENT_GUARD.get()  # not check_guard(): a call less for each reconcile
            if guard is not None:  # its request may have waited beyond the end of the term
                guard.check()
            ended: Ended = await self._invoke(request)
        except BaseException as error:  # the guard; test tools raise these
            is_cancellation = isinstance(error, asyncio.CancelledError)  # follows below
            if not is_cancellation and ends_task(error, task):
                raise
            ended = error
        finally:
            worker.request = None
        if worker.cancelled_at is not None:
            return self._timed_out(worker, task, request, ended)
        if isinstance(ended, asyncio.CancelledError) and ends_task(ended, task):
            self._cancelled(worker, request, ended)
        return ended

    def _cancelled(self, worker: Worker, request: Request, error: asyncio.CancelledError) -> None:
        """End the worker; its request is retried, unless the controller is ending."""
        if self._is_ending:
            self.cancelled += 1
        elif worker.on_stuck is None:
            now = asyncio.get_running_loop().time()
            self._decisions.conclude(request, error, now, now - worker.started_at)
        raise error

    def _timed_out(
        self, worker: Worker, task: UserCodeTask, request: Request, ended: Ended
    ) -> ReconcileTimeoutError | FencedError:
        """Return the error that stands for any end after the deadline, or after a revocation."""
        task.uncancel()
        worker.cancelled_at = None
        revoked, worker.revoked = worker.revoked, None
        if worker.is_stuck:
            worker.is_stuck = False
            self.late_results += 1
            _log.warning(
                "controller %s: the reconcile of %s finished late; its result is dropped",
                self._controller,
                request,
            )
        error = self._timeout_error(request) if revoked is None else revoked
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            error.__cause__ = ended
        return error

    def _timeout_error(self, request: Request) -> ReconcileTimeoutError:
        timeout_seconds = self._options.reconcile_timeout_seconds or 0.0
        return ReconcileTimeoutError(request=str(request), timeout_seconds=timeout_seconds)

    def _stuck(self, worker: Worker) -> None:
        """Log a worker that is stuck, and replace it unless too many are."""
        worker.is_stuck = True
        request = worker.request
        stuck = sum(other.is_stuck for other in self._workers)
        may_replace = stuck <= _MOST_REPLACED and not self._is_closing
        worker.is_replaced = worker.on_stuck is None and may_replace
        _log.error(
            "controller %s: the reconcile of %s has ignored its cancellation for %.1f s;"
            " its key waits until it returns. %s",
            self._controller,
            request,
            self._options.grace_seconds,
            "Another worker takes its place"
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
        worker.task.shown_name = None  # it refers to the worker, which refers to it
        self._changed.set()
