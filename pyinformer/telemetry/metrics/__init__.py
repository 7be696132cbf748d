"""Figures for a metrics system: the protocol, a default that drops them, and a registry.

An owner of figures opens a scope, binds its handles once, adds a source for what is state already,
and closes the scope when it is closed. Nothing is global: the program passes its metrics on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr
from pyinformer.telemetry.metrics._fenced_metrics import fenced
from pyinformer.telemetry.metrics._protocol import (
    NO_METRICS,
    Counter,
    Exposition,
    Gauge,
    Histogram,
    Metrics,
    MetricsScope,
    MetricsSource,
    Sample,
)
from pyinformer.telemetry.metrics._unique_labels import UniqueLabel as UniqueLabel
from pyinformer.telemetry.metrics._unique_labels import distinct as distinct
from pyinformer.telemetry.metrics._unique_labels import qualified

if TYPE_CHECKING:
    from pyinformer.telemetry.metrics._catalogue import CATALOGUE
    from pyinformer.telemetry.metrics._registry import (
        HistogramValue,
        MetricFamily,
        MetricsRegistry,
        Series,
    )
    from pyinformer.telemetry.metrics._spec import MetricSpec, MetricType

# Loaded when they are first used: a program without metrics needs none of them.
_HOMES = {
    "CATALOGUE": "_catalogue",
    "HistogramValue": "_registry",
    "MetricFamily": "_registry",
    "MetricSpec": "_spec",
    "MetricType": "_spec",
    "MetricsRegistry": "_registry",
    "Series": "_registry",
}

__all__ = [
    "CATALOGUE",
    "NO_METRICS",
    "Counter",
    "Exposition",
    "Gauge",
    "Histogram",
    "HistogramValue",
    "MetricFamily",
    "MetricSpec",
    "MetricType",
    "Metrics",
    "MetricsRegistry",
    "MetricsScope",
    "MetricsSource",
    "Sample",
    "Series",
    "fenced",
    "qualified",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
