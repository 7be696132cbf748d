"""The source of owned objects: a change of one requests its owners, the old ones and the new.

An index of the informer leads from an owner to its objects. It is as current as any read of the
cache, own writes included, and can be read from any thread.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.informer import core_of
from pyinformer.cache.store import NamespaceLister
from pyinformer.controller.sources._informer_source import InformerSource, check_source_informer
from pyinformer.controller.sources._request import Request, request_for
from pyinformer.errors import InvalidArgumentError, LifecycleError, NotCachedError
from pyinformer.objects import (
    KubeObject,
    V,
    is_object_name,
    object_key,
    split_api_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyinformer.controller.sources._predicates import PredicateFunction
    from pyinformer.controller.sources._source import SourceInformer, SourceOptions
    from pyinformer.objects import OwnerReference

_log = get_logger(__name__)


@final
@dataclass(frozen=True, slots=True)
class OwnerKind:
    """The kind of owners, in any of its versions."""

    group: str
    """Empty for the core group."""
    kind: str
    namespaced: bool
    """Whether such owners live in namespaces; a cluster-scoped one may own namespaced objects."""

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def is_kind_of(self, reference: OwnerReference) -> bool:
        """Return whether an owner reference names this kind."""
        if reference.kind != self.kind:
            return False
        return split_api_version(reference.api_version)[0] == self.group


@final
class OwnedSource(InformerSource[V], Generic[V]):
    """Requests the owners of objects that change.

    Args:
        informer: the informer of the owned objects.
        controller_only: only the owner that controls an object (`controller: true`) counts.
        name: the source's name in reasons, logs and status; by default what it watches.
        predicate: drops changes that do not matter.
        options: priorities, resyncs and logs; its cluster is also that of the owners.
        concerns: returns whether to request the owner with a key; None requests every owner.

    Raises:
        InvalidTypeError: the predicate cannot be called, or is asynchronous.

    Source:
        controller-runtime pkg/handler/enqueue_owner.go.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        controller_only: bool = True,
        name: str = "",
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        concerns: Callable[[str], bool] | None = None,
    ) -> None:
        check_source_informer(informer)
        name = name or f"owned {informer.scope}"
        super().__init__(informer, name=name, predicate=predicate, options=options)
        self.controller_only: bool = controller_only
        """Whether only the owner that controls an object counts."""
        self._concerns = concerns
        self.unknown_because: str = ""
        """What the server answered, as long as the kind of the owners is not known."""
        self._owner: OwnerKind | None = None
        self._is_refusal_logged = False

    @property
    def owner(self) -> OwnerKind | None:
        """The kind of the owners; None until it is set."""
        return self._owner

    def set_owner(self, owner: OwnerKind) -> None:
        """Set the kind of the owners, before the source is attached.

        It adds an index to the informer. Cached objects are indexed in one step, so it is best
        called before the cache fills.

        Args:
            owner: the kind.

        Raises:
            LifecycleError: another kind is set already.
        """
        if self._owner == owner:
            return
        if self._owner is not None:
            raise LifecycleError(f"the source {self.name} has owners of kind {self._owner} already")
        self._set_owner(owner)

    def correct_scope(self, *, namespaced: bool) -> None:
        """Replace the scope of the owners, which was another one when it was read.

        Args:
            namespaced: whether the owners live in namespaces.
        """
        owner = self._owner
        if owner is not None and owner.namespaced != namespaced:
            self._set_owner(replace(owner, namespaced=namespaced))

    def _set_owner(self, owner: OwnerKind) -> None:
        index = owner_index(owner, controller_only=self.controller_only)
        with suppress(InvalidArgumentError):  # another controller added the same index
            self.informer.add_index(self._index_of(owner), index)
        self._owner = owner

    def owned_by(self, owner: str | Request | KubeObject[object]) -> list[KubeObject[V]]:
        """Return what an owner owns now, in no particular order; from any thread.

        Of a namespaced owner, only its own namespace has to have synced: what it owns is there.
        Nothing is owned in a namespace that the informer's `namespace_selector` knows to be gone.

        Args:
            owner: its key, a request for it, or the object itself. With the object, references
                must have its uid: any tenant can write a reference with its name. A request of
                another cluster owns nothing in this one.

        Raises:
            CacheNotSyncedError: the informer's first sync is not done.
            NotCachedError: the informer does not watch the owner's namespace.
            LifecycleError: the kind of the owners is not known yet.
        """
        kind = self._known_owner()
        if isinstance(owner, Request) and owner.cluster != self.cluster:
            return []
        key = str.__str__(owner if isinstance(owner, str) else owner.key)
        found = self._read_owned(kind, key)
        uid = owner.metadata.uid if isinstance(owner, KubeObject) else ""
        if not uid:
            return found
        return [
            obj for obj in found if any(one.uid == uid for one in obj.metadata.owner_references)
        ]

    def _read_owned(self, kind: OwnerKind, key: str) -> list[KubeObject[V]]:
        lister, index = self.informer.lister, self._index_of(kind)
        namespace = key.rpartition("/")[0] if kind.namespaced else ""
        if not namespace:
            return lister.by_index(index, key)
        try:
            return NamespaceLister(lister, namespace).by_index(index, key)
        except NotCachedError:
            # The reconcile of an object that was deleted with its namespace has to end.
            if core_of(self.informer).is_gone(namespace):
                return []
            raise

    def _index_of(self, owner: OwnerKind) -> str:
        scope = "" if owner.namespaced else "cluster-scoped "
        return f"{'controlled' if self.controller_only else 'owned'} by {scope}{owner}"

    def _known_owner(self) -> OwnerKind:
        if self._owner is None:
            reason = "is not known yet: the controller reads it from the server when it starts"
            raise LifecycleError(f"the kind of the owners of {self.name} {reason}")
        return self._owner

    def _check_ready(self) -> None:
        self._known_owner()

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        owner = self._known_owner()  # checked before any event could come
        keys: dict[str, None] = {}
        for state in (old, new):
            if state is not None and state.metadata.owner_references:
                found = owner_keys(state, owner, controller_only=self.controller_only)
                keys.update(dict.fromkeys(filter(None, found)))
                if state is new and "" in found:
                    self._refuse(state, found.count(""))
        concerns = self._concerns
        return [
            request_for((key, self.cluster)) for key in keys if concerns is None or concerns(key)
        ]

    def _refuse(self, state: KubeObject[V], references: int) -> None:
        """Count references with a name that an object cannot have; any tenant can write them."""
        self._refused += references
        if not self._is_refusal_logged:
            self._is_refusal_logged = True
            _log.warning(
                "%s: %s has an ownerReference with a name that an object cannot have; such"
                " references make no request, and further ones are only counted",
                self.name,
                state._key,
            )


