"""The controllers of an operator with leader election: new ones for each term, the same caches.

A term begins when the caches hold what earlier leaders wrote, with the objects that exist and those
that were deleted lately. At its end the sources are detached,
reconciles drain while the Lease is renewed, and what is left is cancelled. When the term is lost,
nothing drains: what has not left by then does not leave.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time, run_shielded
from pyinformer.cache.informer import (
    Scope,
    SharedInformer,
    SharedInformerFactory,
    caught_up,
    unknown_version,
)
from pyinformer.controller import Controller, ControllerGroup, ControllerGroupStatus
from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import InformerError, InternalError
from pyinformer.leaderelection import LeaderElector, LeaseGroup
from pyinformer.operator._builder import event_reporter
from pyinformer.operator._recent_deletions import UNFINISHED_SECONDS
from pyinformer.operator._replica import CLOSE_SECONDS, Replica
from pyinformer.sharding import GROUP_LABEL
from pyinformer.telemetry import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from pyinformer.client.cluster import Cluster
    from pyinformer.controller import ControllerOptions
    from pyinformer.leaderelection import (
        LeaderElection,
        LeaderElectionOptions,
        Term,
    )
    from pyinformer.operator._builder import ControllerBuilder
    from pyinformer.operator._reconciler import Reconciler
    from pyinformer.sharding import Rivals
    from pyinformer.telemetry.metrics import Metrics

_log = get_logger(__name__)

# How long lists may bring nothing at a term's beginning, until functions that do not need them are
# called: a server that starts again answers them within it.
_LIST_SECONDS: Final = 10.0
_JOIN_LIST_SECONDS: Final = 45.0  # nothing else waits for these lists
_LOOK_SECONDS: Final = 0.1  # at reconciles that ignore their cancellation
_JOIN_AGAIN_SECONDS: Final = 10.0


@final
class ElectedControllers(Replica):
    """Keeps the caches of an operator in step, and runs its controllers while it leads.

    Args:
        cluster: the cluster.
        election: which Lease, and how; its name is set.
        builder: has the caches, and makes new controllers for each term.
        metrics: where the metrics of leader election go.
        rivals: of a process with a fixed share, who must not work at the same time; else None.
        ends_process: whether a thread ends the process when work outlives its Lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        election: LeaderElection,
        builder: ControllerBuilder,
        *,
        metrics: Metrics,
        ends_process: bool,
        rivals: Rivals | None = None,
    ) -> None:
        self._rivals = rivals
        self._controllers: tuple[Controller[None], ...] = ()
        self._group: ControllerGroup | None = None
        self._term: Term | None = None
        self._joined: set[str] = set()
        """The names of the current term's controllers."""
        self._is_forced = False
        durations = _durations_of(election, builder.options)
        name = election.name or ""
        self._recorder = EventRecorder(cluster, event_reporter(name))
        is_asked = election.ends_process
        self._elector = LeaderElector(
            cluster,
            name,
            namespace=election.namespace or cluster.config.namespace,
            identity=election.identity,
            options=durations,
            ends_process=ends_process if is_asked is None else is_asked,
            recorder=self._recorder,
            metrics=metrics,
            group=None if rivals is None else LeaseGroup(GROUP_LABEL, rivals.group, rivals),
        )
        super().__init__(
            f"the {'leader election of' if rivals is None else 'share'} {name}",
            builder,
            grace_seconds=durations.end_timeout_seconds
            + durations.renew_deadline_seconds
            + CLOSE_SECONDS,
        )

    @property
    def controllers(self) -> tuple[Controller[None], ...]:
        """Those of the current term; empty for a standby."""
        return self._controllers

    @property
    def elector(self) -> LeaderElector:
        """The elector."""
        return self._elector

    @property
    def is_running(self) -> bool:
        """Whether it was started, and is not being closed."""
        return self._host.is_running

    def start_soon(self, function: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a function in a task that ends with this.

        Raises:
            LifecycleError: it does not run.
        """
        self._host.start_soon(function)

    async def add(
        self,
        reconciler: Reconciler,
        informers: Mapping[Scope, SharedInformer[Any]],
        factory: SharedInformerFactory,
    ) -> None:
        """Fill the caches of one more reconcile function, and call it in this and later terms.

        Args:
            reconciler: the function.
            informers: its new informers.
            factory: has them; it is started here, and closed here.

        Raises:
            InformerError: the caches could not be filled. They were closed; the others continue.

        Cancellation:
            aclose() closes the caches.
        """
        self._factories = (*self._factories, factory)
        try:
            await factory.start()
            timeout_seconds = reconciler.options.sync_timeout_seconds
            await factory.wait_for_cache_sync(timeout_seconds=timeout_seconds)
        except InformerError:
            await factory.aclose()
            self._factories = tuple(one for one in self._factories if one is not factory)
            raise
        self._builder.include((*self._builder.reconcilers, reconciler), informers)
        self._follow_deletions(reconciler)
        self._join_soon()

    def _enqueue_deletions(self, controllers: Iterable[Controller[None]], term: Term) -> None:
        """Enqueue what was deleted while no leader was there, or just before."""
        seen = term.predecessor_seen_seconds
        since_at = None if seen is None else loop_time() - seen - UNFINISHED_SECONDS
        primaries = {one.name: one.scope for one in self._builder.reconcilers}
        for controller in controllers:
            scope = primaries.get(controller.name)
            if scope is not None:  # a function that is called at an interval has no objects
                primary = self._builder.informers[scope]
                self._deletions.enqueue(controller, primary, since_at=since_at)

    def _join_soon(self) -> None:
        """Start the controllers that were added since the current term began."""
        term, group = self._term, self._group
        if term is None or group is None or not group.lifecycle.is_running:
            return  # lead() calls this when the group runs
        for each in self._builder.reconcilers:
            if each.name not in self._joined:
                self._joined.add(each.name)
                group.lifecycle.start_soon(partial(self._join, each, term, group))

    async def _join(self, each: Reconciler, term: Term, group: ControllerGroup) -> None:
        """Start one controller in the current term, behind the same barrier as the others."""
        failures = 0
        while True:
            controller = self._builder.controller_of(each)
            try:
                await self._catch_up_of(each, term)
                await group.run_one(controller, (), partial(self._add_to_term, controller, term))
            except InternalError:
                raise
            except InformerError as error:
                failures += 1
                self._waiting[each.name] = str(error)
                _log.log(
                    logging.ERROR if failures == 1 else logging.DEBUG,
                    "%s: %s does not reconcile yet, and is tried again every %g s: %s",
                    self._title,
                    each.name,
                    _JOIN_AGAIN_SECONDS,
                    error,
                )
            else:
                return
            await anyio.sleep(_JOIN_AGAIN_SECONDS)

    async def _catch_up_of(self, each: Reconciler, term: Term) -> None:
        """Wait until the caches of one function hold what earlier leaders wrote.

        Raises:
            InformerError: of a cache that does not, or whose lists bring nothing.
        """
        found = await caught_up(
            self._builder.informers_of(each),
            term.written().version_of,
            list_timeout_seconds=_JOIN_LIST_SECONDS,
        )
        for error in found.unlisted.values():
            raise error

    def _add_to_term(self, controller: Controller[None], term: Term) -> None:
        self._controllers = (*self._controllers, controller)
        if self._waiting.pop(controller.name, None) is not None:
            _log.info("%s: %s reconciles now", self._title, controller.name)
        self._enqueue_deletions((controller,), term)

    async def _prepare(self) -> None:
        await self._recorder.start()

    async def _compete(self) -> None:
        await self._elector.run(self.lead)

    async def _close(self) -> None:
        """Write the last Events of the election.

        Cancellation:
            It is shielded.
        """
        await self._recorder.aclose()

    async def lead(self, term: Term) -> None:
        """Run new controllers until the term ends.

        Raises:
            LifecycleError: a cache was closed meanwhile.
            InternalError: something inside crashed.

        Cancellation:
            Stops the controllers in order; takes effect when every reconcile has ended.
        """
        if self._rivals is not None:
            await self._rivals.settle(term)
        reason = "waits until the caches hold what earlier leaders wrote"
        self._waiting = {one.name: reason for one in self._builder.reconcilers}
        try:
            await self._reconcile(term)
        finally:
            self._waiting = {}

    async def _reconcile(self, term: Term) -> None:
        """Run those controllers whose caches hold what earlier leaders wrote."""
        before = term.predecessor
        found = await caught_up(
            self._builder.informers.values(),
            unknown_version if before is None else before.version_of,
            list_timeout_seconds=_LIST_SECONDS,
        )
        term.record_caught_up(found.reached)
        held = self._held_by(found.unlisted)
        controllers = tuple(one for one in self._builder.controllers() if one.name not in held)
        self._joined = {one.name for one in controllers}
        self._waiting = held
        group = ControllerGroup(*controllers)
        take_back = term.on_end(group.lifecycle.skip_drain_nowait)
        try:
            self._term, self._group, self._controllers = term, group, controllers
            await group.start()
            self._enqueue_deletions(controllers, term)
            self._join_soon()
            await group.wait_ended()
        finally:
            try:
                await run_shielded("the close of a leader's controllers", self._end(group))
            finally:
                take_back()

    async def _end(self, group: ControllerGroup) -> None:
        try:
            await group.aclose()
        finally:
            # A standby that still reconciles would not be one: the elector waits for this, too.
            while group.status().abandoned:
                if self._is_forced:
                    self.elector.abort()
                await anyio.sleep(_LOOK_SECONDS)
            self._term, self._group, self._controllers = None, None, ()

    def _held_by(self, unlisted: Mapping[SharedInformer[Any], InformerError]) -> dict[str, str]:
        """Return the functions that have to wait, and why; log it."""
        held: dict[str, str] = {}
        for informer, error in unlisted.items():
            waiting = [
                one.name
                for one in self._builder.reconcilers
                if informer in self._builder.informers_of(one)
            ]
            _log.error(
                "%s: whether %s holds what earlier leaders wrote is not known, since its lists"
                " bring nothing; %s: %s",
                self._title,
                informer.name,
                f"{' and '.join(waiting)} will not be called until they are answered"
                if waiting
                else "no function reconciles, owns or watches it, so the term begins",
                error,
            )
            held.update(dict.fromkeys(waiting, f"waits for {informer.name}: {error}"))
        return held

    def force_nowait(self) -> None:
        """Stop waiting for reconciles."""
        self._is_forced = True
        if self._group is not None:
            self._group.lifecycle.force_nowait()

    def close_abandoned(self) -> None:
        """End the reconciles that ignored everything else: the program is ending."""
        if self._group is not None:
            self._group.lifecycle.close_abandoned()

    def status(self) -> ControllerGroupStatus:
        """Return the state of the current controllers; from any thread."""
        group = self._group
        if group is not None:
            return self._with_failure(group.status())
        watchdog = Watchdog().statistics()
        return self._with_failure(
            ControllerGroupStatus(controllers=(), watchdog=watchdog, abandoned=())
        )


def _durations_of(
    election: LeaderElection, controllers: Iterable[ControllerOptions]
) -> LeaderElectionOptions:
    """Return the options of an election, with enough time at a term's end for each controller."""
    end_seconds = max(one.drain_timeout_seconds + one.grace_seconds for one in controllers)
    chosen = election.options
    return replace(
        chosen,
        end_timeout_seconds=max(chosen.end_timeout_seconds, end_seconds + CLOSE_SECONDS),
    )
