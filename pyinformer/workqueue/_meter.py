"""A queue's figures under client-go's names, for those who gave it a metrics system.

What enters is what happens to keys, with the moment; what leaves are counters, gauges and
durations. A queue without a metrics system has no meter and pays nothing for this.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from pyinformer.metrics import Metrics

TICK_SECONDS = 0.5  # how often the gauges of what is being processed are brought up to date


@final
class Meter:
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
        """Something is being processed: its gauges grow with time."""
        return bool(self._taken_at)

    def added(self, item: Hashable, now: float, depth: int) -> None:
        """Count a key that has begun to wait, now or after its processing."""
        self._metrics.increment("workqueue_adds_total", self._labels)
        self._added_at.setdefault(item, now)
        self.depth(depth)

    def taken(self, item: Hashable, now: float, depth: int) -> None:
        """Measure how long a key waited."""
        self.depth(depth)
        self._taken_at[item] = now
        added_at = self._added_at.pop(item, now)
        waited_seconds = now - added_at
        self._metrics.observe("workqueue_queue_duration_seconds", waited_seconds, self._labels)

    def done(self, item: Hashable, now: float) -> None:
        """Measure how long a key was being processed."""
        worked_seconds = now - self._taken_at.pop(item, now)
        self._metrics.observe("workqueue_work_duration_seconds", worked_seconds, self._labels)

    def retried(self) -> None:
        """Count a key that was added for later."""
        self._metrics.increment("workqueue_retries_total", self._labels)

    def depth(self, depth: int) -> None:
        """Show how many keys wait to be taken."""
        self._metrics.set("workqueue_depth", depth, self._labels)

    def dropped(self, item: Hashable, depth: int) -> None:
        """Forget a key that will not be taken."""
        self._added_at.pop(item, None)
        self.depth(depth)

    def tick(self, now: float) -> None:
        """Show how long what is being processed has taken so far."""
        ages = [now - since for since in self._taken_at.values()]
        self._metrics.set("workqueue_unfinished_work_seconds", sum(ages), self._labels)
        longest_seconds = max(ages, default=0.0)
        name = "workqueue_longest_running_processor_seconds"
        self._metrics.set(name, longest_seconds, self._labels)

    def shift(self, seconds: float) -> None:
        """Move every moment: the clock has been exchanged."""
        for moments in (self._added_at, self._taken_at):
            for item, since in moments.items():
                moments[item] = since + seconds
