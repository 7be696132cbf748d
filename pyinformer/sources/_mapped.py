"""Sources of the primary resource, and of resources that a function maps to it.

What enters are an informer's events; what leaves are requests: for the object itself, or for what
the user's function says of its old and of its new state, both. An object that moved from one to
another is a request for either.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Generic, final

from pyinformer.apimachinery import KubeObject, V
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._fence import SourceFence
from pyinformer.sources._informer_source import InformerSource, SourceOptions
from pyinformer.sources._mapping import MappingFunction, check_mapping, collect
from pyinformer.sources._request import Request, request_for
from pyinformer.sources._stranded import StrandedFinalizers

if TYPE_CHECKING:
    from pyinformer.sources._predicates import PredicateFunction
    from pyinformer.sources._source import SourceInformer


@final
class PrimarySource(InformerSource[V], Generic[V]):
    """Requests each object that changes.

    Args:
        informer: whose events.
        name: names the source in reasons, logs and status; by default by what it follows.
        cluster: the name of the informer's cluster; requests carry it.
        own_finalizers: returns the finalizers that this process puts on objects.
        predicate: drops changes that do not matter.
        options: priorities and reminders.
        metrics: where failures are counted.
        rng: spreads the first reminders.

    Raises:
        InvalidTypeError: the predicate could not be called, or would have to be awaited.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        name: str = "",
        cluster: str = "",
        own_finalizers: Callable[[], frozenset[str]] = frozenset,
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        metrics: Metrics = NO_METRICS,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(
            informer,
            name=name or f"primary {informer.scope}",
            cluster=cluster,
            predicate=predicate,
            options=options,
            metrics=metrics,
            rng=rng,
        )
        self._stranded = StrandedFinalizers(self.name, own_finalizers)

    def _left_selector(self, obj: KubeObject[V]) -> None:
        self._stranded.left(obj)

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        known = new or old
        return () if known is None else (request_for(known._key, self.cluster),)


@final
class WatchedSource(InformerSource[V], Generic[V]):
    """Requests what a function says of an object's old and new state.

    Args:
        informer: whose events.
        mapping: returns keys, requests, or None.
        name: names the source in reasons, logs and status; by default by what it watches.
        cluster: the name of the informer's cluster, for what is mapped to a mere key.
        predicate: drops changes that do not matter, before they are mapped.
        options: priorities and reminders.
        metrics: where failures are counted.
        rng: spreads the first reminders.

    Raises:
        InvalidTypeError: a function could not be called, or would have to be awaited.

    Source:
        controller-runtime pkg/handler/enqueue_mapped.go.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        mapping: MappingFunction[V],
        *,
        name: str = "",
        cluster: str = "",
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        metrics: Metrics = NO_METRICS,
        rng: random.Random | None = None,
    ) -> None:
        check_mapping(mapping)
        super().__init__(
            informer,
            name=name or f"watched {informer.scope}",
            cluster=cluster,
            predicate=predicate,
            options=options,
            metrics=metrics,
            rng=rng,
        )
        self._mapping = mapping
        self._mapping_fence = SourceFence(
            self.name,
            "mapping",
            mapping,
            consequence="what it would have requested for that state is not enqueued",
            metrics=metrics,
            controller=self._options.controller,
            log_exceptions=self._options.log_exceptions,
        )

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        requests: dict[Request, None] = {}
        states = (old,) if old is new else (old, new)
        for state in states:
            if state is not None:
                self._mapping_fence.call(state._key, self._map, state, requests)
        return requests

    def _map(self, state: KubeObject[V], into: dict[Request, None]) -> None:
        collect(self._mapping(state), self.cluster, into)

    def _failures(self) -> tuple[SourceFence, ...]:
        return (self._mapping_fence, *super()._failures())
