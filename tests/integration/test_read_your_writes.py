"""Reads after own writes: every one of them shows the write, however late the watch is.

A server chooses what it answers to writes, and in which order its watch delivers them; the real one
decides what the rules have to bear.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer.cache.informer import core_of
from tests.integration.history import check_same, contents
from tests.integration.objects import CONFIG_MAPS, PODS
from tests.integration.proxy import proxying
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.objects import Kind
    from tests.integration.servers import Server

_ROUNDS = 30


def _labelled(obj: pyinformer.KubeObject[Any], round_: int) -> JSONObject:
    body = obj.to_dict()
    body["metadata"].setdefault("labels", {})["round"] = str(round_)
    return body


@pytest.mark.covers("controller-runtime pkg/client: repr.name / write then read")
@pytest.mark.parametrize("kind", [CONFIG_MAPS, PODS], ids=lambda kind: kind.plural)
async def test_every_read_after_an_own_write_shows_it(server: Server, kind: Kind) -> None:
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(
            cluster, kind.api_version, kind.plural, namespaces=namespace
        ) as informer,
    ):
        informer.add_index("round", "metadata.labels.round")
        await informer.wait_for_cache_sync()
        lister = informer.lister
        for n in range(_ROUNDS):
            name = f"x{n % 3}"
            created = await cluster.create(kind.make(name, namespace, labels={"round": "new"}))
            key = created.key
            assert lister[key] == created
            changed = await cluster.patch(created, _labelled(created, n))
            assert lister[key] == changed
            assert lister.by_index("round", str(n)) == [changed]
            assert [obj.metadata.name for obj in lister.by_index("round", "new")] == []
            again = await cluster.patch(changed, _labelled(changed, n))  # changes nothing
            assert again.metadata.resource_version == changed.metadata.resource_version
            if n % 2:
                await informer.wait_until(changed.metadata.resource_version, timeout_seconds=100)
            assert await cluster.delete(changed, grace_period_seconds=0) is None
            assert key not in lister
            assert lister.list() == []
        last = await cluster.create(kind.make("last", namespace))
        await informer.wait_until(last.metadata.resource_version, timeout_seconds=100)
        assert informer.lister.keys() == [last.key]
        assert informer.status().objects == 1
        assert not core_of(informer).caches.all[0].freshness.overlay.entries


async def test_writes_are_read_while_the_watch_is_held_back(server: Server) -> None:
    namespace = server.namespace()
    for name in ("changed", "doomed", "recreated"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as behind,
        server.connect() as cluster,
        pyinformer.SharedInformer(behind, "v1", "configmaps", namespaces=namespace) as informer,
    ):
        await informer.wait_for_cache_sync()
        proxy.stall(new=False)
        lister = informer.lister

        def record(obj: pyinformer.KubeObject[Any]) -> None:
            behind.record_write("v1", "configmaps", obj.raw)

        changed = lister[f"{namespace}/changed"]
        changed = await cluster.patch(changed, _labelled(changed, 1))
        record(changed)
        created = await cluster.create(CONFIG_MAPS.make("created", namespace))
        record(created)
        for name in ("doomed", "recreated"):
            obj = lister[f"{namespace}/{name}"]
            await cluster.delete(obj)
            behind.record_delete("v1", "configmaps", obj.key, uid=obj.metadata.uid)
        recreated = await cluster.create(CONFIG_MAPS.make("recreated", namespace))
        record(recreated)

        expected = {obj.key: obj for obj in (changed, created, recreated)}
        assert {obj.key: obj for obj in lister.list()} == expected
        assert {key: lister.get(key) for key in expected} == expected
        assert f"{namespace}/doomed" not in lister
        assert informer.status().objects == 3
        assert not informer.has_seen(recreated.metadata.resource_version)

        proxy.resume()
        await informer.wait_until(recreated.metadata.resource_version, timeout_seconds=100)
        assert not core_of(informer).caches.all[0].freshness.overlay.entries
        truth = server.api.list("v1", "configmaps", namespace)
        check_same(contents(obj.to_dict() for obj in lister.list()), contents(truth))


async def test_waiting_ends_for_writes_that_the_cache_will_never_get(server: Server) -> None:
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(
            cluster, "v1", "configmaps", namespaces=namespace, label_selector="app=web"
        ) as informer,
    ):
        await informer.wait_for_cache_sync()
        outside = await cluster.create(CONFIG_MAPS.make("db", namespace, labels={"app": "db"}))
        await informer.wait_until(outside.metadata.resource_version, timeout_seconds=100)
        # Created and gone before any read.
        gone = await cluster.create(CONFIG_MAPS.make("gone", namespace, labels={"app": "db"}))
        await cluster.delete(gone)
        await informer.wait_until(gone.metadata.resource_version, key=gone.key, timeout_seconds=100)
        # Our own writes move objects into the selector and out of it.
        body = outside.to_dict()
        body["metadata"]["labels"] = {"app": "web"}
        inside = await cluster.patch(outside, body)
        assert informer.lister.list() == [inside]
        out = await cluster.patch(inside, outside.to_dict())
        assert informer.lister.list() == []
        await informer.wait_until(out.metadata.resource_version, timeout_seconds=100)
        assert informer.status().objects == 0


async def test_waiting_for_a_deletion_ends_with_its_event(server: Server) -> None:
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, "v1", "pods", namespaces=namespace) as informer,
    ):
        await informer.wait_for_cache_sync()
        created = await cluster.create(PODS.make("a", namespace))
        await cluster.delete(created, grace_period_seconds=0)
        with anyio.fail_after(100):
            await informer.wait_until(
                None, key=created.key, uid=created.metadata.uid, timeout_seconds=100
            )
        await until(lambda: not core_of(informer).caches.all[0].freshness.overlay.entries)
        assert informer.status().objects == 0


async def test_an_own_write_that_no_list_has_is_reconciled_again(server: Server) -> None:
    """We made it, another client deleted it while the watch was down: there is no event."""
    namespace = server.namespace()
    seen: list[bool] = []

    async def reconcile(_: pyinformer.Request, obj: pyinformer.KubeObject[None] | None) -> None:
        seen.append(obj is not None)

    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as behind,
        server.connect() as cluster,
    ):
        informer = pyinformer.SharedInformer(behind, "v1", "configmaps", namespaces=namespace)
        controller = pyinformer.Controller("ghosts", reconcile, informer)
        async with pyinformer.ControllerGroup(controller):
            existing = len(seen)  # a real server may put config maps of its own there
            proxy.refuse()
            ghost = await cluster.create(CONFIG_MAPS.make("ghost", namespace))
            behind.record_write("v1", "configmaps", ghost.raw)
            controller.enqueue(ghost.key)
            await until(lambda: seen[existing:] == [True], what=seen)
            await cluster.delete(ghost)
            await asyncio.to_thread(server.restart)
            proxy.accept()
            await until(lambda: seen[existing:] == [True, False], timeout_seconds=100, what=seen)
