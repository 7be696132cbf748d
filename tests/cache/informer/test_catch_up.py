"""Catching up: the cache has reached everything that the server has, and nothing older is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest

import pyinformer
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory, catch_up, core_of
from pyinformer.cache.reflector import ReflectorOptions, ReflectorState
from pyinformer.errors import RequestTimeoutError
from pyinformer.testing import APIServer, Fault, World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, until


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time with two config maps."""
    with World([_map("a"), _map("b")], virtual_time=True) as world:
        yield world


def _map(name: str, value: str = "1") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}


def _hold_watches(world: World, *, held: bool) -> None:
    """Hold watches back as `world.stale_caches` does, on the loop of the World."""
    world._connection.hold(held=held)


async def _with_held_watch(world: World, informer: SharedInformer) -> None:
    await informer.start()
    await informer.wait_for_cache_sync()
    _hold_watches(world, held=True)


async def _seen_after(world: World, informer: SharedInformer, **options: Any) -> None:
    """Check that it waits as long as the watch is held back, and no longer."""
    waiting = asyncio.create_task(catch_up(informer, list_timeout_seconds=10, **options))
    await pause(5)
    assert not waiting.done()
    _hold_watches(world, held=False)
    await waiting


def test_a_cache_that_is_current_has_caught_up_at_once(world: World) -> None:
    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync()
        await catch_up(informer, list_timeout_seconds=10)
        await informer.aclose()

    world.run(scenario)


@pytest.mark.parametrize("change", ["create", "update", "delete", "recreate"])
def test_every_kind_of_change_is_waited_for(world: World, change: str) -> None:
    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps")
        await _with_held_watch(world, informer)
        cluster = _another_process(world)
        if change == "create":
            await cluster.create(_map("c"))
        elif change == "update":
            await cluster.replace(_map("a", "2"))
        else:
            await cluster.delete("v1", "configmaps", "default/a")
            if change == "recreate":
                await cluster.create(_map("a", "3"))
        await _seen_after(world, informer)
        found = {obj.key: obj.at("data.v", str) for obj in informer.lister.list()}
        expected = {
            "create": {"default/a": "1", "default/b": "1", "default/c": "1"},
            "update": {"default/a": "2", "default/b": "1"},
            "delete": {"default/b": "1"},
            "recreate": {"default/a": "3", "default/b": "1"},
        }
        assert found == expected[change]
        await informer.aclose()

    world.run(scenario)


def test_a_version_that_a_selector_hides_ends_in_a_list(world: World) -> None:
    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps", label_selector="app=x")
        await informer.start()
        await informer.wait_for_cache_sync()
        hidden = await _another_process(world).create(_map("c"))
        version = hidden.metadata.resource_version
        await catch_up(informer, resource_version=version, list_timeout_seconds=10)
        await informer.aclose()

    world.run(scenario)


def test_a_known_version_is_waited_for_without_a_list(world: World) -> None:
    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync()
        made = await _another_process(world).create(_map("c"))
        await catch_up(
            informer,
            resource_version=made.metadata.resource_version,
            list_timeout_seconds=10,
        )
        assert informer.lister.get("default/c") is not None
        await informer.aclose()

    world.run(scenario)


def test_a_watch_that_is_late_is_waited_for_ten_seconds(world: World) -> None:
    """It may stand still for long, and lists are answered."""

    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps")
        await _with_held_watch(world, informer)
        await _another_process(world).create(_map("c"))
        began = now()
        await catch_up(informer, list_timeout_seconds=10)
        assert 10 <= now() - began < 15
        assert informer.lister.get("default/c") is not None
        _hold_watches(world, held=False)
        await informer.aclose()

    world.run(scenario)


async def test_a_list_may_take_longer_in_all_while_its_pages_arrive(apiserver: APIServer) -> None:
    """A cache of many objects, or a slow server, would never catch up else."""
    for number in range(10):
        apiserver.create(_map(f"m{number}"))
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=ReflectorOptions(page_size=2)) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync()
        apiserver.clear_requests()
        apiserver.faults.add(Fault(verb="list", delay_seconds=1.0, times=None))
        await catch_up(informer, list_timeout_seconds=10)
        assert sum(one.verb == "list" for one in apiserver.requests) >= 5


