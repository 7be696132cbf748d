"""The typed classes of other packages, through a cluster, on both servers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from tests.integration.servers import Server

_APPLY = "application/apply-patch+yaml"


@pytest.mark.parametrize("package", ["kubernetes_asyncio", "kubernetes.aio"])
async def test_typed_calls_are_those_of_the_package_on_both_servers(
    server: Server, package: str
) -> None:
    client: Any = importlib.import_module(f"{package}.client")
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        maps = factory.informer("v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        core = cluster.api(client.CoreV1Api)
        metadata = client.V1ObjectMeta(name="a", labels={"app": "web"})
        body = client.V1ConfigMap(metadata=metadata, data={"v": "1"})
        made = await core.create_namespaced_config_map(namespace, body)
        assert maps.lister[f"{namespace}/a"].metadata.uid == made.metadata.uid  # at once
        made.data = {"v": "2"}
        replaced = await core.replace_namespaced_config_map("a", namespace, made)
        with pytest.raises(client.ApiException) as caught:
            await core.replace_namespaced_config_map("a", namespace, made)
        assert caught.value.status == 409
        assert isinstance(caught.value.__cause__, ConflictError)
        assert "the object has been modified" in caught.value.body
        patched = await core.patch_namespaced_config_map("a", namespace, {"data": {"w": "3"}})
        assert patched.data == {"v": "2", "w": "3"}
        assert replaced.metadata.resource_version != patched.metadata.resource_version
        wanted = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"x": "4"},
        }
        applied = await core.patch_namespaced_config_map(
            "a", namespace, wanted, field_manager="me", _content_type=_APPLY
        )
        assert applied.data == {"v": "2", "w": "3", "x": "4"}
        assert maps.lister[f"{namespace}/a"].at("data") == applied.data
        await core.delete_namespaced_config_map("a", namespace)
        assert f"{namespace}/a" not in maps.lister
        with pytest.raises(client.ApiException) as caught:
            await core.read_namespaced_config_map("a", namespace)
        assert caught.value.status == 404
        assert isinstance(caught.value.__cause__, NotFoundError)
