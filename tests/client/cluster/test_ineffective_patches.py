"""A server sets defaults in what an edit leaves out: the same edit is not sent again and again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.client.cluster import connect
from pyinformer.operator import custom_resource, custom_resource_definition
from pyinformer.testing import APIServer, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject, KubeObject


class Address(msgspec.Struct):
    """An address, whose mode has a default on the server."""

    ip: str
    mode: str = "VIP"


class Status(msgspec.Struct):
    """A status, whose phase has one."""

    addresses: list[Address] = []
    phase: str = "New"


class Spec(msgspec.Struct):
    """What is wanted."""

    addresses: list[Address] = []


@custom_resource("acme.io/v1", "balancers", kind="Balancer")
class Balancer(msgspec.Struct):
    """A custom resource."""

    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


STATUS = {"addresses": [{"ip": "1"}]}


@asynccontextmanager
async def _balancer(**metadata: Any) -> AsyncIterator[tuple[Cluster, KubeObject]]:
    with APIServer() as server:
        server.create(custom_resource_definition(Balancer))
        async with connect(server=server.url) as cluster:
            yield (
                cluster,
                await cluster.create(
                    {
                        "apiVersion": "acme.io/v1",
                        "kind": "Balancer",
                        "metadata": {"name": "a", "namespace": "default", **metadata},
                        "spec": {"addresses": [{"ip": "1"}]},
                    }
                ),
            )


async def _status(cluster: Cluster, obj: KubeObject, **options: Any) -> KubeObject:
    return await cluster.status(obj, STATUS, **options)


async def _spec(cluster: Cluster, obj: KubeObject, **options: Any) -> KubeObject:
    edited: Any = obj.to_dict()
    edited["spec"] = STATUS
    return await cluster.patch(obj, edited, **options)


async def _sent(
    cluster: Cluster, obj: KubeObject, write: Callable[..., Any], **options: Any
) -> int:
    before = cluster.write_statistics().sent
    await write(cluster, obj, **options)
    return cluster.write_statistics().sent - before


async def _thrice(cluster: Cluster, obj: KubeObject, write: Callable[..., Any]) -> KubeObject:
    """Write it once, once more beside the defaults, and once for the answer to that."""
    for _ in range(3):
        obj = await write(cluster, obj)
    return obj


@pytest.mark.parametrize("write", [_status, _spec])
async def test_a_write_that_the_server_completes_with_defaults_ends(
    write: Callable[..., Any],
) -> None:
    async with _balancer() as (cluster, created):
        obj = await _thrice(cluster, created, write)

        assert await _sent(cluster, obj, write) == 0
        assert (await write(cluster, obj)).metadata == obj.metadata
        assert obj.at("spec", dict)["addresses"] == [{"ip": "1", "mode": "VIP"}]


@pytest.mark.parametrize("write", [_status, _spec])
async def test_the_write_is_sent_again_after_any_change_of_the_object(
    write: Callable[..., Any],
) -> None:
    async with _balancer() as (cluster, created):
        obj = await _thrice(cluster, created, write)
        edited: JSONObject = obj.to_dict()
        edited["metadata"]["labels"] = {"a": "b"}
        changed = await cluster.patch(obj, edited)

        assert await _sent(cluster, changed, write) == 1


@pytest.mark.parametrize(
    "options", [{"field_manager": "other"}, {"dry_run": True}, {"field_validation": "Strict"}]
)
async def test_a_write_of_another_kind_is_sent(options: dict[str, Any]) -> None:
    """Another manager becomes an owner of the fields, and a dry run stores nothing."""
    async with _balancer() as (cluster, created):
        obj = await _thrice(cluster, created, _status)

        assert await _sent(cluster, obj, _status, **options) == 1


async def test_a_dry_run_does_not_count_as_a_write() -> None:
    async with _balancer() as (cluster, obj):
        for _ in range(3):
            await _status(cluster, obj, dry_run=True)

        written = await _status(cluster, obj)
        assert written.at("status.addresses", list) == [{"ip": "1", "mode": "VIP"}]


async def test_an_object_in_deletion_is_written_each_time() -> None:
    """The answer to the removal of the last finalizer has the version that it had before."""
    async with _balancer(finalizers=["acme.io/x"]) as (cluster, created):
        await cluster.delete(created)
        deleted = await cluster.get("acme.io/v1", "balancers", created.key)
        obj = await _thrice(cluster, deleted, _status)

        assert await _sent(cluster, obj, _status) == 1


def test_the_write_is_sent_again_after_five_minutes() -> None:
    """The definition may have gained a field that was dropped; the object has the same version."""
    crd = custom_resource_definition(Balancer)
    body = {
        "apiVersion": "acme.io/v1",
        "kind": "Balancer",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"addresses": [{"ip": "1"}]},
    }
    with World([crd, body], virtual_time=True) as world:

        async def patch() -> int:
            obj = await world.cluster.get("acme.io/v1", "balancers", "default/a")
            return await _sent(world.cluster, obj, _spec)

        assert [world.run(patch), world.run(patch)] == [1, 0]
        world.elapse(290)
        assert world.run(patch) == 0
        world.elapse(20)
        assert [world.run(patch), world.run(patch)] == [1, 0]
