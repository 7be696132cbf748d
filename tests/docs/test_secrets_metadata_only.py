"""The page on Secrets without their values: its programs run, and do what it says."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pyinformer
from tests.cache.informer.clusters import cluster_of
from tests.docs.pages import module_of

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

PAGE = "docs/howto/memory-modes.md"  # its blocks of "python"
_VALUE = base64.b64encode(b"must not be visible").decode()


def secret(name: str, **metadata: object) -> JSONObject:
    """Return a Secret of the team that the page asks about."""
    annotations = {"example.com/team": "blue"}
    meta = {"name": name, "namespace": "default", "annotations": annotations, **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"password": _VALUE}}


async def test_the_program_of_the_page_names_what_has_no_owner(apiserver: APIServer) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    apiserver.create(secret("owned", ownerReferences=[owner]))
    apiserver.create(secret("stale"))
    async with cluster_of(apiserver) as cluster:
        found = await module_of(PAGE).stale_secrets(cluster)
    assert found == ["default/stale"]


async def test_the_label_of_the_page_leaves_the_values_alone(apiserver: APIServer) -> None:
    apiserver.create(secret("a"))
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        secrets = factory.informer("v1", "secrets", memory="metadata")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        written = await module_of(PAGE).mark(cluster, secrets.lister["default/a"])
        assert written.at("data.password") == _VALUE
        assert written.metadata.labels == {"seen": "yes"}
        assert secrets.lister["default/a"].metadata.labels == {"seen": "yes"}


async def test_the_page_lists_the_names_of_secrets_alone(apiserver: APIServer) -> None:
    apiserver.create(secret("a"))
    apiserver.create(secret("b"))
    async with cluster_of(apiserver) as cluster:
        assert await module_of(PAGE).names(cluster) == ["default/a", "default/b"]
    listed = [one for one in apiserver.requests if one.verb == "list"]
    assert all("PartialObjectMetadataList" in one.accept for one in listed)
