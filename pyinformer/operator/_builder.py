"""Builds the controllers of an operator, with the informers that they need.

Controllers of one operator share the informer of a resource and selection. None reconciles before
all caches of the operator have synced, since each may read any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from pyinformer.cache.informer import (
    Scope,
    SharedInformer,
    SharedInformerFactory,
    checked_namespaces,
    informer_in_range,
)
from pyinformer.client.cluster import Cluster
from pyinformer.controller import Controller, ControllerOptions, Gate, own_requests
from pyinformer.controller.conventions import EventRecorder
from pyinformer.controller.sources import (
    PredicateFunction,
    PrimarySource,
    SourceOptions,
    WatchedSource,
)
from pyinformer.errors import InvalidArgumentError
from pyinformer.operator._declarations import scope_of
from pyinformer.operator._declared_caches import DeclaredCache
from pyinformer.operator._listers import Listers
from pyinformer.operator._reconciler import Reconciler, is_cluster_scoped
from pyinformer.operator._timers import Beats, TimedReconcile, Timer
from pyinformer.telemetry.metrics import Metrics

if TYPE_CHECKING:  # loaded by the operators that have them
    from pyinformer.children import ChildSets

GateOf: TypeAlias = Callable[[Controller[None], Reconciler | None], Gate]

_LONGEST_REPORTER: Final = 63  # the name in an Event's reportingController


@final
class ControllerBuilder:
    """Makes the controllers of an operator on one cluster.

    Args:
        operator: its name, under which Events are recorded and fields are owned.
        cluster: the cluster. Resources that its discovery, a model or Kubernetes itself declares as
            cluster-scoped are followed as a whole; all others are taken to be namespaced.
        factory: makes and shares the informers.
        namespaces: the namespaces to follow; None for all.
        metrics: where metrics go.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        operator: str,
        cluster: Cluster,
        factory: SharedInformerFactory,
        *,
        namespaces: str | Iterable[str] | None,
        metrics: Metrics,
    ) -> None:
        self.event_recorder: EventRecorder = EventRecorder(cluster, event_reporter(operator))
        """Records the operator's Events; its run starts and closes it."""
        self._operator = operator
        self.cluster: Cluster = cluster
        self.factory: SharedInformerFactory = factory
        self.namespaces: frozenset[str] | None = checked_namespaces(namespaces)
        self.listers: Listers = Listers()
        """Reads the caches."""
        self._metrics = metrics
        self.informers: dict[Scope, SharedInformer[Any]] = {}
        """The informers that were included, by what was declared."""
        self.reconcilers: tuple[Reconciler, ...] = ()
        """What was included."""
        self.timers: tuple[Timer, ...] = ()
        """Functions that are called at an interval."""
        self._gate_of: GateOf | None = None
        self._wall_clock: Callable[[], float] | None = None

    @property
    def options(self) -> list[ControllerOptions]:
        """The options of all functions that are included."""
        return options_of(self.reconcilers, self.timers)

    def share(self, gate_of: GateOf, wall_clock: Callable[[], float]) -> None:
        """Make all controllers for replicas that share the requests.

        Args:
            gate_of: makes the gate of a controller and its reconcile function, None for a timer.
            wall_clock: Unix time, which the beats of timers follow.
        """
        self._gate_of, self._wall_clock = gate_of, wall_clock

    def check(self, caches: Iterable[DeclaredCache]) -> None:
        """Refuse a declaration that would change how a cache that is there keeps its objects.

        Raises:
            InvalidArgumentError: naming the option.
        """
        for cache in caches:
            informer = self.informers.get(cache.scope)
            if informer is None:
                continue
            for option in ("model", "memory"):
                kept = getattr(informer.settings, option)
                if kept != getattr(cache, option):
                    reason = f"{cache.scope} is followed with {kept!r} by the running operator"
                    cure = "register this reconcile before it runs, or use the same"
                    raise InvalidArgumentError(option, f"{reason}: {cure}")

    def informers_for(
        self,
        caches: Iterable[DeclaredCache],
        factory: SharedInformerFactory,
        reconcilers: Collection[Reconciler],
    ) -> dict[Scope, SharedInformer[Any]]:
        """Return the informers of caches that are not included yet.

        Args:
            caches: the caches.
            factory: makes the informers.
            reconcilers: all that are registered; their models may declare a scope.

        Raises:
            InvalidArgumentError: an index cannot be kept.
            InformerConflictError: the factory has an informer with other settings.
        """
        return {
            cache.scope: self._informer(cache, factory, reconcilers)
            for cache in caches
            if cache.scope not in self.informers
        }

    def include(
        self,
        reconcilers: Iterable[Reconciler],
        informers: Mapping[Scope, SharedInformer[Any]],
    ) -> None:
        """Let all later controllers, and readers, use these informers, and make these controllers.

        Args:
            reconcilers: instead of the earlier ones.
            informers: beside the earlier ones.
        """
        self.reconcilers = tuple(reconcilers)
        for scope, informer in informers.items():
            self.informers[scope] = informer
            self.listers.add(scope, informer)

    def controllers(self) -> tuple[Controller[None], ...]:
        """Build new controllers of what was included."""
        return (*map(self.controller_of, self.reconcilers), *map(self._timer, self.timers))

    def _timer(self, timer: Timer) -> Controller[None]:
        controller = timer.controller(
            self.cluster,
            self._metrics,
            field_manager=self._operator,
            wall_clock=self._wall_clock,
        )
        if self._gate_of is not None:
            controller.engine.requests.gate = self._gate_of(controller, None)
        for informer in self.informers.values():
            controller.engine.add_informer(informer)
        return controller

    def controller_of(self, each: Reconciler) -> Controller[None]:
        """Build a new controller of a function that was included."""
        return self.controller(each, self.informers)

    def informers_of(self, each: Reconciler) -> set[SharedInformer[Any]]:
        """Return the informers of what a function reconciles, owns and watches."""
        scopes = {each.scope, *map(scope_of, each.owns), *map(scope_of, each.watches)}
        return {self.informers[scope] for scope in scopes}

    def controller(
        self, each: Reconciler, informers: Mapping[Scope, SharedInformer[Any]]
    ) -> Controller[None]:
        """Build one controller.

        Args:
            each: its reconcile function.
            informers: those of all that it reconciles, owns and watches, and others that must have
                synced before.
        """
        daemons = each.daemons(self.cluster, field_manager=self._operator)
        if daemons is not None:
            controller = self._new(each, daemons.reconcile_function(), informers, each.predicate)
            daemons.attach(controller)
            return controller
        owned = [informers[scope_of(one)] for one in each.owns]
        sets = self._child_sets(each, owned) if each.takes_children else None
        reconcile = each.bound_to(self.cluster, field_manager=self._operator, sets=sets)
        beats = None if each.every_seconds is None else Beats(each.every_seconds, is_spread=True)
        if beats is not None:
            reconcile = beats.timed(reconcile, waits_for_event=each.waits_for_event)
        predicate = each.predicate if sets is None else sets.past_own_text(each.predicate)
        controller = self._new(each, reconcile, informers, predicate)
        controller.engine.acts_outside = each.cleanup is not None
        if beats is not None:
            beats.attach(controller)
            if self._wall_clock is not None:
                beats.share(self._wall_clock)
        for declared, informer in zip(each.owns, owned, strict=True):
            passes = declared.predicate if sets is None else sets.or_waits(declared.predicate)
            controller.owns(informer, predicate=passes)
            if sets is not None:  # of other namespaces, which no owner reference can name
                controller.watches(informer, sets.owner_of, predicate=passes)
        for watched in each.watches:
            controller.watches(
                informers[scope_of(watched)],
                watched.mapping_with(self.listers),
                predicate=watched.predicate,
            )
        return controller

    def _new(
        self,
        each: Reconciler,
        reconcile: TimedReconcile,
        informers: Mapping[Scope, SharedInformer[Any]],
        predicate: PredicateFunction[None] | None,
    ) -> Controller[None]:
        """Return the controller of a function, which waits for all caches."""
        controller: Controller[None] = Controller(
            each.name,
            reconcile,
            [informers[each.scope]],
            workers=each.workers,
            predicate=predicate,
            options=each.options,
            metrics=self._metrics,
        )
        if self._gate_of is not None:
            controller.engine.requests.gate = self._gate_of(controller, each)
        for informer in informers.values():
            controller.engine.add_informer(informer)
        return controller

    def _child_sets(self, each: Reconciler, owned: list[SharedInformer[Any]]) -> ChildSets:
        from pyinformer.children import ChildSets, set_name

        return ChildSets(
            self.cluster,
            set_name(self._operator, each.name),
            owned,
            events=self.event_recorder,
            status_fields=each.status_fields,
            namespaces=self.namespaces,
            cleans_up=each.cleanup is not None,
        )

    def sources_of_deletions(
        self, each: Reconciler
    ) -> Iterator[PrimarySource[Any] | WatchedSource[Any]]:
        """Make the sources of a function that show what a deletion requests.

        Those of owned objects are not among them: an owner that exists is reconciled anyway when a
        controller starts, and one that was deleted is itself a deletion.
        """
        options = SourceOptions(
            cluster=self.cluster.name,
            controller=each.name,
            log_exceptions=each.options.log_exceptions,
        )
        yield PrimarySource(self.informers[each.scope], predicate=each.predicate, options=options)
        for watched in each.watches:
            yield WatchedSource(
                self.informers[scope_of(watched)],
                watched.mapping_with(self.listers),
                predicate=watched.predicate,
                options=options,
                concerns=own_requests([self.informers[each.scope]]),
            )

    def _informer(
        self,
        cache: DeclaredCache,
        factory: SharedInformerFactory,
        reconcilers: Collection[Reconciler],
    ) -> SharedInformer[Any]:
        resource = cache.scope.resource
        known = self.cluster.discovery.known(resource)
        is_namespaced = (
            not is_cluster_scoped(resource, reconcilers) if known is None else known.namespaced
        )
        informer: SharedInformer[Any] = informer_in_range(
            factory,
            resource.api_version,
            resource.resource,
            uid_range=cache.scope.uid_range,
            namespaces=self.namespaces if is_namespaced else None,
            label_selector=cache.scope.label_selector,
            field_selector=cache.scope.field_selector,
            model=cache.model,
            memory=cache.memory,
        )
        for name, by in cache.indexes.items():
            informer.add_index(name, by)
        return informer


def options_of(
    reconcilers: Iterable[Reconciler], timers: Iterable[Timer]
) -> list[ControllerOptions]:
    """Return the options of all functions; the usual ones if there are hooks alone."""
    found = [one.options for one in reconcilers] + [one.options for one in timers]
    return found or [ControllerOptions()]


def event_reporter(name: str) -> str:
    """Return the name of an operator, or of a Lease, as Events can have it."""
    allowed = re.sub(r"[^-A-Za-z0-9_.]", "-", name)[:_LONGEST_REPORTER]
    return allowed.strip("-_.") or "operator"