def owner_keys(obj: KubeObject[object], owner: OwnerKind, *, controller_only: bool) -> list[str]:
    """Return the keys of an object's owners of one kind.

    Args:
        obj: the owned object.
        owner: the kind; references to it may name any version of it.
        controller_only: only the owner that controls the object (`controller: true`).

    Returns:
        `namespace/name` with the object's namespace, or `name` for cluster-scoped owners; an empty
        string for each reference with a name that an object cannot have.

    Source:
        controller-runtime pkg/handler/enqueue_owner.go.
    """
    namespace = obj.metadata.namespace if owner.namespaced else ""
    return [
        object_key(namespace, reference.name) if is_object_name(reference.name) else ""
        for reference in obj.metadata.owner_references
        if (reference.controller or not controller_only) and owner.is_kind_of(reference)
    ]


def owner_index(
    owner: OwnerKind, *, controller_only: bool
) -> Callable[[KubeObject[object]], str | tuple[str, ...] | None]:
    """Return an index function from an object to the keys of its owners."""

    def read(obj: KubeObject[object]) -> str | tuple[str, ...] | None:
        if not obj.metadata.owner_references:
            return None
        keys = owner_keys(obj, owner, controller_only=controller_only)
        if len(keys) == 1:
            return keys[0] or None  # one string is an index's fast path
        return tuple(dict.fromkeys(filter(None, keys))) or None

    return read
