"""What came of a reconcile, as figures under controller-runtime's names.

What enters is an outcome; what leaves are counters and a histogram, labelled with the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinformer.apimachinery import ReconcileTimeoutError

if TYPE_CHECKING:
    from pyinformer.controller._outcomes import Outcome
    from pyinformer.metrics import Metrics

_RESULTS: Final = {"success": "success", "requeue": "requeue_after"}  # as upstream; else error


def measure(metrics: Metrics, controller: str, outcome: Outcome, seconds: float) -> None:
    """Count an outcome.

    Args:
        metrics: where.
        controller: the label.
        outcome: how the reconcile ended.
        seconds: how long it took.
    """
    labels = {"controller": controller}
    result = _RESULTS.get(outcome.kind, "error")
    metrics.observe("controller_runtime_reconcile_time_seconds", seconds, labels)
    metrics.increment("controller_runtime_reconcile_total", {**labels, "result": result})
    if result == "error":
        metrics.increment("controller_runtime_reconcile_errors_total", labels)
    if outcome.kind == "terminal":
        metrics.increment("controller_runtime_terminal_reconcile_errors_total", labels)
    if isinstance(outcome.error, ReconcileTimeoutError):
        metrics.increment("controller_runtime_reconcile_timeouts_total", labels)
