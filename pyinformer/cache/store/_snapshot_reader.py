"""Reads of several mappings at one moment, from any thread, while one thread writes them.

CPython switches threads between bytecodes, and not within a C call that runs no Python code. Each
read here copies everything that it needs in one such call. It is repeated if one of its mappings
was replaced shortly before that call, which a writer cannot do repeatedly.

A change of an object takes several steps: new buckets, the cache, old buckets. Meanwhile its key is
in the cache's `_changing`, which a reader copies too; for that object the cache decides.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import chain, repeat
from operator import attrgetter, contains, is_
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, final

from pyinformer.cache.store._atomic_copy import copy_at_once
from pyinformer.cache.store._index import NAMESPACE_INDEX, find_index
from pyinformer.cache.store._index_functions import has_value, values_of
from pyinformer.cache.store._label_filter import select
from pyinformer.objects import V

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyinformer.cache.store._index import Index
    from pyinformer.cache.store._indexer import Indexer
    from pyinformer.cache.store._label_queries import Candidates
    from pyinformer.cache.store._overlay import OverlayEntry
    from pyinformer.cache.store._store_state import State
    from pyinformer.objects import KubeObject, LabelSelector

_T = TypeVar("_T")
_STATE: Final = attrgetter("_state")
_NO_BUCKET: Final[dict[str, Any]] = {}  # nothing is ever put in
_ATTEMPTS: Final = 3


class Found(NamedTuple, Generic[V]):
    """Objects that are cached, all or those under a value, and own writes, at one moment."""

    objects: list[KubeObject[V]]
    written: dict[str, OverlayEntry[V]]
    stored: dict[str, KubeObject[V] | None]
    """What is cached under the keys that were written."""


class Values(NamedTuple, Generic[V]):
    """The values of an index, and own writes, at one moment."""

    counts: Counter[str]
    """How many cached objects have each value, without those under keys that were written."""
    written: dict[str, OverlayEntry[V]]
    stored: dict[str, KubeObject[V] | None]
    """What is cached under the keys that were written."""

    def present(self) -> list[str]:
        """Return the values that an object has."""
        return [value for value, count in self.counts.items() if count > 0]


@final
class SnapshotReader(Generic[V]):
    """Reads one cache, or several as one.

    Args:
        caches: at least one; all have the same indexes.
        by_namespace: the same caches by namespace; None if there is only one.
    """

    __slots__ = ("_by_namespace", "caches")

    def __init__(
        self, caches: Sequence[Indexer[V]], by_namespace: Mapping[str, Indexer[V]] | None = None
    ) -> None:
        self.caches: Sequence[Indexer[V]] = caches
        """What is read; all have the same indexes."""
        self._by_namespace = by_namespace

    def objects(self) -> list[KubeObject[V]]:
        """Return all objects."""
        return self._all(lambda state: state.items.values(), {})[0]

    def keys(self) -> list[str]:
        """Return all keys."""
        return self._all(lambda state: state.items, {})[0]

    def objects_beside(self, written: Mapping[str, OverlayEntry[V]]) -> Found[V]:
        """Return all objects, and own writes.

        Args:
            written: own writes by key, which the writer changes too.
        """
        found, facts = self._all(lambda state: state.items.values(), written)
        return Found(found, facts.laid_over(), facts.stored)

    def keys_beside(self, written: Mapping[str, OverlayEntry[V]]) -> tuple[list[str], Found[V]]:
        """Return all keys, and own writes; no objects but those under the keys of these."""
        keys, facts = self._all(lambda state: state.items, written)
        return keys, Found([], facts.laid_over(), facts.stored)

    def _all(
        self, part_of: Callable[[State[V]], Iterable[_T]], written: Mapping[str, OverlayEntry[V]]
    ) -> tuple[list[_T], _Facts[V]]:
        def attempt() -> tuple[list[_T], _Facts[V]] | None:
            states = self._states()
            facts = _Facts(self, states, written)
            found = copy_at_once(*map(part_of, states), *facts.iterables)
            return (found, facts) if facts.take(found) else None

        return _until_done(attempt)

    def under(self, name: str, wanted: str, written: Mapping[str, OverlayEntry[V]]) -> Found[V]:
        """Return the objects that an index has under a value.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        return _until_done(lambda: self._try_under(name, wanted, written))

    def values(self, name: str, written: Mapping[str, OverlayEntry[V]]) -> Values[V]:
        """Return the values of an index.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        return _until_done(lambda: self._try_values(name, written))

    def matching(
        self,
        selector: LabelSelector,
        namespace: str | None,
        written: Mapping[str, OverlayEntry[V]],
    ) -> Found[V]:
        """Return the objects whose labels match, and own writes.

        Label indexes give them if there are any; what is returned does not depend on that.

        Args:
            selector: what the labels must match; not empty.
            namespace: the only namespace that is read; None for all.
            written: own writes by key, which the writer changes too.
        """
        known = self._by_labels(selector, namespace, written)
        if known is not None:
            found, are_exact = known
        else:
            found, are_exact = self._to_be_scanned(namespace, written), False
        objects = found.objects
        if known is not None and namespace is not None:
            objects = [obj for obj in objects if obj.metadata.namespace == namespace]
        if not are_exact:
            objects = select(objects, selector.matches)
        return Found(objects, found.written, found.stored)

    def _to_be_scanned(
        self, namespace: str | None, written: Mapping[str, OverlayEntry[V]]
    ) -> Found[V]:
        if namespace is None:
            return self.objects_beside(written)
        return self.under(NAMESPACE_INDEX, namespace, written)

    def _by_labels(
        self,
        selector: LabelSelector,
        namespace: str | None,
        written: Mapping[str, OverlayEntry[V]],
    ) -> tuple[Found[V], bool] | None:
        """Read by label indexes; None if there are none, or other threads use or change them.

        Returns:
            The candidates of all namespaces, and whether the selector selects all of them.
        """
        if namespace is not None and self._by_namespace is not None:
            return None
        with ExitStack() as held:
            for cache in self.caches:
                lock = cache._label_queries.lock  # noqa: SLF001 - a part of the cache
                if not lock.acquire(blocking=False):
                    return None
                held.callback(lock.release)
            for _ in range(_ATTEMPTS):
                states = self._states()
                try:
                    parts = self._candidates(states, selector, namespace)
                    found = self._try_candidates(states, parts, written) if any(parts) else None
                except RecursionError:
                    raise  # it is a RuntimeError
                except RuntimeError:
                    continue
                if found is not None:
                    return found, all(part is not None and part.are_exact for part in parts)
                if not any(parts):
                    return None
        return None

    def _candidates(
        self, states: list[State[V]], selector: LabelSelector, namespace: str | None
    ) -> list[Candidates[V] | None]:
        return [
            cache._label_queries.candidates(state, selector, namespace)  # noqa: SLF001 - as above
            for cache, state in zip(self.caches, states, strict=True)
        ]

    def _try_candidates(
        self,
        states: list[State[V]],
        parts: list[Candidates[V] | None],
        written: Mapping[str, OverlayEntry[V]],
    ) -> Found[V] | None:
        """Copy the candidates, and all objects of caches without; None if they are out of date."""
        indexed = [part for part in parts if part is not None]
        facts = _Facts(self, states, written)
        found = copy_at_once(
            *(
                state.items.values() if part is None else part.objects
                for state, part in zip(states, parts, strict=True)
            ),
            *chain.from_iterable(part.facts for part in indexed),
            *facts.iterables,
        )
        expected = list(chain.from_iterable(part.expected for part in indexed))
        # A change that is under way may be in the log already, before it is in the cache.
        if not facts.take(found) or any(facts.changing) or _cut(found, len(expected)) != expected:
            return None
        return Found(found, facts.laid_over(), facts.stored)

    def _try_under(
        self, name: str, wanted: str, written: Mapping[str, OverlayEntry[V]]
    ) -> Found[V] | None:
        states, indexes = self._indexes(name)
        buckets = [index.buckets.get(wanted, _NO_BUCKET) for index in indexes]
        facts = _Facts(self, states, written)
        found = copy_at_once(
            *(bucket.values() for bucket in buckets),
            *(map(index.buckets.get, (wanted,), (_NO_BUCKET,)) for index in indexes),
            *facts.iterables,
        )
        if not facts.take(found) or not _are(_cut(found, len(buckets)), buckets):
            return None
        for key, current, index in zip(facts.changing, facts.current, indexes, strict=True):
            if key:
                found = [obj for obj in found if obj._key != key]
                if current is not None and has_value(index, current, wanted):
                    found.append(current)
        return Found(found, facts.laid_over(), facts.stored)

    def _try_values(self, name: str, written: Mapping[str, OverlayEntry[V]]) -> Values[V] | None:
        states, indexes = self._indexes(name)
        keys = [cache._changing[0] for cache in self.caches]  # noqa: SLF001 - a part of the cache
        facts = _Facts(self, states, written)
        found = copy_at_once(
            *(index.buckets for index in indexes),
            *(map(len, index.buckets.values()) for index in indexes),
            *(
                map(contains, index.buckets.values(), repeat(key))
                for index, key in zip(indexes, keys, strict=True)
            ),
            *facts.iterables,
        )
        if not facts.take(found) or facts.changing != keys:
            return None
        third = len(found) // 3
        is_changing, sizes = _cut(found, third), _cut(found, third)
        written_now = facts.laid_over()
        counts: Counter[str] = Counter()
        for value, size, has_key in zip(found, sizes, is_changing, strict=True):
            counts[value] += size - has_key
        for number, index in enumerate(indexes):
            for key in facts.shares[number]:
                if key != keys[number] and key in written_now:
                    counts.subtract(values_of(index, facts.stored[key]))
            if keys[number] not in written_now:
                counts.update(values_of(index, facts.current[number]))
        return Values(counts, written_now, facts.stored)

    def _states(self) -> list[State[V]]:
        return [cache._state for cache in self.caches]  # noqa: SLF001 - a part of the cache

    def _indexes(self, name: str) -> tuple[list[State[V]], list[Index[V]]]:
        states = self._states()
        return states, [find_index(state.indexes, name) for state in states]

    def shares_of(self, keys: Iterable[str]) -> list[list[str]]:
        """Return which of the keys each cache holds, or would hold."""
        if self._by_namespace is None:
            return [list(keys)]
        shares: dict[int, list[str]] = {id(cache): [] for cache in self.caches}
        for key in keys:
            cache = self._by_namespace.get(key.rpartition("/")[0])
            if cache is not None:
                shares[id(cache)].append(key)
        return list(shares.values())


@final
class _Facts(Generic[V]):
    """The own writes and the changes under way, which a read copies together with its mappings."""

    __slots__ = ("_states", "changing", "current", "iterables", "shares", "stored", "written")

    def __init__(
        self,
        reader: SnapshotReader[V],
        states: list[State[V]],
        written: Mapping[str, OverlayEntry[V]],
    ) -> None:
        self.written = dict(written)
        self.shares = reader.shares_of(self.written)
        self.changing: list[str] = []
        """For each cache the key that is being changed; empty while there is none."""
        self.current: list[KubeObject[V] | None] = []
        """For each cache what it holds under that key."""
        self.stored: dict[str, KubeObject[V] | None] = {}
        self._states = states
        changing = [cache._changing for cache in reader.caches]  # noqa: SLF001 - a part of it
        self.iterables = (
            map(_STATE, reader.caches),
            *changing,
            *(map(state.items.get, one) for state, one in zip(states, changing, strict=True)),
            *(map(one.items.get, keys) for one, keys in zip(states, self.shares, strict=True)),
            written.values(),
            map(len, (written,)),
        )

    def take(self, found: list[Any]) -> bool:
        """Take these facts from the end of what was found; return whether no mapping changed."""
        entries = _cut(found, found.pop())
        if not _are(entries, self.written.values()):
            return False
        many = len(self._states)
        keys = list(chain.from_iterable(self.shares))
        self.stored = dict(zip(keys, _cut(found, len(keys)), strict=True))
        self.current, self.changing = _cut(found, many), _cut(found, many)
        return _are(_cut(found, many), self._states)

    def laid_over(self) -> dict[str, OverlayEntry[V]]:
        """Return the own writes that the caches have not ended by a list."""
        ended = [state.ended for state in self._states if state.ended]
        if not ended:
            return self.written
        return {
            key: entry
            for key, entry in self.written.items()
            if not any(known.get(key) is entry for known in ended)
        }


def _until_done(attempt: Callable[[], _T | None]) -> _T:
    """Repeat a read until no mapping changed shortly before it."""
    while True:
        try:
            found = attempt()
        except RecursionError:
            raise  # it is a RuntimeError, and would be raised again without end
        except RuntimeError:
            continue
        if found is not None:
            return found


def _cut(found: list[_T], size: int) -> list[_T]:
    """Remove and return this many items from the end."""
    start = len(found) - size
    tail = found[start:]
    del found[start:]
    return tail


def _are(found: Collection[object], expected: Collection[object]) -> bool:
    return len(found) == len(expected) and all(map(is_, found, expected))
