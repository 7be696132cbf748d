"""What an operator with pyinformer makes of each outage.

`table.py` plays the same outages with plain kopf, too, for the page docs/reference/kopf.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kopf_proofs.outages import (
    ON_EITHER_SERVER,
    OUTAGES,
    definition_recreated_before_its_operator_patches,
)
from tests.kopf_proofs.stages import Stage, real_servers
from tests.kopf_proofs.terminations import TERMINATIONS
from tests.soak import in_soak

if TYPE_CHECKING:
    from pyinformer.testing import KubeAPIServer

_WAIT_SECONDS = 100.0
STAGE = Stage(with_line=True, wait_seconds=_WAIT_SECONDS)
_REPRESENTATIVE = (
    "server killed, 20 deleted, 5 recreated",
    "paused by peering; 5 deleted, 3 recreated",
    "credentials expired",
    "CRD deleted and created again",
    "etcd restored from a backup",
)
"""What is played on the real server for every change; each restart of it takes some seconds."""


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("title", OUTAGES)
def test_an_operator_survives_outages_and_misses_nothing(title: str) -> None:
    """Its handlers are called for everything, and its index equals the server."""
    outcome = OUTAGES[title](STAGE)

    assert outcome.is_right, str(outcome)


@pytest.mark.real
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("title", in_soak(tuple(ON_EITHER_SERVER), otherwise=_REPRESENTATIVE))
def test_so_it_does_on_a_real_server(
    title: str,
    kube_apiserver: KubeAPIServer,
    kube_apiserver_build: bool,
) -> None:
    """As above."""
    servers = real_servers(kube_apiserver, build=kube_apiserver_build)
    stage = Stage(with_line=True, wait_seconds=_WAIT_SECONDS, servers=servers)

    outcome = ON_EITHER_SERVER[title](stage)

    assert outcome.is_right, str(outcome)


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("line")
def test_what_goes_with_a_definition_is_told_to_an_operator_that_patches(
    kube_apiserver: KubeAPIServer, kube_apiserver_build: bool
) -> None:
    servers = real_servers(kube_apiserver, build=kube_apiserver_build)
    stage = Stage(with_line=True, wait_seconds=_WAIT_SECONDS, servers=servers)

    outcome = definition_recreated_before_its_operator_patches(stage)

    assert outcome.is_right, str(outcome)


@pytest.mark.parametrize("title", TERMINATIONS)
def test_a_program_ends_in_order(title: str) -> None:
    """`kopf run` exits with 0 after SIGTERM, and logs no error."""
    outcome = TERMINATIONS[title](STAGE)

    assert outcome.is_right, str(outcome)
