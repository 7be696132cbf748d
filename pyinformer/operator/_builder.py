"""Builds the controllers of an operator, with the informers that they need.

Controllers of one operator share the informer of a resource and selection. None reconciles before
all caches of the operator have synced, since each may read any of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from pyinformer.cluster import Cluster
from pyinformer.controller import Controller
from pyinformer.informer import Scope, SharedInformer, SharedInformerFactory, checked_namespaces
from pyinformer.metrics import Metrics
from pyinformer.operator._caches import DeclaredCache
from pyinformer.operator._declarations import scope_of
from pyinformer.operator._listers import Listers
from pyinformer.operator._reconciler import Reconciler


@final
class ControllerBuilder:
    """Makes the controllers of an operator on one cluster.

    Args:
        cluster: the cluster. Resources that its discovery knows as cluster-scoped are followed as a
            whole; all others are taken to be namespaced.
        factory: makes and shares the informers.
        namespaces: the namespaces to follow; None for all.
        metrics: where metrics go.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        cluster: Cluster,
        factory: SharedInformerFactory,
        *,
        namespaces: str | Iterable[str] | None,
        metrics: Metrics,
    ) -> None:
        self.cluster: Cluster = cluster
        self.factory: SharedInformerFactory = factory
        self.namespaces: frozenset[str] | None = checked_namespaces(namespaces)
        self.listers: Listers = Listers()
        """Reads the caches."""
        self._metrics = metrics
        self._informers: dict[Scope, SharedInformer[Any]] = {}

    def controllers(
        self, reconcilers: Iterable[Reconciler], caches: Iterable[DeclaredCache]
    ) -> tuple[Controller[None], ...]:
        """Build the controllers, and the informers that are not there yet.

        Raises:
            InvalidArgumentError: an index cannot be kept.
            InformerConflictError: the factory has an informer with other settings.
        """
        for cache in caches:
            if cache.scope not in self._informers:
                self._informers[cache.scope] = self._informer(cache)
        return tuple(map(self._controller, reconcilers))

    def _controller(self, each: Reconciler) -> Controller[None]:
        controller: Controller[None] = Controller(
            each.name,
            each.bound_to(self.cluster),
            [self._informers[each.scope]],
            workers=each.workers,
            predicate=each.predicate,
            options=each.options,
            metrics=self._metrics,
        )
        for owned in each.owns:
            controller.owns(self._informers[scope_of(owned)], predicate=owned.predicate)
        for watched in each.watches:
            controller.watches(
                self._informers[scope_of(watched)],
                watched.mapping_with(self.listers),
                predicate=watched.predicate,
            )
        for informer in self._informers.values():
            controller.engine.add_informer(informer)
        return controller

    def _informer(self, cache: DeclaredCache) -> SharedInformer[Any]:
        resource = cache.scope.resource
        known_resource = self.cluster.discovery.known(resource)
        is_namespaced = known_resource is None or known_resource.namespaced
        informer: SharedInformer[Any] = self.factory.informer(
            resource.api_version,
            resource.resource,
            namespaces=self.namespaces if is_namespaced else None,
            label_selector=cache.scope.label_selector,
            field_selector=cache.scope.field_selector,
            projection=cache.projection,
            memory=cache.memory,
        )
        for name, by in cache.indexes.items():
            informer.add_index(name, by)
        self.listers.add(cache.scope, informer)
        return informer
