"""Finding a cluster: by kubeconfig, URL or configuration; what is wrong is said at the call."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer.client.cluster import Cluster
from pyinformer.errors import (
    ClusterUnavailableError,
    ConfigurationError,
    ConfigurationNotFoundError,
    InvalidArgumentError,
)
from pyinformer.testing import APIServer, Token
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

NAMESPACE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


async def keys_of(cluster: Cluster) -> list[str]:
    """Return what an informer finds there."""
    async with pyinformer.SharedInformer(cluster, "v1", "configmaps") as informer:
        await informer.wait_for_cache_sync(timeout_seconds=100)
        return informer.lister.keys()


@pytest.fixture
def no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing be found by default."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.covers("kube-client src: test_mock")
async def test_by_url(apiserver: APIServer) -> None:
    apiserver.create(NAMESPACE)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert await keys_of(cluster) == ["default/a"]
        assert apiserver.url in repr(cluster)


@pytest.mark.covers("kube-client src: test_try_from_kubeconfig")
async def test_by_a_kubeconfig_with_tls_and_a_token(tmp_path: Path) -> None:
    with APIServer(tls=True, tokens=[Token(value="s3cret")]) as server:
        server.create(NAMESPACE)
        path = server.write_kubeconfig(tmp_path / "config")
        async with pyinformer.connect(path) as cluster:
            assert await keys_of(cluster) == ["default/a"]
            assert str(path) in repr(cluster)
            assert "s3cret" not in repr(cluster)


@pytest.mark.usefixtures("no_kubeconfig")
async def test_by_the_variable(
    apiserver: APIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apiserver.create(NAMESPACE)
    path = apiserver.write_kubeconfig(tmp_path / "config")
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with pyinformer.connect() as cluster:
        assert await keys_of(cluster) == ["default/a"]


async def test_by_a_configuration(apiserver: APIServer) -> None:
    config = pyinformer.client.ClusterConfig(server=apiserver.url)
    async with pyinformer.connect(config=config) as cluster:
        assert cluster.config is config
        assert await keys_of(cluster) == []


async def test_nothing_is_sent_before_an_informer_starts(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        pyinformer.SharedInformer(cluster, "v1", "pods")
    async with pyinformer.connect(server="http://127.0.0.1:9"):
        pass

    assert apiserver.requests == ()


async def test_a_missing_kubeconfig_is_reported_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    with pytest.raises(ConfigurationNotFoundError) as raised:
        async with pyinformer.connect(path):
            raise AssertionError

    assert str(path) in str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)


@pytest.mark.covers("controller-runtime pkg/client: New / should fail if the config is nil")
@pytest.mark.usefixtures("no_kubeconfig")
async def test_a_missing_configuration_names_the_places_that_were_searched() -> None:
    with pytest.raises(ConfigurationNotFoundError) as raised:
        async with pyinformer.connect():
            raise AssertionError

    assert "KUBECONFIG" in str(raised.value)


async def test_an_unknown_context_is_reported_as_unknown(
    apiserver: APIServer, tmp_path: Path
) -> None:
    path = apiserver.write_kubeconfig(tmp_path / "config")
    with pytest.raises(ConfigurationError) as raised:
        async with pyinformer.connect(path, context="staging"):
            raise AssertionError

    assert "staging" in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "content", ["", "just text", "apiVersion: [", "clusters: 7", "\x00"], ids=repr
)
async def test_an_invalid_kubeconfig_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as raised:
        async with pyinformer.connect(path):
            raise AssertionError

    assert str(path) in str(raised.value)


@pytest.mark.parametrize("server", ["", "localhost:8080", "ftp://host", "http://", "https://a:b"])
async def test_an_invalid_url_is_refused(server: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        async with pyinformer.connect(server=server):
            raise AssertionError

    assert f"{server!r} is not an http or https URL with a host" in str(raised.value)


async def test_an_authority_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    config = pyinformer.client.ClusterConfig(server="https://a", ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        async with pyinformer.connect(config=config):
            raise AssertionError


CONFIG = pyinformer.client.ClusterConfig(server="http://a")


@pytest.mark.parametrize(
    "arguments",
    [
        {"kubeconfig": "a", "server": "http://a"},
        {"kubeconfig": "a", "config": CONFIG},
        {"server": "http://a", "config": CONFIG},
        {"server": "http://a", "context": "c"},
        {"config": CONFIG, "context": "c"},
    ],
)
async def test_two_sources_of_configuration_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="pass one of kubeconfig"):
        async with pyinformer.connect(**arguments):
            raise AssertionError


async def test_an_error_of_the_caller_is_raised_without_a_group(apiserver: APIServer) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        async with pyinformer.connect(server=apiserver.url) as cluster:
            await keys_of(cluster)
            raise ZeroDivisionError

    assert raised.value.__cause__ is None


async def test_the_block_may_be_entered_in_one_task_and_left_in_another(
    apiserver: APIServer,
) -> None:
    connecting = pyinformer.connect(server=apiserver.url)
    cluster = await asyncio.create_task(connecting.__aenter__())
    await keys_of(cluster)
    await asyncio.create_task(connecting.__aexit__(None, None, None))


async def test_closing_twice_closes_once(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await keys_of(cluster)
        await asyncio.gather(cluster.aclose(), cluster.aclose())
        await cluster.aclose()


async def test_a_cancelled_close_is_finished_by_a_second(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await keys_of(cluster)
        closing = asyncio.create_task(cluster.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait((closing,))
        await cluster.aclose()
    await until(lambda: apiserver.open_watches == 0)


async def test_a_refused_watch_list_is_remembered_by_the_cluster(apiserver: APIServer) -> None:
    apiserver.watch_list = False
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await keys_of(cluster)
        apiserver.clear_requests()
        await keys_of(cluster)

    assert [r.verb for r in apiserver.requests].count("list") == 1
    assert not [r for r in apiserver.requests if "sendInitialEvents" in r.query]


@asynccontextmanager
async def itself(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Open nothing beside the cluster."""
    yield cluster


