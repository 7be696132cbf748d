"""The page on requests without a cache: its programs run, and do what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer import NotFoundError
from tests.docs.pages import module_of
from tests.informer.clusters import cluster_of

if TYPE_CHECKING:
    from pyinformer.apimachinery import JSONObject
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
