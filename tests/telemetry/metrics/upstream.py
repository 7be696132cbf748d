"""Metrics of other projects that are exposed under the same names, with types, labels, buckets.

The facts were read in the sources of the versions that are named; help texts are our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyinformer.telemetry.metrics import MetricType


class Upstream(NamedTuple):
    """A metric as the other project defines it."""

    type: MetricType
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


def _powers(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(start * factor**exponent for exponent in range(count))


_QUEUE = ("name", "controller")

WORKQUEUE: Final = {
    "workqueue_depth": Upstream("gauge", (*_QUEUE, "priority")),
    "workqueue_adds_total": Upstream("counter", _QUEUE),
    "workqueue_queue_duration_seconds": Upstream("histogram", _QUEUE, _powers(1e-8, 10, 12)),
    "workqueue_work_duration_seconds": Upstream("histogram", _QUEUE, _powers(1e-8, 10, 12)),
    "workqueue_unfinished_work_seconds": Upstream("gauge", _QUEUE),
    "workqueue_longest_running_processor_seconds": Upstream("gauge", _QUEUE),
    "workqueue_retries_total": Upstream("counter", _QUEUE),
}
"""controller-runtime 0.25, pkg/internal/metrics/workqueue.go. component-base 0.37,
metrics/prometheus/workqueue/metrics.go, has the same names and types, only the label `name`, and
the first ten of the buckets."""

_CONTROLLER = ("controller",)

CONTROLLER: Final = {
    "controller_runtime_reconcile_total": Upstream("counter", ("controller", "result")),
    "controller_runtime_reconcile_errors_total": Upstream("counter", _CONTROLLER),
    "controller_runtime_terminal_reconcile_errors_total": Upstream("counter", _CONTROLLER),
    "controller_runtime_reconcile_panics_total": Upstream("counter", _CONTROLLER),
    "controller_runtime_reconcile_timeouts_total": Upstream("counter", _CONTROLLER),
    "controller_runtime_reconcile_time_seconds": Upstream(
        "histogram",
        _CONTROLLER,
        (
            *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6),
            *(0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10),
            *(15, 20, 25, 30, 40, 50, 60),
        ),
    ),
    "controller_runtime_active_workers": Upstream("gauge", _CONTROLLER),
    "controller_runtime_max_concurrent_reconciles": Upstream("gauge", _CONTROLLER),
}
"""controller-runtime 0.25, pkg/internal/controller/metrics/metrics.go."""

WEBHOOK: Final = {
    "controller_runtime_webhook_requests_total": Upstream("counter", ("webhook", "code")),
    "controller_runtime_webhook_requests_in_flight": Upstream("gauge", ("webhook",)),
    "controller_runtime_webhook_latency_seconds": Upstream(
        "histogram",
        ("webhook",),
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ),
}
"""controller-runtime 0.25, pkg/webhook/internal/metrics/metrics.go, with the buckets that
Prometheus' library has by default."""

RESULTS: Final = ("error", "requeue", "requeue_after", "success")
"""The values of `result`, controller-runtime 0.25, pkg/internal/controller/controller.go."""

LEADER_ELECTION: Final = {
    "leader_election_master_status": Upstream("gauge", ("name",)),
    "leader_election_slowpath_total": Upstream("counter", ("name",)),
}
"""component-base 0.37, metrics/prometheus/clientgo/leaderelection/metrics.go; the same in
controller-runtime 0.25, pkg/metrics/leaderelection.go."""
