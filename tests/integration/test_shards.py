"""Operators with a fixed number of shards, on servers that ignore `shardSelector` and follow it.

The witness for the shares is the server's own selection, by a request that no cache sends.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.cache.informer import informer_in_range
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.leaderelection import LeaderElectionOptions
from pyinformer.objects import UidRange
from pyinformer.testing import APIServer, KubeAPIServer, Token
from tests.integration.accounts import ACCOUNT, apply, as_the_account
from tests.integration.servers import ADMIN, SERVERS, EmbeddedServer, RealServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer import Cluster
    from tests.integration.servers import Server

_SHARDS = 3
_OBJECTS = 30
_PATIENT = LeaderElectionOptions(
    lease_duration_seconds=600.0, renew_deadline_seconds=300.0, retry_period_seconds=1.0
)


@pytest.fixture(scope="module")
def sharding_kube_apiserver(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    """A real server with the feature gate."""
    gates = {"ShardedListAndWatch": True}
    with KubeAPIServer(build=kube_apiserver_build, feature_gates=gates) as server:
        yield server


@pytest.fixture(params=SERVERS)
def sharding(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that follows the parameter; `server` ignores it."""
    if request.param == "real":
        api_of_module: KubeAPIServer = request.getfixturevalue("sharding_kube_apiserver")
        yield RealServer(api_of_module)
        api_of_module.close_connections()
        return
    tokens = [Token(value=ADMIN)]
    with APIServer(tls=True, tokens=tokens, strict_namespaces=True, shard_selectors=True) as api:
        yield EmbeddedServer(api)


def _map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class _Process:
    """The process of one shard, and what it has reconciled."""

    def __init__(self, index: int, namespace: str) -> None:
        shard = pyinformer.Shard(index=index, total=_SHARDS, namespace=namespace, options=_PATIENT)
        self.app = pyinformer.Operator("db-operator", sharding=shard)
        self.seen: set[str] = set()
        self.gone: list[str] = []
        self.app.reconcile("v1", "configmaps")(self._reconcile)

    async def _reconcile(self, request: pyinformer.Request, obj: Any, _cluster: Cluster) -> None:
        self.seen.add(request.key)
        if obj is None:
            self.gone.append(request.key)

    def cached(self) -> dict[str, str]:
        """Return the versions of what it caches, by key."""
        found = self.app.lister("v1", "configmaps").list()
        return {obj.key: obj.metadata.resource_version for obj in found}


@asynccontextmanager
async def _running(server: Server, namespace: str) -> AsyncIterator[list[_Process]]:
    processes = [_Process(index, namespace) for index in range(_SHARDS)]
    async with AsyncExitStack() as stack:
        for one in processes:
            cluster = await stack.enter_async_context(server.connect())
            await stack.enter_async_context(one.app.running(cluster, namespaces=namespace))
        yield processes


async def _fill(server: Server, namespace: str) -> None:
    for number in range(_OBJECTS):
        await asyncio.to_thread(server.api.create, _map(f"m{number}", namespace))


async def _listed(
    cluster: Cluster, namespace: str, shard: UidRange | None = None
) -> dict[str, str]:
    """List by a plain request; return versions by key."""
    query = () if shard is None else (("shardSelector", shard.selector),)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = json.loads(await cluster.connection.request("GET", path, query=query))
    metas = [item["metadata"] for item in answer["items"]]
    return {f"{meta['namespace']}/{meta['name']}": meta["resourceVersion"] for meta in metas}


async def _check_shared(
    server: Server, namespace: str, processes: list[_Process], *, follows: bool
) -> None:
    """Check that the caches together are what the server has, and each is its share."""
    async with server.connect() as cluster:
        everything = await _listed(cluster, namespace)

        def together() -> dict[str, str]:
            return {key: of for one in processes for key, of in one.cached().items()}

        await until(lambda: together() == everything)
        assert sum(len(one.cached()) for one in processes) == len(everything)
        for index, one in enumerate(processes):
            answered = await _listed(cluster, namespace, UidRange(index, _SHARDS))
            assert answered == (one.cached() if follows else everything)


async def _check_changes(
    server: Server, namespace: str, processes: list[_Process], *, follows: bool
) -> None:
    """Change, delete and create, and check again."""
    had = {key: one for one in processes for key in one.cached()}
    async with server.connect() as cluster:
        for number in range(0, _OBJECTS, 2):
            changed = _map(f"m{number}", namespace, at="1")
            await cluster.apply(changed, field_manager="test", force=True)
        deleted = [f"{namespace}/m{number}" for number in range(0, _OBJECTS, 3)]
        for key in deleted:
            await cluster.delete("v1", "configmaps", key)
        await cluster.create(_map("later", namespace))
    await _check_shared(server, namespace, processes, follows=follows)
    await until(lambda: sum(len(one.gone) for one in processes) >= len(deleted))
    assert {key: one for one in processes for key in one.gone} == {key: had[key] for key in deleted}


async def test_a_server_that_ignores_the_shards(server: Server) -> None:
    namespace = server.namespace()
    await _fill(server, namespace)
    async with _running(server, namespace) as processes:
        await _check_shared(server, namespace, processes, follows=False)
        await _check_changes(server, namespace, processes, follows=False)


async def test_a_server_that_follows_the_shards(sharding: Server) -> None:
    namespace = sharding.namespace()
    await _fill(sharding, namespace)
    async with _running(sharding, namespace) as processes:
        await _check_shared(sharding, namespace, processes, follows=True)
        await _check_changes(sharding, namespace, processes, follows=True)


async def test_a_collection_is_deleted_as_a_whole(sharding: Server) -> None:
    """The selector of a share is never sent with it: other servers would delete everything."""
    namespace = sharding.namespace()
    await _fill(sharding, namespace)
    async with _running(sharding, namespace) as processes, sharding.connect() as cluster:
        await cluster.delete_collection("v1", "configmaps", namespace=namespace)
        await until(lambda: not any(one.cached() for one in processes))
        assert await _listed(cluster, namespace) == {}


async def test_audits_and_pages_know_the_share(sharding: Server) -> None:
    namespace = sharding.namespace()
    await _fill(sharding, namespace)
    options = ReflectorOptions(use_watch_list=False, page_size=3)
    async with (
        sharding.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        share = UidRange(1, _SHARDS)
        informer = informer_in_range(
            factory, "v1", "configmaps", uid_range=share, namespaces=namespace
        )
        await factory.start()
        await factory.wait_for_cache_sync()
        report = await informer.audit()
        assert report.verdict == "consistent", report
        found = await _listed(cluster, namespace, share)
        assert report.checked == len(informer.lister.list()) == len(found)


async def test_the_printed_role_is_enough(strict: Server) -> None:
    namespace = strict.namespace()
    await _fill(strict, namespace)
    one = _Process(0, namespace)
    async with strict.connect() as admin, one.app.running(admin, namespaces=namespace) as run:
        text = run.required_rbac(name="db", service_account=f"{namespace}/{ACCOUNT}")
        mine = set(one.cached())
    one.seen.clear()
    await apply(strict, *yaml.safe_load_all(text))
    async with (
        as_the_account(strict, namespace) as cluster,
        one.app.running(cluster, namespaces=namespace),
    ):
        await until(lambda: one.seen == mine)
