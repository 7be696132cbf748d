"""A controller: one reconcile function, what wakes it, and how its life goes.

What enters are informers, a function and wishes; what leaves are calls of that function: once at a
time per key, retried with backoff, in a fair order, until it is closed. This is the face; the
engine behind it does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import anyio

from pyinformer.apimachinery import (
    Event,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    V,
    View,
    check_seconds,
)
from pyinformer.cluster import state_of
from pyinformer.controller._engine import Engine
from pyinformer.controller._invoke import Invoker
from pyinformer.controller._lifecycle import Lifecycle
from pyinformer.controller._options import ControllerOptions
from pyinformer.controller._primaries import (
    Clusters,
    listed,
    request_among,
    tell_owner,
    the_only_cluster,
    watched_owners,
)
from pyinformer.informer import SharedInformer
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._informer_source import SourceOptions
from pyinformer.sources._mapped import PrimarySource, WatchedSource
from pyinformer.sources._owned import OwnedSource
from pyinformer.sources._reasons import reason_of_event
from pyinformer.sources._request import Reason, Request
from pyinformer.sources._timer import TimerSource
from pyinformer.tasks import Startable

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.controller._outcomes import Outcome
    from pyinformer.controller._result import Reconcile
    from pyinformer.controller._status import ControllerStatus
    from pyinformer.sources._mapping import Keys, MappingFunction
    from pyinformer.sources._predicates import PredicateFunction
    from pyinformer.sources._source import Source
    from pyinformer.sources._timer import KeysFunction

W = TypeVar("W", bound=View | None)


@final
class Controller(Startable, Generic[V]):
    """Calls a reconcile function for every object that something happened to.

    Use it as `async with Controller(...)`, as `await controller.run()` in a program of its own, or
    in a ControllerGroup. Informers that nobody has started are started, and closed at the end;
    those of a factory that runs are left to it.

    Args:
        name: names it in logs, metrics and status.
        reconcile: `reconcile(request, obj)`; obj is the cached state, None if it is gone or has
            left a selector. It may be asynchronous, or plain, and then runs in a thread.
        primary: whose objects are reconciled; several informers if they are in several clusters
            or namespaces. Each cluster of a controller needs a name of its own. None for a
            controller that is woken by other sources only.
        workers: how many objects are reconciled at a time; one object never is twice.
        predicate: drops changes of the primary that do not matter.
        options: how it behaves.
        metrics: where its figures go, under controller-runtime's names.

    Raises:
        InvalidArgumentError: an argument that cannot work.
        InvalidTypeError: a function that could not be called.

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
        metrics: Metrics = NO_METRICS,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", f"{name!r} names no controller")
        if not isinstance(workers, int) or workers < 1:
            raise InvalidArgumentError("workers", f"{workers!r}; 1 is the least")
        self._primaries = listed(primary)
        self._clusters = Clusters()
        for informer in self._primaries:
            self._clusters.add(informer, "primary")
        self._options = options or ControllerOptions()
        self._metrics = metrics
        self.engine: Engine[V] = Engine(
            name,
            Invoker(reconcile, self._primaries, on_unwatched=self._keep),
            workers=workers,
            options=self._options,
            metrics=metrics,
        )
        """What it is made of; for ControllerGroup."""
        self._life = Lifecycle(f"controller {name}", (self.engine,))
        self._primary_sources: list[PrimarySource[V]] = []
        for informer in self._primaries:
            self._add_primary(informer, predicate)

    @property
    def name(self) -> str:
        """Names it in logs, metrics and status."""
        return self.engine.name

    @property
    def has_synced(self) -> bool:
        """Whether every source has enqueued its initial keys, and the workers have begun."""
        return self.engine.has_synced

    @property
    def is_running(self) -> bool:
        """Whether its workers work, and nobody closes it."""
        return self.engine.is_running

    def owns(
        self,
        informer: SharedInformer[W],
        *,
        controller_only: bool = True,
        predicate: PredicateFunction[W] | None = None,
    ) -> OwnedSource[W]:
        """Reconcile a primary object whenever one that it owns changes.

        The kind of the owner is asked of the server at the start; if it does not tell, an object of
        the cache does. Owners that no primary watches, because of its namespace or a selector, are
        not requested: they would look as if they were gone.

        Args:
            informer: of the owned resource, in the same cluster as its primary.
            controller_only: only the owner that controls an object (`controller: true`) counts.
            predicate: drops changes that do not matter.

        Returns:
            The source; its `owned_by(request)` reads what an object owns.

        Raises:
            InvalidArgumentError: no primary is in the informer's cluster, or another cluster has
                its name.
            LifecycleError: the controller was started.
        """
        self._clusters.add(informer, "informer")
        cluster = informer.cluster.name
        owners = [one for one in self._primaries if one.cluster is informer.cluster]
        if not owners:
            reason = f"{informer!r} is in a cluster without a primary that could own anything"
            raise InvalidArgumentError("informer", reason)
        source = OwnedSource(
            informer,
            controller_only=controller_only,
            cluster=cluster,
            predicate=predicate,
            options=self._source_options(0.0),
            concerns=watched_owners(owners),
            metrics=self._metrics,
            rng=self._options.rng,
        )
        self.add_source(source, informer)
        self.engine.before_attach.append(partial(tell_owner, source, owners[0]))
        return source

    def watches(
        self,
        informer: SharedInformer[W],
        mapping: MappingFunction[W],
        *,
        predicate: PredicateFunction[W] | None = None,
    ) -> WatchedSource[W]:
        """Reconcile what a function says, of the old and of the new state of whatever changes.

        Args:
            informer: of the watched resource.
            mapping: returns keys, requests, or None; it must be quick and must not wait.
            predicate: drops changes that do not matter, before they are mapped.

        Raises:
            InvalidArgumentError: another cluster has the name of the informer's.
            InvalidTypeError: a function that could not be called.
            LifecycleError: the controller was started.
        """
        source = WatchedSource(
            informer,
            mapping,
            cluster=informer.cluster.name,
            predicate=predicate,
            options=self._source_options(0.0),
            metrics=self._metrics,
            rng=self._options.rng,
        )
        self.add_source(source, informer)
        return source

    def every(self, period_seconds: float, keys: Keys | KeysFunction = None) -> TimerSource:
        """Reconcile from time to time.

        Args:
            period_seconds: from beat to beat; the first is one period after the start.
            keys: what to reconcile: keys, requests, or a function that returns them. None for
                every primary object, spread over the period at low priority.

        Raises:
            InvalidArgumentError: the period or the keys cannot work.
            LifecycleError: the controller was started.
        """
        source = TimerSource(
            period_seconds,
            keys,
            primaries=self._primary_sources,
            cluster=the_only_cluster(self._primaries) or "",
            metrics=self._metrics,
            controller=self.name,
            log_exceptions=self._options.log_exceptions,
        )
        self.add_source(source)
        return source

    def add_source(self, source: Source, informer: SharedInformer[Any] | None = None) -> None:
        """Be woken by a source of your own.

        Args:
            source: makes requests.
            informer: whose cache is to be synced before the first reconcile.

        Raises:
            InvalidArgumentError: another cluster has the name of the informer's.
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
        """Have an object reconciled; from any thread, also before the start.

        Requests that come after the end are counted and dropped.

        Args:
            request: the request, or its key: `namespace/name` or `name`, if there is one cluster.
            priority: higher comes first.
            after_seconds: not before so much later.
            reason: who asks; for logs and tests.

        Raises:
            InvalidTypeError: it is neither text nor a request, or the priority is no number.
            InvalidArgumentError: a text that is no key, or in one cluster of several; or the time.
        """
        check_seconds("after_seconds", after_seconds)
        if not isinstance(priority, int):
            raise InvalidTypeError("priority", f"must be an int, not {type(priority).__name__}")
        wanted = request_among(self._primaries, request)
        because = Reason(source=reason or "enqueue", event="enqueued", key=str(wanted))
        self.engine.intake.put(wanted, because, priority=priority, after_seconds=after_seconds)

    async def reconcile_once(self, request: Request | str) -> Outcome:
        """Reconcile one object here and now, without the queue: for tests.

        The same rules decide what follows, and nothing does.

        Raises:
            LifecycleError: the controller was started; enqueue the request instead.

        Cancellation:
            Reaches the reconcile, which is awaited up to the grace.
        """
        return await self.engine.once(request_among(self._primaries, request))

    def requests_for(
        self, informer: SharedInformer[Any], event: Event[View | None]
    ) -> list[Request]:
        """Return what an event of an informer would enqueue, and why: for tests.

        Args:
            informer: whose event.
            event: what happened.

        Raises:
            InvalidArgumentError: no source of this controller is fed by that informer.
        """
        sources = [one for one in self.engine.sources if one.informer is informer]
        if not sources:
            reason = f"{informer!r} feeds no source of controller {self.name}"
            raise InvalidArgumentError("informer", reason)
        found: dict[Request, list[Reason]] = {}
        for source in sources:
            because = reason_of_event(source.name, event)
            for request in source.requests_for(event):
                found.setdefault(request, []).append(because)
        return [request.with_reasons(reasons) for request, reasons in found.items()]

    async def start(self) -> None:
        """Start the informers, wait until they have synced, and let the workers begin.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            LifecycleError: it was started or closed before; a controller runs once.

        Cancellation:
            Stops what was started, waits for that, then goes on.
        """
        await self._life.start()

    async def wait_ended(self) -> None:
        """Wait until it is closed or has crashed.

        Cancellation:
            Safe.
        """
        await (self.engine.life or self._life).wait_ended()

    async def aclose(self) -> None:
        """Stop in order: sources, what is in flight, caches that it has started.

        Reconciles in flight may finish for `drain_timeout_seconds`, are then cancelled once and
        awaited for `grace_seconds`. What waits in the queue is dropped and counted. A second call
        only waits.

        Raises:
            InternalError: something inside had crashed.
            LifecycleError: it is in a group that runs: that is to be closed.

        Cancellation:
            Takes effect when everything has ended, which the deadlines bound.
        """
        if self.engine.life not in {None, self._life}:
            reason = "was started in a ControllerGroup: close the group"
            raise LifecycleError(f"controller {self.name} {reason}")
        await self._life.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, and stay until SIGTERM or SIGINT asks for the end; a second signal forces it.

        SIGUSR1 has it log how everything is. Outside of the main thread no signals are heard.

        Raises:
            CacheSyncTimeoutError: a cache or a source took too long; everything was stopped.
            InternalError: something inside crashed.

        Cancellation:
            Closes as aclose() does, then goes on.
        """
        await self._life.run(task_status=task_status)

    def status(self) -> ControllerStatus:
        """Return how it is doing: a frozen record without object content; from any thread."""
        return self.engine.status()

    def _add_primary(
        self, informer: SharedInformer[V], predicate: PredicateFunction[V] | None
    ) -> None:
        source = PrimarySource(
            informer,
            cluster=informer.cluster.name,
            own_finalizers=lambda: state_of(informer.cluster).finalizers,
            predicate=predicate,
            options=self._source_options(self._options.resync_period_seconds),
            metrics=self._metrics,
            rng=self._options.rng,
        )
        self._primary_sources.append(source)
        self.add_source(source, informer)

    def _keep(self, request: Request) -> None:
        for source in self._primary_sources:
            if source.cluster == request.cluster:
                source.keep(request)

    def _source_options(self, resync_period_seconds: float) -> SourceOptions:
        return SourceOptions(
            initial_priority=self._options.initial_priority,
            resync_priority=self._options.resync_priority,
            resync_period_seconds=resync_period_seconds,
            controller=self.name,
            log_exceptions=self._options.log_exceptions,
        )

    def __repr__(self) -> str:
        return f"<Controller {self.name}>"
