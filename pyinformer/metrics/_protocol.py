"""The protocol of a metrics system, and the default that drops all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Metrics(Protocol):
    """Receives figures. Its methods are called on the event loop, so they must not block."""

    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Add one to a counter.

        Args:
            name: the series, such as `informer_rv_regressions_total`.
            labels: the labels of the series.
        """
        ...

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one value to a histogram.

        Args:
            name: the series, such as `workqueue_queue_duration_seconds`.
            value: the value, in the unit with which the name ends.
            labels: the labels of the series.
        """
        ...

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a gauge.

        Args:
            name: the series, such as `workqueue_depth`.
            value: the new value.
            labels: the labels of the series.
        """
        ...


@final
class _NoMetrics:
    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Do nothing."""

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Do nothing."""

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Do nothing."""


NO_METRICS: Metrics = _NoMetrics()
