"""Streams of events, waiting for a key, and reads that want no old answers, on both servers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from tests.integration.objects import CONFIG_MAPS, changed
from tests.integration.servers import EITHER_CLIENT
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.cache.informer import EventStream
    from tests.integration.servers import Server

pytestmark = pytest.mark.every_loop


@asynccontextmanager
async def config_maps(
    server: Server, namespace: str
) -> AsyncIterator[tuple[pyinformer.SharedInformer[None], pyinformer.Cluster]]:
    """Follow a namespace's ConfigMaps, synced; a real server adds one by itself."""
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer(
            "v1",
            "configmaps",
            namespaces=namespace,
            field_selector="metadata.name!=kube-root-ca.crt",
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        yield informer, cluster


async def take(events: EventStream[None], count: int) -> list[pyinformer.Event[Any]]:
    """Take so many events."""
    async with asyncio.timeout(100):
        return [await anext(events) for _ in range(count)]


async def test_a_stream_without_initial_objects_begins_where_it_is_entered(server: Server) -> None:
    namespace = server.namespace()
    old = server.api.create(CONFIG_MAPS.make("old", namespace))
    async with (
        config_maps(server, namespace) as (informer, _),
        informer.events(initial=False) as events,
    ):
        server.api.update(changed(old, 1))
        server.api.create(CONFIG_MAPS.make("new", namespace))
        first, second = await take(events, 2)
        assert isinstance(first, Updated)
        assert isinstance(second, Added)
        assert second.object.key.name == "new"
        assert not second.is_in_initial_list


async def test_a_stream_without_initial_objects_skips_the_first_list(
    server: Server,
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("old", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace)
        async with informer.events(initial=False) as events:
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            server.api.create(CONFIG_MAPS.make("new", namespace))
            async with asyncio.timeout(100):
                names = [await anext(events)]
                while names[-1].key != f"{namespace}/new":  # a real server adds kube-root-ca.crt
                    names.append(await anext(events))
        assert f"{namespace}/old" not in [event.key for event in names]


@EITHER_CLIENT
async def test_a_late_consumer_gets_the_latest_state_of_each_key(server: Server) -> None:
    namespace = server.namespace()
    obj = server.api.create(CONFIG_MAPS.make("a", namespace))
    async with (
        config_maps(server, namespace) as (informer, _),
        informer.events(delivery="coalesced", max_events=1) as events,
    ):
        assert [event.key.rpartition("/")[2] for event in await take(events, 1)] == ["a"]
        for number in range(5):
            obj = server.api.update(changed(obj, number))
        server.api.create(CONFIG_MAPS.make("passing", namespace))
        server.api.delete("v1", "configmaps", "passing", namespace)
        server.api.delete("v1", "configmaps", "a", namespace)
        again = server.api.create(CONFIG_MAPS.make("a", namespace))
        found = await informer.wait_for(
            f"{namespace}/a",
            lambda seen: seen is not None and seen.metadata.uid == again["metadata"]["uid"],
            timeout_seconds=100,
        )

        deleted, added = await take(events, 2)

        assert isinstance(deleted, Deleted)
        assert deleted.last_known.metadata.uid == obj["metadata"]["uid"]
        assert isinstance(added, Added)
        assert added.object == found


async def test_an_own_write_is_awaited_as_the_lister_shows_it(server: Server) -> None:
    namespace = server.namespace()
    async with config_maps(server, namespace) as (informer, cluster):
        key = f"{namespace}/mine"
        made = asyncio.create_task(informer.wait_for(key, bool, timeout_seconds=100))
        await settle()
        written = await cluster.create(CONFIG_MAPS.make("mine", namespace))
        assert await made == written
        gone = asyncio.create_task(informer.wait_for(key, lambda obj: obj is None))
        await settle()
        await cluster.delete(written)
        assert await gone is None


async def test_a_quiet_cache_is_as_fresh_as_its_last_proof(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("a", namespace))
    async with config_maps(server, namespace) as (informer, _):
        fresh = informer.lister.fresh(max_age_seconds=90)
        assert [obj.key.name for obj in fresh.namespace(namespace).list()] == ["a"]
        await until(lambda: (informer.age_seconds() or 0) > 0)  # uvloop counts whole milliseconds
        with pytest.raises(pyinformer.StaleCacheError, match="its reader allows 0 s"):
            informer.lister.fresh(max_age_seconds=0).get(f"{namespace}/a")