async def test_names_of_a_pool_are_contexts_of_the_kubeconfig_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    async with pyinformer.ClusterPool(itself) as pool:
        with pytest.raises(ClusterUnavailableError) as raised:
            await pool.get("prod")
    assert isinstance(raised.value.__cause__, ConfigurationNotFoundError)


async def test_a_kubeconfig_that_does_not_answer_delays_only_its_own_callers(
    apiserver: APIServer, tmp_path: Path
) -> None:
    """As one of a network file system whose server is gone; a named pipe is such a file here."""
    dead = tmp_path / "dead"
    os.mkfifo(dead)
    apiserver.write_kubeconfig(tmp_path / "good")

    def connect(name: str) -> AbstractAsyncContextManager[Cluster]:
        return pyinformer.connect(tmp_path / name)

    threads = threading.active_count()
    async with pyinformer.ClusterPool(itself, connect=connect) as pool:
        for _ in range(3):
            with pytest.raises(ClusterUnavailableError, match="has not finished yet"):
                await pool.get("dead", timeout_seconds=0.1)
            await pool.evict("dead")
        assert threading.active_count() <= threads + 1, "however often it is tried again"
        assert await keys_of(await pool.get("good")) == []
    dead.write_text("")  # releases the thread that reads


async def test_a_certificate_file_that_does_not_answer_delays_only_its_own_connect(
    tmp_path: Path,
) -> None:
    ca = tmp_path / "ca.crt"
    os.mkfifo(ca)
    config = pyinformer.client.ClusterConfig(server="https://127.0.0.1:1", ca_file=str(ca))

    with anyio.move_on_after(0.1) as limit:
        async with pyinformer.connect(config=config):
            pass

    assert limit.cancelled_caught
    ca.write_text("")  # releases the thread that reads


async def test_a_read_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyinformer.client.transport.config._config_loader._READ_SECONDS", 0.1)
    dead = tmp_path / "dead"
    os.mkfifo(dead)

    with pytest.raises(ConfigurationError, match=f"^{dead}: has not been read within 0.1 s"):
        async with pyinformer.connect(dead):
            pass
    dead.write_text("")  # releases the thread that reads
