"""The counts of a guard: sums by name, and metrics with the field's labels.

A metric always has the same label names; a label that does not apply to an occurrence is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from pyinformer.reflector.guard._rules import ORDERS, Order

if TYPE_CHECKING:
    from pyinformer.metrics import Metrics


@final
@dataclass(frozen=True, slots=True)
class GuardStatistics:
    """The position of a guard, and the counts of what it met."""

    position: str
    epoch: int
    tombstones: int
    counts: Mapping[str, int]
    """Occurrences by metric name and action, such as `rv_regressions:ignored`."""
    order: Order = "global"
    """What resource versions are taken to prove."""


@final
class GuardMetrics:
    """Counts what happens to one guard.

    Args:
        metrics: receive every occurrence.
        resource: a label of each.
    """

    __slots__ = ("_counts", "_metrics", "_resource", "event_type")

    def __init__(self, metrics: Metrics, resource: str) -> None:
        self.event_type: str = "MODIFIED"
        """The type of the event that is judged now; a label, no decision depends on it."""
        self._counts: dict[str, int] = {}
        self._metrics = metrics
        self._resource = resource

    def counts(self) -> dict[str, int]:
        """Return the sums by metric name and action, such as `rv_regressions:ignored`."""
        return dict(self._counts)

    def count(self, name: str, value: str = "", *, label: str = "action") -> None:
        """Count one occurrence, under a label's value if it has one."""
        self._increment(name, value, {label: value} if value else {})

    def regressed(self, action: str, *, source: str = "event") -> None:
        """Count an occurrence that is behind the position, or behind what is cached."""
        event_type = {"event": self.event_type, "bookmark": "BOOKMARK"}.get(source, "")
        labels = {"type": event_type, "source": source, "action": action}
        self._increment("rv_regressions", action, labels)

    def show_order(self, order: Order) -> None:
        """Set the gauge of what resource versions are taken to prove."""
        for mode in ORDERS:
            labels = {"resource": self._resource, "mode": mode}
            self._metrics.set("informer_rv_order", float(mode == order), labels)

    def _increment(self, name: str, value: str, labels: Mapping[str, str]) -> None:
        counted = f"{name}:{value}" if value else name
        self._counts[counted] = self._counts.get(counted, 0) + 1
        self._metrics.increment(f"informer_{name}_total", {"resource": self._resource, **labels})