def test_without_an_order_a_list_that_was_sent_before_proves_nothing(world: World) -> None:
    async def scenario() -> None:
        cluster = _another_process(world)
        line = cluster.connection
        factory = SharedInformerFactory(cluster, options=ReflectorOptions(order="opaque"))
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync()
        line.holds_new = True
        core_of(informer).caches.all[0].reflector.request_relist("a test")
        await pause(5)  # the server has answered
        await world.cluster.create(_map("c"))
        waiting = asyncio.create_task(catch_up(informer, list_timeout_seconds=10))
        await pause(5)
        line.hold("configmaps", held=False)
        await pause(5)
        assert not waiting.done()
        line.hold("configmaps", held=False)
        assert await waiting == ""
        assert informer.lister.get("default/c") is not None
        await factory.aclose()

    world.run(scenario)


@pytest.mark.parametrize("use_watch_list", [True, False])
async def test_pages_that_are_not_a_list_are_no_reason_to_wait(
    apiserver: APIServer, *, use_watch_list: bool
) -> None:
    """A cache that was loaded by one whole body catches up by one."""
    for number in range(5):
        apiserver.create(_map(f"m{number}"))
    apiserver.faults.add(Fault(parameter="continue", status=410, times=None))
    options = ReflectorOptions(page_size=2, use_watch_list=use_watch_list)
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=options) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        apiserver.create(_map("c"))
        await catch_up(informer, list_timeout_seconds=10)
        assert informer.lister.get("default/c") is not None


async def test_what_the_watch_is_past_is_not_waited_for(apiserver: APIServer) -> None:
    """An object was skipped, or its event was lost: a list heals what can be healed."""
    apiserver.create(_map("m"))
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=ReflectorOptions(use_watch_list=False)) as factory,
    ):
        apiserver.faults.add(Fault(verb="watch", edit="drop-event"))
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        await until(lambda: apiserver.open_watches == 1)
        apiserver.update(_map("m", "lost"))
        apiserver.create(_map("c"))
        await until(lambda: informer.lister.get("default/c") is not None)
        await catch_up(informer, list_timeout_seconds=10)
        found = informer.lister.get("default/m")
        assert found is not None
        assert found.at("data.v", str) == "lost"


@pytest.mark.parametrize("order", ["global", "opaque"])
async def test_lists_are_enough_where_every_watch_is_refused(
    apiserver: APIServer, order: Literal["global", "opaque"]
) -> None:
    """An aggregated API may have no watch, and versions that do not compare."""
    apiserver.faults.add(Fault(verb="watch", status=405, times=None))
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=ReflectorOptions(order=order)) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        await until(lambda: informer.state is ReflectorState.POLLING, timeout_seconds=60)
        apiserver.create(_map("c"))
        await catch_up(informer, list_timeout_seconds=10)
        assert informer.lister.get("default/c") is not None


@pytest.mark.parametrize("order", ["global", "opaque"])
def test_lists_that_bring_nothing_are_waited_for_as_long_as_asked(
    world: World, order: Literal["global", "opaque"]
) -> None:
    async def scenario() -> None:
        cluster = _another_process(world)
        line = cluster.connection
        factory = SharedInformerFactory(cluster, options=ReflectorOptions(order=order))
        informer = factory.informer("v1", "configmaps")
        await informer.start()
        await informer.wait_for_cache_sync()
        line.refused_lists, line.refuses_after_seconds = "configmaps", 600.0
        line.watch_is_forbidden = True
        begun_at = now()
        with pytest.raises(RequestTimeoutError, match="it has brought nothing for 10 s"):
            await catch_up(informer, list_timeout_seconds=10)
        assert now() - begun_at == pytest.approx(10.0, abs=0.5)
        await factory.aclose()

    world.run(scenario)


def test_catching_up_returns_the_position_of_the_namespace_that_is_ahead(world: World) -> None:
    async def scenario() -> None:
        cluster = _another_process(world)
        informer = world.factory.informer("v1", "configmaps", namespaces=["default", "shop"])
        await informer.start()
        await informer.wait_for_cache_sync()
        made = await cluster.create(_map("c"))
        found = await catch_up(informer, list_timeout_seconds=10)
        assert found == made.metadata.resource_version
        assert informer.observed_resource_version != found  # the other namespace was quiet
        known = await catch_up(informer, resource_version="1", list_timeout_seconds=10)
        assert known == "1"
        await informer.aclose()

    world.run(scenario)


