"""The base of both queues: what they share as a sink, and how consumers wait for entries.

A replay of the popped deltas gives what was put in: nothing is lost or added. Only the thread of
the loop may call a queue. Everything except `wait` and `pop` returns at once.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, final

from msgspec import Struct
from typing_extensions import TypeVar

from pyinformer._runtime.clock import monotonic
from pyinformer.cache.deltas._delta import DeletedFinalStateUnknown, Delta, DeltaType, KnownObjects
from pyinformer.cache.deltas._entry_waits import Waiters, checkpoint
from pyinformer.errors import QueueClosedError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated

V = TypeVar("V", default=None)
Item = TypeVar("Item")
"""The result of one pop: a delta, or all deltas of a key."""

_SLICE = 1_000  # objects of a list queued in one step: about 2 ms


@final
class QueueStatistics(Struct, frozen=True, gc=False):
    """A queue at one moment."""

    depth: int
    """The number of entries: deltas in a RealFIFO, keys in a DeltaFIFO."""
    peak: int
    """The largest depth so far."""
    waiters: int
    """How many coroutines wait for something to pop."""
    oldest_seconds: float
    """How long the oldest entry has been queued; 0.0 if nothing is."""


class DeltaQueue(ABC, Generic[Item, V]):
    """The base of RealFIFO and DeltaFIFO; not to be subclassed elsewhere.

    It is unbounded, since the reflector that fills it cannot wait; `statistics()` shows a consumer
    that cannot keep up.
    """

    def __init__(
        self, known_objects: KnownObjects[V] | None, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._known = known_objects
        self._clock = clock
        self._waiters = Waiters()
        self._closed = False
        self._populated = False
        self._initial_left = 0
        self._peak = 0

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def get(self, key: str) -> KubeObject[V] | None:
        """Return the newest state of a key: as queued, else as known; None if it is deleted.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """

    @abstractmethod
    def keys(self) -> list[str]:
        """Return every key for which `get` returns an object."""

    @abstractmethod
    def drain_nowait(self) -> Iterator[Delta[V]]:
        """Take one delta after the other until nothing is queued, arrivals meanwhile included.

        The loop can be left at any point; deltas that it did not reach stay queued.
        """

    @abstractmethod
    def _append(
        self, kind: DeltaType, key: str, found: KubeObject[V] | DeletedFinalStateUnknown[V]
    ) -> None: ...

    @abstractmethod
    def _replacing(
        self, objects: Iterable[KubeObject[V]], listed: Collection[str]
    ) -> Iterator[None]:
        """Queue a complete list in slices, ending with `_populate`."""

    @abstractmethod
    def _take(self) -> Item: ...

    @abstractmethod
    def _is_queued(self, key: str) -> bool: ...

    @abstractmethod
    def _oldest_at(self) -> float:
        """Return when the oldest entry was queued; there is one."""

    def _after_processing(self) -> None:
        """Record that the consumer has processed the result of `_take`."""

    def apply_nowait(self, event: Event[V]) -> None:
        """Take one change.

        Only the informer knows whether a deleted object may still exist; it passes that to
        `events_of`.

        Args:
            event: the change; the old object of an update is not kept.
        """
        match event:
            case Updated(_, new, is_resync):
                kind = DeltaType.SYNC if is_resync else DeltaType.UPDATED
                self._append(kind, new._key, new)
            case Added(new):
                self.add_nowait(new)
            case Deleted(last, final_state_unknown):
                tombstone = DeletedFinalStateUnknown(last._key, last)
                self.delete_nowait(tombstone if final_state_unknown else last)

    def add_nowait(self, obj: KubeObject[V]) -> None:
        """Queue an object that appeared."""
        self._append(DeltaType.ADDED, obj._key, obj)

    def update_nowait(self, obj: KubeObject[V]) -> None:
        """Queue an object that changed."""
        self._append(DeltaType.UPDATED, obj._key, obj)

    def delete_nowait(self, gone: KubeObject[V] | DeletedFinalStateUnknown[V]) -> None:
        """Queue an object that disappeared; one that was never known is dropped.

        Args:
            gone: its last state, or a tombstone if its deletion was missed.
        """
        key = gone.key if isinstance(gone, DeletedFinalStateUnknown) else gone._key
        if self._may_be_known(key):
            self._append(DeltaType.DELETED, key, gone)

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterable[None]:
        """Take a complete list; what is known and not in it is deleted.

        Args:
            objects: every object that exists, by key; the queue may keep the mapping.
            resource_version: the list's own.

        Returns:
            The work that remains, to be iterated to its end before anything else is queued; a
            list of up to 1,000 objects has been taken when the call returns.
        """
        work = self._replacing(objects.values(), objects.keys())
        next(work, None)
        return work

    def replace_list_nowait(self, objects: Sequence[KubeObject[V]], resource_version: str) -> None:
        """Take a complete list in its order, at once; what is known and not in it is deleted.

        Args:
            objects: every object that exists. A key may occur twice; the later one wins.
            resource_version: the list's own.
        """
        for _ in self._replacing(objects, {obj._key for obj in objects}):
            pass

    def resync_nowait(self) -> None:
        """Queue a sync of every known object that has nothing queued."""
        for key in tuple(self._known_keys()):
            found = None if self._is_queued(key) else self.get(key)
            if found is not None:
                self._append(DeltaType.SYNC, key, found)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Record that nothing changed up to this resource version."""

    def close(self) -> None:
        """Wake all waiters; consumers take what is queued, then fail. May be called again."""
        self._closed = True
        self._waiters.wake_all()

    @property
    def has_synced(self) -> bool:
        """Whether the first complete list, and what was queued before it, has been consumed."""
        return self._populated and not self._initial_left

    @property
    def is_closed(self) -> bool:
        """Whether the queue was closed; entries may still be queued."""
        return self._closed

    def pop_nowait(self) -> Item | None:
        """Take the oldest entry, or return None if nothing is queued.

        It counts as processed at once; `process_nowait` counts it later.
        """
        if not len(self):
            return None
        item = self._take()
        self._after_processing()
        return item

    def process_nowait(self, process: Callable[[Item], None]) -> bool:
        """Take the oldest entry and process it; return False if nothing is queued.

        Args:
            process: called with the entry. If it raises, the entry is gone nevertheless.

        Source:
            client-go tools/cache/the_real_fifo.go and delta_fifo.go, Pop.
        """
        if not len(self):
            return False
        item = self._take()
        try:
            process(item)
        finally:
            self._after_processing()
        return True

    async def wait(self) -> None:
        """Wait until something is queued, for a consumer who then drains at once.

        Raises:
            QueueClosedError: after close(), once the queue is empty.

        Cancellation:
            Safe; it takes nothing.
        """
        await checkpoint()  # a queue that is never empty must not keep the loop for itself
        while not len(self):
            if self._closed:
                raise QueueClosedError("the queue is closed and empty: nothing more will come")
            await self._waiters.wait()

    async def pop(self) -> Item:
        """Wait for the oldest entry and take it.

        Apply the entry to the known objects before the next await: until then it is in neither of
        the two.

        Returns:
            The entry; it counts as processed at once.

        Raises:
            QueueClosedError: after close(), once the queue is empty.

        Cancellation:
            Safe; a cancelled pop takes nothing.

        Source:
            client-go tools/cache/the_real_fifo.go, Pop.
        """
        await self.wait()
        item = self._take()
        self._after_processing()
        return item

    def statistics(self, now: float) -> QueueStatistics:
        """Return the queue's figures.

        Args:
            now: the time of the queue's clock.
        """
        oldest_seconds = max(0.0, now - self._oldest_at()) if len(self) else 0.0
        return QueueStatistics(len(self), self._peak, len(self._waiters), oldest_seconds)

    def _grown(self) -> None:
        self._peak = max(self._peak, len(self))
        self._waiters.wake_one()

    def _known_keys(self) -> Iterable[str]:
        return () if self._known is None else self._known.keys()

    def _may_be_known(self, key: str) -> bool:
        return self._is_queued(key) or self.get(key) is not None

    def _known_beside(self, listed: Collection[str]) -> list[DeletedFinalStateUnknown[V]]:
        """Return tombstones of known objects that are neither queued nor listed."""
        return [
            DeletedFinalStateUnknown(key, self.get(key))
            for key in tuple(self._known_keys())
            if key not in listed and not self._is_queued(key)
        ]

    def _queue_listed(self, objects: Iterable[KubeObject[V]]) -> Iterator[None]:
        left = _SLICE
        for obj in objects:
            if not left:
                left = _SLICE
                yield
            left -= 1
            self._append(DeltaType.REPLACED, obj._key, obj)

    def _populate(self) -> None:
        if not self._populated:
            self._populated = True
            self._initial_left = len(self)

    def _count_down(self) -> None:
        if self._initial_left:
            self._initial_left -= 1
