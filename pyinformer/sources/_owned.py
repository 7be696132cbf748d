"""A source of owned objects: a change of one requests its owners, the old ones and the new.

What enters are an informer's events and the kind of owner; what leaves are requests for owners of
that kind. The way back, from an owner to what it owns, is an index of the informer: as atomic as
every read of its cache, and what this process wrote itself is in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    InvalidArgumentError,
    KubeObject,
    LifecycleError,
    V,
    View,
    is_object_name,
    object_key,
)
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._informer_source import InformerSource, SourceOptions
from pyinformer.sources._owners import OwnerKind, owner_index, owner_index_name, owner_names
from pyinformer.sources._request import Request, request_for

if TYPE_CHECKING:
    from pyinformer.sources._predicates import PredicateFunction
    from pyinformer.sources._source import SourceInformer

_log = get_logger("pyinformer.controller")


@final
class OwnedSource(InformerSource[V], Generic[V]):
    """Requests the owners of what changes.

    Args:
        informer: whose events: of the owned objects.
        controller_only: only the owner that controls an object (`controller: true`) counts.
        name: names the source in reasons, logs and status; by default by what it watches.
        cluster: the name of the informer's cluster; owners are in the same.
        predicate: drops changes that do not matter.
        options: priorities and reminders.
        concerns: tells by its key whether an owner is to be requested; None for every one.
        metrics: where failures are counted.
        rng: spreads the first reminders.

    Raises:
        InvalidTypeError: the predicate could not be called, or would have to be awaited.

    Source:
        controller-runtime pkg/handler/enqueue_owner.go.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        controller_only: bool = True,
        name: str = "",
        cluster: str = "",
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        concerns: Callable[[str], bool] | None = None,
        metrics: Metrics = NO_METRICS,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(
            informer,
            name=name or f"owned {informer.scope}",
            cluster=cluster,
            predicate=predicate,
            options=options,
            metrics=metrics,
            rng=rng,
        )
        self.controller_only: bool = controller_only
        """Whether only the owner that controls an object counts."""
        self._concerns = concerns
        self._owner: OwnerKind | None = None
        self._is_refusal_logged = False

    @property
    def owner(self) -> OwnerKind | None:
        """The kind of owner that it looks for; None until it was told."""
        return self._owner

    def set_owner(self, owner: OwnerKind) -> None:
        """Say what kind the owners are of: before it is attached, and best before the cache fills.

        It adds an index to the informer; what is cached already is indexed in one step.

        Args:
            owner: the kind.

        Raises:
            LifecycleError: it looks for another kind already.
        """
        if self._owner == owner:
            return
        if self._owner is not None:
            raise LifecycleError(f"the source {self.name} looks for owners {self._owner} already")
        index = owner_index(owner, controller_only=self.controller_only)
        with suppress(InvalidArgumentError):  # another controller's of this name says the same
            self.informer.add_index(self._index_of(owner), index)
        self._owner = owner

    def owned_by(self, owner: str | Request | KubeObject[View | None]) -> list[KubeObject[V]]:
        """Return what an owner owns now, in no particular order; from any thread.

        Args:
            owner: its key, a request for it, or the object itself. With the object, references
                must have its uid: any tenant can write a reference that has its name. A request of
                another cluster owns nothing in this one.

        Raises:
            CacheNotSyncedError: the informer's first sync is not done.
            LifecycleError: the kind of owner is not known yet.
        """
        index = self._index_of(self._known_owner())
        if isinstance(owner, Request) and owner.cluster != self.cluster:
            return []
        key = owner if isinstance(owner, str) else owner.key
        found = self.informer.lister.by_index(index, str.__str__(key))
        uid = owner.metadata.uid if isinstance(owner, KubeObject) else ""
        if not uid:
            return found
        return [
            obj for obj in found if any(one.uid == uid for one in obj.metadata.owner_references)
        ]

    def _index_of(self, owner: OwnerKind) -> str:
        return owner_index_name(owner, controller_only=self.controller_only)

    def _known_owner(self) -> OwnerKind:
        if self._owner is None:
            reason = "is not known yet: it is asked of the server when the controller starts"
            raise LifecycleError(f"the kind of the owners that {self.name} looks for {reason}")
        return self._owner

    def _check_ready(self) -> None:
        self._known_owner()

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        owner = self._known_owner()  # which was checked before any event could come
        keys: dict[str, None] = {}
        for state in (old, new):
            if state is not None and state.metadata.owner_references:
                found = owner_names(state, owner, controller_only=self.controller_only)
                namespace = state.metadata.namespace if owner.namespaced else ""
                names = [name for name in found if is_object_name(name)]
                keys.update(dict.fromkeys(object_key(namespace, name) for name in names))
                if state is new and len(names) < len(found):
                    self._refuse(state, len(found) - len(names))
        concerns = self._concerns
        return [request_for(key, self.cluster) for key in keys if concerns is None or concerns(key)]

    def _refuse(self, state: KubeObject[V], references: int) -> None:
        """Count references whose name no object can have; any tenant can write them."""
        self._refused += references
        if not self._is_refusal_logged:
            self._is_refusal_logged = True
            _log.warning(
                "%s: %s has an ownerReference whose name no object can have; such references make"
                " no request, and further ones are only counted",
                self.name,
                state._key,
            )
