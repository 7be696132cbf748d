"""Several caches, one for each namespace, read as one.

The set of caches never changes: another set of namespaces is another JointIndexer, so a reader in
any thread has one consistent set during a read. A key is looked up in its namespace's cache; other
reads combine all caches. Nothing is written here: each cache has its own writer.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeAlias, final

from pyinformer.cache.store._index import NAMESPACE_INDEX, IndexStatistics, IndexValue, text_of
from pyinformer.cache.store._indexer import MEASURED, Indexer
from pyinformer.cache.store._snapshot_reader import SnapshotReader
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from pyinformer.cache.store._overlay import OverlayEntry
    from pyinformer.objects import LabelSelector

_MEASURED_EACH = 4  # objects of each cache, at least


@final
class JointIndexer(Generic[V]):
    """Reads several caches.

    Args:
        by_namespace: at least one cache; no two hold the same key, and all have the same indexes.
    """

    def __init__(self, by_namespace: Mapping[str, Indexer[V]]) -> None:
        self._by_namespace = by_namespace
        self._all = tuple(by_namespace.values())
        self.snapshot_reader: SnapshotReader[V] = SnapshotReader(self._all, by_namespace)
        """Reads several mappings of these caches at one moment."""

    def get(self, key: str) -> KubeObject[V] | None:
        """Return the object with this key, or None."""
        indexer = self._by_namespace.get(key.rpartition("/")[0])
        return None if indexer is None else indexer.get(key)

    def get_merged(self, key: str, entry: OverlayEntry[V]) -> KubeObject[V] | None:
        """Return what a reader sees of a key for which this process has written an object."""
        indexer = self._by_namespace.get(key.rpartition("/")[0])
        return entry.over(None) if indexer is None else indexer.get_merged(key, entry)

    def __len__(self) -> int:
        return sum(map(len, self._all))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def keys(self) -> builtins.list[str]:
        """Return a copy of all keys."""
        return self.snapshot_reader.keys()

    def list(self) -> builtins.list[KubeObject[V]]:
        """Return all objects in a list of the caller's own."""
        return self.snapshot_reader.objects()

    def matching(
        self, selector: LabelSelector, namespace: str | None = None
    ) -> builtins.list[KubeObject[V]]:
        """Return the objects whose labels match, all or those of a namespace."""
        if namespace is None:
            return self.snapshot_reader.matching(selector, None, {}).objects
        only = self._by_namespace.get(namespace)
        return [] if only is None else only.matching(selector, namespace)

    def label_indexes(self) -> tuple[str, ...]:
        """Return the labels by which any of the caches has an index, made by lists."""
        return tuple(dict.fromkeys(chain.from_iterable(one.label_indexes() for one in self._all)))

    def estimated_bytes(self) -> int:
        """Return the size of the cached bodies, as they are kept, from a sample of each cache."""
        measured = max(_MEASURED_EACH, MEASURED // len(self._all))
        return sum(one.estimated_bytes(measured=measured) for one in self._all)

    def by_index(self, name: str, value: IndexValue) -> builtins.list[KubeObject[V]]:
        """Return the objects that have a value, without looking at any other.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        if name == NAMESPACE_INDEX:
            only = self._by_namespace.get(text_of(value))
            return [] if only is None else only.by_index(name, value)
        return self.snapshot_reader.under(name, text_of(value), {}).objects

    def index_values(self, name: str) -> builtins.list[str]:
        """Return the values by which some object can be found at this moment.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        return self.snapshot_reader.values(name, {}).present()

    def indexes(self) -> tuple[IndexStatistics, ...]:
        """Return the statistics of every index; a value in several caches is counted in each."""
        columns = zip(*(one.indexes() for one in self._all), strict=False)
        return tuple(_summed(column) for column in columns)


def _summed(statistics: tuple[IndexStatistics, ...]) -> IndexStatistics:
    return IndexStatistics(
        name=statistics[0].name,
        values=sum(one.values for one in statistics),
        failures=sum(one.failures for one in statistics),
        last_failure=next((one.last_failure for one in statistics if one.last_failure), ""),
    )


Cache: TypeAlias = Indexer[V] | JointIndexer[V]
"""The cache that a lister reads."""
