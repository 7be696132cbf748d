"""CPU time of a reconcile and of a request's span: without traces, unsampled, and sampled.

    python -m benchmarks.tracing
    python -m benchmarks.tracing --rounds 3 --reconciles 200    # does it run?

One worker reconciles keys of a source in memory with a function that does nothing; nothing is sent
for a request. The variants take turns within each round, so that a busy machine slows all of them.
The figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import anyio

from pyinformer import Controller, KubeObject, Request
from pyinformer.controller import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyinformer.telemetry import Tracing

_CHANGED = Reason("primary pods.v1", "updated", "default/name-0", "12345")


async def _microseconds(tracing: Tracing | None, reconciles: int) -> float:
    """Return the CPU time of one reconcile, queue included, in microseconds."""
    left = reconciles
    done = anyio.Event()

    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    controller: Controller[None] = Controller("pods", reconcile, tracing=tracing)
    async with controller:
        put = controller.engine.requests.put_nowait
        requests = [Request(f"default/name-{number}") for number in range(reconciles)]
        began = time.process_time()
        for request in requests:
            put(request, _CHANGED, priority=0)
        await done.wait()
        return (time.process_time() - began) / reconciles * 1e6


def _request_microseconds(tracing: Tracing | None, requests: int) -> float:
    """Return the CPU time of the span of one request, in microseconds."""
    from opentelemetry import trace

    from pyinformer.client.cluster._request_spans import RequestSpans

    spans = RequestSpans("", "https://localhost", tracing)
    root = None if tracing is None else tracing.start_reconcile("reconcile pods", {}, ())
    assert (root is None) != trace.get_current_span().get_span_context().is_valid
    began = time.process_time()
    for _ in range(requests):
        with spans.of("PATCH", "/api/v1/namespaces/default/pods/name") as span:
            if span is not None:
                span.status = 200
    seconds = time.process_time() - began
    if root is not None:
        root.end({}, None)
    return seconds / requests * 1e6


def _variants() -> dict[str, Callable[[], Tracing | None]]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler

    from pyinformer.telemetry.opentelemetry import OpenTelemetryTracing

    class Nowhere(SpanExporter):
        """Drops what it gets."""

        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    def traced(sampler: Sampler) -> Tracing:
        provider = TracerProvider(sampler=ParentBased(sampler), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        return OpenTelemetryTracing(provider)

    off, on = traced(ALWAYS_OFF), traced(ALWAYS_ON)
    return {
        "no traces": lambda: None,
        "unsampled": lambda: off,
        "sampled, in batches": lambda: on,
    }


def main() -> None:
    """Measure, and print a line for each variant."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--reconciles", type=int, default=5_000)
    arguments = parser.parse_args()
    variants = _variants()
    for what in ("reconcile", "request"):
        figures: dict[str, list[float]] = {name: [] for name in variants}
        for round_ in range(-1, arguments.rounds):  # the first warms up
            for name, tracing in variants.items():
                if what == "reconcile":
                    found = asyncio.run(_microseconds(tracing(), arguments.reconciles))
                else:
                    found = _request_microseconds(tracing(), arguments.reconciles)
                if round_ >= 0:
                    figures[name].append(found)
        _print(what, figures)


def _print(what: str, figures: dict[str, list[float]]) -> None:
    base = figures["no traces"]
    for name, found in figures.items():
        more = median(one - other for one, other in zip(found, base, strict=True))
        print(f"{what:12}{name:22}{median(found):8.2f} us, {more:+6.2f} us")


if __name__ == "__main__":
    main()
