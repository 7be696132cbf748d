"""The inside of a controller: sources fill the queue, workers empty it, outcomes fill it again.

Every end of a reconcile is counted and logged, with the reasons of its request and without the
content of any object.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import UserTasks, loop_time, spread
from pyinformer.cache.informer import counted, wait_until_controllers_can_begin
from pyinformer.client.cluster import CURRENT_WRITER
from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.controller._fenced_limiter import FencedLimiter
from pyinformer.controller._metrics import (
    ControllerMetrics,
    is_panic,
    unique_label,
)
from pyinformer.controller._object_tasks import ObjectTasks
from pyinformer.controller._reconcile_log import ReconcileLog
from pyinformer.controller._reconcile_spans import ReconcileSpans
from pyinformer.controller._request_queue import RequestQueue
from pyinformer.controller._requeue_policy import Outcome, RequeuePolicy, given_up_text
from pyinformer.controller._result import UNDECIDED, Result
from pyinformer.controller._runaway_reconciles import LoopDetector, ReconcileWrites
from pyinformer.controller._status import ControllerStatus, FailingKeyStatus
from pyinformer.controller._waiting_keys import WaitingKeys
from pyinformer.controller._workers import WorkerPool
from pyinformer.controller.sources import OwnedSource, Reason, request_for, request_text
from pyinformer.errors import (
    CacheSyncTimeoutError,
    LifecycleError,
    ReconcileTimeoutError,
)
from pyinformer.objects import V
from pyinformer.telemetry.metrics import (
    NO_METRICS,
    Metrics,
    MetricsScope,
    MetricsSource,
    Sample,
    fenced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from anyio.abc import TaskGroup

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.controller._invoke import Invoker
    from pyinformer.controller._options import ControllerOptions
    from pyinformer.controller._workers import Ended
    from pyinformer.controller.sources import Request, RequestId, Source
    from pyinformer.errors import FencedError
    from pyinformer.telemetry.tracing import FencedTracing

_log = get_logger(__name__)

_SHOWN_FAILING: Final = 20  # keys in the status: people read no more
_SHOWN_WAITING: Final = 100  # a slow rollout may stop as many; the rest are counted
_KEYS_SECONDS: Final = 10.0  # for initial keys, if namespaces have used up the time of the start
_RELEASED: Final = 64  # held requests that come back in one step of the loop
_COUNTED: Final = ("success", "requeue", "error", "retry_after", "terminal", "timeout", "panic")
_RETRY: Final = Reason(source="reconcile", event="retry")
_REQUEUE: Final = Reason(source="reconcile", event="requeue")
_DAEMON: Final = Reason(source="daemon", event="enqueued")


Replay: TypeAlias = "Callable[[Callable[[RequestId], bool], float], None]"
"""Enqueues what was requested before, if it is wanted: called with what is wanted, and the loop's
time since which possibly no process has handled it."""


class EngineOwner(Protocol):
    """The lifecycle of a controller or of its group, as the engine and its controller see it."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it is being cancelled, by its close or by the end of the event loop."""
        ...

    def crash_nowait(self, error: BaseException) -> None:
        """Record a bug of pyinformer, and end."""
        ...

    async def wait_ended(self) -> None:
        """Wait until it is closed, a signal asks for the end, or it has crashed.

        Cancellation:
            Safe.
        """
        ...


