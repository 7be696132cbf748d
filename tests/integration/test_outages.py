"""Servers that die and connections that break: what was missed is delivered, and nothing twice."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from tests.integration.following import Followed, follow
from tests.integration.history import Versions, key_of
from tests.integration.objects import CONFIG_MAPS, SECRETS, WIDGET, changed
from tests.integration.proxy import proxying
from tests.integration.servers import EITHER_CLIENT
from tests.integration.workload import SELECTED, Writer, together
from tests.soak import in_soak

if TYPE_CHECKING:
    from tests.integration.servers import Server

SEEDS = range(1, in_soak(21, otherwise=2))  # each takes four seconds, most of it between attempts
ROUNDS = 5
WRITES = 500
SMALLEST_LIFE_BYTES = 8_000  # a TLS handshake of the real server takes 3,000
LARGEST_LIFE_BYTES = 60_000


class Three:
    """Three config maps that an outage treats differently, and their informer."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.api = server.api
        self.objects = {
            name: self.api.create(CONFIG_MAPS.make(name, namespace))
            for name in ("changed", "deleted", "recreated", "untouched")
        }
        self.namespace = namespace

    def change_behind_the_back(self) -> None:
        """Do what the informer is not to see while it happens."""
        self.api.update(changed(self.objects["changed"], 1))
        for name in ("deleted", "recreated"):
            self.api.delete("v1", "configmaps", name, self.namespace)
        self.api.create(CONFIG_MAPS.make("recreated", self.namespace))
        self.api.create(CONFIG_MAPS.make("new", self.namespace))

    def kinds(self, followed: Followed) -> dict[str, list[type[Any]]]:
        """Return by name what the handler received."""
        return {
            name: [type(event) for event in followed.history.of(f"{self.namespace}/{name}")]
            for name in (*self.objects, "new")
        }


EXPECTED = {
    "changed": [Added, Updated],
    "deleted": [Added, Deleted],
    "recreated": [Added, Deleted, Added],
    "untouched": [Added],
    "new": [Added],
}


@EITHER_CLIENT
async def test_a_killed_server_is_listed_again_and_only_differences_are_delivered(
    server: Server,
) -> None:
    """The new process has no history: the position it is asked to resume at is gone."""
    namespace = server.namespace()
    three = Three(server, namespace)
    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(len(three.objects))

        proxy.refuse()
        await asyncio.to_thread(three.change_behind_the_back)
        await asyncio.to_thread(server.restart)
        proxy.accept()

        await one.settle(server)
        assert three.kinds(one) == EXPECTED
        assert one.loads == 2


@EITHER_CLIENT
@pytest.mark.every_loop
async def test_a_lost_connection_resumes_where_it_was(server: Server) -> None:
    """The server lives and remembers: every change is delivered as it happened, without a list."""
    namespace = server.namespace()
    three = Three(server, namespace)
    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await one.knows(len(three.objects))

        proxy.refuse()
        await asyncio.to_thread(three.change_behind_the_back)
        proxy.accept()

        await one.settle(server)
        assert three.kinds(one) == EXPECTED
        assert one.loads == 1


@EITHER_CLIENT
async def test_a_server_that_dies_under_load_loses_nothing(server: Server) -> None:
    """Killed between two storms, with informers of three kinds."""
    server.serve_widgets()
    namespace = server.namespace()
    versions = Versions()
    writers = [Writer(server, kind, namespace, versions) for kind in (CONFIG_MAPS, SECRETS, WIDGET)]
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        followed = [
            follow(
                factory,
                kind.api_version,
                kind.plural,
                namespaces=namespace,
                label_selector=selector,
            )
            for kind in (CONFIG_MAPS, SECRETS, WIDGET)
            for selector in (None, SELECTED)
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await together(partial(writer.churn, creates=60, others=60) for writer in writers)
        await asyncio.to_thread(server.restart)
        await together(partial(writer.churn, creates=60, others=60) for writer in writers)

        for one in followed:
            await one.settle(server, versions=versions)


@EITHER_CLIENT
@pytest.mark.soak
@pytest.mark.every_loop
@pytest.mark.parametrize("seed", SEEDS)
async def test_connections_cut_at_random_bytes_lose_nothing(server: Server, seed: int) -> None:
    """500 writes over connections that live for some kilobytes: no list but the first."""
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions, seed=seed)
    rng = random.Random(seed)

    def life() -> int:
        return rng.randint(SMALLEST_LIFE_BYTES, LARGEST_LIFE_BYTES)

    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        followed = [
            follow(factory, "v1", "configmaps", namespaces=namespace, label_selector=selector)
            for selector in (None, SELECTED)
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        proxy.cut_after(life)
        proxy.cut()
        for _ in range(ROUNDS):
            count = WRITES // ROUNDS // 2
            await asyncio.to_thread(writer.churn, creates=count, others=count)
        for one in followed:
            await one.settle(server, versions=versions, timeout_seconds=100.0)
            assert one.loads == 1
        assert proxy.cuts >= 3


@EITHER_CLIENT
@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watch-list", "paged-list"])
async def test_loads_that_break_off_are_never_half_a_cache(
    server: Server, use_watch_list: bool
) -> None:
    """What had arrived of a list that broke off is not taken for all there is."""
    namespace = server.namespace()
    writer = Writer(server, CONFIG_MAPS, namespace, Versions())
    await asyncio.to_thread(writer.fill, 200)
    lives = iter((6_000, 20_000, 50_000))
    options = pyinformer.cache.ReflectorOptions(use_watch_list=use_watch_list, page_size=60)

    async with (
        proxying(server.api, cut_after=lambda: next(lives, 1 << 40)) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        with pytest.raises(pyinformer.CacheNotSyncedError):
            one.informer.lister.list()
        await factory.wait_for_cache_sync(timeout_seconds=100)

        assert len(one.informer.lister.list()) == 200
        assert proxy.cuts >= 1
        await one.settle(server)


def _event(name: str, namespace: str) -> dict[str, Any]:
    # More than fits into one TLS record, so that a cut can fall between two of them.
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"suite.example.com/filling": "x" * 20_000},
        },
        "involvedObject": {"kind": "Pod", "name": "none", "namespace": namespace},
        "reason": "Suite",
        "message": "one of six",
        "type": "Normal",
    }


async def test_events_that_expire_together_leave_no_phantoms(other_server: Server) -> None:
    """Six deletions share a resource version; one stream is cut behind the first of them."""
    server, namespace = other_server, other_server.namespace()
    async with (
        proxying(server.api) as proxy,
        server.connect() as cluster,
        server.connect(url=proxy.url) as cut_cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
        pyinformer.SharedInformerFactory(cut_cluster) as cut_factory,
    ):
        whole = follow(factory, "v1", "events", namespaces=namespace)
        broken = follow(cut_factory, "v1", "events", namespaces=namespace)
        for one in (factory, cut_factory):
            await one.start()
            await one.wait_for_cache_sync(timeout_seconds=100)
        made = [server.api.create(_event(f"e{n}", namespace)) for n in range(6)]
        for followed in (whole, broken):
            await followed.knows(6)
        proxy.cut_open_after(30_000)

        for followed in (whole, broken):
            await followed.knows(0, timeout_seconds=100)
            await followed.settle(server)
        gone = [event for event in whole.history.events if isinstance(event, Deleted)]
        # One version for all six; more if a busy machine took longer than a lease is shared.
        assert len({event.last_known.metadata.resource_version for event in gone}) < len(gone)
        assert {event.key for event in gone} == {key_of(obj) for obj in made}
        assert proxy.cuts >= 1
