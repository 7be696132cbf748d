"""The registry: what is bound, what a scope removes, and what is collected."""

from __future__ import annotations

import logging
import math
import weakref
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError, InvalidTypeError, MetricConflictError
from pyinformer.telemetry.metrics import (
    CATALOGUE,
    HistogramValue,
    MetricSpec,
    MetricsRegistry,
    Sample,
)
from tests.telemetry.metrics.reading import series, totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.telemetry.metrics import MetricType

ADDS = "workqueue_adds_total"
DEPTH = "workqueue_depth"
LEADS = "leader_election_master_status"


def test_a_bound_series_exists_at_zero_and_then_has_its_value() -> None:
    registry = MetricsRegistry()
    counter = registry.counter("controller_hot_loops_total", {"controller": "c"})
    gauge = registry.gauge(LEADS, {"name": "db"})
    assert series(registry, "controller_hot_loops_total") == {("c",): 0.0}
    assert series(registry, LEADS) == {("db",): 0.0}
    counter.inc()
    counter.inc(2.5)
    gauge.set(1.0)
    assert series(registry, "controller_hot_loops_total") == {("c",): 3.5}
    assert series(registry, LEADS) == {("db",): 1.0}


def test_a_histogram_counts_a_value_in_the_bucket_that_it_equals() -> None:
    spec = MetricSpec("app_size_bytes", "histogram", "Sizes.", ("kind",), (1.0, 2.0))
    registry = MetricsRegistry([spec])
    sizes = registry.histogram("app_size_bytes", {"kind": "a"})
    for value in (0.5, 1.0, 1.5, 2.0, 7.0):
        sizes.observe(value)
    assert series(registry, "app_size_bytes") == {("a",): HistogramValue((2, 4, 5), 12.0)}


def test_the_series_and_sources_of_a_scope_vanish_when_it_is_closed() -> None:
    registry = MetricsRegistry()
    scope, inner = registry.scope(), None
    scope.counter("app_calls_total", {"way": "a"}).inc()
    scope.add_source(lambda: [Sample("app_age_seconds", {}, 3.0)])
    inner = scope.scope()
    late = inner.counter("app_calls_total", {"way": "b"})
    registry.counter("app_calls_total", {"way": "mine"})
    assert series(registry, "app_calls_total") == {("a",): 1.0, ("b",): 0.0, ("mine",): 0.0}
    assert series(registry, "app_age_seconds") == {(): 3.0}
    scope.close()
    scope.close()
    late.inc()
    scope.counter("app_calls_total", {"way": "late"}).inc()
    scope.add_source(lambda: [Sample("app_age_seconds", {}, 3.0)])
    scope.scope().counter("app_calls_total", {"way": "later"})
    assert series(registry, "app_calls_total") == {("mine",): 0.0}
    assert series(registry, "app_age_seconds") == {}


def test_a_scope_keeps_nothing_of_the_scopes_in_it_that_are_closed() -> None:
    scope = MetricsRegistry().scope()
    closed = scope.scope()
    closed.close()
    kept = weakref.ref(closed)
    del closed
    assert kept() is None


def test_a_series_of_two_scopes_remains_until_both_are_closed() -> None:
    registry = MetricsRegistry()
    scopes = registry.scope(), registry.scope()
    for scope in scopes:
        for _ in range(2):  # the second binding is the same series of the same owner
            scope.counter("app_calls_total", {"way": "a"}).inc()
    scopes[0].close()
    assert series(registry, "app_calls_total") == {("a",): 4.0}
    scopes[1].close()
    assert series(registry, "app_calls_total") == {}
    registry.scope().counter("app_calls_total", {"way": "a"}).inc()
    assert series(registry, "app_calls_total") == {("a",): 1.0}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        pytest.param({}, r"its labels are \(controller\), got \(\)", id="none"),
        pytest.param({"name": "c"}, r"its labels are \(controller\), got \(name\)", id="another"),
        pytest.param({"controller": "c", "x": ""}, r"got \(controller, x\)", id="more"),
    ],
)
def test_other_label_names_are_refused(labels: dict[str, str], reason: str) -> None:
    registry = MetricsRegistry()
    with pytest.raises(MetricConflictError, match=reason):
        registry.counter("controller_hot_loops_total", labels)
    assert series(registry, "controller_hot_loops_total") == {}


