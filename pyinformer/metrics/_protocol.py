"""The protocol of a metrics system, and the default that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Metrics(Protocol):
    """Takes figures; called on the event loop, so it must not block."""

    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Add one to a counter.

        Args:
            name: the series, such as `informer_rv_regressions_total`.
            labels: the labels of this one.
        """
        ...

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add one value to a histogram.

        Args:
            name: the series, such as `workqueue_queue_duration_seconds`.
            value: what was measured, in the unit that the name ends with.
            labels: the labels of this one.
        """
        ...

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a gauge.

        Args:
            name: the series, such as `workqueue_depth`.
            value: what it shows from now on.
            labels: the labels of this one.
        """
        ...


@final
class _NoMetrics:
    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Keep nothing."""

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep nothing."""

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep nothing."""


NO_METRICS: Metrics = _NoMetrics()
