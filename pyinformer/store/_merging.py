"""Reads of a store with own writes laid over it.

A read of one key takes the entry first and the store second: what is evicted in between, the store
holds. A read of several keys copies both at one moment. The work beyond that of the plain read goes
with the number of entries, which is nearly always zero.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from pyinformer.apimachinery import KubeObject, V
from pyinformer.store._index import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.store._index import IndexValue
    from pyinformer.store._joint import Cache
    from pyinformer.store._overlay import Entry


def merged_get(
    indexer: Cache[V], entries: Mapping[str, Entry[V]], key: str
) -> KubeObject[V] | None:
    """Return an object as a reader sees it."""
    entry = entries.get(key)
    return indexer.get(key) if entry is None else indexer.beside(key, entry)


def merged_items(
    indexer: Cache[V], entries: Mapping[str, Entry[V]]
) -> builtins.dict[str, KubeObject[V]]:
    """Return all objects by key as a reader sees them, in a dict of the caller's own."""
    items, written = indexer.at_once.items(entries)
    for key, entry in written.items():
        seen = entry.over(items.get(key))
        if seen is None:
            items.pop(key, None)
        else:
            items[key] = seen
    return items


def merged_by_index(
    indexer: Cache[V], entries: Mapping[str, Entry[V]], name: str, value: IndexValue
) -> list[KubeObject[V]]:
    """Return the objects under a value as a reader sees them."""
    objects, written, stored = indexer.at_once.under(name, text_of(value), entries)
    found = [obj for obj in objects if obj._key not in written]
    for key, entry in written.items():
        seen = entry.over(stored.get(key))
        if seen is not None and indexer.is_under(name, value, seen):
            found.append(seen)
    return found


def merged_index_values(indexer: Cache[V], entries: Mapping[str, Entry[V]], name: str) -> list[str]:
    """Return the values by which some object can be found, as a reader sees them."""
    found = indexer.at_once.values(name, entries)
    for key, entry in found.written.items():
        seen = entry.over(found.stored.get(key))
        if seen is not None:
            found.counts.update(indexer.values_of(name, seen))
    return found.present()
