"""The source of watched objects: a function of the user's maps each of them to requests.

The old and the new state are both mapped: an object that moves between owners requests both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, final

from pyinformer.controller.sources._guarded_call import GuardedCall
from pyinformer.controller.sources._informer_source import InformerSource, check_source_informer
from pyinformer.controller.sources._mapping_results import MappingFunction, check_mapping, collect
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyinformer.controller.sources._predicates import PredicateFunction
    from pyinformer.controller.sources._request import Request
    from pyinformer.controller.sources._source import SourceInformer, SourceOptions


@final
class WatchedSource(InformerSource[V], Generic[V]):
    """Requests what a function returns for an object's old and new state.

    Args:
        informer: whose events.
        mapping: returns keys, requests, or None.
        name: the source's name in reasons, logs and status; by default what it watches.
        predicate: drops changes that do not matter, before they are mapped.
        options: priorities, resyncs and logs; its cluster is that of mapped keys.
        concerns: returns whether to make a request; None makes every one.

    Raises:
        InvalidTypeError: a function cannot be called, or is asynchronous.

    Source:
        controller-runtime pkg/handler/enqueue_mapped.go.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        mapping: MappingFunction[V],
        *,
        name: str = "",
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        concerns: Callable[[Request], bool] | None = None,
    ) -> None:
        check_source_informer(informer)
        check_mapping(mapping)
        self._concerns = concerns
        name = name or f"watched {informer.scope}"
        super().__init__(informer, name=name, predicate=predicate, options=options)
        self._mapping = mapping
        self._mapping_call = GuardedCall(
            name,
            "mapping",
            mapping,
            consequence="what it would have requested for that state is not enqueued",
            options=self._options,
        )

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        requests: dict[Request, None] = {}
        for state in (old,) if old is new else (old, new):
            if state is not None:
                self._mapping_call.call(state._key, self._map, state, requests)
        concerns = self._concerns
        return requests if concerns is None else [one for one in requests if concerns(one)]

    def _map(self, state: KubeObject[V], into: dict[Request, None]) -> None:
        collect(self._mapping(state), self.cluster, into)

    def _calls(self) -> tuple[GuardedCall, ...]:
        return (self._mapping_call, *super()._calls())
