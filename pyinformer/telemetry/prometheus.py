"""Metrics for Prometheus, through the package prometheus_client.

    import pyinformer
    from pyinformer.telemetry.prometheus import PrometheusMetrics

    app = pyinformer.Operator("app", metrics=PrometheusMetrics())

The operator's health endpoint then answers `/metrics`. Needs the extra `pyinformer[prometheus]`.
Only this module imports prometheus_client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Final, final

if find_spec("prometheus_client") is None:
    _HINT = (
        "pyinformer.telemetry.prometheus needs the package prometheus_client:"
        " pip install 'pyinformer[prometheus]'"
    )
    raise ModuleNotFoundError(_HINT, name="prometheus_client")

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CONTENT_TYPE_PLAIN_1_0_0,
    choose_encoder,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import DuplicateTimeseries

from pyinformer.errors import MetricConflictError
from pyinformer.telemetry._exposition_format import histogram_samples, render
from pyinformer.telemetry.metrics import (
    CATALOGUE,
    HistogramValue,
    MetricFamily,
    MetricSpec,
    MetricsRegistry,
)

__all__ = ["PrometheusMetrics"]

# What prometheus_client may choose: a client can send any number of versions. Its other
# escapings change names that need none.
_FORMATS: Final = frozenset(
    f"{content_type}{escaping}"
    for content_type in (
        CONTENT_TYPE_PLAIN_0_0_4,
        CONTENT_TYPE_PLAIN_1_0_0,
        CONTENT_TYPE_LATEST,
    )
    for escaping in ("", "; escaping=underscores", "; escaping=allow-utf-8")
)


@final
class PrometheusMetrics(MetricsRegistry):
    """A registry whose figures Prometheus can scrape.

    It is a collector of prometheus_client: the figures are read when they are scraped. There are no
    `_created` series, which would double the number of counters and histograms.

    Args:
        registry: a registry of prometheus_client to register with, such as its `REGISTRY`, whose
            figures are then scraped as well; None for a registry of its own, with CPU time, memory
            and file descriptors of the process where prometheus_client knows them (Linux).
        specs: types, help and buckets of the program's own metrics.

    Raises:
        MetricConflictError: the registry or the specs have a metric of pyinformer's names.

    Attributes:
        registry: the registry, for other collectors, and for servers of prometheus_client.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, specs: Iterable[MetricSpec] = ()
    ) -> None:
        own = tuple(specs)
        super().__init__(own)
        self.registry: CollectorRegistry = CollectorRegistry() if registry is None else registry
        self._collector = _Collector(self, own)
        try:
            self.registry.register(self._collector)
        except DuplicateTimeseries as error:
            name = min(error.duplicates)
            reason = "the registry of prometheus_client has it already"
            raise MetricConflictError(name, reason) from error
        if registry is None:
            ProcessCollector(registry=self.registry)

    def exposition(self, accept: str) -> tuple[str, Callable[[], bytes]]:
        """Choose the format of an answer: OpenMetrics if the client accepts it, else text.

        Args:
            accept: the values of the request's Accept headers; empty for none.

        Returns:
            The content type, and the function that renders all figures of the registry; it may be
            called in any thread.
        """
        try:
            encoder, content_type = choose_encoder(accept)
        except TypeError:  # prometheus_client compares a version such as 1.x with numbers
            content_type = ""
        if content_type not in _FORMATS:
            encoder, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
        is_open_metrics = content_type.startswith("application/openmetrics-text")
        return content_type, partial(self._render, encoder, is_open_metrics=is_open_metrics)

    def _render(
        self, encoder: Callable[[CollectorRegistry], bytes], *, is_open_metrics: bool
    ) -> bytes:
        """Return these figures, then those of the registry's other collectors."""
        with self._collector.hidden():
            others = encoder(self.registry)  # with the mark at OpenMetrics' end
        return render(self.collect(), is_open_metrics=is_open_metrics) + others


@final
class _Collector:
    """The collector through which prometheus_client reads the figures of a PrometheusMetrics."""

    def __init__(self, metrics: MetricsRegistry, specs: tuple[MetricSpec, ...]) -> None:
        self._metrics = metrics
        self._specs = specs
        self._hiding = threading.local()

    def describe(self) -> list[Metric]:
        """Return the names that may appear, and read no figure."""
        return [_metric(spec) for spec in (*CATALOGUE.values(), *self._specs)]

    def collect(self) -> Iterator[Metric]:
        """Read all figures, unless they are hidden from this thread."""
        if not getattr(self._hiding, "is_on", False):
            yield from map(_filled, self._metrics.collect())

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the figures from what this thread collects."""
        self._hiding.is_on = True
        try:
            yield
        finally:
            self._hiding.is_on = False


def _metric(spec: MetricSpec) -> Metric:
    return Metric(spec.name.removesuffix("_total"), spec.help, spec.type)


def _filled(family: MetricFamily) -> Metric:
    metric = _metric(family.spec)
    for series in family.series:
        if isinstance(series.value, HistogramValue):
            for sample in histogram_samples(family.spec, series.labels, series.value):
                metric.add_sample(*sample)
        else:
            metric.add_sample(family.spec.name, series.labels, series.value)
    return metric
