"""The benchmark of replicas that share keys: it runs, and what it compares is what it says."""

from __future__ import annotations

import pytest

from benchmarks.sharing.__main__ import Costs, costs, largest_share
from benchmarks.sharing.moves import Durations, measure


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


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_moves_and_requests_are_measured(kube_apiserver_build: bool) -> None:
    short = Durations(
        lease_duration_seconds=6.0, renew_deadline_seconds=4.0, retry_period_seconds=1.0
    )
    found = measure(runs=1, rest_seconds=3.0, durations=short, build=kube_apiserver_build)

    (joined,), (left,), (killed,) = found.join, found.leave, found.kill
    assert min(joined, left) >= 0
    assert killed > 3  # the rest of its Lease
    assert found.requests > [0]
    assert found.writes > found.refused
