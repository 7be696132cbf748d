"""What a stream keeps of each object: its identity alone, or the compressed object.

The identity is enough to judge events and to notice a missed deletion. A handler that receives such
a deletion with the object's body needs the object.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol, final

from pyinformer.cache.store import Indexer
from pyinformer.objects import Added, Deleted, KubeObject, ObjectMeta, Updated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyinformer.objects import GroupVersionKind

_SLICE = 512  # objects per step
_UID_BYTES, _VERSION_BYTES = 16, 8


class Known(Protocol):
    """The objects that a stream has reported."""

    @property
    def has_bodies(self) -> bool:
        """Whether the objects have their bodies."""
        ...

    def __len__(self) -> int:
        """Return the number of objects."""
        ...

    def get(self, key: str) -> KubeObject[None] | None:
        """Return the object under a key, perhaps without a body."""
        ...

    def keys(self) -> list[str]:
        """Return every key, in a list of the caller's own."""
        ...

    def put(self, obj: KubeObject[None]) -> None:
        """Keep the newest state of an object."""
        ...

    def pop(self, key: str) -> KubeObject[None] | None:
        """Forget an object and return it."""
        ...

    def replace(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Keep exactly these objects; the caller iterates the remaining work to its end."""
        ...


@final
class CachedKeys:
    """Keeps uid and resource version of each object, 0.2 KB with the key.

    Args:
        gvk: the kind of the objects.
    """

    has_bodies = False

    def __init__(self, gvk: GroupVersionKind) -> None:
        self._gvk = gvk
        self._items: dict[str, bytes | tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> KubeObject[None] | None:
        """Return an object without a body."""
        packed = self._items.get(key)
        if packed is None:
            return None
        uid, version = _unpacked(packed)
        namespace, _, name = key.rpartition("/")
        return KubeObject(key, ObjectMeta(namespace, name, uid, version), None, b"", self._gvk)

    def keys(self) -> list[str]:
        """Return every key."""
        return list(self._items)

    def put(self, obj: KubeObject[None]) -> None:
        """Keep the newest state of an object."""
        self._items[obj._key] = _packed(obj.metadata)

    def pop(self, key: str) -> KubeObject[None] | None:
        """Forget an object and return it."""
        found = self.get(key)
        self._items.pop(key, None)
        return found

    def replace(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Keep exactly these objects."""
        items: dict[str, bytes | tuple[str, str]] = {}
        for number, (key, obj) in enumerate(objects.items(), start=1):
            items[key] = _packed(obj.metadata)
            if number % _SLICE == 0:
                yield
        self._items = items


@final
class CachedObjects:
    """Keeps each object as the reflector made it, in a cache that listers read."""

    has_bodies = True

    def __init__(self) -> None:
        self.indexer: Indexer[None] = Indexer()
        """The cache."""

    def __len__(self) -> int:
        return len(self.indexer)

    def get(self, key: str) -> KubeObject[None] | None:
        """Return the object under a key."""
        return self.indexer.get(key)

    def keys(self) -> list[str]:
        """Return every key."""
        return self.indexer.keys()

    def put(self, obj: KubeObject[None]) -> None:
        """Keep the newest state of an object."""
        old = self.indexer.get(obj._key)
        self.indexer.apply_nowait(Added(obj) if old is None else Updated(old, obj))

    def pop(self, key: str) -> KubeObject[None] | None:
        """Forget an object and return it."""
        found = self.indexer.get(key)
        if found is not None:
            self.indexer.apply_nowait(Deleted(found))
        return found

    def replace(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Keep exactly these objects."""
        return self.indexer.replace_nowait(objects, resource_version)


def _packed(meta: ObjectMeta) -> bytes | tuple[str, str]:
    """Return uid and version as 24 bytes, if they are as API servers write them."""
    try:
        uid, version = uuid.UUID(meta.uid), int(meta.resource_version)
        packed = uid.bytes + version.to_bytes(_VERSION_BYTES, "big")
    except (ValueError, OverflowError):
        return meta.uid, meta.resource_version
    is_exact = (str(uid), str(version)) == (meta.uid, meta.resource_version)
    return packed if is_exact else (meta.uid, meta.resource_version)


def _unpacked(packed: bytes | tuple[str, str]) -> tuple[str, str]:
    if isinstance(packed, tuple):
        return packed
    version = int.from_bytes(packed[_UID_BYTES:], "big")
    return str(uuid.UUID(bytes=packed[:_UID_BYTES])), str(version)
