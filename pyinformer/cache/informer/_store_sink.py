"""The sink of the reflector: writes each change to the cache, then hands it to the receivers.

The cache always holds a change before a receiver gets it. A complete list becomes the differences
to what was cached, deletions first; a receiver that is attached while they are handed over has the
new state already and gets none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, final

from pyinformer.cache.deltas import DeltaFIFO, DeltaType, RealFIFO, differences, events_of
from pyinformer.cache.informer.delivery import CacheContents, Receiver
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, V

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyinformer.cache.informer._own_write_progress import Freshness
    from pyinformer.cache.informer._settings import QueueKind
    from pyinformer.cache.reflector import Sink
    from pyinformer.cache.store import Indexer

_SLICE = 128  # events per step: a step stays far below the reader's time budget
_FREED_SLICE = 512  # objects freed per step: half a millisecond
_Announcement: TypeAlias = tuple[Iterator[Event[V] | None], tuple[Callable[[Event[V]], None], ...]]
"""Events that are handed over in short steps, and to which receivers."""


class SinkOwner(Protocol):
    """What a sink asks and reports."""

    @property
    def announces(self) -> bool:
        """Whether the first list is handed over as additions, one by one, not as a whole.

        So it is once receivers have had the objects of another cache.
        """
        ...

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is taken over begins a new epoch of the server's history."""
        ...

    def on_synced(self) -> None:
        """Record that the first list is in the cache, and again that it has been announced."""
        ...

    def on_crash(self, error: Exception) -> None:
        """Record a bug: the cache or a receiver failed, which user code cannot cause.

        The error reaches the reflector, which would retry; but receivers behind the failed one
        have missed the change, so the informer must end.
        """
        ...


