"""The objects of a cache that wait for a handler: of the initial list, or of a resync.

To hand over the initial list costs nothing per object: an object becomes an event when the handler
takes it, in its newest state, or not at all if it was deleted meanwhile.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from typing import Generic, final

from pyinformer.objects import KubeObject, V

_TABLE_SIZE = 4096  # objects; a table takes half a millisecond to build
_key_of = attrgetter("_key")


@final
class CacheContents(Collection[KubeObject[V]]):
    """The objects of a cache at one moment; never changed once it is complete.

    Args:
        objects: what the cache holds; no key occurs twice.
    """

    __slots__ = ("_size", "tables")

    def __init__(self, objects: Iterable[KubeObject[V]] = ()) -> None:
        self.tables: list[dict[str, KubeObject[V]]] = []
        """The objects by key, in order, in tables of a few thousand."""
        self._size = 0
        for _ in self.fill(objects):
            pass

    def fill(self, objects: Iterable[KubeObject[V]]) -> Iterator[None]:
        """Add objects in short steps, before anything else uses this."""
        rest = iter(objects)
        while table := {obj._key: obj for obj in islice(rest, _TABLE_SIZE)}:
            self.tables.append(table)
            self._size += len(table)
            yield

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[KubeObject[V]]:
        return chain.from_iterable(table.values() for table in self.tables)

    def __contains__(self, obj: object) -> bool:
        return isinstance(obj, KubeObject) and any(obj._key in table for table in self.tables)


@final
class UndeliveredObjects(Generic[V]):
    """The content of a cache on its way to one handler, in order.

    All handlers share the tables. A lookup by key tries each table that is left. A table is freed
    when every handler has finished it; until then it keeps objects that have changed since.

    Args:
        contents: the objects.
    """

    __slots__ = ("_changed", "_current", "_gone", "_left", "_tables")

    def __init__(self, contents: CacheContents[V]) -> None:
        self._tables = contents.tables[::-1]  # shared with other handlers; the last is the next
        self._current: dict[str, KubeObject[V]] = {}  # this handler's own; the last leaves first
        self._changed: dict[str, KubeObject[V]] = {}  # newer states of objects in the tables
        self._gone: set[str] = set()
        self._left = len(contents)

    def __len__(self) -> int:
        return self._left

    def take(self) -> KubeObject[V]:
        """Remove and return the first object.

        Raises:
            KeyError: the list is empty.
        """
        while self._tables and not self._current:
            self._open_next()
        obj = self._current.popitem()[1]
        self._left -= 1
        return obj

    def _open_next(self) -> None:
        current = dict(reversed(self._tables.pop().items()))
        for key in current.keys() & self._changed.keys():
            current[key] = self._changed.pop(key)
        for key in current.keys() & self._gone:
            del current[key]
            self._gone.discard(key)
        self._current = current

    def __contains__(self, key: object) -> bool:
        if key in self._current:
            return True
        return key not in self._gone and any(key in table for table in self._tables.copy())

    def change(self, obj: KubeObject[V]) -> None:
        """Replace the state of an object that is in the list."""
        key = obj._key
        (self._current if key in self._current else self._changed)[key] = obj

    def remove(self, key: str) -> None:
        """Remove an object that is in the list."""
        if self._current.pop(key, None) is None:
            self._changed.pop(key, None)
            self._gone.add(key)
        self._left -= 1

    def keys(self) -> set[str]:
        """Return the keys of the objects that are left, as a new set; slow."""
        return set(self._current).union(*self._tables) - self._gone


@final
class ResyncList(Generic[V]):
    """The objects of a resync, in order; becomes a mapping when a lookup by key needs one.

    Args:
        objects: the cached objects; no key occurs twice.
    """

    def __init__(self, objects: Iterable[KubeObject[V]]) -> None:
        # Reversed: a list and a dict are cheap to shorten at the end only.
        self._reversed = list(objects)[::-1]
        self._by_key: dict[str, KubeObject[V]] | None = None

    def __len__(self) -> int:
        return len(self._reversed if self._by_key is None else self._by_key)

    def pop(self) -> KubeObject[V]:
        """Remove and return the first object.

        Raises:
            IndexError, KeyError: the list is empty.
        """
        return self._reversed.pop() if self._by_key is None else self._by_key.popitem()[1]

    def holds(self, key: str) -> bool:
        """Return whether a key is left; slow, changes nothing, callable from any thread."""
        if any(obj._key == key for obj in self._reversed.copy()):
            return True
        by_key = self._by_key  # read last: the loop may have moved the objects here meanwhile
        return by_key is not None and key in by_key

    def by_key(self) -> dict[str, KubeObject[V]]:
        """Return the objects that are left by key (`namespace/name` or `name`), to be changed."""
        if self._by_key is None:
            objects, self._reversed = self._reversed, []
            self._by_key = dict(zip(map(_key_of, objects), objects, strict=True))
        return self._by_key
