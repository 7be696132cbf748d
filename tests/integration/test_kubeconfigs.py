"""The ways to a server that a program of the field has: files, a variable, contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer import Cluster
    from tests.integration.servers import Server


async def names_seen_by(cluster: Cluster, namespace: str) -> list[str]:
    """Follow the config maps of a namespace for a moment."""
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        return one.names()


async def test_a_kubeconfig_that_is_named_leads_to_its_server(
    server: Server, tmp_path: Path
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    path = server.api.write_kubeconfig(tmp_path / "kubeconfig")
    assert path.stat().st_mode & 0o077 == 0
    async with pyinformer.connect(path) as cluster:
        assert cluster.config.server == server.api.url
        assert await names_seen_by(cluster, namespace) == ["one"]


async def test_a_kubeconfig_in_the_environment_leads_to_its_server(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    path = server.api.write_kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with pyinformer.connect() as cluster:
        assert await names_seen_by(cluster, namespace) == ["one"]


async def test_a_kubeconfig_carries_its_users_rights_and_no_more(
    server: Server, tmp_path: Path
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    token = server.user(namespace, "configmaps", ["list", "watch"])
    path = server.api.write_kubeconfig(tmp_path / "kubeconfig", token)
    async with pyinformer.connect(path) as cluster:
        assert await names_seen_by(cluster, namespace) == ["one"]
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            factory.informer("v1", "secrets", namespaces=namespace)
            await factory.start()
            with pytest.raises(pyinformer.CacheSyncTimeoutError, match="403"):
                await factory.wait_for_cache_sync(timeout_seconds=1.0)


async def test_a_kubeconfig_that_does_not_exist_is_named(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "nothing-here"
    with pytest.raises(
        pyinformer.errors.ConfigurationNotFoundError, match="nothing-here"
    ) as raised:
        async with pyinformer.connect(path):
            pytest.fail("there is no such file")
    assert isinstance(raised.value, FileNotFoundError)


async def test_a_context_that_does_not_exist_is_named(server: Server, tmp_path: Path) -> None:
    path = server.api.write_kubeconfig(tmp_path / "kubeconfig")
    with pytest.raises(pyinformer.errors.ConfigurationError, match="somewhere-else"):
        async with pyinformer.connect(path, context="somewhere-else"):
            pytest.fail("there is no such context")
