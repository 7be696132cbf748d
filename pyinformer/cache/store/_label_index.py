"""Indexes by label, which lists by selector make and use.

A bucket has the keys of objects, not the objects: a change that keeps an object's labels changes
no bucket. The writer records other changes in a log, and readers apply it before they read; a cache
from which no program selects has neither.
"""

from __future__ import annotations

from itertools import chain, compress
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, final

from pyinformer.objects import KubeObject, Labels, V

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.objects import LabelRequirement

LabelChange: TypeAlias = tuple[str, Labels | None, Labels | None]
"""The key of an object, and its labels before and after; None if it was, or is, not cached."""

_Bucket: TypeAlias = str | dict[str, None]
"""Keys in the order of the cache; of a single object its key, since a dict takes 200 bytes."""

_LABELS_PER_CHANGE: Final = 8  # a change with more labels counts as several: a tenant chooses them

_UNREAD_BOOKMARKS: Final = 30
"""Indexes that were not read for so many bookmarks, about half an hour, are dropped."""


@final
class LabelIndex(Generic[V]):
    """The keys of the objects that have each value of one label.

    Args:
        label: the key of the label.
        objects: the objects of the cache, in its order.
    """

    __slots__ = ("_buckets", "_label", "_size", "_unordered", "last_read")

    def __init__(self, label: str, objects: Iterable[KubeObject[V]]) -> None:
        self._label = label
        self._buckets: dict[str, _Bucket] = {}
        self._size = 0
        self._unordered: set[str] = set()  # values whose keys are not in the order of the cache
        self.last_read = 0
        """The number of the read that used it last."""
        known: dict[int, str | None] = {}  # most objects share their record of labels
        for obj in objects:
            labels = obj.metadata.labels
            number = id(labels)
            if number not in known:
                known[number] = labels.get(label)
            value = known[number]
            if value is not None:
                self._place(obj._key, value)

    def apply(self, key: str, before: Labels | None, after: Labels | None) -> None:
        """Apply a change of the cache; all changes are applied, in their order."""
        old = None if before is None else before.get(self._label)
        new = None if after is None else after.get(self._label)
        if old == new:
            return
        if old is not None:
            self._displace(key, old)
        if new is not None:
            self._place(key, new)
            if before is not None:  # it keeps its place in the cache, which is not the last one
                self._unordered.add(new)

    def _place(self, key: str, value: str) -> None:
        self._size += 1
        bucket = self._buckets.get(value)
        if bucket is None:
            self._buckets[value] = key
        elif isinstance(bucket, str):
            self._buckets[value] = {bucket: None, key: None}
        else:
            bucket[key] = None

    def _displace(self, key: str, value: str) -> None:
        self._size -= 1
        bucket = self._buckets.get(value)
        if isinstance(bucket, dict):
            bucket.pop(key, None)
        if not bucket or isinstance(bucket, str):
            self._buckets.pop(value, None)
            self._unordered.discard(value)

    def size(self, requirement: LabelRequirement) -> int:
        """Return how many objects satisfy `=`, `in` or `exists`."""
        if requirement.operator == "exists":
            return self._size
        buckets = (self._buckets.get(value, ()) for value in requirement.values)
        return sum(1 if isinstance(one, str) else len(one) for one in buckets)

    def objects(
        self, requirement: LabelRequirement, items: dict[str, KubeObject[V]]
    ) -> Iterable[KubeObject[V] | None]:
        """Return an iterable of the objects that satisfy `=`, `in` or `exists`, in cache order.

        It has None for an object whose removal is still in the log, or under way.

        Raises:
            RuntimeError: the cache changed its size meanwhile; the read must be repeated.
        """
        if requirement.operator == "exists":
            return _in_order(self._buckets.values(), items)
        if len(requirement.values) > 1:
            found = (self._buckets.get(value, {}) for value in requirement.values)
            return _in_order(found, items)
        (value,) = requirement.values
        if value in self._unordered:
            self._put_in_order(value, items)
        bucket = self._buckets.get(value, ())
        keys = (bucket,) if isinstance(bucket, str) else bucket
        return map(items.get, keys)

    def _put_in_order(self, value: str, items: dict[str, KubeObject[V]]) -> None:
        bucket = self._buckets[value]
        if isinstance(bucket, dict):
            self._buckets[value] = dict.fromkeys(filter(bucket.__contains__, items))
        self._unordered.discard(value)


def _in_order(
    buckets: Iterable[_Bucket], items: dict[str, KubeObject[V]]
) -> Iterable[KubeObject[V]]:
    keys = ((one,) if isinstance(one, str) else one for one in buckets)
    wanted = set(chain.from_iterable(keys))
    return compress(items.values(), map(wanted.__contains__, items))


@final
class LabelIndexes(Generic[V]):
    """The label indexes over the objects of one state of a cache, and their log.

    Args:
        max_changes: the longest log. Indexes that are not read during so many are dropped.
    """

    __slots__ = ("_logged", "_max_changes", "_unread_bookmarks", "by_label", "changes")

    def __init__(self, max_changes: int) -> None:
        self.by_label: dict[str, LabelIndex[V]] = {}
        """The indexes; readers change them, with the lock of the cache's LabelQueries."""
        self.changes: list[LabelChange] = []
        """What the indexes do not have yet, oldest first; the writer appends, readers remove."""
        self._max_changes = max_changes
        self._logged = 0  # since a reader was here; approximate, since two threads change it
        self._unread_bookmarks = 0

    def record_nowait(
        self, key: str, before: KubeObject[V] | None, after: KubeObject[V] | None
    ) -> bool:
        """Record a change, called by the writer; return whether the indexes are still worth it."""
        old = None if before is None else before.metadata.labels
        new = None if after is None else after.metadata.labels
        if old is not new:
            self.changes.append((key, old, new))
            labels = (0 if old is None else len(old)) + (0 if new is None else len(new))
            self._logged += 1 + labels // (2 * _LABELS_PER_CHANGE)
        return self._logged <= self._max_changes

    def on_bookmark(self) -> bool:
        """Count a bookmark, called by the writer; return whether the indexes are still read."""
        self._unread_bookmarks += 1
        return self._unread_bookmarks <= _UNREAD_BOOKMARKS

    def catch_up(self, count: int | None = None) -> None:
        """Apply the first changes of the log, or all; called by a reader that has the lock."""
        self._unread_bookmarks = self._logged = 0
        applied = self.changes[:count]
        del self.changes[: len(applied)]
        for index in self.by_label.values():
            for change in applied:
                index.apply(*change)
