"""What readers and reconcilers do: selectors, views, paths, dicts, work queues.

Nothing that a read makes is kept, and no read changes what is cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from benchmarks.stations.material import Material, PodView
from benchmarks.stations.registry import Work, station
from pyinformer import KubeObject
from pyinformer.objects import LabelSelector
from pyinformer.workqueue import PriorityQueue, Queue


@station("queue")
def queue(material: Material) -> Work:
    """Add a key to a work queue, get it, be done with it."""
    return _queue(Queue[str](), material)


@station("queue-item")
def queue_item(material: Material) -> Work:
    """Add a key to a work queue, and take it through `async with queue.item()`."""
    keys = [each._key for each in material.objects]

    async def pass_through() -> int:
        made = Queue[str]()
        for key in keys:
            made.add_nowait(key)
        for _ in keys:
            async with made.item():
                pass
        return len(keys)

    return lambda: asyncio.run(pass_through())


@station("priority-queue")
def priority_queue(material: Material) -> Work:
    """Add a key to a priority queue, get it, be done with it."""
    return _queue(PriorityQueue[str](), material)


def _queue(made: Queue[str], material: Material) -> Work:
    keys = [each._key for each in material.objects]

    def work() -> int:
        for key in keys:
            made.add_nowait(key)
        while (item := made.get_nowait()) is not None:
            made.done(item)
        return len(keys)

    return work


@station("selector-equals")
def selector_equals(material: Material) -> Work:
    """Match labels with a selector of one equality."""
    return _match("tier=backend", material)


@station("selector-sets")
def selector_sets(material: Material) -> Work:
    """Match labels with a selector of three requirements, one of them a set."""
    return _match("tier in (backend,frontend),app.kubernetes.io/name,!legacy", material)


def _match(text: str, material: Material) -> Work:
    matches = LabelSelector.parse(text).matches
    labels = [each.metadata.labels for each in material.objects]

    def work() -> int:
        for each in labels:
            matches(each)
        return len(labels)

    return work


@station("view")
def view(material: Material) -> Work:
    """Read a field of the projection."""
    return _read(material, lambda pod: pod.view.spec.node_name)


@station("at")
def at(material: Material) -> Work:
    """Read one path that the projection does not have."""
    return _read(material, lambda pod: pod.at("spec.serviceAccountName", str, default=""))


@station("to-dict")
def to_dict(material: Material) -> Work:
    """Decode the whole object into a dict of the reader's own."""
    return _read(material, lambda pod: pod.to_dict())


def _read(material: Material, read: Callable[[KubeObject[PodView]], object]) -> Work:
    objects = material.objects

    def work() -> int:
        for pod in objects:
            read(pod)
        return len(objects)

    return work
