"""Percentiles of the times between sending and receiving.

Every instant is given in nanoseconds; no clock is read.
"""

from __future__ import annotations

import pytest

from benchmarks.harness.latencies import COUNTED, MAX, P50, P99, latency_figures, percentile


def test_each_version_is_compared_with_its_own_send() -> None:
    seen = [("102", 9_000), ("101", 5_000)]
    found = latency_figures(seen, [1_000, 2_000], first_resource_version=101)
    assert (found[P50], found[MAX], found[COUNTED]) == (4.0, 7.0, 2.0)


def test_the_first_time_of_a_version_seen_twice_is_used() -> None:
    seen = [("7", 3_000), ("7", 90_000)]
    found = latency_figures(seen, [1_000], first_resource_version=7)
    assert (found[MAX], found[COUNTED]) == (2.0, 1.0)


def test_initial_objects_and_later_ones_are_left_out() -> None:
    seen = [("6", 0), ("7", 2_000), ("8", 0)]
    found = latency_figures(seen, [1_000], first_resource_version=7)
    assert found[COUNTED] == 1.0


def test_a_merged_update_is_missing_from_the_count() -> None:
    found = latency_figures([("9", 5_000)], [1_000, 2_000, 3_000], first_resource_version=7)
    assert (found[P99], found[COUNTED]) == (2.0, 1.0)


def test_without_samples_there_is_no_figure() -> None:
    assert latency_figures([], [1_000], first_resource_version=1) == {}


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        pytest.param(0, 1.0, id="lowest"),
        pytest.param(50, 50.0, id="median"),
        pytest.param(99, 99.0, id="p99"),
        pytest.param(99.5, 100.0, id="between"),
        pytest.param(100, 100.0, id="highest"),
    ],
)
def test_a_percentile_is_a_value_that_occurred(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(1, 101)], percent) == expected
