"""The protocol of a metrics system, and the default that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Metrics(Protocol):
    """Takes counts; called on the event loop, so it must not block."""

    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Add one to a counter.

        Args:
            name: the series, such as `informer_rv_regressions_total`.
            labels: the labels of this one.
        """
        ...


@final
class _NoMetrics:
    def increment(self, name: str, labels: Mapping[str, str]) -> None:
        """Keep nothing."""


NO_METRICS: Metrics = _NoMetrics()
