"""The metrics of a work queue, under client-go's names.

A queue without a metrics system has no QueueMetrics and pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

from pyinformer.metrics import Metrics

TICK_SECONDS: Final = 0.5  # how often the gauges of running work are updated


@final
class QueueMetrics:
    """Counts for one queue.

    Source:
        client-go util/workqueue/metrics.go, defaultQueueMetrics.
    """

    __slots__ = ("_added_at", "_labels", "_metrics", "_taken_at")

    def __init__(self, name: str, metrics: Metrics) -> None:
        self._metrics = metrics
        self._labels = {"name": name}
        self._added_at: dict[Hashable, float] = {}
        self._taken_at: dict[Hashable, float] = {}

    @property
    def is_processing(self) -> bool:
        """Whether a key is being processed, so that the gauges of running work grow."""
        return bool(self._taken_at)

    def added(self, item: Hashable, now: float, depth: int) -> None:
        """Count a key that has begun to wait, now or after its processing."""
        self._metrics.increment("workqueue_adds_total", self._labels)
        self._added_at.setdefault(item, now)
        self.depth(depth)

    def taken(self, item: Hashable, now: float, depth: int) -> None:
        """Record how long a key waited."""
        self.depth(depth)
        self._taken_at[item] = now
        waited_seconds = now - self._added_at.pop(item, now)
        self._metrics.observe("workqueue_queue_duration_seconds", waited_seconds, self._labels)

    def done(self, item: Hashable, now: float) -> None:
        """Record how long a key was being processed."""
        worked_seconds = now - self._taken_at.pop(item, now)
        self._metrics.observe("workqueue_work_duration_seconds", worked_seconds, self._labels)

    def retried(self) -> None:
        """Count a key that was added for later."""
        self._metrics.increment("workqueue_retries_total", self._labels)

    def depth(self, depth: int) -> None:
        """Record how many keys wait to be taken."""
        self._metrics.set("workqueue_depth", depth, self._labels)

    def dropped(self, item: Hashable, depth: int) -> None:
        """Forget a key that will not be taken."""
        self._added_at.pop(item, None)
        self.depth(depth)

    def tick(self, now: float) -> None:
        """Record for how long the keys in processing have been processed so far."""
        ages = [now - since for since in self._taken_at.values()]
        self._metrics.set("workqueue_unfinished_work_seconds", sum(ages), self._labels)
        longest_seconds = max(ages, default=0.0)
        name = "workqueue_longest_running_processor_seconds"
        self._metrics.set(name, longest_seconds, self._labels)

    def shift(self, seconds: float) -> None:
        """Move every recorded time: the queue reads another clock."""
        for moments in (self._added_at, self._taken_at):
            for item, since in moments.items():
                moments[item] = since + seconds
