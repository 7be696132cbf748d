"""From the record to the handler: queues of deltas, indexer, distribution, mailbox, listener.

Every pass begins with fresh state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from benchmarks.stations.material import Material, PodView
from benchmarks.stations.registry import Work, station
from pyinformer._runtime.tasks import UserTasks
from pyinformer.cache.deltas import DeltaFIFO, RealFIFO
from pyinformer.cache.informer import Handler, StoreSink
from pyinformer.cache.informer.delivery import Listener, Mailbox
from pyinformer.cache.store import Indexer
from pyinformer.objects import Event, KubeObject

_MORE_INDEXES = ("spec.nodeName", "status.phase", "metadata.name", "metadata.uid")


@station("real-fifo")
def real_fifo(material: Material) -> Work:
    """Queue an update and take it, in order of arrival."""
    return _fifo(RealFIFO(known_objects=_indexer(material, 0)), material)


@station("delta-fifo")
def delta_fifo(material: Material) -> Work:
    """Queue an update and take it, by key."""
    return _fifo(DeltaFIFO(known_objects=_indexer(material, 0)), material)


def _fifo(queue: RealFIFO[PodView] | DeltaFIFO[PodView], material: Material) -> Work:
    events = material.events

    def work() -> int:
        for event in events:
            queue.apply_nowait(event)
        for _ in queue.drain_nowait():
            pass
        return len(events)

    return work


@station("indexer-0")
def indexer_0(material: Material) -> Work:
    """Put an update into the cache, which is always indexed by namespace."""
    return _apply(_indexer(material, 0), material)


@station("indexer-1")
def indexer_1(material: Material) -> Work:
    """Put an update into the cache, with an index by a path of the projection."""
    return _apply(_indexer(material, 1), material)


@station("indexer-5")
def indexer_5(material: Material) -> Work:
    """Put an update into the cache, with five: four paths, and a function of the user's."""
    indexer = _indexer(material, len(_MORE_INDEXES))
    indexer.add_index("function", lambda pod: pod.view.spec.node_name)
    return _apply(indexer, material)


def _indexer(material: Material, indexes: int) -> Indexer[PodView]:
    indexer = Indexer(PodView)
    for path in _MORE_INDEXES[:indexes]:
        indexer.add_index(path, path)
    for _ in indexer.replace_nowait({each._key: each for each in material.objects}, "1"):
        pass
    return indexer


def _apply(indexer: Indexer[PodView], material: Material) -> Work:
    events = material.events

    def work() -> int:
        for event in events:
            indexer.apply_nowait(event)
        return len(events)

    return work


@station("mailbox")
def mailbox(material: Material) -> Work:
    """Put an event into a handler's mailbox and take it out again."""
    box: Mailbox[PodView] = Mailbox(size=len(material.events))
    events = material.events

    def work() -> int:
        for event in events:
            box.put_nowait(event)
        while box.take_nowait() is not None:
            pass
        return len(events)

    return work


@station("distribution-1")
def distribution_1(material: Material) -> Work:
    """Put an update into the cache and into the mailbox of the one handler."""
    return _distribute(material, 1)


@station("distribution-16")
def distribution_16(material: Material) -> Work:
    """Put an update into the cache and into the mailboxes of 16 handlers."""
    return _distribute(material, 16)


def _distribute(material: Material, handlers: int) -> Work:
    sink: StoreSink[PodView] = StoreSink(Indexer(PodView), _Owner())
    for _ in range(handlers):
        sink.attach(_Receiver(len(material.events)))
    for _ in sink.replace_nowait({each._key: each for each in material.objects}, "1"):
        pass
    events = material.events

    def work() -> int:
        for event in events:
            sink.apply_nowait(event)
        return len(events)

    return work


class _Owner:
    """The owner of a sink: asks for nothing and keeps nothing."""

    announces = False
    is_resetting = False

    def on_synced(self) -> None: ...

    def on_crash(self, error: Exception) -> None: ...


class _Receiver:
    """A mailbox without a handler; the initial list is not for it."""

    def __init__(self, size: int) -> None:
        self.put_nowait = Mailbox[PodView](size=size).put_nowait

    def preload_nowait(self, objects: Collection[KubeObject[PodView]]) -> None: ...

    def on_initial_list_complete(self) -> None: ...

    def on_missed_state(
        self, was: KubeObject[PodView], now: KubeObject[PodView] | None
    ) -> None: ...


@station("delivery")
def delivery(material: Material) -> Work:
    """Deliver an update from the mailbox to a handler that does nothing, on a loop."""
    events = material.events

    async def deliver() -> int:
        last, done = events[-1], asyncio.Event()

        def handle(event: Event[PodView]) -> None:
            if event is last:
                done.set()

        tasks = UserTasks()
        listener: Listener[PodView] = Listener(
            Handler.of(handle), tasks=tasks, informer="pods", mailbox_size=len(events)
        )
        listener.start_nowait()
        for event in events:
            listener.put_nowait(event)
        await done.wait()
        await listener.aclose()
        return len(events)

    return lambda: asyncio.run(deliver())
