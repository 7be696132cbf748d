"""What the benchmark's own code does with each object: three kinds of handlers.

Apart from what the workload asks for, an update costs a handler one count and one comparison; a
latency run adds one reading of the clock, before anything else.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pyinformer
from benchmarks.harness.latencies import Latencies
from benchmarks.harness.phases import Workload

_Object = pyinformer.KubeObject[Any]


class Follower:
    """Reads metadata and, through the projection, a status field."""

    def __init__(self, workload: Workload) -> None:
        """Wait for the objects and the updates of a workload."""
        self.updates = 0
        self.deletes = 0
        self.latencies = Latencies()
        self.has_initial_state = asyncio.Event()
        self.has_last_update = asyncio.Event()
        self._missing = workload.objects
        self._last = workload.last_resource_version

    @property
    def calls(self) -> int:
        """How often the handler was called; only differences mean something."""
        return self.updates + self.deletes - self._missing

    def on_add(self, obj: _Object) -> None:
        """Count down the initial state."""
        self._missing -= 1
        if not self._missing:
            self.has_initial_state.set()

    def on_update(self, old: _Object, new: _Object) -> None:
        """Read the name and the phase."""
        self.updates += 1
        metadata = new.metadata
        view = new.view
        _ = metadata.name, None if view is None else view.status.phase
        if metadata.resource_version == self._last:
            self.has_last_update.set()

    def on_delete(self, obj: _Object) -> None:
        """Count what should not happen."""
        self.deletes += 1


class TimedFollower(Follower):
    """Notes first when it was called."""

    def on_update(self, old: _Object, new: _Object) -> None:
        """Read the clock, then do the same."""
        self.latencies.note(new.metadata.resource_version)
        super().on_update(old, new)


class ObjectFollower(Follower):
    """Takes every object as a dict of its own."""

    def on_update(self, old: _Object, new: _Object) -> None:
        """Decode all of it."""
        self.updates += 1
        new.to_dict()
        if new.metadata.resource_version == self._last:
            self.has_last_update.set()


class QueueFollower(Follower):
    """Puts the key into a work queue, as a controller does."""

    def __init__(self, workload: Workload) -> None:
        """Begin with an empty queue."""
        super().__init__(workload)
        self.queue = WorkedQueue()

    def on_update(self, old: _Object, new: _Object) -> None:
        """Enqueue the key."""
        self.updates += 1
        self.queue.add(new.key)
        if new.metadata.resource_version == self._last:
            self.has_last_update.set()


class WorkedQueue(pyinformer.workqueue.Queue[str]):
    """A work queue, and a worker that has nothing to do with the keys."""

    async def drain(self) -> None:
        """Take key after key, until the queue is shut down and empty.

        Cancellation:
            Safe; the key in hand is done with.
        """
        try:
            while True:
                async with self.item():
                    pass
        except pyinformer.errors.QueueClosedError:
            return


def make_follower(workload: Workload) -> Follower:
    """Make the handler that a workload asks for."""
    if workload.updates_per_second:
        return TimedFollower(workload)
    kinds = {"metadata": Follower, "object": ObjectFollower, "queue": QueueFollower}
    return kinds[workload.handler](workload)