def test_a_name_keeps_the_type_of_its_first_use() -> None:
    registry = MetricsRegistry()
    registry.counter("app_calls_total", {"way": "a"})
    with pytest.raises(MetricConflictError, match="it is a counter, not a gauge") as caught:
        registry.gauge("app_calls_total", {"way": "a"})
    assert caught.value.metric == "app_calls_total"
    with pytest.raises(MetricConflictError, match="it is defined already"):
        MetricsRegistry([MetricSpec(DEPTH, "gauge", "Mine.")])


@pytest.mark.parametrize(
    ("name", "kind", "other"),
    [
        pytest.param("app_calls", "gauge", "app_calls_total", id="counter"),
        pytest.param("app_calls", "histogram", "app_calls_total", id="histogram-of-counter"),
        pytest.param("app_calls_created", "gauge", "app_calls_total", id="created"),
        pytest.param("app_seconds_count", "gauge", "app_seconds", id="count"),
        pytest.param("app_seconds_sum", "gauge", "app_seconds", id="sum"),
        pytest.param("app_seconds_bucket", "gauge", "app_seconds", id="bucket"),
        pytest.param("app_seconds_total", "counter", "app_seconds", id="counter-of-histogram"),
    ],
)
def test_a_name_that_a_scrape_shows_for_another_metric_is_refused(
    name: str, kind: MetricType, other: str
) -> None:
    """Strict readers, such as prometheus_client's, refuse the whole scrape."""
    kinds: dict[str, MetricType] = {"app_calls_total": "counter", "app_seconds": "histogram"}
    specs = [MetricSpec(other, kinds[other], "Theirs."), MetricSpec(name, kind, "Mine.")]
    with pytest.raises(MetricConflictError, match=f"{name!r}: .* {other!r}"):
        MetricsRegistry(specs)
    for one in (specs, specs[::-1]):
        registry = MetricsRegistry()
        getattr(registry, one[0].type)(one[0].name, {})
        with pytest.raises(MetricConflictError):
            getattr(registry, one[1].type)(one[1].name, {})
        getattr(registry, one[0].type)(one[0].name, {})


def test_a_figure_of_a_source_whose_name_is_taken_is_dropped_and_counted() -> None:
    registry = MetricsRegistry()
    registry.counter("app_calls_total", {}).inc()
    registry.add_source(lambda: [Sample("app_calls", {}, 1.0)])
    assert series(registry, "app_calls") == {}
    failures = series(registry, "pyinformer_metrics_source_failures_total")
    assert failures["name",] != 0


def test_values_that_a_series_cannot_have_are_dropped_and_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricsRegistry()
    counter = registry.counter("app_calls_total", {})
    seconds = registry.histogram("app_seconds", {})
    gauge = registry.gauge("app_age_seconds", {})
    for handle in (counter.inc, seconds.observe, gauge.set):
        handle(math.nan)
    counter.inc(-1.0)
    counter.inc(math.inf)
    seconds.observe(-math.inf)
    gauge.set(-math.inf)  # a gauge may be infinite
    assert series(registry, "app_calls_total") == {(): 0.0}
    assert series(registry, "app_seconds") == {(): HistogramValue((0,) * 12, 0.0)}
    assert series(registry, "app_age_seconds") == {(): -math.inf}
    assert series(registry, "pyinformer_metrics_dropped_values_total") == {
        ("app_calls_total",): 3.0,
        ("app_seconds",): 2.0,
        ("app_age_seconds",): 1.0,
    }
    assert len(caplog.records) == 3


