"""The page on requests without a cache: its programs run, and do what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer import NotFoundError
from tests.cache.informer.clusters import cluster_of
from tests.docs.pages import module_of

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

PAGE = "docs/howto/read-and-write.md"  # its blocks of "python"


def config_map(name: str, batch: str) -> JSONObject:
    """Return a ConfigMap of a batch, in the namespace of the page."""
    meta = {"namespace": "shop", "name": name, "labels": {"batch": batch}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


async def test_the_page_lists_the_pods_with_the_label(
    apiserver: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, app in (("a", "web"), ("b", "db")):
        meta = {"namespace": "shop", "name": name, "labels": {"app": app}}
        status = {"phase": "Running"}
        apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})
    async with cluster_of(apiserver) as cluster:
        await module_of(PAGE).print_web_pods(cluster)
    assert capsys.readouterr().out == "shop/a Running\n"


async def test_the_page_releases_a_secret_from_its_owner(apiserver: APIServer) -> None:
    owner = apiserver.create(config_map("owner", "7"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    meta = {
        "namespace": "shop",
        "name": "s",
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
    }
    apiserver.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    async with cluster_of(apiserver) as cluster:
        found = await cluster.get("v1", "configmaps", "shop/owner")
        owned = await cluster.get("v1", "secrets", "shop/s")
        await module_of(PAGE).release(cluster, found, owned)
        assert not (await cluster.get("v1", "secrets", "shop/s")).metadata.owner_references


async def test_the_page_deletes_the_objects_of_one_batch(apiserver: APIServer) -> None:
    for name, batch in (("a", "7"), ("b", "8"), ("c", "7")):
        apiserver.create(config_map(name, batch))
    async with cluster_of(apiserver) as cluster:
        assert await module_of(PAGE).delete_batch(cluster) == ["shop/a", "shop/c"]
        left = [obj.key async for obj in cluster.list("v1", "configmaps")]
    assert left == ["shop/b"]


async def test_a_request_for_a_group_that_is_not_served_is_a_typed_error(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        with pytest.raises(NotFoundError):
            await module_of(PAGE).node_metrics(cluster)


async def test_the_page_scales_a_deployment(apiserver: APIServer) -> None:
    meta = {"namespace": "shop", "name": "web"}
    apiserver.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 1}}
    )
    async with cluster_of(apiserver) as cluster:
        await module_of(PAGE).scale(cluster, "shop/web", 3)
    assert apiserver.get("apps/v1", "deployments", "web", "shop")["spec"]["replicas"] == 3


async def test_the_page_evicts_a_pod_unless_a_budget_protects_it(apiserver: APIServer) -> None:
    meta = {"namespace": "shop", "name": "a", "labels": {"app": "web"}}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "conditions": ready}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})
    budget: JSONObject = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    apiserver.create(budget)
    async with cluster_of(apiserver) as cluster:
        pod = await cluster.get("v1", "pods", "shop/a")
        assert not await module_of(PAGE).evict(cluster, pod)
        apiserver.delete("policy/v1", "poddisruptionbudgets", "web", "shop")
        assert await module_of(PAGE).evict(cluster, pod)
        with pytest.raises(NotFoundError):
            await cluster.get("v1", "pods", "shop/a")


async def test_the_page_asks_for_a_right(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        assert await module_of(PAGE).may_delete_pods(cluster, "shop")


async def test_the_page_reads_a_log(apiserver: APIServer) -> None:
    meta = {"namespace": "shop", "name": "a"}
    spec = {"nodeName": "n1", "containers": [{"name": "main"}]}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    async with cluster_of(apiserver) as cluster:
        assert await module_of(PAGE).first_error(cluster, "shop/a") is None
        apiserver.write_log("a", "ok\nERROR: no\nok\n", "shop")
        assert await module_of(PAGE).first_error(cluster, "shop/a") == "ERROR: no"
