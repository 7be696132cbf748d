"""Reads of a store with own writes laid over it.

A store and the overlay's entries enter, what a reader sees leaves. The entries are always copied
before the store is read: what is evicted in between, the store holds. Work beyond that of the plain
read goes with the number of entries, which is nearly always zero.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from pyinformer.apimachinery import KubeObject, V

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
    stored = indexer.get(key)
    return stored if entry is None else entry.over(stored)


def merged_items(
    indexer: Cache[V], entries: Mapping[str, Entry[V]]
) -> builtins.dict[str, KubeObject[V]]:
    """Return all objects by key as a reader sees them, in a dict of the caller's own."""
    laid_over = dict(entries)
    items = indexer.snapshot().copy()
    for key, entry in laid_over.items():
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
    laid_over = dict(entries)
    found = [obj for obj in indexer.by_index(name, value) if obj._key not in laid_over]
    for key, entry in laid_over.items():
        seen = entry.over(indexer.get(key))
        if seen is not None and indexer.is_under(name, value, seen):
            found.append(seen)
    return found


def merged_index_values(indexer: Cache[V], entries: Mapping[str, Entry[V]], name: str) -> list[str]:
    """Return the values by which some object can be found, as a reader sees them."""
    laid_over = dict(entries)
    values = dict.fromkeys(indexer.index_values(name))
    doubtful: dict[str, None] = {}
    for key, entry in laid_over.items():
        stored = indexer.get(key)
        seen = entry.over(stored)
        if stored is not None and seen is not stored:
            doubtful.update(dict.fromkeys(indexer.values_of(name, stored)))
        if seen is not None:
            values.update(dict.fromkeys(indexer.values_of(name, seen)))
    for value in doubtful:  # its last object may have moved, or be gone
        if not merged_by_index(indexer, laid_over, name, value):
            values.pop(value, None)
    return list(values)