@final
class StoreSink(Generic[V]):
    """Writes to the cache and feeds the receivers.

    Args:
        indexer: the cache.
        owner: what the sink asks and reports.
        selective: a selector is in force: an object that leaves by a list may still exist.
        freshness: follows how far the cache has caught up with own writes; None for no reads of
            own writes.
    """

    def __init__(
        self,
        indexer: Indexer[V],
        owner: SinkOwner,
        *,
        selective: bool = False,
        freshness: Freshness[V] | None = None,
    ) -> None:
        self._indexer = indexer
        self._owner = owner
        self._announcement: _Announcement[V] | None = None
        self._announced = asyncio.Event()
        self._freshness = freshness
        # Nearly always all are empty, so an event costs three truth tests.
        self._written: Collection[str] = () if freshness is None else freshness.overlay.entries
        self._waiters: Collection[object] = () if freshness is None else freshness.barrier.waiters
        self._seen: Collection[object] = () if freshness is None else freshness.overlay.seen
        self._selective = selective
        self._receivers: tuple[Receiver[V], ...] = ()
        self._puts: tuple[Callable[[Event[V]], None], ...] = ()
        self._update = indexer.update_nowait
        self.get: Callable[[str], KubeObject[V] | None] = indexer.get
        self.keys: Callable[[], list[str]] = indexer.keys
        self.has_synced: bool = False
        """Whether the cache has held everything at least once."""
        self.has_announced: bool = False
        """Whether the receivers have been given the whole first list."""

    @property
    def is_announcing(self) -> bool:
        """Whether receivers have been given only a part of the list that the cache holds."""
        return self._announcement is not None

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is taken over begins a new epoch of the server's history."""
        return self._owner.is_resetting

    def announced(self) -> list[KubeObject[V]]:
        """Return what is cached, once it has synced."""
        return self._indexer.list() if self.has_synced else []

    async def wait_announced(self) -> None:
        """Wait until the receivers know what the cache holds.

        Cancellation:
            Safe.
        """
        while self._announcement is not None:
            await self._announced.wait()

    def attach(self, receiver: Receiver[V], *, preload: bool = True) -> None:
        """Feed a receiver from now on; with `preload`, what is cached comes first."""
        self._set((*self._receivers, receiver))
        if preload and self.has_synced:
            receiver.preload_nowait(CacheContents(self._indexer.list()))
            receiver.on_initial_list_complete()

    def detach(self, receiver: Receiver[V]) -> None:
        """Stop feeding a receiver."""
        self._set(tuple(known for known in self._receivers if known is not receiver))

    def _set(self, receivers: tuple[Receiver[V], ...]) -> None:
        self._receivers = receivers
        # Receivers get nothing before the first sync, and then everything as a preload.
        self._puts = tuple(r.put_nowait for r in receivers) if self.has_synced else ()

    def apply_nowait(self, event: Event[V]) -> None:
        """Apply one change to the cache, then hand it to the receivers."""
        try:
            if event.__class__ is Updated:
                self._update(event.old, event.new)
            else:
                self._indexer.apply_nowait(event)
            if self._written or self._waiters or self._seen:
                self._changed(event)
            for put in self._puts:
                put(event)
        except Exception as error:
            self._owner.on_crash(error)
            raise

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Report to receivers that reads no longer show a state that no event reports."""
        for receiver in self._receivers:
            receiver.on_missed_state(was, now)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Record that nothing else changed up to this resource version."""
        self._indexer.bookmark_nowait(resource_version)
        self._confirmed(resource_version)

    def passed_nowait(self, resource_version: str) -> None:
        """Record that the position has passed the deletion of an object that is not here."""
        self._indexer.bookmark_nowait(resource_version)
        if self._freshness is not None and (self._written or self._waiters):
            self._freshness.overlay.sweep()
            self._freshness.barrier.advance_nowait()

    def _changed(self, event: Event[V]) -> None:
        if self._freshness is not None:
            self._freshness.overlay.observe(event)
            self._freshness.barrier.advance_nowait()

    def _confirmed(self, resource_version: str, *, is_list: bool = False) -> None:
        if self._freshness is not None and (self._written or self._waiters):
            self._freshness.overlay.confirm(resource_version, is_list=is_list)
            self._freshness.barrier.advance_nowait()

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterator[None]:
        """Apply a complete list in short steps: prepare, swap, announce the differences."""
        before = self._indexer.snapshot()
        replaced: list[KubeObject[V]] = []
        try:
            yield from self._swap(objects, resource_version)
            if self.has_synced:
                events = differences(
                    before,
                    objects,
                    may_still_exist=self._selective,
                    may_go_back=self._owner.is_resetting,
                )
                yield from self._announce(events, replaced)
            yield from self._complete(resource_version)
        except Exception as error:
            self._owner.on_crash(error)
            raise
        # Freeing all of 100,000 objects at once would block the loop for 90 ms.
        del before
        while replaced:
            del replaced[-_FREED_SLICE:]
            yield

    def _swap(self, objects: Mapping[str, KubeObject[V]], resource_version: str) -> Iterator[None]:
        freshness = self._freshness
        if freshness is None:
            yield from self._indexer.replace_nowait(objects, resource_version)
            return
        yield from self._indexer.replace_nowait(
            objects,
            resource_version,
            ended_nowait=lambda: freshness.ended_by(objects, resource_version),
        )
        freshness.swapped_nowait()  # before handlers read: they must find the list

    def begin_epoch_nowait(self) -> None:
        """Drop the own writes of the last epoch: from now on events may go back in time."""
        if self._freshness is not None:
            self._freshness.begin_epoch_nowait()

    def complete_nowait(self, resource_version: str) -> None:
        """Record that the cache is complete; the first time, announce what is in it."""
        try:
            for _ in self._complete(resource_version):
                pass
        except Exception as error:
            self._owner.on_crash(error)
            raise

    def _complete(self, resource_version: str) -> Iterator[None]:
        self._indexer.bookmark_nowait(resource_version)
        if self._freshness is not None:
            self._freshness.overlay.learn_order()
        self._confirmed(resource_version, is_list=True)
        if self.has_synced:
            return
        # The reflector changes nothing between these steps. All receivers share one copy: walking
        # over a million objects takes 40 ms.
        contents: CacheContents[V] = CacheContents()
        yield from contents.fill(self._indexer.snapshot().values())
        self.has_synced = True
        self._owner.on_synced()
        self._set(self._receivers)
        if self._owner.announces:
            yield from self._announce(Added(obj, is_in_initial_list=True) for obj in contents)
            self.has_announced = True
            self._owner.on_synced()
            return
        self.has_announced = True
        receivers = self._receivers  # one that is added meanwhile is preloaded by `attach`
        for receiver in receivers:
            receiver.preload_nowait(contents)
        for receiver in receivers:
            receiver.on_initial_list_complete()

    def leave_nowait(self, *, may_still_exist: bool = True) -> Iterator[None]:
        """Announce the deletion of every object, in short steps, after the reflector has ended.

        An announcement that was cut off in the middle of a list is completed first, so that every
        receiver sees the whole life of an object.

        Args:
            may_still_exist: what every deletion says; False if the namespace itself is gone.
        """
        if self._announcement is not None:
            yield from self._continue_announcing(*self._announcement)
        if self.has_synced:
            objects = self._indexer.list()
            yield from self._announce(
                Deleted(obj, final_state_unknown=True, may_still_exist=may_still_exist)
                for obj in objects
            )

    def _announce(
        self, events: Iterator[Event[V] | None], replaced: list[KubeObject[V]] | None = None
    ) -> Iterator[None]:
        # A receiver that is attached between two steps has the new state already.
        self._announcement = (events, self._puts)
        self._announced = asyncio.Event()
        yield from self._continue_announcing(events, self._puts, replaced)

    def _continue_announcing(
        self,
        events: Iterator[Event[V] | None],
        puts: tuple[Callable[[Event[V]], None], ...],
        replaced: list[KubeObject[V]] | None = None,
    ) -> Iterator[None]:
        for number, event in enumerate(events, start=1):
            if event is not None:
                if replaced is not None and not isinstance(event, Added):
                    replaced.append(event.old if isinstance(event, Updated) else event.last_known)
                for put in puts:
                    put(event)
            if number % _SLICE == 0:
                yield
        self._announcement = None
        self._announced.set()


