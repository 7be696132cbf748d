"""The pages on indexes, views, small pods and deployment: their programs do what they say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.testing import APIServer
from tests.cache.informer.clusters import cluster_of, pod
from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path

# Of each page the "python" blocks are run as one module.
_INDEXES = "docs/howto/indexes.md"
_VIEWS = "docs/howto/views-and-models.md"
_SMALL_POD = "docs/howto/memory-modes.md"
_DEPLOY = "docs/howto/deploy.md"
_WAIT_SECONDS = 100.0


async def test_the_program_of_the_page_on_indexes_finds_pods_that_mount_a_secret(
    apiserver: APIServer,
) -> None:
    shown = pages.module_of(_INDEXES)
    volumes = [{"name": "a", "secret": {"secretName": "tls"}}, {"name": "b", "emptyDir": {}}]
    apiserver.create({**pod("a"), "spec": {"nodeName": "node-1", "volumes": volumes}})
    apiserver.create(pod("b", node="node-2"))
    async with cluster_of(apiserver) as cluster:
        users, nodes = await shown.who_mounts(cluster, "default/tls")

    assert users == ["default/a"]
    assert sorted(nodes) == ["node-1", "node-2"]


async def test_the_program_of_the_page_on_views_prints_images_by_node(
    apiserver: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = pages.module_of(_VIEWS)
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "nginx:1"}]}
    apiserver.create({**pod("a"), "spec": spec, "status": {"podIP": "10.0.0.1"}})
    async with cluster_of(apiserver) as cluster:
        assert await shown.images_by_node(cluster) == {"node-1": {"nginx:1"}}
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods", model=shown.PodView)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_WAIT_SECONDS)
            (found,) = pods.lister.list()

    assert found.view.status.pod_ip == "10.0.0.1"
    shown.updated(found, found)
    assert capsys.readouterr().out == ""


async def test_fields_left_out_by_the_page_on_small_pods_are_not_cached(
    apiserver: APIServer,
) -> None:
    shown = pages.module_of(_SMALL_POD)
    containers = [{"name": "main", "env": [{"name": "A", "value": "1"}]}]
    apiserver.create({**pod("a"), "spec": {"nodeName": "node-1", "containers": containers}})
    apiserver.create(pod("b", node="node-2"))
    async with cluster_of(apiserver) as cluster:
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            of_node = shown.pods_of_node(factory, "node-1")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_WAIT_SECONDS)
            assert list(of_node.lister.keys()) == ["default/a"]
            assert shown.lines(factory)[0].endswith(": 1 objects")
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            lean = shown.lean_pods(factory)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_WAIT_SECONDS)
            kept = lean.lister.get("default/a").at("spec.containers", list[dict[str, Any]])

    assert [(one["name"], "env" in one) for one in kept] == [("main", False)]


def test_the_figures_of_the_page_on_small_pods_are_those_that_were_published() -> None:
    synced = pages.read("docs/benchmarks/runs/sync.md")
    (_, run) = synced.split('<a id="run-small-pod"></a>')
    (run, *_) = run.split("<a id=")
    rows = [line.split("|") for line in run.splitlines() if line.startswith("| pyinformer")]
    peaks = {f"{float(row[3]):.0f} MB" for row in rows}

    assert len(peaks) == 3
    assert [peak for peak in peaks if f"| {peak} |" not in pages.read(_SMALL_POD)] == []


def _manifest() -> dict[str, Any]:
    (block,) = pages.blocks(_DEPLOY, "yaml")
    return {one["kind"]: one for one in yaml.safe_load_all(block.text)}


def test_the_probes_of_the_deployment_are_what_a_health_server_answers() -> None:
    (container,) = _manifest()["Deployment"]["spec"]["template"]["spec"]["containers"]
    asked = {container[one]["httpGet"]["path"] for one in container if one.endswith("Probe")}

    assert asked == {"/healthz", "/readyz"}
    assert container["ports"] == [{"name": "health", "containerPort": 8081}]


async def test_the_role_of_the_manifest_is_what_the_factory_asks_for(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, pyinformer.SharedInformerFactory(cluster) as made:
        made.informer("v1", "pods", namespaces="shop")
        text = made.required_rbac(name="follower", service_account="shop/follower")
    asked = {one["kind"]: one for one in yaml.safe_load_all(text)}

    manifest = _manifest()
    assert asked["Role"]["rules"] == manifest["Role"]["rules"]
    assert asked["Role"]["metadata"] == manifest["Role"]["metadata"]
    assert asked["RoleBinding"]["roleRef"] == manifest["RoleBinding"]["roleRef"]
    assert asked["RoleBinding"]["subjects"] == manifest["RoleBinding"]["subjects"]


async def test_the_program_runs_with_the_rights_of_the_manifest_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = pages.module_of(_DEPLOY)
    manifest = _manifest()
    ended = asyncio.Event()
    ended.set()  # it syncs, and ends
    with APIServer(rbac=True) as server:
        for kind in ("ServiceAccount", "Role", "RoleBinding", "Deployment"):
            server.create(manifest[kind])
        server.create({**pod("web-1"), "metadata": {"namespace": "shop", "name": "web-1"}})
        token = server.token_for_service_account("follower", "shop")
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig", token)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        async with asyncio.timeout(_WAIT_SECONDS):
            await shown.main(ended, port=0)

        async with pyinformer.connect(str(kubeconfig)) as cluster:
            with pytest.raises(pyinformer.ForbiddenError):
                await cluster.get("v1", "configmaps", "shop/a")
    assert capsys.readouterr().out == "shop/web-1\n"
