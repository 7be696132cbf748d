"""The entries of the queues: one change of one object, or of the whole cache.

A delta is what the server sent. `events_of` decides what it means for a known older state when the
delta is processed. Deltas are frozen and share their objects.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol, final

from msgspec import Struct

from pyinformer.objects import KubeObject, V


@final
class DeltaType(enum.Enum):
    """What kind of change a delta is; the values are client-go's names.

    Source:
        client-go tools/cache/delta_fifo.go and the_real_fifo.go, DeltaType.
    """

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """One object of a complete list, changed or not."""
    SYNC = "Sync"
    """Nothing changed: a resync of one object."""
    REPLACED_ALL = "ReplacedAll"
    """A complete list in one delta."""
    SYNC_ALL = "SyncAll"
    """A resync of everything in one delta."""
    BOOKMARK = "Bookmark"
    """Nothing changed up to a resource version."""


@final
class DeletedFinalStateUnknown(Struct, Generic[V], frozen=True, gc=False):
    """A tombstone: the object is gone, and its deletion event was missed.

    Source:
        client-go tools/cache/delta_fifo.go, DeletedFinalStateUnknown.
    """

    key: str
    """`namespace/name`, or `name` if cluster-scoped."""
    object: KubeObject[V] | None
    """The newest state that was seen; None if there was none."""


# All deltas share it: the garbage collector would track a dict for each of them.
_NO_OBJECTS: Any = MappingProxyType({})


@final
class Delta(Struct, Generic[V], frozen=True, gc=False):
    """One entry of a queue."""

    type: DeltaType
    object: KubeObject[V] | DeletedFinalStateUnknown[V] | None = None
    """The object that changed; a tombstone only with DELETED, None for the whole cache."""
    objects: Mapping[str, KubeObject[V]] = _NO_OBJECTS
    """Everything that exists, by key; only with REPLACED_ALL. Not to be changed."""
    resource_version: str = ""
    """The version of the list or the bookmark; only with REPLACED_ALL and BOOKMARK."""
    is_in_initial_list: bool = False
    """Whether it was queued no later than the first complete list."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The mapping that stands for no objects cannot be pickled.
        whole = None if self.objects is _NO_OBJECTS else self.objects
        version, initial = self.resource_version, self.is_in_initial_list
        return _rebuild, (self.type, self.object, whole, version, initial)

    @property
    def key(self) -> str:
        """`namespace/name`, or `name`; empty for what concerns the whole cache."""
        found = self.object
        if found is None:
            return ""
        return found.key if isinstance(found, DeletedFinalStateUnknown) else found._key


def _rebuild(
    kind: DeltaType,
    found: KubeObject[V] | DeletedFinalStateUnknown[V] | None,
    objects: Mapping[str, KubeObject[V]] | None,
    resource_version: str,
    is_in_initial_list: bool,  # noqa: FBT001 - called by pickle alone
) -> Delta[V]:
    whole = _NO_OBJECTS if objects is None else objects
    return Delta(kind, found, whole, resource_version, is_in_initial_list)


def last_state(delta: Delta[V]) -> KubeObject[V] | None:
    """Return the object of a delta, also from inside a tombstone."""
    found = delta.object
    return found.object if isinstance(found, DeletedFinalStateUnknown) else found


def overlay_keys(keys: dict[str, None], newest: Mapping[str, Delta[V]]) -> None:
    """Update the existing keys by the newest queued delta of each key."""
    for key, delta in newest.items():
        if delta.type is DeltaType.DELETED:
            keys.pop(key, None)
        else:
            keys[key] = None


class KnownObjects(Protocol[V]):
    """The objects that the consumer of a queue has already: a store, or a dict."""

    @abstractmethod
    def get(self, key: str, /) -> KubeObject[V] | None:
        """Return the object of a key, or None.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        ...

    @abstractmethod
    def keys(self) -> Iterable[str]:
        """Return the keys of all objects."""
        ...
