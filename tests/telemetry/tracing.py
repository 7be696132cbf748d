"""What the tests of traces share: a tracing system whose spans are kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyinformer.telemetry.opentelemetry import OpenTelemetryTracing
from tests.waiting import until

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler


class Traces:
    """OpenTelemetry with the spans that have ended.

    Args:
        sampler: None to sample all.
        further: processors that are called before the spans are kept.
        remembered_writes: for links.
    """

    def __init__(
        self,
        sampler: Sampler | None = None,
        *further: SpanProcessor,
        remembered_writes: int = 100,
    ) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        for processor in further:
            self.provider.add_span_processor(processor)
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracing = OpenTelemetryTracing(self.provider, remembered_writes=remembered_writes)
        self.user = self.provider.get_tracer("user")
        """The tracer of the program."""

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, the first to end first."""
        return self._kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans of a name."""
        return [span for span in self.ended if span.name == name]

    async def wait_for(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait until so many spans of a name have ended; return them."""
        await until(lambda: len(self.named(name)) >= count, what=name)
        return self.named(name)


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    """Return whether a span is the child of another."""
    return child.parent is not None and child.parent == parent.context


def attributes(span: ReadableSpan) -> dict[str, object]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})
