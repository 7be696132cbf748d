"""The metrics of a work queue, under the names and with the labels of controller-runtime.

Durations are recorded when they end; all other figures are read when they are collected. A queue
without a name or a metrics system has no QueueMetrics and pays nothing for them.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final, final

from pyinformer.telemetry.metrics import Metrics, MetricsSource, Sample, fenced

_NO_PRIORITY: Final = ""  # controller-runtime's label of a queue without priorities
_MOST_PRIORITIES: Final = 25  # whose series stay once they were seen, as controller-runtime's


@final
class QueueMetrics:
    """The figures of one queue, which writes those of single keys itself.

    The times of waiting keys are the queue's own. Kept here are those of the few keys that are
    processed, and of keys that began to wait before the queue put them in their present place.

    Args:
        name: the value of the labels `name` and `controller`.
        metrics: where the figures go.
        source: returns the `samples` of the queue.

    Source:
        client-go util/workqueue/metrics.go, defaultQueueMetrics; controller-runtime
        pkg/internal/metrics/workqueue.go.
    """

    __slots__ = (
        "_adds",
        "_labels",
        "_priorities",
        "_scope",
        "dropped",
        "queue_duration",
        "retries",
        "taken",
        "taken_at",
        "waits_since",
        "work_duration",
    )

    def __init__(self, name: str, metrics: Metrics, source: MetricsSource) -> None:
        self._labels = labels = {"name": name, "controller": name}
        self._scope = scope = fenced(metrics).scope()
        self._priorities: frozenset[int] = frozenset({0})
        self._adds = 0
        self.queue_duration = scope.histogram("workqueue_queue_duration_seconds", labels).observe
        """Records how long a key waited."""
        self.work_duration = scope.histogram("workqueue_work_duration_seconds", labels).observe
        """Records how long a key was being processed."""
        self.taken_at: dict[Hashable, float] = {}
        """When each key in processing was taken."""
        self.waits_since: dict[Hashable, float] = {}
        """When each waiting key was added of which the queue has a later time only."""
        self.taken: int = 0
        """How many keys were taken."""
        self.dropped: int = 0
        """How many keys that waited were dropped; not those that were delayed."""
        self.retries: int = 0
        """How many keys were added for later."""
        scope.add_source(source)

    def samples(
        self,
        depth: int,
        again: int,
        by_priority: Iterable[tuple[int, int]] | None,
        now: float,
    ) -> Iterator[Sample]:
        """Return the figures that are state; on any thread.

        Args:
            depth: how many keys wait.
            again: how many keys wait for the end of their processing.
            by_priority: the priorities that wait, and their depths; None for a queue without.
            now: the queue's time.
        """
        labels = self._labels
        # A key that is taken meanwhile may be missing from the sum, but a counter never falls.
        self._adds = max(self._adds, self.taken + self.dropped + depth + again)
        ages = [max(0.0, now - since) for since in list(self.taken_at.values())]
        yield Sample("workqueue_adds_total", labels, self._adds)
        yield Sample("workqueue_retries_total", labels, self.retries)
        yield Sample("workqueue_unfinished_work_seconds", labels, sum(ages))
        longest_seconds = max(ages, default=0.0)
        yield Sample("workqueue_longest_running_processor_seconds", labels, longest_seconds)
        depths = {_NO_PRIORITY: depth} if by_priority is None else self._depths(by_priority)
        for priority, waiting in depths.items():
            yield Sample("workqueue_depth", {**labels, "priority": priority}, waiting)

    def _depths(self, by_priority: Iterable[tuple[int, int]]) -> dict[str, int]:
        found = dict(by_priority)
        known = self._priorities.union(found)
        if len(known) <= _MOST_PRIORITIES:
            self._priorities = known
        return {str(one): found.get(one, 0) for one in sorted(known, reverse=True)}

    def shift(self, seconds: float) -> None:
        """Move every recorded time: the queue reads another clock."""
        for moments in (self.waits_since, self.taken_at):
            for item, since in moments.items():
                moments[item] = since + seconds

    def close(self) -> None:
        """Remove the queue's series."""
        self._scope.close()
