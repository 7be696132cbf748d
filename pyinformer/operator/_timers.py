"""Timers: functions that are called at an interval, and objects that are reconciled at one.

A timer's beats are fixed moments, which do not move with the time that calls take. The next beat is
enqueued when a call ends, whatever its outcome, so beats that pass during a call are skipped. The
controller's queue holds them: two calls for one object never run at once, and no beat outlives the
controller, nor its term of leader election.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, final
from zlib import crc32

from pyinformer._runtime.tasks import ends_task
from pyinformer.blocking import BlockingCluster
from pyinformer.client.cluster import Cluster, state_of
from pyinformer.controller import Controller, ControllerOptions, Result
from pyinformer.controller.sources import Reason, Request, RequestId, check_period, next_beat_at
from pyinformer.errors import InvalidArgumentError, ModelMismatchError
from pyinformer.objects import KubeObject, is_object_name
from pyinformer.operator._functions_with_cluster import (
    ClusterFunction,
    check_cluster_function,
    shown_as,
)
from pyinformer.telemetry.metrics import Metrics, Sample, qualified
from pyinformer.workqueue import LOW_PRIORITY

TimerFunction: TypeAlias = (
    Callable[[Cluster], Awaitable[Result | None]] | Callable[[BlockingCluster], Result | None]
)
"""A function that a timer calls. A plain one runs in a thread, with a BlockingCluster."""

TimedReconcile: TypeAlias = Callable[[Request, KubeObject | None], Awaitable[Result | None]]

_PHASES: Final = 2**32  # of crc32


def phase_seconds(key: str, period_seconds: float) -> float:
    """Return when within the period the beats of a key are: spread evenly, and always the same."""
    return period_seconds * crc32(key.encode()) / _PHASES


@final
class Beats:
    """Enqueues the next beat of a controller's requests when their reconcile has ended.

    Args:
        period_seconds: from beat to beat of one request.
        is_spread: whether each object has beats of its own, as long as it exists; otherwise they
            begin with the first call.
    """

    def __init__(self, period_seconds: float, *, is_spread: bool) -> None:
        self._period_seconds = period_seconds
        self._is_spread = is_spread
        self._priority = LOW_PRIORITY if is_spread else 0  # of 10,000 objects, events come first
        self._began_at: float | None = None
        self._controller: Controller[None] | None = None
        self._calls = self._skipped = self._failures = 0
        self._wall_clock: Callable[[], float] | None = None
        self._ahead_seconds = 0.0  # of the loop's time, the clock that the beats follow
        self.reason: Reason = Reason(f"every {period_seconds:g} s", "timer")
        """Why the requests are made."""

    def attach(self, controller: Controller[None]) -> None:
        """Enqueue to this controller, and show how the beats end with its metrics."""
        self._controller = controller
        labels = {"controller": controller.engine.label}

        def samples() -> Iterable[Sample]:
            """Return the present counts."""
            yield Sample("operator_timer_calls_total", labels, self._calls)
            yield Sample("operator_timer_skipped_beats_total", labels, self._skipped)
            yield Sample("operator_timer_failures_total", labels, self._failures)

        controller.engine.figures.append(samples)

    def share(self, wall_clock: Callable[[], float]) -> None:
        """Have the beats at the same moments in all replicas: those of Unix time.

        Args:
            wall_clock: Unix time in seconds.
        """
        self._wall_clock, self._began_at = wall_clock, 0.0
        self._follow_wall_clock()

    def _follow_wall_clock(self) -> None:
        if self._wall_clock is not None:
            self._ahead_seconds = self._wall_clock() - asyncio.get_running_loop().time()

    def replay(
        self, request: Request, wanted: Callable[[RequestId], bool], since_at: float
    ) -> None:
        """Enqueue a request that this replica takes over: at the next beat, or for the last one.

        Args:
            request: what is called at each beat.
            wanted: whether this replica has it.
            since_at: the loop's time since which no replica may have had it. A beat after that
                counts as missed.
        """
        if self._controller is None or not wanted(request._id):
            return
        self._follow_wall_clock()
        now = asyncio.get_running_loop().time()
        next_at = self._next_at(request.key, now)
        is_missed = next_at - self._period_seconds >= since_at
        self._controller.engine.requests.put(
            request, self.reason, priority=0, after_seconds=0.0 if is_missed else next_at - now
        )

    def timed(
        self,
        reconcile: TimedReconcile,
        *,
        waits_for_event: Callable[[KubeObject | None], bool] = lambda _: False,
    ) -> TimedReconcile:
        """Return a reconcile function after which the next beat is enqueued.

        Args:
            reconcile: the function.
            waits_for_event: whether an object cannot be reconciled before it changes. Called after
                a ModelMismatchError, which the function may also raise about another object.
        """

        @shown_as(reconcile)
        async def timed(request: Request, obj: KubeObject | None) -> Result | None:
            """Call the function, and enqueue the next beat."""
            task = asyncio.current_task()
            began_at = asyncio.get_running_loop().time()
            if self._began_at is None:
                self._began_at = began_at
            try:
                result = await reconcile(request, obj)
            except BaseException as error:
                is_cancellation = isinstance(error, asyncio.CancelledError)  # at the deadline
                if not is_cancellation and ends_task(error, task):
                    raise
                self._count(request, began_at, has_failed=True)
                if not (isinstance(error, ModelMismatchError) and waits_for_event(obj)):
                    self._enqueue(request, obj)
                raise
            self._count(request, began_at, has_failed=False)
            self._enqueue(request, obj)
            return result

        return timed

    def _count(self, request: Request, began_at: float, *, has_failed: bool) -> None:
        """Count a call for a beat, and the beats that came while it ran."""
        if self.reason in request.reasons:
            self._calls += 1
            self._failures += has_failed
            now = asyncio.get_running_loop().time()
            skipped_seconds = self._next_at(request.key, now) - self._next_at(request.key, began_at)
            self._skipped += round(skipped_seconds / self._period_seconds)

    def _enqueue(self, request: Request, obj: KubeObject | None) -> None:
        has_ended = self._is_spread and obj is None
        if has_ended or self._controller is None or not self._controller.is_running:
            return
        self._follow_wall_clock()
        now = asyncio.get_running_loop().time()
        after_seconds = self._next_at(request.key, now) - now
        self._controller.engine.requests.put(
            request, self.reason, priority=self._priority, after_seconds=after_seconds
        )

    def _next_at(self, key: str, now: float) -> float:
        period_seconds = self._period_seconds
        phase = phase_seconds(key, period_seconds) if self._is_spread else self._began_at or 0.0
        ahead = self._ahead_seconds
        return next_beat_at(now + ahead, began_at=phase, period_seconds=period_seconds) - ahead


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A registered function that is called at an interval."""

    name: str
    period_seconds: float
    function: TimerFunction
    options: ControllerOptions

    def controller(
        self,
        cluster: Cluster,
        metrics: Metrics,
        *,
        field_manager: str,
        wall_clock: Callable[[], float] | None,
    ) -> Controller[None]:
        """Return a new controller that calls the function when it starts, and at each beat.

        Args:
            cluster: the function's argument.
            metrics: where metrics go.
            field_manager: the name under which the function owns the fields that it writes.
            wall_clock: Unix time, if replicas share the timers: then the beats are the same in all
                of them, and one calls the function from the moment at which it takes that over.
        """
        beats = Beats(self.period_seconds, is_spread=False)
        controller: Controller[None] = Controller(
            self.name,
            beats.timed(self._bound_to(cluster, field_manager)),
            options=self.options,
            metrics=metrics,
            metrics_label=qualified(self.name, cluster.name),
            tracing=state_of(cluster).spans.tracing,
        )
        beats.attach(controller)
        request = Request(self.name)
        if wall_clock is None:
            controller.engine.requests.put(request, beats.reason, priority=0)
        else:
            beats.share(wall_clock)
            controller.engine.replays.append(partial(beats.replay, request))
        return controller

    def _bound_to(self, cluster: Cluster, field_manager: str) -> TimedReconcile:
        function: Callable[[Any], object] = self.function
        calling = ClusterFunction(function, cluster, field_manager=field_manager)

        @shown_as(function)
        async def call(_request: Request, _obj: KubeObject | None) -> Result | None:
            """Call the function with the cluster."""
            return await calling(function)

        return call


def checked_timer(
    function: TimerFunction,
    period_seconds: float,
    *,
    name: str | None,
    options: ControllerOptions | None,
) -> Timer:
    """Return the timer of a function.

    Raises:
        InvalidArgumentError: the name cannot be one, or the function has none.
        InvalidTypeError: the function cannot be called with a cluster.
    """
    check_cluster_function(function, "every(cluster)", 1)
    chosen = getattr(function, "__name__", "") if name is None else name
    if not isinstance(chosen, str) or not is_object_name(chosen):
        reason = f"must be a word without spaces and slashes, got {chosen!r}: give name="
        raise InvalidArgumentError("name", reason)
    return Timer(
        name=chosen,
        period_seconds=period_seconds,
        function=function,
        options=options or ControllerOptions(),
    )


def check_every(every_seconds: float | None, options: ControllerOptions | None) -> None:
    """Refuse a period of objects that is invalid, or that is given twice.

    Raises:
        InvalidArgumentError: naming it.
    """
    if every_seconds is None:
        return
    check_period("every_seconds", every_seconds)
    if options is not None and options.resync_period_seconds:
        reason = "cannot be combined with resync_period_seconds, which is for the same: remove one"
        raise InvalidArgumentError("every_seconds", reason)
