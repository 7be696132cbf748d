"""What a program shows of itself: the protocols of metrics and of tracing systems, and a registry.

Nothing is measured or traced by default, and nothing is global. `telemetry.prometheus` and
`telemetry.opentelemetry` have systems of other packages; each needs the extra of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr

if TYPE_CHECKING:
    from pyinformer.telemetry._watchdog import Watchdog as Watchdog
    from pyinformer.telemetry._watchdog import (
        WatchdogStatistics,
    )
    from pyinformer.telemetry.metrics import (
        CATALOGUE,
        NO_METRICS,
        Counter,
        Exposition,
        Gauge,
        Histogram,
        HistogramValue,
        MetricFamily,
        Metrics,
        MetricSpec,
        MetricsRegistry,
        MetricsScope,
        MetricsSource,
        MetricType,
        Sample,
        Series,
        fenced,
        qualified,
    )
    from pyinformer.telemetry.tracing import (
        Attributes,
        AttributeValue,
        Span,
        SpanError,
        Tracing,
        WrittenVersion,
    )

# Loaded when they are first used: a room of the wing can be used without the others.
_HOMES = {
    "AttributeValue": "tracing",
    "Attributes": "tracing",
    "CATALOGUE": "metrics",
    "Counter": "metrics",
    "Exposition": "metrics",
    "Gauge": "metrics",
    "Histogram": "metrics",
    "HistogramValue": "metrics",
    "MetricFamily": "metrics",
    "MetricSpec": "metrics",
    "MetricType": "metrics",
    "Metrics": "metrics",
    "MetricsRegistry": "metrics",
    "MetricsScope": "metrics",
    "MetricsSource": "metrics",
    "NO_METRICS": "metrics",
    "Sample": "metrics",
    "Series": "metrics",
    "Span": "tracing",
    "SpanError": "tracing",
    "Tracing": "tracing",
    "Watchdog": "_watchdog",
    "WatchdogStatistics": "_watchdog",
    "WrittenVersion": "tracing",
    "fenced": "metrics",
    "qualified": "metrics",
}

__all__ = [
    "CATALOGUE",
    "NO_METRICS",
    "AttributeValue",
    "Attributes",
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
    "Span",
    "SpanError",
    "Tracing",
    "WatchdogStatistics",
    "WrittenVersion",
    "fenced",
    "qualified",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