@final
class Engine(Generic[V]):
    """Runs one controller: its sources, queue and workers. Constructing it starts nothing.

    Args:
        name: the controller's name in logs and status.
        invoker: calls the user's function.
        workers: the number of workers.
        options: how it behaves.
        metrics: where its metrics go.
        label: the value of the label `controller` of its metrics.
        tracing: traces its reconciles; None for no traces.
    """

    object_tasks: ObjectTasks[Any] | None = None
    """The tasks that its reconciles start; None if they start none."""
    acts_outside: bool = False
    """Whether its reconciles are known to do something outside of the cluster."""

    def __init__(
        self,
        name: str,
        invoker: Invoker[V],
        *,
        workers: int,
        options: ControllerOptions,
        metrics: Metrics,
        label: str,
        tracing: FencedTracing | None = None,
    ) -> None:
        self.name: str = name
        self.metrics: Metrics = metrics
        """Where its metrics go."""
        self._label = unique_label(metrics, label)
        self.label: str = label if self._label is None else self._label.text
        """The value of their label `controller`, which no other controller has."""
        self.options: ControllerOptions = options
        self.sources: list[Source] = []
        self.informers: list[SharedInformer[Any]] = []
        """The caches that have to be filled before the first reconcile."""
        self.before_attach: list[Callable[[], Coroutine[None, None, None]]] = []
        """Called while the caches are being filled, and again if that failed."""
        self.replays: list[Replay] = []
        """What requests beside the sources what it has requested before."""
        self.lifecycle: EngineOwner | None = None
        """What has started it; None before."""
        self.has_synced: bool = False
        self.is_running: bool = False
        self.figures: list[MetricsSource] = []
        """Read with its own metrics, from its start to its end."""
        self._scope: MetricsScope = fenced(metrics).scope()
        self._metrics: ControllerMetrics | None = None
        self.requests: RequestQueue = RequestQueue(self.label, self._scope)
        self._queue = self.requests.queue
        self._workers = workers
        self._invoker = invoker
        self._outcomes = RequeuePolicy(FencedLimiter(name, options.rate_limiter))
        self._waits = WaitingKeys()
        self._detector = LoopDetector(name, options)
        self._hot = self._detector.hot_loops
        self._held = self._detector.held
        self._noops = self._detector.noop_counts
        self._breaker = self._detector.breaker
        self._tasks = UserTasks(on_crash=self._crashed)
        self._pool = WorkerPool(
            name,
            self.requests,
            invoker,
            decisions=self,
            options=options,
            tasks=self._tasks,
            is_cancelled=lambda: self.lifecycle is not None and self.lifecycle.is_cancelled,
            spans=None if tracing is None else self._spans(tracing),
        )
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._postponed = self._dropped_held = 0
        self._log = ReconcileLog(name, options.log_exceptions)
        self._now: Callable[[], float] = float

    @property
    def primaries(self) -> tuple[SharedInformer[V], ...]:
        """The informers of the reconciled objects."""
        return self._invoker.primaries

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The reconciles that closing did not wait for, and that still run."""
        return self._tasks.abandoned

    def add_source(self, source: Source, informer: SharedInformer[Any] | None) -> None:
        """Add a source, and the informer whose cache it needs.

        Raises:
            LifecycleError: the controller was started.
        """
        if self.lifecycle is not None:
            raise LifecycleError(f"controller {self.name} was started: add its sources before")
        self.sources.append(source)
        if informer is not None:
            self.add_informer(informer)

    def add_informer(self, informer: SharedInformer[Any]) -> None:
        """Add an informer whose cache has to be filled before the first reconcile."""
        if informer not in self.informers:
            self.informers.append(informer)

    def keep_tasks(self, limit: int) -> ObjectTasks[Any]:
        """Return where reconciles start tasks of their objects; they end with the controller.

        Args:
            limit: how many run at once.
        """
        requests = self.requests
        self.object_tasks = ObjectTasks(
            self.name,
            self._tasks,
            self.options,
            limit=limit,
            enqueue=lambda found: requests.put_nowait(request_for(found), _DAEMON, priority=0),
        )
        return self.object_tasks

    def retry_at(self, request_id: RequestId) -> float | None:
        """Return the loop's time of the retry of a request that failed; None if none is due."""
        found = self._outcomes.failing.get(request_id)
        return None if found is None else found.retry_at

    def refuse_if_begun(self) -> None:
        """Refuse a second start.

        Raises:
            LifecycleError: it was started before.
        """
        if self.lifecycle is not None:
            raise LifecycleError(f"controller {self.name} was started before; make a new one")

    async def open(self, group: TaskGroup, *, is_patient: bool = False) -> None:
        """Wait for the caches, have the sources enqueue existing objects, and start the workers.

        Args:
            group: where the sources run.
            is_patient: wait as long as it takes; a WARNING says once what is missing.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long.
            LifecycleError: a cache was closed before it had synced.
            InternalError: a cache crashed.

        Cancellation:
            Safe; what was started is stopped with the group and by stop().
        """
        began_at = loop_time()
        timeout_seconds = self.options.sync_timeout_seconds
        self._now = asyncio.get_running_loop().time
        self.requests.start(self._now, debounce_seconds=self.options.debounce_seconds)
        self._measure()
        for prepare in self.before_attach:
            group.start_soon(prepare)
        await self._wait_for_caches(timeout_seconds, is_patient=is_patient)
        lacking = [one for one in self.informers if not one.has_synced]
        deadline = began_at + timeout_seconds
        if lacking:
            deadline = max(deadline, loop_time() + _KEYS_SECONDS)
            self._log_lacking(lacking)
        if is_patient:
            deadline = math.inf
        with anyio.CancelScope(deadline=deadline) as scope:  # move_on_at is of anyio 4.15
            for prepare in self.before_attach:
                await prepare()
            for source in self.sources:
                source.attach(self.requests.put_nowait)
                group.start_soon(source.run, name=f"{source.name} of controller {self.name}")
            for source in self.sources:
                await source.wait_synced()
        if scope.cancelled_caught:
            pending = [one for one in self.sources if not one.has_synced]
            raise CacheSyncTimeoutError(
                waited_seconds=loop_time() - began_at,
                pending=[f"{one.name} of controller {self.name}: {_lack(one)}" for one in pending],
            )
        self.has_synced = self.is_running = True
        self._pool.start_nowait(self._workers)
        _log.info("controller %s has started; workers: %d", self.name, self._workers)
        if self.requests.gate is not None:
            self.requests.gate.on_started()

    async def _wait_for_caches(self, timeout_seconds: float, *, is_patient: bool) -> None:
        try:
            await wait_until_controllers_can_begin(*self.informers, timeout_seconds=timeout_seconds)
        except CacheSyncTimeoutError as error:
            if not is_patient:
                raise
            _log.warning("controller %s waits for its caches: %s", self.name, error)
            await wait_until_controllers_can_begin(*self.informers, timeout_seconds=None)

    def _log_lacking(self, informers: list[SharedInformer[Any]]) -> None:
        lines = chain.from_iterable(informer.status().pending() for informer in informers)
        _log.warning(
            "controller %s starts without these namespaces, which join when they have synced: %s",
            self.name,
            "; ".join(lines),
        )

    def detach_nowait(self) -> None:
        """Detach the sources, so that no event makes a request any more."""
        self.is_running = False
        for source in self.sources:
            source.detach()

    async def stop(self) -> None:
        """Drop waiting requests, let running reconciles finish, then cancel them.

        Cancellation:
            Not to be cancelled: its owner shields it, and its two times bound it.
        """
        if self.object_tasks is not None:  # they have no end of their own to wait for
            self.object_tasks.close_nowait()
        await self._pool.stop()
        if self.object_tasks is not None:
            await self.object_tasks.wait_closed()
        self._dropped_held = self._breaker.aside
        dropped = self._queue.statistics().dropped + self._dropped_held
        if dropped:
            text = "controller %s is closed; %s dropped"
            _log.info(text, self.name, counted(dropped, "request"))
        self._scope.close()
        if self._label is not None:
            self._label.release()

    async def replay(self, wanted: Callable[[RequestId], bool], *, since_at: float) -> None:
        """Enqueue what the sources request for what exists, in short steps.

        Args:
            wanted: returns whether a request is enqueued.
            since_at: the loop's time since which possibly no process has handled what is wanted.

        Cancellation:
            Safe; between two objects.
        """
        for replay in self.replays:
            replay(wanted, since_at)
        for source in tuple(self.sources):
            await spread(source.replay(wanted))

    async def forget_foreign(self) -> None:
        """Forget all requests that the gate does not admit any more, in short steps.

        Cancellation:
            Safe; between two requests.
        """
        await spread(self._steps_to_forget())

    def _steps_to_forget(self) -> Iterator[None]:
        gate, requests = self.requests.gate, self.requests
        if gate is None:
            return
        tasks = self.object_tasks
        remembered = () if tasks is None else tasks.remembered()
        known = {*self._queue.waiting(), *self._held, *self._outcomes.failing, *self._waits.waits}
        for request_id in known.union(remembered):
            if not gate.admits(request_id):
                requests.forget(request_id)
                self._outcomes.forget(request_id)
                self._waits.forget(request_id)
                self._forget_held(request_id, loop_time())
                if tasks is not None:
                    tasks.forget(request_id)
            yield

    def _forget_held(self, request_id: RequestId, now: float) -> None:
        """Forget a request that the breaker may hold; it may have been the probe."""
        if request_id in self._held:
            self._breaker.forget(request_id)
            self._release_held(now)

    def is_failing(self, wanted: Callable[[RequestId], bool]) -> bool:
        """Return whether the retry of such a request is pending."""
        return any(map(wanted, self._outcomes.failing))

    def is_reconciling(self, wanted: Callable[[RequestId], bool]) -> bool:
        """Return whether a reconcile of such a request runs."""
        return any(map(wanted, self._pool.running()))

    @property
    def has_tasks(self) -> bool:
        """Whether a task of an object runs that its reconciles have started."""
        return self.object_tasks is not None and len(self.object_tasks.running) > 0

    @property
    def has_stuck_tasks(self) -> bool:
        """Whether a task of an object ignores its cancellation."""
        tasks = self.object_tasks
        return tasks is not None and any(one.ignores_cancellation for one in tasks.running)

    def cancel_nowait(
        self, wanted: Callable[[RequestId], bool], because: Callable[[], FencedError]
    ) -> None:
        """Cancel the reconciles of such requests; each ends with such an error, for good."""
        self._pool.cancel_nowait(wanted, because)

    def force_nowait(self) -> None:
        """Stop waiting for reconciles."""
        self._pool.force_nowait()
        if self.object_tasks is not None:
            self.object_tasks.force_nowait()

    def skip_drain_nowait(self) -> None:
        """Cancel running reconciles at a stop, or if one is under way, without a drain."""
        self._pool.skip_drain_nowait()

    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""
        self._tasks.close_abandoned()

    def detach_current(self) -> None:
        """Detach the reconcile that this is called from, which closes the controller."""
        self._pool.detach_current()

    async def reconcile_once(self, request: Request) -> Outcome:
        """Reconcile a request without the queue.

        Raises:
            LifecycleError: the controller was started: its workers might have the same key.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace period.
        """
        if self.lifecycle is not None:
            raise LifecycleError(f"controller {self.name} was started: enqueue the request instead")
        token = CURRENT_WRITER.set(ReconcileWrites(self._detector, request._id, may_wait=False))
        try:
            return await self._pool.reconcile_once(request)
        finally:
            CURRENT_WRITER.reset(token)

    def status(self) -> ControllerStatus:
        """Return the controller's state; from any thread."""
        now = self._now()
        statistics = self._queue.statistics()
        workers = self._pool.status(now)
        hot_loops = self._detector.hot(now)
        self._waits.forget_gone(self._invoker.has)
        return ControllerStatus(
            name=self.name,
            is_running=self.is_running,
            has_synced=self.has_synced,
            queue=statistics,
            workers=workers,
            stuck=tuple(worker.request for worker in workers if worker.is_stuck and worker.request),
            outcomes=MappingProxyType({**self._counts, "cancelled": self._pool.cancelled}),
            failing=len(self._outcomes),
            failing_keys=self._failing_keys(now),
            waiting=len(self._waits.waits),
            given_up=self._waits.given_up(),
            waiting_keys=self._waits.longest(_SHOWN_WAITING, now),
            hot=tuple(found.request for found in hot_loops),
            hot_loops=hot_loops,
            noop_writes=self._detector.noop_writes(now),
            debounced=0 if self.requests.debounce is None else len(self.requests.debounce),
            postponed=self._postponed,
            late_results=self._pool.late_results,
            dropped=statistics.dropped + self.requests.refused + self._dropped_held,
            last_error=self._log.last_error,
            sources=tuple(source.status() for source in self.sources),
            daemons=None if self.object_tasks is None else self.object_tasks.status(),
        )

    def _failing_keys(self, now: float) -> tuple[FailingKeyStatus, ...]:
        return tuple(
            FailingKeyStatus(
                request=request_text(request_id),
                failures=found.failures,
                error=found.error,
                retry_seconds=max(0.0, found.retry_at - now),
            )
            for request_id, found in self._outcomes.worst(_SHOWN_FAILING)
        )

    def prepare(self, request_id: RequestId, now: float) -> tuple[Reason, ...] | None:
        """Return the reasons of a request that was taken from the queue and starts now.

        None if it has to wait: it was put back, or the breaker holds it.
        """
        queue, detector = self._queue, self._detector
        gate = self.requests.gate
        if gate is not None:
            guard = gate.guard_of(request_id)
            if guard is None:  # another replica has it by now, and requests it itself
                self.requests.forget(request_id)
                self._forget_held(request_id, now)
                return None
            CURRENT_GUARD.set(guard)  # in the context of the worker's task, until the next start
        priority, requests = queue.taken.get(request_id, 0), self.requests
        if requests.debounce is not None and requests.is_debounced(request_id, now, priority):
            return None  # without a debounce no call, which each event would make
        may_wait = priority < 0 or (
            self.options.noop_breaker
            and self._noops.only_noops(request_id)
            and not self.requests.has_changes(request_id)
        )
        wait_seconds = self._hot.wait_seconds(request_id, now)
        if wait_seconds > 0:
            self._postponed += 1
            queue.add_after_nowait(request_id, wait_seconds, priority=priority)
            return None  # no held request waits so: its key has not started since it is held
        if may_wait and detector.holds(request_id, priority, now):
            self._release_held(now)
            return None
        reasons = self.requests.take_reasons(request_id)
        # The context of the worker's task: what the function writes is attributed to this
        # reconcile.
        CURRENT_WRITER.set(detector.started(request_id, now, reasons, may_wait=may_wait))
        if self._held:
            self._release_held(now)
        if self._metrics is not None:
            self._metrics.started(
                now,
                event_at=self.requests.take_event_at(request_id),
                proven_at=self._invoker.proven_at(request_id),
            )
        return reasons

    def conclude(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        """Record how a reconcile ended, and enqueue its request again if it has to come again."""
        outcome = self.decide(request, ended, now, seconds)
        is_failure = outcome.error is not None
        if outcome.after_seconds is not None:
            wanted = outcome.priority
            self.requests.put_again_nowait(
                request,
                _RETRY if is_failure else _REQUEUE,
                priority=self._queue.taken.get(request._id, 0) if wanted is None else wanted,
                after_seconds=outcome.after_seconds,
            )
        if self._noops.is_storm or self._breaker.is_open:
            writes = CURRENT_WRITER.get()  # stays until the next start: nothing else writes here
            if isinstance(writes, ReconcileWrites):
                self._detector.ended(writes, now, is_failure=is_failure)
        if self._held:
            self._release_held(now)
        return outcome

    def decide(self, request: Request, ended: Ended, now: float, seconds: float) -> Outcome:
        """Decide what follows from the end of a reconcile; count it and log it."""
        waiting_for, is_given_up = "", False
        if ended is None or isinstance(ended, Result):
            outcome = (
                self._outcomes.undecided(request, now)
                if ended is UNDECIDED
                else self._outcomes.succeeded(request, ended)
            )
            if self._log.unlogged_of_outage or _log.isEnabledFor(logging.DEBUG):  # nearly never
                self._log.succeeded(outcome, now)
        else:
            outcome = self._outcomes.failed(request, ended, now)
            self._log.failed(outcome, ended, now)
            is_given_up = outcome.kind == "terminal"
            if is_given_up and self._invoker.has(request._id):  # else nothing ends it
                waiting_for = given_up_text(ended)
            if isinstance(ended, ReconcileTimeoutError):
                self._counts["timeout"] += 1
            elif is_panic(ended):
                self._counts["panic"] += 1
        self._counts[outcome.kind] += 1
        result = outcome.result
        if result is not None:
            waiting_for = result.waiting_for
        if waiting_for or self._waits.waits:
            self._waits.record(request._id, waiting_for, now, is_given_up=is_given_up)
        if self._metrics is not None:
            self._metrics.reconciled(seconds)
        return outcome

    def _spans(self, tracing: FencedTracing) -> ReconcileSpans:
        return ReconcileSpans(
            self.name,
            tracing,
            self.options.log_exceptions,
            requests=self.requests,
            outcomes=self._outcomes,
        )

    def _release_held(self, now: float) -> None:
        """Enqueue the requests that the breaker releases, and the next probe."""
        queue = self._queue
        for request_id, priority in self._breaker.release(_RELEASED):
            queue.add_nowait(request_id, priority=priority)
        probe = self._breaker.next_probe(now)
        if probe is not None:
            queue.add_after_nowait(probe.request_id, probe.after_seconds, priority=probe.priority)

    def _measure(self) -> None:
        """Register all metrics of the controller, so that each is shown before it first changes."""
        if self._scope is NO_METRICS:
            return
        self._metrics = metrics = ControllerMetrics(self.label, self._scope)
        self.requests.measure_events(self._now)

        def samples() -> Iterable[Sample]:
            """Read the present numbers; the status has details, which take far longer."""
            failures = Counter[str]()
            for source in self.sources:  # names may be equal
                failures[source.name] += source.status().failures
            return metrics.samples(self._counts, self._figures(), failures)

        for source in (samples, *self.figures):
            self._scope.add_source(source)

    def _figures(self) -> dict[str, float]:
        """Return the numbers of its state by metric; from any thread."""
        now = self._now()
        dropped = self._queue.statistics().dropped
        return {
            **self._pool.figures(),
            **self._detector.figures(now),
            "controller_runtime_max_concurrent_reconciles": self._workers,
            "controller_failing_keys": len(self._outcomes),
            "controller_postponed_total": self._postponed,
            "controller_dropped_requests_total": dropped
            + self.requests.refused
            + self._dropped_held,
        }

    def _crashed(self, error: BaseException) -> None:
        if self.lifecycle is not None:
            self.lifecycle.crash_nowait(error)


def _lack(source: Source) -> str:
    if not isinstance(source, OwnedSource) or source.owner is not None:
        return "initial keys are not enqueued yet"
    reason = f": {source.unknown_because}" if source.unknown_because else ""
    return f"its kind of owner is not known yet{reason}"
