"""Calls from another event loop or thread: refused with the right way, and without harm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Controller, SharedInformer, SharedInformerFactory
from pyinformer.cache.informer import core_of
from pyinformer.errors import LifecycleError
from tests.cache.informer.clusters import Notes, cluster_of, informer_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer.testing import APIServer


async def refused_in_another_loop(call: Callable[[], Awaitable[object]]) -> str:
    """Await something in the loop of another thread, where it has to be refused at once."""

    async def main() -> str:
        with pytest.raises(LifecycleError) as raised:
            async with asyncio.timeout(100):
                await call()
        return str(raised.value)

    return await asyncio.to_thread(asyncio.run, main())


async def refused_in_a_thread(call: Callable[[], object]) -> str:
    """Call something in a thread without a loop, where it has to be refused."""

    def run() -> str:
        with pytest.raises(LifecycleError) as raised:
            call()
        return str(raised.value)

    return await asyncio.to_thread(run)


async def _read(pods: SharedInformer[None]) -> None:
    async with pods.events() as events:
        await anext(events)


_AWAITED: dict[str, Callable[[SharedInformer[None]], Awaitable[object]]] = {
    "start": lambda pods: pods.start(),
    "wait_for_cache_sync": lambda pods: pods.wait_for_cache_sync(),
    "wait_for": lambda pods: pods.wait_for("default/b", bool),
    "wait_until": lambda pods: pods.wait_until("99999", key="default/a"),
    "audit": lambda pods: pods.audit(),
    "explain_live": lambda pods: pods.explain_live("default/a"),
    "events": _read,
    "aclose": lambda pods: pods.aclose(),
}
_CALLED: dict[str, Callable[[SharedInformer[None]], object]] = {
    "add_event_handler": lambda pods: pods.add_event_handler(print),
    "add_index": lambda pods: pods.add_index("node", "spec.nodeName"),
    "attach_receiver": lambda pods: core_of(pods).attach_receiver(core_of(pods).key_waits),
}


@pytest.mark.parametrize("name", _AWAITED)
async def test_an_informer_refuses_another_loop_and_continues(
    apiserver: APIServer, name: str
) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as pods:
        text = await refused_in_another_loop(lambda: _AWAITED[name](pods))
        assert text.startswith("the informer of pods.v1 belongs to another event loop")
        assert "runner.call(...)" in text
        apiserver.create(pod("b"))
        assert await pods.wait_for("default/b", bool, timeout_seconds=100)


@pytest.mark.parametrize("name", _CALLED)
async def test_an_informer_refuses_another_thread_and_continues(
    apiserver: APIServer, name: str
) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as pods:
        text = await refused_in_a_thread(lambda: _CALLED[name](pods))
        assert "does not run in this thread" in text
        assert "run_in_thread()" in text
        assert pods.status().handlers == ()
        assert await asyncio.to_thread(lambda: list(pods.lister.keys())) == ["default/a"]


async def test_a_registration_refuses_another_loop(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    notes = Notes()
    async with informer_of(apiserver) as pods:
        registration = pods.add_event_handler(notes)
        await refused_in_another_loop(registration.wait_synced)
        await refused_in_another_loop(registration.remove)
        await refused_in_another_loop(lambda: pods.remove_event_handler(registration))
        apiserver.create(pod("b"))
        await notes.until_heard("add default/b")


async def test_a_stream_that_is_read_in_another_loop_refuses_to_wait(
    apiserver: APIServer,
) -> None:
    async with informer_of(apiserver) as pods, pods.events() as events:
        text = await refused_in_another_loop(lambda: anext(events))
        assert text.startswith("the informer of pods.v1 belongs to another event loop")
        apiserver.create(pod("a"))
        assert (await anext(events)).key == "default/a"


async def test_namespaces_are_not_set_from_another_loop(apiserver: APIServer) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces="a") as pods,
    ):
        await refused_in_another_loop(lambda: pods.set_namespaces(["b"]))
        assert pods.namespaces == {"a"}


async def test_a_request_from_another_loop_changes_no_state(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster:
        text = await refused_in_another_loop(lambda: cluster.get("v1", "pods", "default/a"))
        assert text.startswith("the cluster belongs to another event loop")
        await refused_in_another_loop(lambda: cluster.create(pod("b")))
        await refused_in_another_loop(lambda: cluster.discovery.find("pods"))
        await refused_in_another_loop(lambda: cluster.connection.request("GET", "/version"))
        await refused_in_another_loop(cluster.aclose)
        await refused_in_another_loop(lambda: SharedInformer(cluster, "v1", "pods").start())
        assert (await cluster.get("v1", "pods", "default/a")).key == "default/a"
        async with SharedInformer(cluster, "v1", "pods") as pods:
            await pods.wait_for_cache_sync(timeout_seconds=100)


async def test_a_cluster_without_a_block_belongs_to_the_loop_of_its_first_request(
    apiserver: APIServer,
) -> None:
    cluster = pyinformer.Cluster(pyinformer.client.ClusterConfig(server=apiserver.url))
    await cluster.find_resource("pods")
    await refused_in_another_loop(lambda: cluster.get("v1", "pods", "default/a"))
    await cluster.aclose()


def test_a_cluster_of_a_closed_loop_raises(apiserver: APIServer) -> None:
    cluster = pyinformer.Cluster(pyinformer.client.ClusterConfig(server=apiserver.url))

    async def ask() -> None:
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get("v1", "pods", "default/a")
        await cluster.aclose()

    asyncio.run(ask())
    with pytest.raises(LifecycleError, match="event loop that is closed: make a new one"):
        asyncio.run(ask())


async def test_a_factory_refuses_another_loop_and_thread(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods")
        await refused_in_another_loop(factory.start)
        await factory.start()
        for call in (
            factory.start,
            factory.wait_for_cache_sync,
            lambda: factory.remove_informer(pods),
            factory.aclose,
        ):
            await refused_in_another_loop(call)
        await refused_in_a_thread(lambda: factory.informer("v1", "services"))
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert factory.informers == (pods,)
        assert await asyncio.to_thread(factory.status)


async def test_a_controller_refuses_another_loop_and_takes_requests_of_any_thread(
    apiserver: APIServer,
) -> None:
    seen: list[Any] = []

    async def reconcile(request: object, obj: object) -> None:
        seen.append(request)

    async with cluster_of(apiserver) as cluster:
        controller = Controller("pods", reconcile, SharedInformer(cluster, "v1", "pods"))
        async with controller:
            for call in (controller.aclose, controller.wait_ended):
                text = await refused_in_another_loop(call)
                assert text.startswith("controller pods belongs to another event loop")
            await asyncio.to_thread(controller.enqueue, "default/a")
            await until(lambda: seen)


async def test_a_pool_refuses_another_loop() -> None:
    async def open_(cluster: object) -> object:
        return cluster

    async with pyinformer.ClusterPool(open_) as pool:  # type: ignore[arg-type, var-annotated]
        await refused_in_another_loop(lambda: pool.get("eu"))
        await refused_in_another_loop(lambda: pool.evict("eu"))
        await refused_in_another_loop(pool.aclose)
