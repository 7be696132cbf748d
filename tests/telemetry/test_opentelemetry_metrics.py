"""The figures of OpenTelemetryMetrics, as a reader of OpenTelemetry's SDK collects them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from opentelemetry.metrics import get_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, InMemoryMetricReader, Sum

import pyinformer
from pyinformer import Controller, SharedInformer
from pyinformer.errors import InvalidArgumentError, MetricConflictError
from pyinformer.telemetry.metrics import CATALOGUE, MetricSpec, Sample
from pyinformer.telemetry.opentelemetry import OpenTelemetryMetrics
from pyinformer.testing import APIServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.metrics.export import Metric

_SIZES = MetricSpec("app_size_bytes", "histogram", "Sizes.", ("of",), (1.0, 2.5))
_LEVEL = MetricSpec("app_level", "gauge", "The level.")
_ADDS = "workqueue_adds_total"
_LABELS = dict.fromkeys(CATALOGUE[_ADDS].labels, "a")


class Reader:
    """Collects what an OpenTelemetryMetrics has."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.metrics = OpenTelemetryMetrics(self.provider, specs=[_SIZES, _LEVEL])

    def collect(self) -> dict[str, Metric]:
        """Collect once; return the metrics by name."""
        found = self._reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in (() if found is None else found.resource_metrics)
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def values(self, name: str) -> dict[tuple[tuple[str, object], ...], object]:
        """Return the values of a metric by the labels."""
        metric = self.collect().get(name)
        points = () if metric is None else metric.data.data_points
        return {
            tuple(sorted((point.attributes or {}).items())): getattr(point, "value", None)
            for point in points
        }


@pytest.fixture
def reader() -> Iterator[Reader]:
    """A reader, which is shut down afterwards."""
    reader = Reader()
    yield reader
    reader.provider.shutdown()


def test_counters_and_gauges_are_read_when_they_are_collected(reader: Reader) -> None:
    counter = reader.metrics.counter(_ADDS, _LABELS)
    reader.metrics.add_source(lambda: [Sample("app_level", {}, 7.5)])
    counter.inc()
    counter.inc(2.0)
    found = reader.collect()
    adds, level = found[_ADDS].data, found["app_level"].data
    assert isinstance(adds, Sum)
    assert adds.is_monotonic
    assert [(dict(one.attributes or {}), one.value) for one in adds.data_points] == [(_LABELS, 3.0)]
    assert isinstance(level, Gauge)
    assert [one.value for one in level.data_points] == [7.5]
    assert found["app_level"].description == "The level."
    counter.inc()
    assert list(reader.values(_ADDS).values()) == [4.0]


def test_a_histogram_has_the_series_and_names_of_prometheus(reader: Reader) -> None:
    histogram = reader.metrics.histogram("app_size_bytes", {"of": "x"})
    for value in (0.5, 2.0, 9.0):
        histogram.observe(value)
    of = ("of", "x")
    assert reader.values("app_size_bytes_bucket") == {
        (("le", "1.0"), of): 1,
        (("le", "2.5"), of): 2,
        (("le", "+Inf"), of): 3,
    }
    assert reader.values("app_size_bytes_count") == {(of,): 3}
    assert reader.values("app_size_bytes_sum") == {(of,): 11.5}
    counts = reader.collect()["app_size_bytes_count"].data
    assert isinstance(counts, Sum)
    assert not counts.is_monotonic, "exporters would append _total to its name"


def test_the_gauges_of_a_closed_scope_vanish(reader: Reader) -> None:
    scope = reader.metrics.scope()
    scope.gauge("app_level", {}).set(1.0)
    assert reader.values("app_level")
    scope.close()
    assert not reader.values("app_level")


def test_a_source_is_read_once_in_a_collection(reader: Reader) -> None:
    reads = list[int]()

    def read() -> list[Sample]:
        reads.append(1)
        return [Sample("app_level", {}, float(len(reads)))]

    reader.metrics.add_source(read)
    assert list(reader.values("app_level").values()) == [1.0]
    assert list(reader.values("app_level").values()) == [2.0]
    assert len(reads) == 2


def test_a_metric_without_a_spec_is_reported_once(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    reader.metrics.counter("app_odd_total", {}).inc()
    assert "app_odd_total" not in reader.collect()
    reader.collect()
    (told,) = caplog.records
    assert told.getMessage() == (
        "metric app_odd_total is not exported to OpenTelemetry: pass its MetricSpec to"
        " OpenTelemetryMetrics(specs=)"
    )


def test_a_spec_with_a_name_of_the_library_is_refused() -> None:
    with pytest.raises(MetricConflictError, match=_ADDS):
        OpenTelemetryMetrics(specs=[MetricSpec(_ADDS, "counter", "Mine.")])


async def test_a_controller_of_a_real_server_is_measured(reader: Reader) -> None:
    async def reconcile(request: object, obj: object) -> None:
        pass

    with APIServer() as api:
        made = {"name": "a", "namespace": "default"}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": made})
        async with pyinformer.connect(server=api.url, metrics=reader.metrics) as cluster:
            maps = SharedInformer(cluster, "v1", "configmaps")
            metrics = reader.metrics
            async with Controller("maps", reconcile, maps, metrics=metrics) as controller:
                await until(lambda: controller.status().outcomes["success"])
                found = reader.values("controller_runtime_reconcile_total")
                assert found[("controller", "maps"), ("result", "success")] == 1.0
                assert reader.values("rest_client_requests_total")


def test_a_second_one_of_a_provider_is_refused_since_its_figures_would_be_dropped(
    reader: Reader,
) -> None:
    with pytest.raises(InvalidArgumentError, match="meter_provider: has an OpenTelemetryMetrics"):
        OpenTelemetryMetrics(reader.provider)
    counter = reader.metrics.counter(_ADDS, _LABELS)
    counter.inc()
    assert reader.values(_ADDS)


def test_the_global_provider_is_one_however_it_is_named() -> None:
    OpenTelemetryMetrics()
    for again in (None, get_meter_provider()):
        with pytest.raises(InvalidArgumentError, match="pass the first one"):
            OpenTelemetryMetrics(again)


def test_counters_of_what_is_closed_and_opened_again_do_not_fall(reader: Reader) -> None:
    """As of a leader's controllers, whose names are the same in its next term."""
    totals = []
    for made in (10, 4):
        scope = reader.metrics.scope()
        scope.counter(_ADDS, _LABELS).inc(made)
        scope.add_source(partial(_writes, made))
        totals.append((_only(reader, _ADDS), _only(reader, "controller_writes_total")))
        scope.close()
        totals.append((_only(reader, _ADDS), _only(reader, "controller_writes_total")))

    assert totals == [(10, 10), (10, 10), (14, 14), (14, 14)]


def _writes(number: int) -> list[Sample]:
    return [Sample("controller_writes_total", {"controller": "c"}, number)]


def _only(reader: Reader, name: str) -> object:
    (value,) = reader.values(name).values()
    return value
