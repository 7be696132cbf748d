"""Two clusters behind one address: what is read is sometimes one's and sometimes the other's."""

from __future__ import annotations

from dataclasses import replace

import pyinformer
from pyinformer import SharedInformer
from pyinformer.cache.reflector import Lineage, ReflectorState
from pyinformer.operator import Health
from tests.operator.test_health import Told


async def test_a_program_with_alternating_failures_of_two_clusters_is_alive_and_not_ready() -> None:
    config = pyinformer.client.ClusterConfig(server="http://127.0.0.1:1")
    fresh = SharedInformer(pyinformer.Cluster(config), "v1", "pods").status()
    informer = replace(fresh, has_synced=True, state=ReflectorState.WATCHING, age_seconds=1.0)
    lineage = Lineage()
    told = Told(informer)
    health = Health(told)
    for broken in range(3):
        told.now = replace(informer, lineage=lineage.status())
        assert health.ready().is_ok, f"after {broken} breaks"
        lineage.report_break("a list is older than the last")
    told.now = replace(informer, lineage=lineage.status())

    assert not health.ready().is_ok
    (reason,) = health.ready().reasons
    assert "two clusters at one address?" in reason
    assert "a list is older than the last" in reason
    assert health.live().is_ok
