"""The queue by key: keys in order of first arrival, each with all its deltas.

A key keeps its place while more deltas are queued for it, so a busy object does not delay others,
and one pop returns all its deltas. Repeated deletions are merged; other deltas are not.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias, final

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
from pyinformer.objects import KubeObject

Deltas: TypeAlias = tuple[Delta[V], ...]
"""All queued deltas of one key, oldest first; never empty."""


@final
class DeltaFIFO(DeltaQueue[Deltas[V], V]):
    """All deltas of a key together; one pop gives one key.

    `has_synced` becomes true when the last key of the first complete list is popped, before it is
    processed.

    Args:
        known_objects: the consumer's store. `get` reads it for keys that have nothing queued, and
            a list is compared with it. Without it only queued objects are known: a deletion of
            any other object is dropped.
        clock: the clock of `statistics(now)`.

    Source:
        client-go tools/cache/delta_fifo.go.
    """

    def __init__(
        self,
        *,
        known_objects: KnownObjects[V] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(known_objects, clock=clock)
        self._items: OrderedDict[str, list[Delta[V]]] = OrderedDict()
        self._times: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> KubeObject[V] | None:
        """Return the newest state of a key: as queued, else as known; None if it is deleted.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        deltas = self._items.get(key)
        if deltas is None:
            return None if self._known is None else self._known.get(key)
        newest = deltas[-1]
        if newest.type is DeltaType.DELETED:
            return None
        return last_state(newest)

    def keys(self) -> list[str]:
        """Return every key for which `get` returns an object."""
        keys = dict.fromkeys(self._known_keys())
        overlay_keys(keys, {key: deltas[-1] for key, deltas in self._items.items()})
        return list(keys)

    def _replacing(
        self, objects: Iterable[KubeObject[V]], listed: Collection[str]
    ) -> Iterator[None]:
        yield from self._queue_listed(objects)
        for key, deltas in self._items.items():
            if key not in listed:
                tombstone = DeletedFinalStateUnknown(key, last_state(deltas[-1]))
                self._append(DeltaType.DELETED, key, tombstone)
        for tombstone in self._known_beside(listed):
            self._append(DeltaType.DELETED, tombstone.key, tombstone)
        self._populate()

    def drain_nowait(self) -> Iterator[Delta[V]]:
        """Take one delta after the other until nothing is queued, arrivals meanwhile included.

        The loop can be left at any point; deltas that it did not reach stay queued.
        """
        while self._items:
            deltas = next(iter(self._items.values()))
            if len(deltas) > 1:
                yield deltas.pop(0)
            else:
                yield from self._take()

    def _append(
        self, kind: DeltaType, key: str, found: KubeObject[V] | DeletedFinalStateUnknown[V]
    ) -> None:
        deltas = self._items.get(key)
        if deltas is None:
            self._items[key] = [Delta(kind, found, is_in_initial_list=not self._populated)]
            self._times[key] = self._clock()
            self._grown()
            return
        delta = Delta(kind, found, is_in_initial_list=deltas[0].is_in_initial_list)
        if not (kind is deltas[-1].type is DeltaType.DELETED):
            deltas.append(delta)
        elif isinstance(found, KubeObject):  # a final state is better than a tombstone
            deltas[-1] = delta

    def _take(self) -> Deltas[V]:
        key, deltas = self._items.popitem(last=False)
        del self._times[key]
        self._count_down()
        return tuple(deltas)

    def _is_queued(self, key: str) -> bool:
        return key in self._items

    def _oldest_at(self) -> float:
        return self._times[next(iter(self._items))]
