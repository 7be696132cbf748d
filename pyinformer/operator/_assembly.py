"""Controllers made of what an operator was told, with the informers that they need.

In go reconcilers, a cluster, a factory and namespaces; out come controllers that nobody has
started. The factory makes one informer for each resource and namespace, whoever needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from pyinformer.apimachinery import (
    GroupVersionResource,
    InvalidArgumentError,
    KubeObject,
    NotCachedError,
)
from pyinformer.cluster import Cluster
from pyinformer.controller._controller import Controller
from pyinformer.informer import SharedInformer, SharedInformerFactory
from pyinformer.informer._scope import Scope
from pyinformer.metrics import Metrics
from pyinformer.operator._reconciler import Reconciler


@final
class Assembly:
    """Makes the controllers of an operator on one cluster.

    Args:
        cluster: the cluster. What its discovery knows to be outside of namespaces is followed as a
            whole; everything else is taken to live in them.
        factory: makes and shares the informers.
        namespaces: what to follow; None for all namespaces.
        metrics: where figures go.

    Raises:
        InvalidArgumentError: an argument cannot work.
    """

    def __init__(
        self,
        cluster: Cluster,
        factory: SharedInformerFactory,
        *,
        namespaces: str | Sequence[str] | None,
        metrics: Metrics,
    ) -> None:
        self._cluster = cluster
        self._factory = factory
        self._namespaces = checked_namespaces(namespaces)
        self._metrics = metrics
        self._informers: dict[tuple[GroupVersionResource, str | None], SharedInformer[None]] = {}

    def cached(self, resource: GroupVersionResource, key: str) -> KubeObject | None:
        """Return an object as the caches know it; None if there is none.

        Raises:
            NotCachedError: its namespace is not followed.
            InvalidArgumentError: the resource is not followed.
        """
        namespace = key.rpartition("/")[0]
        informers = self._informers
        found = informers.get((resource, None)) or informers.get((resource, namespace))
        if found is not None:
            return found.lister.get(key)
        if any(followed == resource for followed, _ in informers):
            raise NotCachedError(informer=str(resource), namespace=namespace)
        names = sorted({str(followed) for followed, _ in informers})
        reason = (
            f"{resource} is not followed, and reads start nothing; there are {', '.join(names)}"
        )
        raise InvalidArgumentError("plural", reason)

    def controller(self, each: Reconciler) -> Controller[None]:
        """Make the controller of one reconcile."""
        controller: Controller[None] = Controller(
            each.name,
            each.bound_to(self._cluster),
            [self._informer(each.resource, one, each) for one in self._scopes(each.resource)],
            workers=each.workers,
            predicate=each.predicate,
            options=each.options,
            metrics=self._metrics,
        )
        for resource in each.owns:
            for namespace in self._scopes(resource):
                controller.owns(self._informer(resource, namespace))
        for resource, mapping in each.watches:
            for namespace in self._scopes(resource):
                controller.watches(self._informer(resource, namespace), mapping)
        return controller

    def _scopes(self, resource: GroupVersionResource) -> Sequence[str | None]:
        """Return what to follow of a resource, an informer each; None is all of it."""
        known = self._cluster.discovery.known(resource)
        is_namespaced = known is None or known.namespaced
        return self._namespaces if is_namespaced and self._namespaces else (None,)

    def _informer(
        self,
        resource: GroupVersionResource,
        namespace: str | None,
        selected_by: Reconciler | None = None,
    ) -> SharedInformer[None]:
        informer = self._factory.informer(
            resource.api_version,
            resource.resource,
            namespaces=namespace,
            label_selector=selected_by.label_selector if selected_by else None,
            field_selector=selected_by.field_selector if selected_by else None,
        )
        known = self._informers.setdefault((resource, namespace), informer)
        if known.scope.is_selective:  # one that knows more, if there is one
            self._informers[resource, namespace] = informer
        return informer


def checked_namespaces(namespaces: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the namespaces to follow, each checked as its informer would; none stands for all.

    Raises:
        InvalidArgumentError: one of them is no namespace, or there is none.
    """
    if not namespaces or isinstance(namespaces, str) or not isinstance(namespaces, Iterable):
        return _of_scope(namespaces)
    return tuple(one for each in dict.fromkeys(namespaces) for one in _of_scope((each,)))


def _of_scope(namespaces: str | Sequence[str] | None) -> tuple[str, ...]:
    found = Scope.of("v1", "pods", namespaces, None, None).namespace
    return () if found is None else (found,)
