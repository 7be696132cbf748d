"""One controller from inside: sources feed the queue, workers empty it, outcomes feed it again.

What enters are events, by way of the sources; what leaves are calls of the user's reconcile. This
is where the pure decisions meet the queue and the tasks, and where every end of a reconcile is
counted and logged, with its reasons and without the content of any object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, final

import anyio

from pyinformer._logging import get_logger
from pyinformer._printable import Lines
from pyinformer.apimachinery import (
    CacheSyncTimeoutError,
    InformerError,
    LifecycleError,
    ReconcileTimeoutError,
    TokenBucket,
    V,
)
from pyinformer.cluster import CURRENT_WRITER
from pyinformer.controller._invoke import Invoker
from pyinformer.controller._key_limit import KeyLimit
from pyinformer.controller._log_text import is_meant, level_of, outlook_of, words_of
from pyinformer.controller._loop_detection import LoopDetector, ReconcileWrites
from pyinformer.controller._metrics import measure
from pyinformer.controller._outcomes import Outcome, Outcomes
from pyinformer.controller._request_queue import RequestQueue
from pyinformer.controller._result import Result
from pyinformer.controller._status import ControllerStatus
from pyinformer.controller._workers import WorkerPool
from pyinformer.informer import SharedInformer, wait_for_cache_sync
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._owned import OwnedSource
from pyinformer.sources._request import Reason, Request
from pyinformer.tasks import UserTasks, place_of, trace_text
from pyinformer.workqueue import PriorityQueue

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._worker import Ended
    from pyinformer.sources._source import Source

_log = get_logger("pyinformer.controller")


class Lifetime(Protocol):
    """What runs an engine: the life of a controller by itself, or of a group."""

    def break_nowait(self, error: BaseException) -> None:
        """Take note of a bug of ours, and end."""
        ...

    async def wait_ended(self) -> None:
        """Wait for the end.

        Cancellation:
            Safe.
        """
        ...


@final
class Engine(Generic[V]):
    """What a Controller is made of. Constructing it starts nothing.

    Args:
        name: names it in logs, metrics and status.
        attempt: calls the user's function.
        workers: how many workers.
        options: how it behaves.
        metrics: where its figures go.
    """

    def __init__(
        self,
        name: str,
        attempt: Invoker[V],
        *,
        workers: int,
        options: ControllerOptions,
        metrics: Metrics,
    ) -> None:
        self.name: str = name
        self.options: ControllerOptions = options
        self.sources: list[Source] = []
        self.informers: list[SharedInformer[Any]] = []
        """The caches that have to be filled before the first reconcile."""
        self.before_attach: list[Callable[[], Awaitable[None]]] = []
        """To be called while the caches are being filled, and again if that was in vain."""
        self.life: Lifetime | None = None
        """Who has started it; None before."""
        self.has_synced: bool = False
        self.is_running: bool = False
        self.queue: PriorityQueue[Request] = PriorityQueue(name, metrics=metrics)
        self.intake: RequestQueue = RequestQueue(self.queue)
        self._workers = workers
        self._metrics = metrics
        self._outcomes = Outcomes(
            initial_seconds=options.initial_backoff_seconds,
            max_seconds=options.max_backoff_seconds,
            jitter=options.backoff_jitter_ratio,
            rng=options.rng,
        )
        self._alarms = LoopDetector(name, options, metrics)
        self._hot = self._alarms.hot_loops
        self._held = self._alarms.held
        self._has_breaker = options.noop_breaker
        self._limit = KeyLimit(
            limit=options.rate_limit, period_seconds=options.rate_limit_period_seconds
        )
        self._tasks = UserTasks(on_crash=self._crashed)
        self._pool = WorkerPool(
            name,
            self.queue,
            tasks=self._tasks,
            prepare=self._prepare,
            attempt=attempt,
            conclude=self._conclude,
            options=options,
        )
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._postponed = self._dropped_held = 0
        self._last_error: str | None = None
        self._failure_lines = TokenBucket(per_second=_LINES_PER_SECOND, burst=_LINES_AT_ONCE)
        self._unlogged_failures = 0
        self._now: Callable[[], float] = float

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The reconciles that were left to themselves and still run."""
        return self._tasks.abandoned

    def add_source(self, source: Source, informer: SharedInformer[Any] | None) -> None:
        """Be fed by a source, too; its informer's cache is waited for.

        Raises:
            LifecycleError: the controller was started.
        """
        if self.life is not None:
            raise LifecycleError(f"controller {self.name} was started: add its sources before")
        self.sources.append(source)
        if informer is not None and informer not in self.informers:
            self.informers.append(informer)

    def refuse_if_begun(self) -> None:
        """Refuse a second start.

        Raises:
            LifecycleError: it was started before.
        """
        if self.life is not None:
            raise LifecycleError(f"controller {self.name} was started before; make a new one")

    def begin_nowait(self, life: Lifetime) -> None:
        """Take note of the start, and of who ends it."""
        self.life = life

    async def open(self, group: TaskGroup) -> None:
        """Wait for the caches, have the sources enqueue what exists, and start the workers.

        Args:
            group: where the sources run.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long.

        Cancellation:
            Safe; what was started is stopped with the group and by stop().
        """
        began_at = anyio.current_time()
        timeout_seconds = self.options.sync_timeout_seconds
        self._now = asyncio.get_running_loop().time
        for prepare in self.before_attach:
            group.start_soon(_early, prepare)
        await wait_for_cache_sync(*self.informers, timeout_seconds=timeout_seconds)
        deadline = began_at + timeout_seconds
        with anyio.CancelScope(deadline=deadline) as scope:  # move_on_at is of anyio 4.15
            for prepare in self.before_attach:
                await prepare()
            for source in self.sources:
                source.attach(self.intake.put_nowait)
                group.start_soon(source.run, name=f"{source.name} of controller {self.name}")
            for source in self.sources:
                await source.wait_synced()
        if scope.cancelled_caught:
            pending = [one for one in self.sources if not one.has_synced]
            raise CacheSyncTimeoutError(
                waited_seconds=anyio.current_time() - began_at,
                pending=[f"{one.name} of controller {self.name}: {_lack(one)}" for one in pending],
            )
        self.has_synced = self.is_running = True
        self._pool.start_nowait(self._workers)
        _log.info("controller %s has started; workers: %d", self.name, self._workers)

    def detach_nowait(self) -> None:
        """Be fed nothing any more."""
        self.is_running = False
        for source in self.sources:
            source.detach()

    async def stop(self) -> None:
        """Drop what waits, let what is in flight finish, then cancel it.

        Cancellation:
            Not to be cancelled: its owner shields it, and its two times bound it.
        """
        await self._pool.stop()
        self._dropped_held = self._alarms.aside
        dropped = self.queue.statistics().dropped + self._dropped_held
        if dropped:
            _log.info("controller %s is closed; %d requests were dropped", self.name, dropped)

    def force_nowait(self) -> None:
        """Wait for nobody any more."""
        self._pool.force_nowait()

    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""
        self._tasks.close_abandoned()

    def excuse_current(self) -> None:
        """Let the reconcile that this is called from end in its own time."""
        self._pool.excuse_current()

    async def once(self, request: Request) -> Outcome:
        """Reconcile a request without the queue.

        Raises:
            LifecycleError: the controller was started: its workers might have the same key.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace.
        """
        if self.life is not None:
            raise LifecycleError(f"controller {self.name} was started: enqueue the request instead")
        token = CURRENT_WRITER.set(ReconcileWrites(self._alarms, request, is_storm=False))
        try:
            return await self._pool.once(request, self._judge)
        finally:
            CURRENT_WRITER.reset(token)

    def status(self) -> ControllerStatus:
        """Return how it is doing; from any thread."""
        now = self._now()
        statistics = self.queue.statistics()
        workers = self._pool.status(now)
        hot_loops = self._alarms.hot(now)
        return ControllerStatus(
            name=self.name,
            is_running=self.is_running,
            has_synced=self.has_synced,
            queue=statistics,
            workers=workers,
            stuck=tuple(worker.request for worker in workers if worker.is_stuck and worker.request),
            outcomes=MappingProxyType({**self._counts, "cancelled": self._pool.cancelled}),
            failing=len(self._outcomes),
            hot=tuple(found.request for found in hot_loops),
            hot_loops=hot_loops,
            noop_writes=self._alarms.noop_writes(now),
            postponed=self._postponed,
            late_results=self._pool.late_results,
            dropped=statistics.dropped + self.intake.refused + self._dropped_held,
            last_error=self._last_error,
            sources=tuple(source.status() for source in self.sources),
        )

    def _prepare(self, request: Request, now: float) -> Request | None:
        queue, alarms = self.queue, self._alarms
        priority = queue.priority_of(request)
        is_storm = priority < 0 or (
            self._has_breaker
            and alarms.writes_in_vain(request)
            and not self.intake.is_news(request)
        )
        wait_seconds = max(
            self._hot.wait_seconds(request, now), self._limit.wait_seconds(request, now)
        )
        if wait_seconds > 0:
            self._postponed += 1
            queue.add_after_nowait(request, wait_seconds, priority=priority)
            if self._held:
                alarms.postponed(request)
                self._move_held(now)
            return None
        if is_storm and alarms.holds(request, priority, now):
            self._move_held(now)
            return None
        self._limit.started(request, now)
        prepared = self.intake.with_reasons(request)
        # The context of the worker task: what the function writes is attributed to this reconcile.
        CURRENT_WRITER.set(alarms.started(prepared, now, is_storm=is_storm))
        if self._held:
            self._move_held(now)
        return prepared

    def _move_held(self, now: float) -> None:
        """Put back what the breaker lets go, and what may try next."""
        queue = self.queue
        for request, priority in self._alarms.release():
            queue.add_nowait(request, priority=priority)
        probe = self._alarms.next_probe(now)
        if probe is not None:
            queue.add_after_nowait(probe.request, probe.after_seconds, priority=probe.priority)

    def _conclude(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        outcome = self._judge(request, ended, now, seconds)
        if outcome.after_seconds is not None:
            is_failure = outcome.is_failure
            self.intake.put_after_nowait(
                request,
                _RETRY if is_failure else _REQUEUE,
                priority=self._priority_of(outcome),
                after_seconds=outcome.after_seconds,
            )
        writes = CURRENT_WRITER.get()  # stays until the next start: nothing else writes here
        if isinstance(writes, ReconcileWrites):
            self._alarms.ended(writes, now, is_failure=outcome.is_failure)
        if self._held:
            self._move_held(now)
        return outcome

    def _priority_of(self, outcome: Outcome) -> int:
        wanted = outcome.priority
        return self.queue.priority_of(outcome.request) if wanted is None else wanted

    def _judge(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        if ended is None or isinstance(ended, Result):
            outcome = self._outcomes.succeeded(request, ended)
            if _log.isEnabledFor(logging.DEBUG):
                self._log_success(outcome)
        else:
            outcome = self._outcomes.failed(request, ended, now)
            self._log_failure(outcome, ended, now)
        self._counts[outcome.kind] += 1
        if self._metrics is not NO_METRICS:
            measure(self._metrics, self.name, outcome, seconds)
        return outcome

    def _log_success(self, outcome: Outcome) -> None:
        _log.debug(
            "controller %s: reconciled %s: %s; reasons: %s",
            self.name,
            outcome.request,
            outcome.kind,
            _reasons(outcome.request),
        )

    def _log_failure(self, outcome: Outcome, error: BaseException, now: float) -> None:
        if isinstance(error, ReconcileTimeoutError):
            self._counts["timeout"] += 1
        self._last_error = f"{type(error).__name__} {place_of(error)}"
        if not _log.isEnabledFor(level_of(error)):
            return
        if self._failure_lines.reserve(now) > 0:
            self._failure_lines.give_back()
            self._unlogged_failures += 1
            return
        unlogged, self._unlogged_failures = self._unlogged_failures, 0
        shown = self.options.log_exceptions
        _log.log(
            level_of(error),
            "controller %s: the reconcile of %s failed: %s; %s; reasons: %s%s%s",
            self.name,
            outcome.request,
            words_of(error, shown),
            outlook_of(outcome),
            _reasons(outcome.request),
            f"; {unlogged} failures since the last such line are not logged" if unlogged else "",
            Lines(f"\n{trace_text(error)}" if shown == "full" and not is_meant(error) else ""),
        )

    def _crashed(self, error: BaseException) -> None:
        if self.life is not None:
            self.life.break_nowait(error)


_LINES_AT_ONCE: Final = 1_000  # of failures: a tenant can create any number of keys that fail
_LINES_PER_SECOND: Final = 10.0
_COUNTED: Final = ("success", "requeue", "error", "retry_after", "terminal", "timeout")
_RETRY: Final = Reason(source="reconcile", event="retry")
_REQUEUE: Final = Reason(source="reconcile", event="requeue")


def _lack(source: Source) -> str:
    is_ready = not isinstance(source, OwnedSource) or source.owner is not None
    return "initial keys are not enqueued yet" if is_ready else "its kind of owner is not known yet"


async def _early(prepare: Callable[[], Awaitable[None]]) -> None:
    with suppress(InformerError):  # it is met again when the caches are filled
        await prepare()


def _reasons(request: Request) -> str:
    return "; ".join(map(str, request.reasons)) or "none"
