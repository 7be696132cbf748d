"""The figures of PrometheusMetrics, read by prometheus_client's own parsers."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pyinformer.errors import MetricConflictError
from pyinformer.telemetry.metrics import CATALOGUE, Exposition, MetricSpec, Sample
from pyinformer.telemetry.prometheus import PrometheusMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.metrics_core import Metric

OPEN_METRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"


def filled(registry: CollectorRegistry | None = None, text: str = "a") -> PrometheusMetrics:
    """Return metrics that have each type, with and without labels."""
    metrics = PrometheusMetrics(
        registry or CollectorRegistry(),  # without figures of the process, which change
        specs=[MetricSpec("app_size_bytes", "histogram", 'A "\\\n help.', (), (1.0, 2.5))],
    )
    labels = dict.fromkeys(CATALOGUE["workqueue_adds_total"].labels, text)
    metrics.counter("workqueue_adds_total", labels).inc()
    metrics.histogram("app_size_bytes", {}).observe(2.0)
    metrics.histogram("app_latency_seconds", {"of": text}).observe(math.pi)
    metrics.gauge("app_level", {"of": text, "to": "b"}).set(-math.inf)
    metrics.add_source(lambda: [Sample("app_age_seconds", {}, 1e-9), Sample("app_n_total", {}, 7)])
    return metrics


def body(metrics: PrometheusMetrics, accept: str = "") -> str:
    """Render what a scrape with this header shows."""
    _, render = metrics.exposition(accept)
    return render().decode()


def figures(
    parse: Callable[[str], Iterable[Metric]], text: str
) -> dict[tuple[str, str, str], list[tuple[str, list[tuple[str, str]], float]]]:
    """Return the samples of each metric, with its type and help."""
    return {
        (one.name, one.type, one.documentation): sorted(
            (sample.name, sorted(sample.labels.items()), sample.value) for sample in one.samples
        )
        for one in parse(text)
    }


@given(st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", "\n", 'a\\"\n%s{}', ""]))
def test_both_formats_are_those_of_prometheus_client(text: str) -> None:
    metrics = filled(text=text)
    expected = generate_latest(metrics.registry).decode()
    assert figures(parse_text, body(metrics)) == figures(parse_text, expected)
    expected = generate_open_metrics(metrics.registry).decode()  # type: ignore[no-untyped-call]
    made = body(metrics, OPEN_METRICS)
    assert figures(parse_open_metrics, made) == figures(parse_open_metrics, expected)


def test_a_strict_parser_reads_all_metrics_of_pyinformer_in_one_scrape() -> None:
    """It refuses a whole page with two families of one name."""
    metrics = PrometheusMetrics(CollectorRegistry())
    for spec in CATALOGUE.values():
        labels = dict.fromkeys(spec.labels, "a")
        if spec.type == "counter":
            metrics.counter(spec.name, labels).inc()
        elif spec.type == "gauge":
            metrics.gauge(spec.name, labels).set(1)
        else:
            metrics.histogram(spec.name, labels).observe(1)
    assert len(figures(parse_open_metrics, body(metrics, OPEN_METRICS))) == len(CATALOGUE)


def test_a_scrape_shows_each_value_and_no_created_series() -> None:
    lines = body(filled()).splitlines()
    assert 'app_level{of="a",to="b"} -Inf' in lines
    assert "app_age_seconds 1e-09" in lines
    assert "app_n_total 7.0" in lines
    assert 'app_size_bytes_bucket{le="1.0"} 0' in lines
    assert 'app_size_bytes_bucket{le="2.5"} 1' in lines
    assert 'app_size_bytes_bucket{le="+Inf"} 1' in lines
    assert "app_size_bytes_sum 2.0" in lines
    assert not any("_created" in line for line in lines)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("", "text/plain; version=0.0.4; charset=utf-8", id="none"),
        pytest.param("*/*;q=0.1", "text/plain; version=0.0.4; charset=utf-8", id="any"),
        pytest.param(
            "text/plain;version=1.0.0;escaping=allow-utf-8",
            "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
            id="text-of-prometheus-3",
        ),
        pytest.param(
            OPEN_METRICS,
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
            id="open-metrics",
        ),
        pytest.param(
            "application/openmetrics-text;version=1.0.7",
            "text/plain; version=0.0.4; charset=utf-8",
            id="unknown-version",
        ),
        pytest.param(
            "application/openmetrics-text;version=x.y",
            "text/plain; version=0.0.4; charset=utf-8",
            id="not-a-version",
        ),
        pytest.param(
            "text/plain;version=1.0.0;escaping=values",
            "text/plain; version=0.0.4; charset=utf-8",
            id="escaping-that-changes-names",
        ),
    ],
)
def test_the_format_is_what_the_client_accepts(accept: str, content_type: str) -> None:
    metrics = filled()
    assert isinstance(metrics, Exposition)
    found, render = metrics.exposition(accept)
    assert found == content_type
    assert render().endswith(b"# EOF\n") == found.startswith("application/openmetrics-text")


def test_a_registry_of_the_program_is_shown_whole_and_each_figure_once() -> None:
    registry = CollectorRegistry()
    Gauge("app_mine", "Mine.", registry=registry).set(5)
    metrics = filled(registry)
    for accept in ("", OPEN_METRICS):
        lines = body(metrics, accept).splitlines()
        assert lines.count("app_mine 5.0") == 1
        assert lines.count("app_n_total 7.0") == 1
        assert lines.count("# EOF") == bool(accept)
    assert generate_latest(registry).count(b"app_n_total 7.0") == 1


def test_a_name_that_the_registry_has_is_an_error_that_names_it() -> None:
    registry = CollectorRegistry()
    Gauge("workqueue_depth", "Mine.", registry=registry)
    with pytest.raises(MetricConflictError, match="'workqueue_depth': the registry of"):
        PrometheusMetrics(registry)
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    with pytest.raises(MetricConflictError, match="has it already; use another"):
        PrometheusMetrics(registry)


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus_client reads /proc")
def test_a_registry_of_its_own_has_cpu_and_memory_of_the_process() -> None:
    shown = body(PrometheusMetrics())
    assert "\nprocess_cpu_seconds_total " in shown
    assert "\nprocess_resident_memory_bytes " in shown
    assert "process_" not in body(PrometheusMetrics(CollectorRegistry()))


def test_registering_reads_no_figure() -> None:
    reads = []
    metrics = PrometheusMetrics()
    metrics.add_source(lambda: reads.append(1) or [])  # type: ignore[func-returns-value]
    collector, _of_process = metrics.registry._collector_to_names
    CollectorRegistry(auto_describe=True).register(collector)
    assert not reads
    body(metrics)
    assert reads


def test_what_is_not_unicode_is_shown_with_escapes_that_prometheus_knows() -> None:
    spec = MetricSpec("app_level", "gauge", 'A "level" \\ \udc80.', ("of",))
    metrics = PrometheusMetrics(specs=[spec])
    metrics.gauge("app_level", {"of": "\udc80"}).set(1.0)
    shown = body(metrics)
    assert r'app_level{of="\\udc80"} 1.0' in shown
    assert r'# HELP app_level A "level" \\ \\udc80.' in shown


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['prometheus_client'] = None\n"
    program += "import pyinformer.telemetry.prometheus"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert "pip install 'pyinformer[prometheus]'" in done.stderr
