"""Our metrics have the names, types, labels and buckets of the projects that they follow."""

from __future__ import annotations

import pytest

from pyinformer.telemetry.metrics import CATALOGUE
from tests.telemetry.metrics.upstream import (
    CONTROLLER,
    LEADER_ELECTION,
    WEBHOOK,
    WORKQUEUE,
    Upstream,
)

_ALL = WORKQUEUE | CONTROLLER | WEBHOOK | LEADER_ELECTION


@pytest.mark.parametrize(("name", "upstream"), _ALL.items(), ids=_ALL)
def test_a_metric_is_as_upstream_defines_it(name: str, upstream: Upstream) -> None:
    spec = CATALOGUE[name]
    assert (spec.type, spec.labels) == (upstream.type, upstream.labels)
    if upstream.type == "histogram":
        assert spec.buckets == pytest.approx(upstream.buckets)


@pytest.mark.parametrize("prefix", ["workqueue_", "controller_runtime_"])
def test_nothing_of_ours_has_a_name_that_looks_like_upstreams(prefix: str) -> None:
    assert {name for name in CATALOGUE if name.startswith(prefix)} <= set(_ALL)
