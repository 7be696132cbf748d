"""Replicas that share keys, as processes at the real kube-apiserver, while everything fails.

The order is that of etcd: no clock decides who may write. Durations are short here; `make soak` has
those of Kubernetes' own components, and ten seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import KubeAPIServer, StaticToken
from tests.sharding.lab import BUCKETS, OBJECTS, TOKEN, Durations, Lab
from tests.soak import in_soak

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.real, pytest.mark.soak, pytest.mark.timeout(400)]

DURATIONS = in_soak(
    Durations(),
    otherwise=Durations(
        lease_duration_seconds=6.0, renew_deadline_seconds=4.0, retry_period_seconds=1.0
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(in_soak(10, otherwise=1)))
def test_no_write_leaves_a_replica_that_does_not_own_its_key_and_no_work_is_lost(
    tmp_path: Path, kube_apiserver_build: bool, seed: int
) -> None:
    """SIGKILL, SIGSTOP, SIGTERM, a server that restarts, deleted Leases; two, six, three."""
    users = [StaticToken(TOKEN, "replica", ("system:masters",))]
    with KubeAPIServer(build=kube_apiserver_build, tokens=users) as api:
        lab = Lab(
            api, tmp_path, seed=seed, durations=DURATIONS, fault_seconds=in_soak(75, otherwise=30)
        )
        report = lab.run()

    assert report.violations == [], "\n".join(report.faults)
    assert report.writes >= OBJECTS  # each that is left was written, on a slow machine as well
    assert report.claims >= BUCKETS
