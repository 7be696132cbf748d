"""Controllers: one reconcile function, and the sources of its requests.

This is the public class; its Engine does the work, and its Lifecycle starts and ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import anyio

from pyinformer._runtime.tasks import Startable
from pyinformer.cache.informer import SharedInformer
from pyinformer.client.cluster import state_of
from pyinformer.controller._engine import Engine
from pyinformer.controller._invoke import Invoker
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._options import ControllerOptions
from pyinformer.controller._primary_informers import (
    Clusters,
    check_own,
    listed,
    own_requests,
    request_among,
    resolve_owner,
    the_only_cluster,
    watched_owners,
)
from pyinformer.controller.sources import (
    OwnedSource,
    PrimarySource,
    Reason,
    Request,
    SourceOptions,
    TimerSource,
    WatchedSource,
    reason_of_event,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.objects import Event, V, check_integer, check_seconds, check_type
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, qualified
from pyinformer.telemetry.tracing import FencedTracing, Tracing

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.controller._requeue_policy import Outcome
    from pyinformer.controller._result import Reconcile
    from pyinformer.controller._status import ControllerStatus
    from pyinformer.controller.sources import (
        Keys,
        KeysFunction,
        MappingFunction,
        PredicateFunction,
        Source,
    )

W = TypeVar("W")


@final
class Controller(Startable, Generic[V]):
    """Calls a reconcile function for every object that changed.

    Use it as `async with Controller(...)`, as `await controller.run()` in a program of its own, or
    in a ControllerGroup. Informers that do not run yet are started, and closed at the end; those of
    a running factory are left to it.

    Args:
        name: its name in logs and status.
        reconcile: `reconcile(request, obj)`; obj is the cached state, None if it is gone or has
            left a selector. It may be asynchronous, or plain, and then runs in a thread.
        primary: the informer of the reconciled objects; several informers if they are in several
            clusters or namespaces. Each cluster of a controller needs a unique name. None for a
            controller that has only other sources.
        workers: how many objects are reconciled at once; two workers never reconcile one object.
        predicate: drops changes of the primary that do not matter.
        options: how it behaves.
        metrics: where its metrics go, under controller-runtime's names, from its start to its end;
            None uses the metrics of its first primary's cluster.
        metrics_label: the value of their label `controller`. If another controller has the same
            value, a number is appended, `databases#2`, and a WARNING is logged. None uses the name,
            preceded by the name of the primaries' cluster if it has one: `east:databases`.
        tracing: traces its reconciles; None uses the tracing of its primaries' clusters, if any.

    Raises:
        InvalidArgumentError: an argument is invalid.
        InvalidTypeError: a function cannot be called, or `tracing` is not a tracing system.

    Source:
        controller-runtime pkg/internal/controller/controller.go.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[V],
        primary: SharedInformer[V] | Sequence[SharedInformer[V]] | None = None,
        *,
        workers: int = 1,
        predicate: PredicateFunction[V] | None = None,
        options: ControllerOptions | None = None,
        metrics: Metrics | None = None,
        metrics_label: str | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", f"must be a non-empty string, got {name!r}")
        check_integer("workers", workers)
        self._primaries = listed(primary)
        self._is_own = own_requests(self._primaries)
        self._clusters = Clusters()
        for informer in self._primaries:
            self._clusters.add(informer, "primary")
        if options is not None:
            check_type("options", options, ControllerOptions)
        self._options = options or ControllerOptions()
        if metrics is None:
            metrics = self._primaries[0].cluster.metrics if self._primaries else NO_METRICS
        if metrics_label is None:
            metrics_label = qualified(name, the_only_cluster(self._primaries) or "")
        self.engine: Engine[V] = Engine(
            name,
            Invoker(reconcile, self._primaries, on_unwatched=self._keep),
            workers=workers,
            options=self._options,
            metrics=metrics,
            tracing=FencedTracing.of(tracing or self._tracing_of_primaries()),
            label=metrics_label,
        )
        """What runs the controller; a ControllerGroup starts it."""
        self._lifecycle = Lifecycle(f"controller {name}", (self.engine,))
        self._primary_sources: list[PrimarySource[V]] = []
        for informer in self._primaries:
            self._add_primary(informer, predicate)

    @property
    def name(self) -> str:
        """Its name in logs and status."""
        return self.engine.name

    @property
    def has_synced(self) -> bool:
        """Whether every source has enqueued its initial keys, and the workers have begun."""
        return self.engine.has_synced

    @property
    def is_running(self) -> bool:
        """Whether its workers run."""
        return self.engine.is_running

    def owns(
        self,
        informer: SharedInformer[W],
        *,
        controller_only: bool = True,
        predicate: PredicateFunction[W] | None = None,
    ) -> OwnedSource[W]:
        """Reconcile a primary object whenever one that it owns changes.

        The kind of the owners is read from the server at the start; if the server does not return
        it, from a cached object. Owners that no primary watches, because of their namespace or a
        selector, are not requested: they would look as if they were gone. A selector also
        hides that an owner is gone: an owned object that appears after its owner's end makes no
        request, and is left to the server's garbage collector.

        Args:
            informer: the informer of the owned resource, in the cluster of a primary.
            controller_only: only the owner that controls an object (`controller: true`) counts.
                Otherwise all owners that are cached count.
            predicate: drops changes that do not matter.

        Returns:
            The source; its `owned_by(request)` reads what an object owns.

        Raises:
            InvalidArgumentError: no primary is in the informer's cluster, or another cluster has
                the same name.
            LifecycleError: the controller was started.
        """
        self._clusters.add(informer, "informer")
        owners = [one for one in self._primaries if one.cluster is informer.cluster]
        if not owners:
            reason = f"{informer!r} is in a cluster without a primary"
            raise InvalidArgumentError("informer", reason)
        source = OwnedSource(
            informer,
            controller_only=controller_only,
            predicate=predicate,
            options=self._source_options(informer.cluster.name),
            concerns=watched_owners(owners, controller_only=controller_only),
        )
        self.add_source(source, informer)
        self.engine.before_attach.append(partial(resolve_owner, source, owners[0]))
        return source

    def watches(
        self,
        informer: SharedInformer[W],
        mapping: MappingFunction[W],
        *,
        predicate: PredicateFunction[W] | None = None,
    ) -> WatchedSource[W]:
        """Reconcile what a function returns for the old and the new state of a changed object.

        Args:
            informer: the informer of the watched resource.
            mapping: returns keys, requests, or None; it must be quick and must not wait. Keys are
                of the informer's cluster, or if that has no primary, of that of the primaries;
                requests name their cluster.
            predicate: drops changes that do not matter, before they are mapped.

        Raises:
            InvalidArgumentError: another cluster has the name of the informer's cluster.
            InvalidTypeError: a function cannot be called.
            LifecycleError: the controller was started.
        """
        check_type("informer", informer, SharedInformer)
        source = WatchedSource(
            informer,
            mapping,
            predicate=predicate,
            options=self._source_options(self._cluster_of_keys(informer)),
            concerns=self._is_own,
        )
        self.add_source(source, informer)
        return source

    def every(self, period_seconds: float, keys: Keys | KeysFunction = None) -> TimerSource:
        """Reconcile periodically.

        Args:
            period_seconds: from beat to beat; the first is one period after the start.
            keys: what to reconcile: keys, requests, or a function that returns them. None for
                every primary object, spread over the period at low priority.

        Raises:
            InvalidArgumentError: the period or a key is invalid.
            LifecycleError: the controller was started.
        """
        source = TimerSource(
            period_seconds,
            keys,
            primaries=self._primary_sources,
            options=self._source_options(the_only_cluster(self._primaries) or ""),
        )
        self.add_source(source)
        return source

    def add_source(self, source: Source, informer: SharedInformer[Any] | None = None) -> None:
        """Add a source of your own.

        Args:
            source: makes requests.
            informer: its cache is synced before the first reconcile.

        Raises:
            InvalidArgumentError: another cluster has the name of the informer's cluster.
            LifecycleError: the controller was started.
        """
        if informer is not None:
            self._clusters.add(informer, "informer")
        self.engine.add_source(source, informer)

    def enqueue(
        self,
        request: Request | str,
        *,
        priority: int = 0,
        after_seconds: float = 0.0,
        reason: str = "",
    ) -> None:
        """Enqueue an object for reconciling; from any thread, also before the start.

        Requests after the end are counted and dropped. Of an operator with a `Shard` only requests
        for the objects in its cache count: any other object may be that of another process.

        Args:
            request: the request, or its key, `namespace/name` or `name`, if there is one cluster.
            priority: higher comes first.
            after_seconds: the delay.
            reason: why, for logs and tests.

        Raises:
            InvalidTypeError: it is neither text nor a request, or the priority is not an integer.
            InvalidArgumentError: the key or the delay is invalid, or there are several clusters, or
                the request is of another cluster than those of the primaries.
        """
        check_seconds("after_seconds", after_seconds)
        if not isinstance(priority, int):
            raise InvalidTypeError("priority", f"must be an int, not {type(priority).__name__}")
        wanted = request_among(self._primaries, request)
        if self._is_own is not None and not self._is_own(wanted):
            return
        because = Reason(source=reason or "enqueue", event="enqueued", key=str(wanted))
        self.engine.requests.put(wanted, because, priority=priority, after_seconds=after_seconds)

    async def reconcile_once(self, request: Request | str) -> Outcome:
        """Reconcile one object at once, without the queue: for tests.

        The outcome is decided as usual, but nothing follows from it.

        Raises:
            LifecycleError: the controller was started; enqueue the request instead.
            InvalidTypeError: as for `enqueue`.
            InvalidArgumentError: as for `enqueue`, or the object is in the share of another
                process.
            InformerError: this process has a share and does not have the object, and the server
                could not be asked for it.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace period.
        """
        wanted = request_among(self._primaries, request)
        if self.engine.lifecycle is None:  # else it is refused anyway
            await check_own(self._primaries, wanted)
        return await self.engine.reconcile_once(wanted)

    def requests_for(self, informer: SharedInformer[Any], event: Event[object]) -> list[Request]:
        """Return the requests that an event would make, with their reasons: for tests.

        Args:
            informer: the informer of the event.
            event: what happened.

        Raises:
            InvalidArgumentError: no source of this controller reads that informer.
        """
        check_type("informer", informer, SharedInformer)
        sources = [one for one in self.engine.sources if one.informer is informer]
        if not sources:
            reason = f"no source of controller {self.name} reads {informer!r}"
            raise InvalidArgumentError("informer", reason)
        found: dict[Request, list[Reason]] = {}
        for source in sources:
            because = reason_of_event(source.name, event)
            for request in source.requests_for(event):
                found.setdefault(request, []).append(because)
        return [request.with_reasons(reasons) for request, reasons in found.items()]

    async def start(self) -> None:
        """Start the informers, wait until they have synced, and start the workers.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it was started or closed before; a controller runs once.

        Cancellation:
            Stops what was started, waits for that, then continues.
        """
        await self._lifecycle.start()

    async def wait_ended(self) -> None:
        """Wait until it is closed or has crashed.

        Cancellation:
            Safe.
        """
        await (self.engine.lifecycle or self._lifecycle).wait_ended()

    async def aclose(self) -> None:
        """Stop in order: sources, running reconciles, caches that it has started.

        Running reconciles have `drain_timeout_seconds` to finish; then they are cancelled once and
        awaited for `grace_seconds`. Waiting requests are dropped and counted. A second call only
        waits.

        Raises:
            InternalError: something inside had crashed.
            LifecycleError: it is in a running group: close the group instead.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        if self.engine.lifecycle not in {None, self._lifecycle}:
            reason = "was started in a ControllerGroup: close the group"
            raise LifecycleError(f"controller {self.name} {reason}")
        await self._lifecycle.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, and run until SIGTERM or SIGINT asks for the end; a second signal forces it.

        At SIGUSR1 it logs its status. Outside the main thread it does not handle signals.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            InternalError: something inside crashed.

        Cancellation:
            Closes as aclose() does, then continues.
        """
        await self._lifecycle.run(on_started=task_status.started)

    def status(self) -> ControllerStatus:
        """Return its state: a frozen record without object content; from any thread."""
        return self.engine.status()

    def _add_primary(
        self, informer: SharedInformer[V], predicate: PredicateFunction[V] | None
    ) -> None:
        source = PrimarySource(
            informer,
            own_finalizers=lambda: state_of(informer.cluster).finalizers,
            predicate=predicate,
            options=self._source_options(
                informer.cluster.name, self._options.resync_period_seconds
            ),
        )
        self._primary_sources.append(source)
        self.add_source(source, informer)

    def _tracing_of_primaries(self) -> FencedTracing | None:
        found = (state_of(informer.cluster).spans.tracing for informer in self._primaries)
        return next((tracing for tracing in found if tracing is not None), None)

    def _cluster_of_keys(self, informer: SharedInformer[Any]) -> str:
        """Return the cluster of the keys that a mapping of an informer's objects returns."""
        own = {one.cluster.name for one in self._primaries}
        name = informer.cluster.name
        return name if name in own or len(own) != 1 else own.pop()

    def _keep(self, request: Request) -> None:
        """Keep a request whose namespace no primary watches."""
        for source in self._primary_sources:
            if source.cluster == request.cluster:
                source.keep(request)

    def _source_options(self, cluster: str, resync_period_seconds: float = 0.0) -> SourceOptions:
        return SourceOptions(
            cluster=cluster,
            resync_period_seconds=resync_period_seconds,
            controller=self.name,
            log_exceptions=self._options.log_exceptions,
            rng=self._options.rng,
        )

    def __repr__(self) -> str:
        return f"<Controller {self.name}>"
