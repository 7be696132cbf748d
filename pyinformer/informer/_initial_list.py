"""What a cache holds when handlers join, on its way to each of them.

What enters is that content, put together in short steps, and what happens to it meanwhile; objects
leave one by one in its order, each as it is by then, or not at all if it is gone. The content lies
in small tables that all handlers share: none costs a pass over a million objects, looking one up
takes a look into each table that is left, and a table is let go of as soon as all are past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Generic, final

from pyinformer.apimachinery import KubeObject, V

_TABLE = 4096  # objects: half a millisecond to put together


@final
class CacheContents(Collection[KubeObject[V]]):
    """The objects of a cache at one moment; never changed once it is complete.

    Args:
        objects: what the cache holds, no key twice.
    """

    __slots__ = ("_size", "tables")

    def __init__(self, objects: Iterable[KubeObject[V]] = ()) -> None:
        self.tables: list[dict[str, KubeObject[V]]] = []
        """The objects by key, in order, in tables of a few thousand."""
        self._size = 0
        for _ in self.fill(objects):
            pass

    def fill(self, objects: Iterable[KubeObject[V]]) -> Iterator[None]:
        """Put objects in, in short steps; nobody has this before it is complete."""
        rest = iter(objects)
        while table := {obj._key: obj for obj in islice(rest, _TABLE)}:
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
class InitialList(Generic[V]):
    """The content of a cache on its way to one handler, the first object to leave first.

    Of an object that changes meanwhile the older state lives on until its table's turn.

    Args:
        contents: what to hold.
    """

    __slots__ = ("_changed", "_current", "_gone", "_left", "_tables")

    def __init__(self, contents: CacheContents[V]) -> None:
        self._tables = contents.tables[::-1]  # shared with others; the last is the next
        self._current: dict[str, KubeObject[V]] = {}  # its own, the last leaves first
        self._changed: dict[str, KubeObject[V]] = {}  # as they are now, those of the tables
        self._gone: set[str] = set()
        self._left = len(contents)

    def __len__(self) -> int:
        return self._left

    def take(self) -> KubeObject[V]:
        """Remove and return the first object.

        Raises:
            KeyError: there is none.
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
        """Let an object that waits here leave as this."""
        key = obj._key
        (self._current if key in self._current else self._changed)[key] = obj

    def remove(self, key: str) -> None:
        """Let an object that waits here not leave at all."""
        if self._current.pop(key, None) is None:
            self._changed.pop(key, None)
            self._gone.add(key)
        self._left -= 1

    def keys(self) -> set[str]:
        """Return the keys of what is left, in a set of the caller's own; slow."""
        return set(self._current).union(*self._tables) - self._gone
