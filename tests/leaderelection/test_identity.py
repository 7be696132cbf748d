"""The identity that a replica gives itself: it begins with the pod's name, and is its own."""

from __future__ import annotations

import socket

import pytest

from pyinformer.leaderelection import LeaderElector
from pyinformer.testing import World


def identity(world: World) -> str:
    """Return the identity of a new elector."""
    return LeaderElector(world.cluster, "db-operator", namespace="default").identity


@pytest.fixture(autouse=True)
def outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the variable, wherever the tests run."""
    monkeypatch.delenv("POD_NAME", raising=False)


@pytest.mark.parametrize(
    "pod", ["db-operator-a", "x" * 253], ids=["on-the-host-network", "longer-than-a-host-name"]
)
def test_an_identity_begins_with_the_name_of_the_pod(
    pod: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", pod)
    with World() as world:
        assert identity(world).partition("_")[0] == pod


@pytest.mark.parametrize("pod", [None, "", "$(POD_NAME)", "a_b", "x" * 254])
def test_without_a_pod_name_an_identity_begins_with_the_host_name(
    pod: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pod is not None:
        monkeypatch.setenv("POD_NAME", pod)
    with World() as world:
        assert identity(world).startswith(f"{socket.gethostname()}_")


def test_identities_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "db-operator-a")
    with World() as world:
        assert identity(world) != identity(world)
