"""Replicas that share keys, as processes at the real kube-apiserver, while everything fails.

The order is that of etcd: no clock decides who may write. Durations are short here; `make soak` has
those of Kubernetes' own components, and ten seeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import KubeAPIServer, StaticToken
from tests.sharding.lab import BUCKETS, OBJECTS, TOKEN, Durations, Lab, Report
from tests.sharding.planted import BUGS
from tests.soak import IS_SOAK, in_soak

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.real, pytest.mark.soak, pytest.mark.timeout(400)]

DURATIONS = in_soak(
    Durations(),
    otherwise=Durations(
        lease_duration_seconds=6.0, renew_deadline_seconds=4.0, retry_period_seconds=1.0
    ),
)
_TRIES = 4  # seeds in which a bug has to show


def _run(folder: Path, *, build: bool, seed: int, bug: str = "") -> Report:
    """Run the lab at a server of its own."""
    users = [StaticToken(TOKEN, "replica", ("system:masters",))]
    with KubeAPIServer(build=build, tokens=users) as api:
        lab = Lab(
            api,
            folder,
            seed=seed,
            durations=DURATIONS,
            fault_seconds=in_soak(75, otherwise=30),
            planted=bug,
            late=BUGS[bug].late if bug else ("configmaps",),
        )
        return lab.run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(in_soak(10, otherwise=1)))
def test_no_write_leaves_a_replica_that_does_not_own_its_key_and_no_work_is_lost(
    tmp_path: Path, kube_apiserver_build: bool, seed: int
) -> None:
    """SIGKILL, SIGSTOP, SIGTERM, a server that restarts, deleted Leases; two, six, three."""
    report = _run(tmp_path, build=kube_apiserver_build, seed=seed)

    assert report.violations == [], "\n".join(report.faults)
    assert report.writes >= OBJECTS  # each that is left was written, on a slow machine as well
    assert report.claims >= BUCKETS


@pytest.mark.skipif(not IS_SOAK, reason="each takes two minutes or more: make soak")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(tmp_path: Path, kube_apiserver_build: bool, bug: str) -> None:
    """What a replica must not leave out is removed: the lab would report a product without it."""

    def found(seed: int) -> list[str]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = _run(folder, build=kube_apiserver_build, seed=seed, bug=bug)
        return [one for one in report.violations if BUGS[bug].found in one]

    assert any(found(seed) for seed in range(_TRIES))