def test_cancelled_while_waiting_it_leaves_nothing(world: World) -> None:
    async def scenario() -> None:
        informer = world.factory.informer("v1", "configmaps")
        await _with_held_watch(world, informer)
        await _another_process(world).create(_map("c"))
        waiting = asyncio.create_task(catch_up(informer, list_timeout_seconds=10))
        await pause(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        _hold_watches(world, held=False)
        await catch_up(informer, list_timeout_seconds=10)
        await informer.aclose()

    world.run(scenario)


def _another_process(world: World) -> Any:
    from pyinformer.client.cluster import Cluster, WriteOptions

    return Cluster(
        world.cluster.config,
        write_options=WriteOptions(writes_per_second=None, retry_limit=0),
        connection=Line(world.cluster.connection),
    )


async def test_pages_that_a_busy_server_refuses_are_requested_again(apiserver: APIServer) -> None:
    """With one refusal in three, forty pages in a row would never come."""
    for number in range(20):
        apiserver.create(_map(f"m{number}"))
    options = ReflectorOptions(page_size=2, use_watch_list=False)
    refusal = Fault(parameter="continue", status=429, retry_after_seconds=1, times=2, skip=4)
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=options) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        apiserver.faults.add(refusal)
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        assert informer.status().reflector.attempts == 0
        first_pages = [
            one for one in apiserver.requests if one.verb == "list" and "continue" not in one.query
        ]
        assert len(first_pages) == 1, "nothing that was loaded is loaded again"

        apiserver.faults.add(refusal)
        apiserver.clear_requests()
        await catch_up(informer, list_timeout_seconds=10)
        lists = [one for one in apiserver.requests if one.verb == "list"]
        assert sum("continue" not in one.query for one in lists) == 1


async def test_namespaces_catch_up_side_by_side(apiserver: APIServer) -> None:
    names = [f"n{number}" for number in range(12)]
    for name in names:
        apiserver.ensure_namespace(name)
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        informer = factory.informer("v1", "configmaps", namespaces=names)
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        apiserver.faults.add(Fault(verb="list", hang=True, times=2))
        waiting = asyncio.create_task(catch_up(informer, list_timeout_seconds=10))
        await asyncio.to_thread(apiserver.faults.wait_for_held, 2)
        assert not waiting.done()
        apiserver.faults.release()
        await waiting


@pytest.mark.parametrize("order", ["global", "opaque"])
async def test_the_turn_among_lists_is_nothing_that_lists_fail_to_bring(
    apiserver: APIServer, order: Literal["global", "opaque"]
) -> None:
    """A list that waits for others has been refused by no server."""
    async with _many_namespaces(apiserver, order) as informer:
        apiserver.faults.add(Fault(verb="list", delay_seconds=0.25, times=None))
        began = now()
        await catch_up(informer, list_timeout_seconds=1)
        assert now() - began > 1, "each list was in time, and all of them were not"


@pytest.mark.parametrize("fault", [Fault(hang=True), Fault(status=500)], ids=["hang", "500"])
@pytest.mark.parametrize("order", ["global", "opaque"])
async def test_lists_of_one_namespace_that_bring_nothing_hold_up_no_other(
    apiserver: APIServer,
    order: Literal["global", "opaque"],
    fault: Fault,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An object that a conversion webhook refuses fails each list of its namespace."""
    async with _many_namespaces(apiserver, order) as informer:
        apiserver.faults.add(replace(fault, verb="list", namespace="n3", times=None))
        await catch_up(informer, list_timeout_seconds=1)
        errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert any("what earlier leaders wrote in n3 is not known" in one for one in errors)
        apiserver.faults.clear()
        apiserver.faults.release()


@pytest.mark.parametrize("order", ["global", "opaque"])
async def test_many_lists_that_are_not_answered_end_as_soon_as_one(
    apiserver: APIServer, order: Literal["global", "opaque"]
) -> None:
    async with _many_namespaces(apiserver, order) as informer:
        apiserver.faults.add(Fault(verb="list", hang=True, times=None))
        apiserver.clear_requests()
        with pytest.raises(RequestTimeoutError, match="nothing for 1 s"):
            await catch_up(informer, list_timeout_seconds=1)
        assert sum(one.verb == "list" for one in apiserver.requests) < 24, "each takes as long"
        apiserver.faults.clear()
        apiserver.faults.release()


@asynccontextmanager
async def _many_namespaces(
    apiserver: APIServer, order: Literal["global", "opaque"]
) -> AsyncIterator[SharedInformer]:
    """Yield an informer of more namespaces than lists may run at a time."""
    names = [f"n{number}" for number in range(24)]
    for name in names:
        apiserver.ensure_namespace(name)
    options = ReflectorOptions(order=order, use_watch_list=False)
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster, options=options) as factory,
    ):
        informer = factory.informer("v1", "configmaps", namespaces=names)
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=30)
        yield informer