def test_a_source_that_fails_is_fenced_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad() -> Iterable[Sample]:
        yield Sample("app_age_seconds", {"of": "a"}, 1.0)
        yield Sample("app_age_seconds", {"by": "a"}, 1.0)
        yield Sample("app_age_seconds", {"of": "b"}, math.nan)
        yield Sample("workqueue_queue_duration_seconds", {"name": "q"}, 1.0)
        yield Sample("not a name", {}, 1.0)
        yield Sample("app_age_seconds", {"of": 7}, 1.0)  # type: ignore[dict-item]  # foreign
        raise RuntimeError("secret")

    registry = MetricsRegistry()
    registry.add_source(bad)
    registry.add_source(lambda: [Sample("app_age_seconds", {"of": "c"}, 2.0)])
    for _ in range(2):
        assert series(registry, "app_age_seconds") == {("a",): 1.0, ("c",): 2.0}
    counts = {("raised",): 2, ("labels",): 4, ("type",): 2, ("value",): 2, ("name",): 2}
    found = series(registry, "pyinformer_metrics_source_failures_total")
    assert found == {reason: count * 3 / 2 for reason, count in counts.items()}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "secret" not in record.getMessage()


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_a_source_cannot_give_a_counter_what_its_handle_cannot(value: float) -> None:
    registry = MetricsRegistry()
    registry.counter("app_calls_total", {}).inc()
    registry.add_source(lambda: [Sample("app_calls_total", {}, value)])
    assert series(registry, "app_calls_total") == {(): 1.0}
    assert series(registry, "pyinformer_metrics_source_failures_total")["value",] == 2.0


def test_counters_of_several_sources_add_up_and_the_last_gauge_counts() -> None:
    registry = MetricsRegistry()
    registry.counter("app_calls_total", {}).inc()
    for value in (2.0, 3.0):
        registry.add_source(
            lambda value=value: [  # type: ignore[misc]  # each has its own value
                Sample("app_calls_total", {}, value),
                Sample("app_age_seconds", {}, value),
            ]
        )
    assert series(registry, "app_calls_total") == {(): 6.0}
    assert series(registry, "app_age_seconds") == {(): 3.0}


def test_the_series_of_a_name_are_limited_and_the_rest_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricsRegistry()
    for number in range(1_100):
        registry.counter("app_calls_total", {"way": str(number), "to": "x"}).inc()
    found = series(registry, "app_calls_total")
    assert len(found) == 1_001
    assert found["other", "other"] == 100.0
    assert found["999", "x"] == 1.0
    assert series(registry, "pyinformer_metrics_folded_series_total") == {
        ("app_calls_total",): 100.0
    }
    (record,) = caplog.records
    assert record.levelno == logging.WARNING


def test_a_program_of_a_thousand_informers_has_the_states_of_each() -> None:
    """An alert on a state is blind to an informer that is folded into others."""
    labels = dict.fromkeys(CATALOGUE["informer_state"].labels, "")
    registry = MetricsRegistry()
    registry.add_source(
        lambda: [
            Sample("informer_state", {**labels, "name": str(number), "state": str(state)}, 1.0)
            for number in range(1_000)
            for state in range(11)
        ]
    )
    assert len(series(registry, "informer_state")) == 11_000


def test_the_priorities_of_a_queue_are_limited_and_add_up(caplog: pytest.LogCaptureFixture) -> None:
    def depths() -> Iterable[Sample]:
        for name in ("a", "b"):
            for priority in range(30):
                yield Sample("app_depth", {"priority": str(priority), "name": name}, 2.0)

    registry = MetricsRegistry()
    registry.add_source(depths)
    for _ in range(2):
        found = series(registry, "app_depth")
        assert len(found) == 2 * 26
        assert found["other", "a"] == found["other", "b"] == 10.0
        assert found["24", "b"] == 2.0
    assert len(caplog.records) == 1


