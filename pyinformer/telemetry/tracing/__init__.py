"""The protocol of a tracing system: spans of reconciles and of the requests that they send.

Nothing is traced by default, and nothing is global: a program passes its tracing system to
`connect`, to an `Operator` or to a `Controller`. `pyinformer.telemetry.opentelemetry` has one.
"""

from pyinformer.telemetry.tracing._current_request_span import CURRENT_REQUEST as CURRENT_REQUEST
from pyinformer.telemetry.tracing._current_request_span import RequestSpan as RequestSpan
from pyinformer.telemetry.tracing._current_tracing import TRACED_BY as TRACED_BY
from pyinformer.telemetry.tracing._current_tracing import outside_reconcile as outside_reconcile
from pyinformer.telemetry.tracing._fenced_tracing import FencedSpan as FencedSpan
from pyinformer.telemetry.tracing._fenced_tracing import FencedTracing as FencedTracing
from pyinformer.telemetry.tracing._protocol import (
    Attributes,
    AttributeValue,
    Span,
    SpanError,
    Tracing,
    WrittenVersion,
)

__all__ = ["AttributeValue", "Attributes", "Span", "SpanError", "Tracing", "WrittenVersion"]
