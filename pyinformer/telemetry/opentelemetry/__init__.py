"""Traces and metrics for OpenTelemetry.

Needs the extra `pyinformer[opentelemetry]`, which is the API. What is kept, and where it is sent,
the program decides with OpenTelemetry's SDK.
"""

from importlib.util import find_spec

if find_spec("opentelemetry") is None or find_spec("opentelemetry.trace") is None:
    _HINT = (
        "pyinformer.telemetry.opentelemetry needs the package opentelemetry-api:"
        " pip install 'pyinformer[opentelemetry]'"
    )
    raise ModuleNotFoundError(_HINT, name="opentelemetry")

from pyinformer.telemetry.opentelemetry._metrics import OpenTelemetryMetrics
from pyinformer.telemetry.opentelemetry._tracing import OpenTelemetryTracing, TracingStatistics

__all__ = ["OpenTelemetryMetrics", "OpenTelemetryTracing", "TracingStatistics"]
