"""Reads of a store with own writes laid over it.

A read of one key looks among the own writes first, and then in the store: a write that is removed
in between is in the store by then. A read of several keys copies both at one moment. The additional
work is proportional to the number of own writes, which is nearly always zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.cache.store._index import text_of
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.cache.store._index import IndexValue
    from pyinformer.cache.store._joint_indexer import Cache
    from pyinformer.cache.store._overlay import OverlayEntry
    from pyinformer.objects import LabelSelector


def merged_get(
    indexer: Cache[V], entries: Mapping[str, OverlayEntry[V]], key: str
) -> KubeObject[V] | None:
    """Return an object as a reader sees it."""
    entry = entries.get(key)
    return indexer.get(key) if entry is None else indexer.get_merged(key, entry)


def merged_list(indexer: Cache[V], entries: Mapping[str, OverlayEntry[V]]) -> list[KubeObject[V]]:
    """Return all objects as a reader sees them."""
    objects, written, stored = indexer.snapshot_reader.objects_beside(entries)
    found = [obj for obj in objects if obj._key not in written]
    seen = (entry.over(stored.get(key)) for key, entry in written.items())
    return found + [obj for obj in seen if obj is not None]


def merged_matching(
    indexer: Cache[V],
    entries: Mapping[str, OverlayEntry[V]],
    selector: LabelSelector,
    namespace: str | None,
) -> list[KubeObject[V]]:
    """Return the objects whose labels match, all or those of a namespace, as a reader sees them."""
    objects, written, stored = indexer.snapshot_reader.matching(selector, namespace, entries)
    found = [obj for obj in objects if obj._key not in written]
    for key, entry in written.items():
        seen = entry.over(stored.get(key))
        if seen is None or namespace not in {None, seen.metadata.namespace}:
            continue
        if selector.matches(seen.metadata.labels):
            found.append(seen)
    return found


def merged_keys(indexer: Cache[V], entries: Mapping[str, OverlayEntry[V]]) -> list[str]:
    """Return all keys as a reader sees them."""
    keys, (_, written, stored) = indexer.snapshot_reader.keys_beside(entries)
    found = [key for key in keys if key not in written]
    is_seen = (key for key, entry in written.items() if entry.over(stored.get(key)) is not None)
    return [*found, *is_seen]


def merged_by_index(
    indexer: Cache[V], entries: Mapping[str, OverlayEntry[V]], name: str, value: IndexValue
) -> list[KubeObject[V]]:
    """Return the objects under a value as a reader sees them."""
    reader = indexer.snapshot_reader
    objects, written, stored = reader.under(name, text_of(value), entries)
    found = [obj for obj in objects if obj._key not in written]
    for key, entry in written.items():
        seen = entry.over(stored.get(key))
        if seen is not None and reader.caches[0].is_under(name, value, seen):
            found.append(seen)
    return found


def merged_index_values(
    indexer: Cache[V], entries: Mapping[str, OverlayEntry[V]], name: str
) -> list[str]:
    """Return the values by which some object can be found, as a reader sees them."""
    reader = indexer.snapshot_reader
    found = reader.values(name, entries)
    for key, entry in found.written.items():
        seen = entry.over(found.stored.get(key))
        if seen is not None:
            found.counts.update(reader.caches[0].values_of(name, seen))
    return found.present()
