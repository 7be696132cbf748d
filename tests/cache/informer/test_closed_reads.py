"""A cache that nothing follows any more does not answer as if it were current."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import pyinformer
from pyinformer.cache.informer import SharedInformer, core_of
from pyinformer.client.cluster import Cluster
from pyinformer.errors import InformerError, InternalError, LifecycleError
from pyinformer.testing import APIServer, World
from tests.waiting import until

_KEY = "default/a"


class _Settings(msgspec.Struct, frozen=True):
    """A model of the config map."""

    data: dict[str, str] = {}


def _map(name: str = "a") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}


_READS: dict[str, Callable[[Any], object]] = {
    "get": lambda lister: lister.get(_KEY),
    "get of an absent key": lambda lister: lister.get("default/absent"),
    "item": lambda lister: lister[_KEY],
    "in": lambda lister: _KEY in lister,
    "list": lambda lister: lister.list(),
    "list by label": lambda lister: lister.list(label_selector="app=web"),
    "by_index": lambda lister: lister.by_index("app", "web"),
    "index_values": lambda lister: lister.index_values("app"),
    "keys": lambda lister: lister.keys(),
    "iter_async": lambda lister: lister.iter_async(),
    "namespace list": lambda lister: lister.namespace("default").list(),
    "namespace list by label": lambda lister: lister.namespace("default").list(
        label_selector="app=web"
    ),
    "namespace get": lambda lister: lister.namespace("default").get("a"),
    "namespace item": lambda lister: lister.namespace("default")["a"],
    "fresh": lambda lister: lister.fresh(max_age_seconds=1e6).get(_KEY),
    "decoded": lambda lister: lister.decoded.get(_KEY),
    "decoded list": lambda lister: lister.decoded.list(),
    "decoded by_index": lambda lister: lister.decoded.by_index("app", "web"),
}


def _informer(
    cluster: Cluster, namespaces: list[str] | None = None
) -> tuple[pyinformer.SharedInformerFactory, SharedInformer[Any]]:
    factory = pyinformer.SharedInformerFactory(cluster)
    informer = factory.informer("v1", "configmaps", namespaces=namespaces, sharing="decoded")
    informer.add_index("app", "metadata.labels.app")
    return factory, informer


@pytest.mark.parametrize(
    "namespaces", [None, ["default"], ["default", "kube-system"]], ids=["all", "one", "two"]
)
def test_every_read_of_a_closed_informer_raises(namespaces: list[str] | None) -> None:
    async def scenario() -> None:
        factory, informer = _informer(world.cluster, namespaces)
        fresh = informer.lister.fresh(max_age_seconds=1e6)
        async with factory:
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100.0)
            for read in _READS.values():
                read(informer.lister)
            assert fresh.get(_KEY) is not None
        closed = r"configmaps\.v1.* is closed, so its cache is not followed any more"
        for name, read in _READS.items():
            with pytest.raises(LifecycleError, match=closed):
                pytest.fail(f"{name} returned {read(informer.lister)}")
        with pytest.raises(LifecycleError, match=closed):
            fresh.get(_KEY)
        found = informer.lister.get(_KEY, allow_unsynced=True)
        assert found is not None
        assert len(informer.lister.list(allow_unsynced=True)) == 1

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)


def test_reads_of_models_raise_too() -> None:
    async def scenario() -> None:
        factory = pyinformer.SharedInformerFactory(world.cluster)
        typed = factory.informer("v1", "configmaps", model=_Settings)
        async with factory:
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100.0)
            assert typed.lister[_KEY].view.data == {"k": "v"}
        for read in (typed.lister.get, typed.lister.__getitem__, typed.lister.__contains__):
            with pytest.raises(LifecycleError):
                read(_KEY)
        with pytest.raises(LifecycleError):
            typed.lister.list()

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)


def test_an_informer_that_was_closed_before_it_synced_says_that_it_is_closed() -> None:
    async def scenario() -> None:
        _, informer = _informer(world.cluster)
        await informer.aclose()
        with pytest.raises(LifecycleError, match="is closed"):
            informer.lister.get(_KEY)

    with World(virtual_time=True) as world:
        world.run(scenario)


def test_a_handler_reads_until_it_has_ended() -> None:
    """A close waits for running handlers; what they read was current when it began."""

    async def scenario() -> None:
        factory, informer = _informer(world.cluster)
        began, may_end, read = asyncio.Event(), asyncio.Event(), list[object]()

        async def on_add(_obj: object) -> None:
            began.set()
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                read.append(informer.lister.get(_KEY))
                raise

        informer.add_event_handler(on_add=on_add)
        async with factory:
            await factory.start()
            await began.wait()
        assert len(read) == 1

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)


def test_reads_of_a_crashed_informer_raise() -> None:
    class Broken(Exception):  # noqa: N818 - a bug
        """What a receiver raises."""

    class Receiver:
        """A part of the informer with a bug."""

        def put_nowait(self, _event: object) -> None:
            """Fail."""
            raise Broken

        def preload_nowait(self, objects: object) -> None:
            """Take nothing."""

        def on_initial_list_complete(self) -> None:
            """Do nothing."""

        def on_missed_state(self, was: object, now: object) -> None:
            """Do nothing."""

    async def scenario() -> None:
        _, informer = _informer(world.cluster)
        await informer.start()
        await informer.wait_for_cache_sync(timeout_seconds=100.0)
        core_of(informer).attach_receiver(Receiver())
        await world.cluster.create(_map("b"))
        await until(lambda: informer.crash is not None)
        with pytest.raises(LifecycleError, match="has crashed, so its cache is not followed"):
            informer.lister.get(_KEY)
        with pytest.raises(InternalError):
            await informer.aclose()

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)


def test_blocking_reads_raise_after_the_end() -> None:
    with APIServer() as server:
        server.create(_map())
        with pyinformer.run_in_thread() as runner, runner.connect(server=server.url) as cluster:
            with cluster.informer_factory() as factory:
                informer = factory.informer("v1", "configmaps")
                factory.start()
                factory.wait_for_cache_sync(timeout_seconds=100.0)
                assert informer.lister.get(_KEY) is not None
            with pytest.raises(LifecycleError, match="is closed"):
                informer.lister.get(_KEY)


def test_a_stream_of_a_closed_informer_cannot_be_opened() -> None:
    async def scenario() -> None:
        factory, informer = _informer(world.cluster)
        async with factory:
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100.0)
            async with informer.events() as events:
                await factory.aclose()
                seen = [event async for event in events]
                assert len(seen) <= 1
        with pytest.raises(InformerError, match=re.compile("closed")):
            async with informer.events():
                pass

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)


def test_the_listers_of_an_operator_raise_after_its_end() -> None:
    async def scenario() -> None:
        app = pyinformer.Operator("maps")

        @app.reconcile("v1", "configmaps")
        async def reconcile(*_: object) -> None:
            pass

        async with app.running(world.cluster):
            lister = app.lister("v1", "configmaps")
            assert lister.get(_KEY) is not None
        with pytest.raises(LifecycleError, match="is closed"):
            lister.get(_KEY)
        with pytest.raises(LifecycleError, match="does not run"):
            app.lister("v1", "configmaps")

    with World([_map()], virtual_time=True) as world:
        world.run(scenario)
