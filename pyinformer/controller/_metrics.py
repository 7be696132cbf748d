"""The metrics of a controller, under the names and with the labels of controller-runtime.

Durations are recorded as they end; all other figures are read from the controller's state when
they are collected. Only the label `controller` distinguishes two controllers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.controller._requeue_policy import only_cause
from pyinformer.errors import InformerError
from pyinformer.telemetry.metrics import NO_METRICS, Metrics, Sample, UniqueLabel

_log = get_logger(__name__)

_RESULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "error": ("error", "retry_after", "terminal"),
    "requeue": (),  # of client-go's rate limiter, which no Result asks for
    "requeue_after": ("requeue",),
    "success": ("success",),
}
"""controller-runtime's results, and the kinds of outcomes that each of them counts."""

_PANICS: Final = (
    AssertionError,
    AttributeError,
    IndexError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ZeroDivisionError,
)
"""Errors that are counted as panics. Their counterparts in Go are panics or do not compile: None or
another type in place of an object, an index out of range, a division by zero, endless recursion."""


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a bug of the reconcile function rather than a failure of its work.

    Args:
        error: what the reconcile raised.
    """
    cause = only_cause(error)
    if isinstance(cause, InformerError):
        return False
    return isinstance(cause, _PANICS) or not isinstance(cause, Exception)


def unique_label(metrics: Metrics, asked: str) -> UniqueLabel | None:
    """Return a label that no other controller has, and warn if it is another than was asked for.

    Args:
        metrics: what the program has passed.
        asked: the value of the label `controller`.

    Returns:
        The label; None without metrics.
    """
    if metrics is NO_METRICS:
        return None
    label = UniqueLabel(metrics, "controller", asked)
    if label.text != asked:
        _log.warning(
            "another controller has metrics with the label controller=%r: this one's have"
            " controller=%r; name the clusters, or pass one of them a metrics_label=",
            asked,
            label.text,
        )
    return label


@final
class ControllerMetrics:
    """The figures of one controller.

    Args:
        label: the value of the label `controller`.
        metrics: where the figures go.
    """

    __slots__ = ("_cache_age", "_event_to_reconcile", "_labels", "reconciled")

    def __init__(self, label: str, metrics: Metrics) -> None:
        self._labels = labels = {"controller": label}
        time_seconds = metrics.histogram("controller_runtime_reconcile_time_seconds", labels)
        since_event = metrics.histogram("controller_event_to_reconcile_seconds", labels)
        self.reconciled = time_seconds.observe
        """Records how long a reconcile took."""
        self._event_to_reconcile = since_event.observe
        self._cache_age = metrics.histogram("controller_cache_age_seconds", labels).observe

    def started(self, now: float, *, event_at: float | None, proven_at: float | None) -> None:
        """Record the start of a reconcile.

        Args:
            now: the loop's time.
            event_at: when the first of its events came; None without an event.
            proven_at: when the cache that it reads was last proven; None if there is none.
        """
        if event_at is not None:
            self._event_to_reconcile(now - event_at)
        if proven_at is not None:
            self._cache_age(now - proven_at)

    def samples(
        self,
        outcomes: Mapping[str, int],
        figures: Mapping[str, float],
        failures: Mapping[str, int],
    ) -> Iterator[Sample]:
        """Return the figures that are state; on any thread.

        Args:
            outcomes: reconciles by their end, as in the status.
            figures: what has no other label than the controller's, by metric.
            failures: failed calls of the user's functions, by source.
        """
        labels = self._labels
        results = {
            result: sum(outcomes[kind] for kind in kinds) for result, kinds in _RESULTS.items()
        }
        for result, count in results.items():
            yield Sample("controller_runtime_reconcile_total", {**labels, "result": result}, count)
        errors = {
            "errors": results["error"],
            "timeouts": outcomes["timeout"],
            "panics": outcomes["panic"],
        }
        for kind, count in errors.items():
            yield Sample(f"controller_runtime_reconcile_{kind}_total", labels, count)
        terminal = "controller_runtime_terminal_reconcile_errors_total"
        yield Sample(terminal, labels, outcomes["terminal"])
        for name, value in figures.items():
            yield Sample(name, labels, value)
        for source, count in failures.items():
            yield Sample("controller_source_failures_total", {**labels, "source": source}, count)
