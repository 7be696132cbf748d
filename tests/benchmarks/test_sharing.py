"""The benchmark of replicas that share keys: it runs, and what it compares is what it says."""

from __future__ import annotations

import pytest

from benchmarks.sharing.__main__ import Costs, costs, largest_share


@pytest.mark.slow
def test_events_of_both_kinds_are_measured() -> None:
    found = costs(rounds=1, objects=60)

    assert len(found.foreign) == len(found.own) == 1
    assert min(*found.foreign, *found.own) > 0


def test_the_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    assert Costs([10.0, 30.0, 30.0], [20.0, 20.0, 60.0]).ratio() == 0.5


def test_the_largest_share_of_six_replicas_is_little_above_the_mean() -> None:
    """The hash and the seed are fixed, so this measures nothing."""
    assert 22 / (128 / 6) - 0.02 < largest_share(10_000, seed=0) < 1.1