@final
class QueuedSink(Generic[V]):
    """One of client-go's queues between the reflector and the cache, for its semantics.

    What arrives is queued, taken out and applied within one step, so the guard never judges a key
    that has deltas queued.

    Args:
        queue: the queue.
        sink: where its deltas are applied.
        selective: a selector is in force: an object that leaves may still exist.
    """

    def __init__(
        self, queue: RealFIFO[V] | DeltaFIFO[V], sink: StoreSink[V], *, selective: bool = False
    ) -> None:
        self._queue = queue
        self._sink = sink
        self._selective = selective
        self.get = sink.get
        self.keys = sink.keys

    def apply_nowait(self, event: Event[V]) -> None:
        """Queue one change and apply it."""
        self._queue.apply_nowait(event)
        for _ in self._drain():
            pass

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[V]], resource_version: str
    ) -> Iterator[None]:
        """Queue a complete list and apply it in short steps."""
        yield from self._queue.replace_nowait(objects, resource_version)
        yield from self._drain()
        self._sink.complete_nowait(resource_version)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Queue a bookmark and apply it."""
        self._queue_position(resource_version)
        self._sink.bookmark_nowait(resource_version)

    def passed_nowait(self, resource_version: str) -> None:
        """Queue that position as a bookmark and apply it."""
        self._queue_position(resource_version)
        self._sink.passed_nowait(resource_version)

    def _queue_position(self, resource_version: str) -> None:
        self._queue.bookmark_nowait(resource_version)
        for _ in self._drain():
            pass

    def _drain(self) -> Iterator[None]:
        may_go_back = self._sink.is_resetting
        if may_go_back and isinstance(self._queue, DeltaFIFO):  # applies a list piece by piece
            self._sink.begin_epoch_nowait()
        for delta in self._queue.drain_nowait():
            if delta.type is DeltaType.REPLACED_ALL:
                yield from self._sink.replace_nowait(delta.objects, delta.resource_version)
                continue
            events = events_of(
                delta, self._sink, may_still_exist=self._selective, may_go_back=may_go_back
            )
            for event in events:
                self._sink.apply_nowait(event)
                yield


def make_sink(kind: QueueKind, sink: StoreSink[V], *, selective: bool = False) -> Sink[V]:
    """Return the sink for a reflector: the store sink, behind a queue if one is requested.

    Args:
        kind: `direct` for the store sink itself, or the queue of client-go in front of it.
        sink: fills the cache, and calls receivers.
        selective: whether a selector may hide objects that still exist.

    Returns:
        What the reflector feeds. Each change reaches the store sink before its call returns, and
        a list in the steps of its iterator, whatever the kind.
    """
    if kind == "direct":
        return sink
    queue: RealFIFO[V] | DeltaFIFO[V] = (
        RealFIFO(known_objects=sink) if kind == "real_fifo" else DeltaFIFO(known_objects=sink)
    )
    return QueuedSink(queue, sink, selective=selective)
