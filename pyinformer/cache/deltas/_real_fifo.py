"""The queue in order of arrival, over all keys: nothing is merged, nothing overtakes.

With `atomic_events` a complete list is one delta, which is compared with the store when it is
processed. Otherwise it is compared with the known objects when it is queued, and becomes a delta
for each deletion and each object.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import final

from pyinformer._runtime.clock import monotonic
from pyinformer.cache.deltas._base_queue import DeltaQueue, V
from pyinformer.cache.deltas._delta import (
    DeletedFinalStateUnknown,
    Delta,
    DeltaType,
    KnownObjects,
    last_state,
    overlay_keys,
)
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import KubeObject

_BATCH_LIMIT = 1_000  # upstream's batchSize; a batch is one transaction of the store
_CONCERNS_ALL = frozenset({DeltaType.REPLACED_ALL, DeltaType.SYNC_ALL, DeltaType.BOOKMARK})


@final
class RealFIFO(DeltaQueue[Delta[V], V]):
    """Every delta in order of arrival; one pop gives one delta.

    `has_synced` becomes true after the last delta of the first complete list was processed, not
    when it was popped: see `process_nowait` and `drain_nowait`.

    Args:
        known_objects: the consumer's store. `get` reads it for keys that have nothing queued, and
            deletions of unknown objects are dropped. Without it such deletions are queued, and
            `events_of` drops them.
        atomic_events: complete lists, resyncs and bookmarks are one delta each. If False, they
            are compared with `known_objects` when they are queued, and bookmarks are dropped.
        clock: the clock of `statistics(now)`.

    Raises:
        InvalidArgumentError: `known_objects` is needed and missing.

    Source:
        client-go tools/cache/the_real_fifo.go.
    """

    def __init__(
        self,
        *,
        known_objects: KnownObjects[V] | None = None,
        atomic_events: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if known_objects is None and not atomic_events:
            reason = (
                "must be given without atomic_events: a list is compared with the known objects"
            )
            raise InvalidArgumentError("known_objects", reason)
        super().__init__(known_objects, clock=clock)
        self._atomic = atomic_events
        self._deltas: deque[Delta[V]] = deque()
        self._times: deque[float] = deque()
        # The newest queued delta of each key, and the newest queued list that it follows.
        self._newest: dict[str, Delta[V]] = {}
        self._whole: Delta[V] | None = None

    def __len__(self) -> int:
        return len(self._deltas)

    def get(self, key: str) -> KubeObject[V] | None:
        """Return the newest state of a key: as queued, else as known; None if it is deleted.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        newest = self._newest.get(key)
        if newest is not None:
            is_deleted = newest.type is DeltaType.DELETED
            return None if is_deleted else last_state(newest)
        if self._whole is not None:
            return self._whole.objects.get(key)
        return None if self._known is None else self._known.get(key)

    def keys(self) -> list[str]:
        """Return every key for which `get` returns an object."""
        keys = dict.fromkeys(self._whole.objects if self._whole else self._known_keys())
        overlay_keys(keys, self._newest)
        return list(keys)

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterable[None]:
        """Take a complete list; what is known and not in it is deleted.

        Args:
            objects: every object that exists, by key; the queue may keep the mapping.
            resource_version: the list's own.

        Returns:
            The work that remains, to be iterated to its end before anything else is queued;
            none if it is one delta.
        """
        if not self._atomic:
            return super().replace_nowait(objects, resource_version)
        initial = not self._populated
        whole = Delta(DeltaType.REPLACED_ALL, None, objects, resource_version, initial)
        self._enqueue(whole)
        self._newest.clear()  # whatever is queued of a key, the list is newer
        self._whole = whole
        self._populate()
        return ()

    def replace_list_nowait(self, objects: Sequence[KubeObject[V]], resource_version: str) -> None:
        """Take a complete list in its order, at once; what is known and not in it is deleted.

        Args:
            objects: every object that exists. A key may occur twice; the later one wins.
            resource_version: the list's own.
        """
        if self._atomic:
            self.replace_nowait({obj._key: obj for obj in objects}, resource_version)
        else:
            super().replace_list_nowait(objects, resource_version)

    def _replacing(
        self, objects: Iterable[KubeObject[V]], listed: Collection[str]
    ) -> Iterator[None]:
        for key, newest in tuple(self._newest.items()):
            if key not in listed and newest.type is not DeltaType.DELETED:
                tombstone = DeletedFinalStateUnknown(key, last_state(newest))
                self._append(DeltaType.DELETED, key, tombstone)
        for tombstone in self._known_beside(listed):
            self._append(DeltaType.DELETED, tombstone.key, tombstone)
        yield from self._queue_listed(objects)
        self._populate()

    def resync_nowait(self) -> None:
        """Queue a sync of everything, or of every known object that has nothing queued."""
        if self._atomic:
            self._enqueue(Delta(DeltaType.SYNC_ALL, is_in_initial_list=not self._populated))
        else:
            super().resync_nowait()

    def bookmark_nowait(self, resource_version: str) -> None:
        """Queue a bookmark, in order with the changes that it confirms.

        Args:
            resource_version: up to where nothing else changed.
        """
        if self._atomic:
            initial = not self._populated
            kind = DeltaType.BOOKMARK
            self._enqueue(
                Delta(kind, resource_version=resource_version, is_in_initial_list=initial)
            )

    def drain_nowait(self) -> Iterator[Delta[V]]:
        """Take one delta after the other until nothing is queued, arrivals meanwhile included.

        The loop can be left at any point; deltas that it did not reach stay queued. A delta counts
        as processed when the next one is taken, or the loop is left.
        """
        while self._deltas:
            delta = self._take()
            try:
                yield delta
            finally:
                self._after_processing()

    def pop_batch_nowait(self, limit: int = _BATCH_LIMIT) -> tuple[Delta[V], ...]:
        """Take the deltas that can be applied to a store as one transaction; none if empty.

        A batch ends before the second delta of a key, before the first one after the initial
        list, and around what concerns the whole cache, which comes alone.

        Args:
            limit: the largest number of deltas, at least 1.

        Returns:
            The deltas in order; they count as processed at once.

        Source:
            client-go tools/cache/the_real_fifo.go, PopBatch.
        """
        if limit < 1:
            raise InvalidArgumentError("limit", f"must be at least 1, got {limit}")
        batch = tuple(self._take() for _ in range(self._batch_size(limit)))
        for _ in batch:
            self._after_processing()
        return batch

    def _batch_size(self, limit: int) -> int:
        if not self._deltas:
            return 0
        initial = self._deltas[0].is_in_initial_list
        keys = set[str]()
        for delta in self._deltas:
            if delta.type in _CONCERNS_ALL:
                return len(keys) or 1
            if len(keys) == limit or delta.key in keys or delta.is_in_initial_list is not initial:
                break
            keys.add(delta.key)
        return len(keys)

    def _append(
        self, kind: DeltaType, key: str, found: KubeObject[V] | DeletedFinalStateUnknown[V]
    ) -> None:
        delta = Delta(kind, found, is_in_initial_list=not self._populated)
        self._newest[key] = delta
        self._enqueue(delta)

    def _enqueue(self, delta: Delta[V]) -> None:
        self._deltas.append(delta)
        self._times.append(self._clock())
        self._grown()

    def _take(self) -> Delta[V]:
        delta = self._deltas.popleft()
        self._times.popleft()
        if delta is self._whole:
            self._whole = None
        elif self._newest.get(delta.key) is delta:
            del self._newest[delta.key]
        return delta

    def _is_queued(self, key: str) -> bool:
        return key in self._newest

    def _may_be_known(self, key: str) -> bool:
        return self._known is None or super()._may_be_known(key)

    def _oldest_at(self) -> float:
        return self._times[0]

    def _after_processing(self) -> None:
        self._count_down()
