"""How the wire is read: lists, pages, watch-lists, both shapes, queues, watches that end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from tests.followed import server_behind
from tests.integration.following import follow
from tests.integration.history import History, Versions, check_same
from tests.integration.objects import (
    CONFIG_MAPS,
    PLANET,
    PODS,
    SECRETS,
    WIDGET,
    changed,
    unique,
)
from tests.integration.servers import EITHER_CLIENT, WIDGETS
from tests.integration.workload import SELECTED, Writer, together
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.cache.informer import QueueKind
    from tests.integration.servers import Server

pytestmark = pytest.mark.every_loop


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watch-list", "paged-list"])
async def test_custom_resources_of_both_scopes(server: Server, use_watch_list: bool) -> None:
    """Their lists have sorted keys: the items stand before the list's resource version."""
    server.serve_widgets()
    namespace, suite = server.namespace(), unique("label")
    options = pyinformer.cache.ReflectorOptions(use_watch_list=use_watch_list, page_size=3)
    widgets = [
        server.api.create(WIDGET.make(f"w{n}", namespace, labels={"suite": suite}))
        for n in range(8)
    ]
    planet = server.api.create(PLANET.make(unique("planet"), labels={"suite": suite}))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        namespaced = follow(factory, WIDGETS, "widgets", namespaces=namespace)
        cluster_scoped = follow(factory, WIDGETS, "planets", label_selector=f"suite={suite}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        server.api.update(changed(widgets[0], 1))
        server.api.delete(WIDGETS, "widgets", "w1", namespace)
        server.api.update(changed(planet, 1))
        assert len(await namespaced.settle(server)) == 7
        assert len(await cluster_scoped.settle(server)) == 1
        assert namespaced.informer.lister[f"{namespace}/w2"].gvk.kind == "Widget"


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watch-list", "paged-list"])
async def test_both_list_shapes_give_the_same_objects_as_watches(
    server: Server, use_watch_list: bool
) -> None:
    """What came in a list, in a watch-list, or as an event is the same."""
    server.serve_widgets()
    namespace = server.namespace()
    options = pyinformer.cache.ReflectorOptions(use_watch_list=use_watch_list)
    kinds = (CONFIG_MAPS, SECRETS, PODS, WIDGET)
    for kind in kinds:
        server.api.create(kind.make("listed", namespace))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        followed = [
            follow(factory, kind.api_version, kind.plural, namespaces=namespace, memory="raw")
            for kind in kinds
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        for kind, one in zip(kinds, followed, strict=True):
            server.api.create(kind.make("watched", namespace))
            await one.settle(server)
            for obj in one.informer.lister.list():
                stored = server.api.get(kind.api_version, kind.plural, obj.metadata.name, namespace)
                check_same(obj.to_dict(), stored)
                assert (obj.gvk.kind, obj.gvk.api_version) == (kind.kind, kind.api_version)


@pytest.mark.parametrize("page_size", [7, 1000, 0], ids=["small", "large", "none"])
async def test_pages_together_are_the_whole(server: Server, page_size: int) -> None:
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions)
    await asyncio.to_thread(writer.fill, 60)
    options = pyinformer.cache.ReflectorOptions(use_watch_list=False, page_size=page_size)
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await asyncio.to_thread(writer.churn, creates=20, others=20)
        await one.settle(server, versions=versions)
        assert one.loads == 1


async def test_a_server_without_watch_lists_is_listed_and_not_asked_again(
    other_server: Server,
) -> None:
    server, namespace = other_server, other_server.namespace()
    versions = Versions()
    writer = Writer(server, SECRETS, namespace, versions)
    await asyncio.to_thread(writer.fill, 30)
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        assert server_behind(cluster).watch_list_memory.may_try(asyncio.get_running_loop().time())
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert not server_behind(cluster).watch_list_memory.may_try(
            asyncio.get_running_loop().time()
        )
        await asyncio.to_thread(writer.churn, creates=20, others=20)
        await one.settle(server, versions=versions)
        assert one.informer.status().reflector.last_error is None


async def test_a_server_with_watch_lists_gets_a_watch_list_request(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert server_behind(cluster).watch_list_memory.may_try(asyncio.get_running_loop().time())
        assert one.loads == 1
        assert one.names() == []


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_every_queue_follows_the_same_storm(server: Server, queue: QueueKind) -> None:
    server.serve_widgets()
    namespace = server.namespace()
    versions = Versions()
    writers = [Writer(server, kind, namespace, versions) for kind in (CONFIG_MAPS, WIDGET)]
    await together(partial(writer.fill, 40) for writer in writers)
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        followed = [
            follow(
                factory,
                kind.api_version,
                kind.plural,
                namespaces=namespace,
                label_selector=selector,
                queue=queue,
            )
            for kind in (CONFIG_MAPS, WIDGET)
            for selector in (None, SELECTED)
        ]
        await factory.start()
        await together(partial(writer.churn, creates=40, others=120) for writer in writers)
        for one in followed:
            await one.settle(server, versions=versions)


@EITHER_CLIENT
async def test_watches_that_end_every_second_are_continued(server: Server) -> None:
    """A server ends each watch in time: the next one continues where it was, without a list."""
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions)
    options = pyinformer.cache.ReflectorOptions(watch_timeout_seconds=(1.0, 1.0))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        loop = asyncio.get_running_loop()
        end = loop.time() + 2.5  # two watches end meanwhile, amid writes
        while loop.time() < end:
            await asyncio.to_thread(writer.churn, creates=1, others=3)
            with anyio.move_on_after(0.05):  # without a pause it only computes
                await anyio.sleep_forever()
        await one.settle(server, versions=versions)
        assert one.loads == 1


@EITHER_CLIENT
async def test_objects_of_nearly_a_megabyte_come_whole(server: Server) -> None:
    """They arrive in many pieces, and their size is at the limit that etcd allows."""
    namespace = server.namespace()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        obj = CONFIG_MAPS.make("big", namespace, data={"filling": "\u00e4\n" * 300_000})
        stored = server.api.create(obj)
        small = server.api.create(CONFIG_MAPS.make("small", namespace))
        for number in range(5):
            stored = server.api.update(changed(stored, number))
            small = server.api.update(changed(small, number))
        await one.settle(server)
        assert one.loads == 1


async def test_finalizers_make_a_deletion_an_update_first(server: Server) -> None:
    namespace = server.namespace()
    obj = CONFIG_MAPS.make("held", namespace)
    obj["metadata"]["finalizers"] = ["suite.example.com/hold"]
    server.api.create(obj)
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(1)
        server.api.delete("v1", "configmaps", "held", namespace)
        await until(lambda: len(one.history.events) == 2, what=one.history.events)
        cached = one.informer.lister[f"{namespace}/held"].metadata
        assert cached.deletion_timestamp is not None
        assert list(cached.finalizers) == ["suite.example.com/hold"]
        late = {"metadata": {"finalizers": ["suite.example.com/late"]}}
        with pytest.raises(pyinformer.InformerError, match="no new finalizers can be added"):
            server.api.patch("v1", "configmaps", "held", late, namespace)
        server.api.patch("v1", "configmaps", "held", {"metadata": {"finalizers": None}}, namespace)
        await one.knows(0)
        await one.settle(server)
        kinds = [type(event) for event in one.history.events]
        assert kinds in ([Added, Updated, Deleted], [Added, Updated, Updated, Deleted])


async def test_a_slow_handler_gets_merged_events_that_are_valid(server: Server) -> None:
    """Its mailbox holds four events; the cache does not wait for it."""
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions)
    await asyncio.to_thread(writer.fill, 20)
    history, may_go_on = History(), asyncio.Event()

    async def slow(event: pyinformer.Event[Any]) -> None:
        await may_go_on.wait()
        history(event)

    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        one.informer.add_event_handler(slow, mailbox_size=4)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await asyncio.to_thread(writer.churn, creates=20, others=200)
        truth = await one.settle(server, versions=versions)
        may_go_on.set()
        await until(lambda: history.positions() == one.history.positions())
        history.check(versions)
        assert len(history.mirror) == len(truth)
        assert len(history.events) < len(one.history.events)
