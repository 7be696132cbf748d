"""Under which name writes own fields, and that an apply without a name is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

import pyinformer
from pyinformer.controller.conventions import upgrade_managed_fields
from pyinformer.errors import InvalidArgumentError
from tests.integration.objects import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer import Cluster, KubeObject, Request
    from pyinformer.blocking import BlockingCluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_PLACE: Final = ("v1", "configmaps")


def managers(server: Server, key: str) -> set[tuple[str, str]]:
    """Return who owns fields of a config map, and by which operation."""
    namespace, _, name = key.partition("/")
    found = server.api.get(*_PLACE, name, namespace=namespace)
    return {(one["manager"], one["operation"]) for one in found["metadata"]["managedFields"]}


def wanted(namespace: str, **data: str) -> JSONObject:
    metadata = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_two_programs_that_name_no_field_manager_keep_each_others_fields(
    server: Server,
) -> None:
    namespace = server.namespace()
    one = pyinformer.connect(config=server.config(), field_manager="one")
    two = pyinformer.connect(config=server.config(), field_manager="two")
    async with one as first, two as second:
        for _ in range(2):
            await first.apply(wanted(namespace, x="1"))
            found = await second.apply(wanted(namespace, y="2"))
    assert found.at("data", dict) == {"x": "1", "y": "2"}
    assert managers(server, found.key) == {("one", "Apply"), ("two", "Apply")}


async def test_two_operators_on_one_cluster_keep_each_others_fields(server: Server) -> None:
    """One reconciles in a coroutine, one in a thread, and one by a timer."""
    namespace = server.namespace()
    one, two = pyinformer.Operator("one"), pyinformer.Operator("two")
    three = pyinformer.Operator("three-" + "x" * 200)
    done = {name: asyncio.Event() for name in ("one", "two", "three")}
    loop = asyncio.get_running_loop()

    @one.reconcile(*_PLACE, name="one")
    async def by_one(request: Request, _: KubeObject | None, cluster: Cluster) -> None:
        if request.name == "start":
            await asyncio.create_task(cluster.apply(wanted(namespace, x="1")))
            done["one"].set()

    @two.reconcile(*_PLACE, name="two")
    def by_two(request: Request, _: KubeObject | None, cluster: BlockingCluster) -> None:
        if request.name == "start":
            cluster.apply(wanted(namespace, y="2"))
            loop.call_soon_threadsafe(done["two"].set)

    @three.every(3600)
    async def by_three(cluster: Cluster) -> None:
        await cluster.apply(wanted(namespace, z="3"))
        done["three"].set()

    async with server.connect() as cluster:
        await cluster.create(CONFIG_MAPS.make("start", namespace))
        async with (
            one.running(cluster, namespaces=namespace),
            two.running(cluster, namespaces=namespace),
            three.running(cluster, namespaces=namespace),
        ):
            async with asyncio.timeout(100):
                for each in done.values():
                    await each.wait()
        found = await cluster.get(*_PLACE, f"{namespace}/a")
    assert found.at("data", dict) == {"x": "1", "y": "2", "z": "3"}
    owners = {manager for manager, _ in managers(server, found.key)}
    assert owners == {"one", "two", three.name[:128]}


async def test_the_name_of_a_cluster_comes_before_that_of_an_operator(server: Server) -> None:
    namespace = server.namespace()
    app, done = pyinformer.Operator("operator"), asyncio.Event()

    @app.every(3600)
    async def write(cluster: Cluster) -> None:
        await cluster.apply(wanted(namespace, x="1"))
        done.set()

    where = pyinformer.connect(config=server.config(), field_manager="program")
    async with where as cluster, app.running(cluster, namespaces=namespace):
        async with asyncio.timeout(100):
            await done.wait()
    assert managers(server, f"{namespace}/a") == {("program", "Apply")}


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: errors when trying to server-side apply an object"
)
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda cluster, body: cluster.apply(body), id="apply"),
        pytest.param(lambda cluster, body: cluster.apply_if_changed(body, None), id="if-changed"),
        pytest.param(lambda cluster, body: cluster.apply(body, field_manager=""), id="empty"),
        pytest.param(
            lambda cluster, body: cluster.create(body, field_manager="x" * 129), id="too-long"
        ),
    ],
)
async def test_a_write_without_a_valid_name_is_refused(
    server: Server, write: Callable[[Cluster, JSONObject], Awaitable[object]]
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        with pytest.raises(InvalidArgumentError, match=r"^field_manager: must ") as caught:
            await write(cluster, wanted(namespace))
        names = [one.metadata.name async for one in cluster.list(*_PLACE, namespace=namespace)]
    assert "a" not in names
    if "128" not in str(caught.value):
        assert "connect(field_manager=...)" in str(caught.value)
        assert "Operator" in str(caught.value)


@pytest.mark.parametrize("name", ["", "x" * 129, "\udcff"])
async def test_a_cluster_refuses_a_name_that_servers_would_refuse(
    server: Server, name: str
) -> None:
    with pytest.raises(InvalidArgumentError, match="field_manager: must"):
        async with pyinformer.connect(config=server.config(), field_manager=name):
            pass


async def test_other_writes_have_the_same_name_or_that_of_the_client(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        made = await cluster.create(wanted(namespace, x="1"))
    assert managers(server, made.key) == {("pyinformer", "Update")}
    async with pyinformer.connect(config=server.config(), field_manager="program") as cluster:
        assert cluster.field_manager == "program"
        await cluster.patch(made, {**made.to_dict(), "data": {"x": "2"}})
        await cluster.create(CONFIG_MAPS.make("b", namespace))
    assert ("program", "Update") in managers(server, made.key)
    assert managers(server, f"{namespace}/b") == {("program", "Update")}


async def test_what_was_written_by_updates_is_removed_by_an_apply_after_the_move(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        made = await cluster.create(wanted(namespace, x="1", y="1"))
        kept = await cluster.apply(wanted(namespace, x="1"), field_manager="shop")
        assert kept.at("data", dict) == {"x": "1", "y": "1"}
        await upgrade_managed_fields(
            cluster, *_PLACE, made.key, managers=["pyinformer"], field_manager="shop"
        )
        left = await cluster.apply(wanted(namespace, x="1"), field_manager="shop")
    assert left.at("data", dict) == {"x": "1"}
    assert managers(server, made.key) == {("shop", "Apply")}


async def test_what_has_moved_is_applied_once_more_though_nothing_has_changed(
    server: Server,
) -> None:
    """The process had applied the object before, and its fields are still as it wants them."""
    namespace = server.namespace()
    desired = wanted(namespace, x="1")
    async with server.connect() as cluster:
        made = await cluster.create(wanted(namespace, x="1", y="1"))
        await cluster.apply_if_changed(desired, made, field_manager="shop")
        moved = await upgrade_managed_fields(
            cluster, *_PLACE, made.key, managers=["pyinformer"], field_manager="shop"
        )
        left = await cluster.apply_if_changed(desired, moved, field_manager="shop")
    assert left.at("data", dict) == {"x": "1"}
