"""Builds the controllers of an operator, with the informers that they need.

Controllers of one operator share the informer of a resource and selection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from pyinformer.apimachinery import GroupVersionResource, KubeObject
from pyinformer.cluster import Cluster
from pyinformer.controller import Controller
from pyinformer.errors import InvalidArgumentError
from pyinformer.informer import SharedInformer, SharedInformerFactory, checked_namespaces
from pyinformer.metrics import Metrics
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
        self._cluster = cluster
        self._factory = factory
        self._namespaces = checked_namespaces(namespaces)
        self._metrics = metrics
        self._informers: dict[GroupVersionResource, SharedInformer[None]] = {}

    def cached(self, resource: GroupVersionResource, key: str) -> KubeObject | None:
        """Return an object from the caches; None if it does not exist.

        Raises:
            NotCachedError: its namespace is not followed.
            InvalidArgumentError: the resource is not followed.
        """
        found = self._informers.get(resource)
        if found is not None:
            return found.lister.get(key)
        names = sorted(map(str, self._informers))
        reason = (
            f"{resource} is not followed, and a read does not start a watch; followed are"
            f" {', '.join(names)}"
        )
        raise InvalidArgumentError("plural", reason)

    def controller(self, each: Reconciler) -> Controller[None]:
        """Build the controller of one reconcile function."""
        controller: Controller[None] = Controller(
            each.name,
            each.bound_to(self._cluster),
            [self._informer(each.resource, each)],
            workers=each.workers,
            predicate=each.predicate,
            options=each.options,
            metrics=self._metrics,
        )
        for resource in each.owns:
            controller.owns(self._informer(resource))
        for resource, mapping in each.watches:
            controller.watches(self._informer(resource), mapping)
        return controller

    def _informer(
        self, resource: GroupVersionResource, selected_by: Reconciler | None = None
    ) -> SharedInformer[None]:
        known_resource = self._cluster.discovery.known(resource)
        is_namespaced = known_resource is None or known_resource.namespaced
        informer = self._factory.informer(
            resource.api_version,
            resource.resource,
            namespaces=self._namespaces if is_namespaced else None,
            label_selector=selected_by.label_selector if selected_by else None,
            field_selector=selected_by.field_selector if selected_by else None,
        )
        known = self._informers.setdefault(resource, informer)
        if known.scope.is_selective:  # an informer without selectors knows more
            self._informers[resource] = informer
        return informer