def test_a_scope_that_ends_makes_room_for_other_series() -> None:
    registry = MetricsRegistry()
    for _ in range(3):
        scope = registry.scope()
        for priority in range(25):
            scope.gauge("app_depth", {"priority": str(priority)}).set(1.0)
        assert ("24",) in series(registry, "app_depth")
        scope.close()


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        pytest.param("app_calls", {}, id="counter-without-total"),
        pytest.param("app-calls_total", {}, id="name"),
        pytest.param("app_calls_total", {"a b": ""}, id="label"),
        pytest.param("app_calls_total", {"__a": ""}, id="reserved-label"),
    ],
)
def test_names_that_no_metric_can_have_are_refused(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        MetricsRegistry().counter(name, labels)


def test_a_label_value_must_be_a_string() -> None:
    with pytest.raises(InvalidTypeError, match="values of app_calls_total must be str"):
        MetricsRegistry().counter("app_calls_total", {"a": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("buckets", [(1.0, 1.0), (2.0, 1.0), (math.inf,)])
def test_buckets_must_ascend_and_be_finite(buckets: tuple[float, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match="buckets"):
        MetricSpec("app_seconds", "histogram", "Seconds.", (), buckets)


def test_a_total_does_not_change_when_its_source_ends_while_a_collection_reads() -> None:
    """OpenTelemetry reads on a thread of its own."""
    registry = MetricsRegistry(keeps_totals=True)
    scope = registry.scope()

    def ends_the_other() -> Iterable[Sample]:
        """Let the collection come to a source that has ended since it began."""
        scope.close()
        return []

    registry.add_source(ends_the_other)
    scope.add_source(lambda: [Sample("app_runs_total", {"of": "q"}, 5.0)])
    assert totals(registry, "app_runs_total") == {("q",): 5.0}
    assert totals(registry, "app_runs_total") == {("q",): 5.0}


def test_a_total_does_not_change_when_a_collection_reads_a_source_that_ends() -> None:
    registry = MetricsRegistry(keeps_totals=True)
    scope, found = registry.scope(), list[dict[tuple[str, ...], float]]()

    def source() -> Iterable[Sample]:
        """Collect while the last figures are read."""
        if not found:
            found.append({})
            found.append(totals(registry, "app_runs_total"))
        return [Sample("app_runs_total", {"of": "q"}, 5.0)]

    scope.add_source(source)
    scope.close()
    assert found[1] == totals(registry, "app_runs_total") == {("q",): 5.0}


def test_of_what_ended_a_thousand_series_remain_and_the_rest_is_one() -> None:
    """A program that opens clusters for tenants of an hour has thousands of names in a month."""
    spec = MetricSpec("app_size_bytes", "histogram", "Sizes.", ("kind",), (1.0, 2.0))
    registry = MetricsRegistry([spec], keeps_totals=True)
    for number in range(1_200):
        scope = registry.scope()
        scope.counter("app_calls_total", {"way": f"w{number}"}).inc(2)
        scope.histogram("app_size_bytes", {"kind": f"k{number}"}).observe(1.5)
        scope.add_source(partial(_runs_of, f"o{number}"))
        scope.close()
    calls = totals(registry, "app_calls_total")
    sizes = series(registry, "app_size_bytes")
    runs = totals(registry, "app_runs_total")
    assert len(calls) == len(sizes) == len(runs) == 1_001
    assert calls["other",] == 2 * 200
    assert sizes["other",] == HistogramValue((0, 200, 200), 300.0)
    assert runs["other",] == 3 * 200

    again = registry.scope()
    again.counter("app_calls_total", {"way": "w7"}).inc()
    assert totals(registry, "app_calls_total")["w7",] == 3
    again.close()
    assert totals(registry, "app_calls_total") == {**calls, ("w7",): 3.0}


def _runs_of(name: str) -> list[Sample]:
    return [Sample("app_runs_total", {"of": name}, 3.0)]
