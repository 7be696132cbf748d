"""Clusters that are away at the start, stall amid writes, and return: none delays another.

The servers are processes of their own: one that is stopped accepts connections and never answers.
"""

from __future__ import annotations

import base64
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

import pyinformer
from pyinformer import Controller, ControllerGroup, KubeObject, Request, SharedInformerFactory
from pyinformer.testing import APIServer
from tests.docs.test_threads import example
from tests.fleet.serving import Serving
from tests.waiting import now, pause, poll, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer import Cluster

_OPTIONS = pyinformer.ControllerOptions(
    reconcile_timeout_seconds=60.0,
    drain_timeout_seconds=0.5,
    grace_seconds=1.0,
    sync_timeout_seconds=1.0,
)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Serving]]:
    """Three servers."""
    with ExitStack() as stack:
        found = [Serving(tmp_path / f"t{number}") for number in range(3)]
        for one in found:
            stack.callback(one.end)
        yield found


def _map(name: str, want: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"want": want}}


async def _ask(cluster: Cluster, want: str) -> None:
    for number in range(20):
        await cluster.apply(_map(f"m{number}", want), field_manager="test", force=True)


class _Work:
    """A reconcile that writes what is wanted into each object."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.writing: dict[str, int] = {}
        self.more = ""
        """What is wanted beside that, of the cluster `far`."""

    def controller(self, cluster: Cluster) -> Controller[None]:
        """Make the controller of one cluster."""

        async def reconcile(request: Request, obj: KubeObject[None] | None) -> None:
            data = {} if obj is None else obj.at("data", dict[str, str])
            want = data.get("want", "") + (self.more if cluster.name == "far" else "")
            if obj is None or data.get("done") == want:
                return
            self.writing[cluster.name] = self.writing.get(cluster.name, 0) + 1
            try:
                await cluster.patch(obj, {**obj.to_dict(), "data": {**data, "done": want}})
            finally:
                self.writing[cluster.name] -= 1
            self.done.append((request.cluster, data["want"]))

        maps = SharedInformerFactory(cluster).informer("v1", "configmaps", namespaces="default")
        return Controller("sync", reconcile, maps, workers=4, options=_OPTIONS)


async def test_a_cluster_that_stalls_with_its_writes_under_way_delays_no_other(
    servers: list[Serving],
) -> None:
    far, near, _ = servers
    work = _Work()
    async with (
        pyinformer.connect(far.kubeconfig, name="far") as stalling,
        pyinformer.connect(near.kubeconfig, name="near") as good,
        pyinformer.connect(server="http://127.0.0.1:9", name="dead") as dead,
        ControllerGroup() as group,
    ):
        await _ask(stalling, "1")
        await _ask(good, "1")
        made = {one.name: work.controller(one) for one in (stalling, good, dead)}
        for name, controller in made.items():
            group.engage(controller, name)
        await until(lambda: len(work.done) == 40)

        work.more = "x"
        far.pause()
        for number in range(20):
            made["far"].enqueue(f"default/m{number}")
        await until(lambda: work.writing["far"] == 4)
        await _ask(good, "2")
        await until(lambda: work.done.count(("near", "2")) == 20)
        assert work.writing["far"] == 4

        ending_at = now()
        await group.disengage("far")
        assert now() - ending_at < 30  # it does not wait for the answers of a stopped server
        assert {one.name for one in group.status().engaged} == {"near", "dead"}
        dead_status = group.engaged("dead")
        assert dead_status is not None
        assert dead_status.state == "starting"
        assert "cannot connect to 127.0.0.1:9" in dead_status.reason

        far.resume()
        group.engage(work.controller(stalling), "far")

        async def has_all() -> bool:
            found = [one async for one in stalling.list("v1", "configmaps", namespace="default")]
            return sum(one.at("data", dict[str, str]).get("done") == "1x" for one in found) == 20

        while not await has_all():
            await pause(0.05)


def _tenant(name: str, kubeconfig: bytes) -> dict[str, Any]:
    labels = {"example.com/tenant": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "tenants", "labels": labels},
        "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
    }


def test_the_gateway_answers_for_tenants_that_pause_resume_and_move(
    servers: list[Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, pausing, moving = servers

    with APIServer() as management:
        monkeypatch.setenv("PYINFORMER_EXAMPLE_SERVER", management.url)
        for number, server in enumerate(servers):
            management.create(_tenant(f"t{number}", server.kubeconfig.read_bytes()))
        pausing.pause()
        moving.end()
        with TestClient(example("tenant_gateway").app) as client:

            def get(tenant: str) -> Any:
                return client.get(f"/tenants/{tenant}/configmaps")

            def answers(tenant: str) -> bool:
                return bool(get(tenant).status_code == 200)

            def states() -> dict[str, str]:
                return {one["name"]: one["state"] for one in client.get("/tenants").json()}

            def becomes(condition: Any) -> None:
                assert poll(condition, timeout_seconds=100.0)

            # At the start one is paused and one is away: the third answers, and the others say why.
            becomes(lambda: answers("t0"))
            assert get("t0").json()["age_seconds"] is not None
            paused, away = get("t1"), get("t2")
            assert (paused.status_code, away.status_code) == (503, 503)
            assert "waiting for an answer" in paused.text
            assert "Connection refused" in away.text
            assert get("unknown").status_code == 404
            assert states()["tenants/t0"] == "working"

            # It resumes, and no request has to ask for it.
            pausing.resume()
            becomes(lambda: states()["tenants/t1"] == "working")
            assert answers("t1")

            # While it works it is paused again: it answers from the cache, which grows old.
            pausing.pause()
            first = get("t1").json()
            assert first["configmaps"] == get("t0").json()["configmaps"]
            becomes(lambda: get("t1").json()["age_seconds"] > first["age_seconds"] + 1.0)
            assert answers("t0")

            # The third one returns at another address.
            moved = Serving(tmp_path / "moved")
            try:
                management.update(_tenant("t2", moved.kubeconfig.read_bytes()))
                becomes(lambda: answers("t2"))
            finally:
                moved.end()

            # A tenant that is gone is not served any more.
            management.delete("v1", "secrets", "t0", "tenants")
            becomes(lambda: get("t0").status_code == 404)
            becomes(lambda: "tenants/t0" not in states())
        pausing.resume()
