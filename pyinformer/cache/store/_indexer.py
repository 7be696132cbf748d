"""The cache: objects by key, and their indexes. Written on the loop, read from any thread.

A change takes several steps: new buckets, then the object, then old buckets (for a deletion the
object first). Readers see it as one step: while a change is under way its key is in `_changing`,
and a reader that finds a key there reads by `SnapshotReader`. A complete list builds a second state
beside the first and swaps the two in one assignment.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from itertools import chain, islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, cast, final

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import check_plain
from pyinformer.cache.store._index import (
    NAMESPACE_INDEX,
    Index,
    IndexStatistics,
    IndexValue,
    Placement,
    find_index,
    text_of,
)
from pyinformer.cache.store._index_functions import (
    SharedPaths,
    has_value,
    read_again,
    read_fenced,
    reader_of,
    values_of,
)
from pyinformer.cache.store._label_queries import LabelQueries
from pyinformer.cache.store._snapshot_reader import SnapshotReader
from pyinformer.cache.store._store_state import NO_WRITES, State
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import (
    Added,
    Event,
    KubeObject,
    Updated,
    V,
    View,
    check_text,
    stored_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinformer.cache.store._index import IndexFunction
    from pyinformer.cache.store._overlay import OverlayEntry
    from pyinformer.objects import LabelSelector

_FIXED = frozenset({"metadata.namespace", "metadata.name"})  # they are the key

MEASURED: Final = 128
"""The number of objects from which the size of a cache is estimated."""

_SLICE = 256  # objects per step of a replacement: well under a millisecond with several indexes


@final
class Indexer(Generic[V]):
    """A cache of immutable objects with indexes over them.

    Args:
        view: the view of the objects, from which indexes by path are read if it has them.
    """

    def __init__(self, view: type[V] | None = None) -> None:
        self._view = view
        self._paths = SharedPaths()
        self.resource_version: str = ""
        """The resource version up to which the cache has every change; empty before the first."""
        self.generation: int = 0
        """How many complete lists have been taken."""
        by_namespace: Index[V] = Index(NAMESPACE_INDEX, attrgetter("metadata.namespace"))
        self._state: State[V] = State({}, {NAMESPACE_INDEX: by_namespace})
        self._changing: list[str] = [""]
        """The key whose change is under way, or an empty one; a list, which C code can read."""
        self._label_queries: LabelQueries[V] = LabelQueries(self._changing)
        """The label indexes that lists by selector make and use."""

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index; objects that are cached already are indexed at once.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object that
                returns a value, several, or None. A path that the view has is read from
                there, so the default of its field counts as a value.

        Raises:
            InvalidArgumentError: the name is taken, or the path cannot be read.
            InvalidTypeError: the name is not text, or `by` neither text nor a plain function
                of an object.

        Source:
            client-go tools/cache/thread_safe_store.go, AddIndexers.
        """
        check_text("name", name)
        if callable(by):
            check_plain(by, "index(obj)", 1, may_generate=True)
        else:
            check_text("by", by)
        state = self._state
        if name in state.indexes:
            raise InvalidArgumentError("name", f"an index called {name!r} exists already")
        index: Index[V] = Index(
            name,
            reader_of(by, cast("type[View] | None", self._view), self._paths),
            is_function=callable(by),
            is_fixed=isinstance(by, str) and by in _FIXED,
        )
        for key, obj in state.items.items():
            index.place(key, read_fenced(index, obj), obj)
        made = State(state.items, {**state.indexes, name: index}, state.ended)
        made.label_indexes = state.label_indexes  # they are of the same objects
        self._state = made

    def get(self, key: str) -> KubeObject[V] | None:
        """Return the object with this key, `namespace/name` or `name`, or None."""
        return self._state.items.get(key)

    def get_merged(self, key: str, entry: OverlayEntry[V]) -> KubeObject[V] | None:
        """Return what a reader sees of a key for which this process has written an object."""
        state = self._state
        stored = state.items.get(key)
        return stored if state.ended.get(key) is entry else entry.over(stored)

    def __len__(self) -> int:
        return len(self._state.items)

    def __contains__(self, key: object) -> bool:
        return key in self._state.items

    def keys(self) -> builtins.list[str]:
        """Return a copy of all keys."""
        return list(self._state.items)

    def list(self) -> builtins.list[KubeObject[V]]:
        """Return all objects in a list of the caller's own."""
        return list(self._state.items.values())

    def matching(
        self, selector: LabelSelector, namespace: str | None = None
    ) -> builtins.list[KubeObject[V]]:
        """Return the objects whose labels match, all or those of a namespace."""
        return self.snapshot_reader.matching(selector, namespace, {}).objects

    def label_indexes(self) -> tuple[str, ...]:
        """Return the labels by which the cache has an index, made by lists by selector."""
        indexes = self._state.label_indexes
        return () if indexes is None else tuple(indexes.by_label)

    def estimated_bytes(self, *, measured: int = MEASURED) -> int:
        """Return the size of the cached bodies, as they are kept; from any thread.

        It is exact for few objects and otherwise an estimate, so that a million of them cost no
        more: from the oldest and newest of each namespace, as many as its share of all objects.

        Args:
            measured: the most objects that are measured.
        """
        count = len(self)
        sample = self.list() if count <= measured else self._sample(measured)
        return sum(map(stored_bytes, sample)) * count // max(1, len(sample))

    def _sample(self, size: int) -> builtins.list[KubeObject[V]]:
        buckets = list(self._state.by_namespace.values())
        every = max(1.0, sum(map(len, buckets)) / size)
        sample: list[KubeObject[V]] = []
        end, chosen = 0, every / 2  # every n-th object of all namespaces in a row is chosen
        for bucket in buckets:
            end += len(bucket)
            taken = max(0, math.ceil((end - chosen) / every))
            chosen += taken * every
            if taken:  # `chain` makes the iterator within the copy: the loop changes the buckets
                sample += list(islice(chain(bucket.values()), taken - taken // 2))
                newest = chain.from_iterable(map(reversed, (bucket.values(),)))
                sample += list(islice(newest, taken // 2))
        return sample

    def snapshot(self) -> MappingProxyType[str, KubeObject[V]]:
        """Return the objects by key as they are until the next complete list; not a copy.

        It is another mapping after each complete list, and cannot be written to.
        """
        return self._state.shown

    def by_index(self, name: str, value: IndexValue) -> builtins.list[KubeObject[V]]:
        """Return the objects that have a value, without looking at any other.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        wanted, changing = text_of(value), self._changing
        if not changing[0]:
            bucket = find_index(self._state.indexes, name).buckets.get(wanted)
            found = [] if bucket is None else list(bucket.values())
            # A change that was half done at the copy began after the first check and ended before
            # the second, so the copy is of a moment within this read.
            if not changing[0]:
                return found
        return self.snapshot_reader.under(name, wanted, {}).objects

    @property
    def snapshot_reader(self) -> SnapshotReader[V]:
        """Reads several of this cache's mappings at one moment."""
        return SnapshotReader((self,))

    def index_values(self, name: str) -> builtins.list[str]:
        """Return the values by which some object can be found at this moment.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        changing = self._changing
        if not changing[0]:
            found = list(find_index(self._state.indexes, name).buckets)
            if not changing[0]:
                return found
        return self.snapshot_reader.values(name, {}).present()

    def values_of(self, name: str, obj: KubeObject[V]) -> tuple[str, ...]:
        """Return the values that an index has for an object, cached or not.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        return values_of(find_index(self._state.indexes, name), obj)

    def is_under(self, name: str, value: IndexValue, obj: KubeObject[V]) -> bool:
        """Return whether an index has an object, cached or not, under a value.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        return has_value(find_index(self._state.indexes, name), obj, text_of(value))

    @property
    def has_index_functions(self) -> bool:
        """Whether an index uses a function of the user."""
        return any(index.is_function for index in self._state.others)

    def reindex(self, key: str) -> builtins.list[str]:
        """Return the indexes whose function returns other values for an object than before.

        The object is moved to its new values. A function that now returns fewer values is not
        noticed. Called on the loop, like every write.
        """
        state = self._state
        obj = state.items.get(key)
        if obj is None:
            return []
        changed: list[str] = []
        for index in state.others:
            if not index.is_function:
                continue
            placement = read_again(index, obj)
            if index.has_misplaced(key, placement):
                self._changing[0] = key
                index.move(key, placement, obj)
                changed.append(index.name)
        self._changing[0] = ""
        return changed

    def indexes(self) -> tuple[IndexStatistics, ...]:
        """Return the statistics of every index."""
        return tuple(index.statistics() for index in list(self._state.indexes.values()))

    def apply_nowait(self, event: Event[V]) -> None:
        """Apply one change to the cache.

        Args:
            event: the change; the `old` of an update is the object that the cache holds.
        """
        if isinstance(event, Updated):
            self.update_nowait(event.old, event.new)
        elif isinstance(event, Added):
            self._add(event.object._key, event.object)
        else:
            self._remove(event.last_known._key)

    def update_nowait(self, old: KubeObject[V], new: KubeObject[V]) -> None:
        """Put an object in the place of the one that the cache holds; the hot path of all events.

        Args:
            old: what the cache holds.
            new: the same object, later.
        """
        state, key, changing = self._state, old._key, self._changing
        changing[0] = key
        moved: list[tuple[Index[V], Placement, Placement]] | None = None
        try:  # without a call of the index: the namespace is a part of the key
            state.by_namespace[old.metadata.namespace][key] = new
        except KeyError:  # the cache does not hold `old`
            state.by_namespace[old.metadata.namespace] = {key: new}
        for index in state.others:
            read = index.read
            try:
                value = read(old)
                if value.__class__ is str and (index.is_fixed or value == read(new)):
                    index.buckets[value][key] = new
                    continue
            except ENDS_PROGRAM:
                raise
            except BaseException:  # noqa: BLE001, S110 - user code; read again below, within the fence
                pass
            after, before = read_fenced(index, new), read_again(index, old)
            index.place(key, after, new)
            moved = moved or []
            moved.append((index, before, after))
        if state.label_indexes is not None:
            held = state.items.get(key)
            if held is None or held.metadata.labels is not new.metadata.labels:
                self._record(state, key, held, new)
        state.items[key] = new
        if moved is not None:
            for index, before, after in moved:
                index.displace(key, before, after)
        changing[0] = ""

    def _add(self, key: str, new: KubeObject[V]) -> None:
        state = self._state
        old = state.items.get(key)
        if old is not None:  # added twice: its old values must not stay behind
            self.update_nowait(old, new)
            return
        self._changing[0] = key
        for index in state.indexes.values():
            index.place(key, read_fenced(index, new), new)
        self._record(state, key, None, new)
        state.items[key] = new
        self._changing[0] = ""

    def _remove(self, key: str) -> None:
        state = self._state
        self._changing[0] = key
        old = state.items.pop(key, None)
        if old is not None:
            self._record(state, key, old, None)
            for index in state.indexes.values():
                index.displace(key, read_again(index, old), None)
        self._changing[0] = ""

    @staticmethod
    def _record(
        state: State[V], key: str, old: KubeObject[V] | None, new: KubeObject[V] | None
    ) -> None:
        """Record a change for the label indexes; drop them if they are not read any more."""
        indexes = state.label_indexes
        if indexes is not None and not indexes.record_nowait(key, old, new):
            state.label_indexes = None

    def replace_nowait(
        self,
        objects: Mapping[str, KubeObject[V]],
        resource_version: str,
        *,
        ended_nowait: Callable[[], Mapping[str, OverlayEntry[V]]] = lambda: NO_WRITES,
    ) -> Iterator[None]:
        """Take a complete list: prepare it in short steps, then swap it in within one step.

        The cache keeps the mapping if it is a dict. Until the iterator ends nothing changes for
        readers; abandoning it earlier leaves everything as it was.

        Args:
            objects: the objects by key.
            resource_version: the list's.
            ended_nowait: returns the own writes, by key, that this list replaces for readers.
        """
        items = objects if isinstance(objects, dict) else dict(objects)
        indexes = {name: index.empty_copy() for name, index in self._state.indexes.items()}
        for number, (key, obj) in enumerate(items.items(), start=1):
            for index in indexes.values():
                index.place(key, read_fenced(index, obj), obj)
            if number % _SLICE == 0:
                yield
        self._adopt(items, indexes, ended_nowait())
        self.resource_version = resource_version

    def _adopt(
        self,
        items: dict[str, KubeObject[V]],
        indexes: dict[str, Index[V]],
        ended: Mapping[str, OverlayEntry[V]],
    ) -> None:
        for name, index in self._state.indexes.items():
            if name not in indexes:  # added while the list was being prepared
                indexes[name] = late = index.empty_copy()
                for key, obj in items.items():
                    late.place(key, read_fenced(late, obj), obj)
        self._state = State(items, indexes, ended)
        self.generation += 1

    def bookmark_nowait(self, resource_version: str) -> None:
        """Record that the cache is complete up to this resource version."""
        self.resource_version = resource_version
        indexes = self._state.label_indexes
        if indexes is not None and not indexes.on_bookmark():
            self._state.label_indexes = None
