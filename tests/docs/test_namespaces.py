"""The page on namespaces: what it shows runs, and does what it says."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.testing import Fault, World
from tests.cache.informer.clusters import cluster_of, pod
from tests.docs.pages import blocks

if TYPE_CHECKING:
    from pyinformer import Cluster, KubeObject, Request
    from pyinformer.testing import APIServer

_PAGE = "docs/howto/namespaces-and-clusters.md"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page defines."""
    module = ModuleType("namespaces_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(_PAGE, "python"):
        exec(compile(block.text, _PAGE, "exec"), module.__dict__)  # noqa: S102 - our own page
    return module.__dict__


def _fill(apiserver: APIServer) -> None:
    for key in ("shop/a", "shop/b", "search/a", "other/a"):
        namespace, _, name = key.partition("/")
        apiserver.create(pod(name, namespace=namespace, node="n1" if name == "a" else "n2"))


async def test_all_namespaces_are_read_as_one(apiserver: APIServer, shown: dict[str, Any]) -> None:
    _fill(apiserver)
    async with cluster_of(apiserver) as cluster:
        counts = await shown["count_pods"](cluster)
    assert counts == {"shop": 2, "search": 1, "both": 3, "on n1": 2}


async def test_a_forbidden_namespace_is_named_and_the_other_one_is_read(
    apiserver: APIServer, shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(apiserver)
    apiserver.faults.add(Fault(resource="pods", namespace="secret", status=403, times=None))
    async with cluster_of(apiserver) as cluster:
        found = await shown["what_can_be_read"](cluster)
    assert sorted(found) == ["secret: forbidden", "shop: 2"]
    assert capsys.readouterr().out.startswith("pods.v1 in secret: forbidden, ")


async def test_handlers_are_called_for_added_and_removed_namespaces(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    _fill(apiserver)
    async with cluster_of(apiserver) as cluster:
        heard = await shown["move"](cluster)
    assert sorted(heard[:2]) == ["added shop/a", "added shop/b"]
    assert {"left shop/a", "left shop/b"} <= set(heard)
    assert heard[-1] == "begins with search/a"


async def test_labels_choose_the_namespaces(apiserver: APIServer, shown: dict[str, Any]) -> None:
    labelled = {"name": "shop", "labels": {"team": "web"}}
    apiserver.create({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
    _fill(apiserver)
    async with cluster_of(apiserver) as cluster:
        assert await shown["of_the_web_team"](cluster) == {"shop/a", "shop/b"}


async def test_a_cluster_is_engaged_and_disengaged(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    called: list[str] = []

    async def sync(cluster: Cluster, request: Request, pod: object) -> None:
        called.append(f"{cluster.name} {request.key}")

    _fill(apiserver)
    shown["sync"] = sync
    async with pyinformer.connect(server=apiserver.url, name="east") as cluster:
        await shown["visit"](cluster, 2.0)
    assert sorted(called) == [f"east {key}" for key in ("other/a", "search/a", "shop/a", "shop/b")]


async def test_a_fleet_serves_the_clusters_of_its_names(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    def connect(name: str) -> Any:
        server = apiserver.url if name == "good" else "http://127.0.0.1:9"
        return pyinformer.connect(server=server, name=name)

    _fill(apiserver)
    assert await shown["serve"](["good", "away"], 3.0, connect) == [
        "good: working",
        "away: starting",
    ]


async def test_the_whole_program_ends_at_a_signal(
    apiserver: APIServer, shown: dict[str, Any]
) -> None:
    called = asyncio.Event()

    async def sync(cluster: Cluster, request: Request, pod: object) -> None:
        assert cluster.name == "tenants/east"
        called.set()

    _fill(apiserver)
    shown["sync"] = sync
    server = base64.b64encode(apiserver.url.encode()).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "east", "namespace": "tenants"},
        "data": {"server": server},
    }
    apiserver.create(secret)
    async with cluster_of(apiserver) as cluster:
        running = asyncio.create_task(shown["program"](cluster))
        await called.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def test_the_address_of_a_paused_tenant_is_none(shown: dict[str, Any]) -> None:
    def tenant(paused: str) -> KubeObject[None]:
        found: dict[str, Any] = {
            "apiVersion": "example.com/v1",
            "kind": "Tenant",
            "metadata": {
                "name": "a",
                "namespace": "default",
                "annotations": {"example.com/paused": paused},
            },
            "spec": {"server": "https://a"},
        }
        with World([found]) as world:
            read = partial(world.cluster.get, "example.com/v1", "tenants", "default/a")
            return world.run(read)

    assert shown["address"](tenant("true")) is None
    assert shown["address"](tenant("false")) == "https://a"
