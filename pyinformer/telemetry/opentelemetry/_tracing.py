"""Spans of OpenTelemetry for reconciles and their requests.

A reconcile is the root of a trace. Its span is current in the reconcile's context, so spans of the
user's code nest in it, in tasks and threads, too. Requests are spans of the kind CLIENT.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, SpanKind, StatusCode, TracerProvider

from pyinformer.objects import check_integer
from pyinformer.telemetry.opentelemetry._scope import SCHEMA_URL, SCOPE, scope_version
from pyinformer.telemetry.opentelemetry._write_links import WriteLinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextvars import Token

    from opentelemetry.context import Context

    from pyinformer.telemetry.tracing import Attributes, SpanError, WrittenVersion

_REMEMBERED_WRITES: Final = 4_096  # about 3 MB; of what a busy controller writes in some seconds
_NO_PARENT: Final = context.Context()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TracingStatistics:
    """What is remembered for links between traces."""

    writes: int
    """Sampled writes that are remembered."""
    dropped_writes: int
    """Sampled writes that newer ones have displaced, so that nothing links to them any more."""
    links: int
    """Links that were made so far."""


@final
class OpenTelemetryTracing:
    """Traces reconciles, and the requests that they send, with OpenTelemetry.

    Pass one to `connect(tracing=)` or `Operator(tracing=)`. Those of several clusters may be the
    same object: then a reconcile links to the writes of all of them.

    Args:
        tracer_provider: where spans go; None for OpenTelemetry's global one.
        remembered_writes: how many of the newest sampled writes are remembered, so that the
            reconciles that they cause link to them; 0 for no links.

    Raises:
        InvalidArgumentError: `remembered_writes` is invalid.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        remembered_writes: int = _REMEMBERED_WRITES,
    ) -> None:
        check_integer("remembered_writes", remembered_writes, least=0)
        self._tracer = trace.get_tracer(SCOPE, scope_version(), tracer_provider, SCHEMA_URL)
        self._writes = WriteLinks(remembered_writes)
        self._links = 0

    def start_reconcile(
        self, name: str, attributes: Attributes, causes: Iterable[WrittenVersion]
    ) -> OpenTelemetrySpan:
        """Start a trace with the span of a reconcile, and make it current until it ends."""
        links = [Link(cause) for cause in self._writes.of(causes)]
        self._links += len(links)
        started = self._tracer.start_span(
            name, context=_NO_PARENT, attributes=attributes, links=links
        )
        span = OpenTelemetrySpan(started, self._writes)
        span.enter()
        return span

    def start_request(self, name: str, attributes: Attributes) -> OpenTelemetrySpan | None:
        """Start the span of a request to the server, unless no span is current."""
        if not trace.get_current_span().get_span_context().is_valid:
            return None
        started = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        return OpenTelemetrySpan(started, self._writes)

    def suspend(self) -> Callable[[], None]:
        """Make no span current; return what makes the same one current again."""
        return partial(context.detach, context.attach(_NO_PARENT))

    def statistics(self) -> TracingStatistics:
        """Return what is remembered for links; from any thread."""
        return TracingStatistics(
            writes=len(self._writes), dropped_writes=self._writes.dropped, links=self._links
        )


@final
class OpenTelemetrySpan:
    """A span of OpenTelemetry.

    Args:
        span: the span.
        writes: where its write is remembered.
    """

    __slots__ = ("_span", "_token", "_writes", "is_recording")

    def __init__(self, span: trace.Span, writes: WriteLinks) -> None:
        self._span = span
        self._writes = writes
        self._token: Token[Context] | None = None
        self.is_recording: bool = span.is_recording()
        """Whether the span is sampled."""

    def enter(self) -> None:
        """Make it the current span until it ends."""
        self._token = context.attach(trace.set_span_in_context(self._span))

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the program's propagator, such as `traceparent`."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(self._span))
        return carrier

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Record that something happened now."""
        self._span.add_event(name, attributes)

    def wrote(self, version: WrittenVersion) -> None:
        """Remember the span as the cause of a version, if it is sampled."""
        found = self._span.get_span_context()
        if found.trace_flags.sampled:
            self._writes.add(version, found)

    def end(self, attributes: Attributes, error: SpanError | None) -> None:
        """End the span, with its error if it failed."""
        if self._token is not None:
            context.detach(self._token)
            self._token = None
        if self.is_recording:
            self._span.set_attributes(attributes)
            if error is not None:
                self._fail(error)
        self._span.end()

    def _fail(self, error: SpanError) -> None:
        self._span.set_attribute("error.type", error.type)
        self._span.set_status(StatusCode.ERROR)
        if error.message:
            event = {"exception.type": error.type, "exception.message": error.message}
            if error.stacktrace:
                event["exception.stacktrace"] = error.stacktrace
            self._span.add_event("exception", event)
