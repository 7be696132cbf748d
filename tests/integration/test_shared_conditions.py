"""Conditions of one object that several writers set: each changes its own and keeps the others."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import msgspec
import pydantic
import pytest

import pyinformer
from pyinformer import KubeObject, Operator, Request
from pyinformer.controller.conventions import set_condition
from tests.integration.objects import unique

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_TEXT: JSONObject = {"type": "string"}
_CONDITION: JSONObject = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {"type": _TEXT, "status": _TEXT, "reason": _TEXT, "lastTransitionTime": _TEXT},
    "x-kubernetes-preserve-unknown-fields": True,
}
_CONDITIONS: JSONObject = {
    "type": "array",
    "items": _CONDITION,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
}
_PART: JSONObject = {"type": "object", "properties": {"conditions": _CONDITIONS}}
_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {
            "type": "object",
            "properties": {"phase": _TEXT, "conditions": _CONDITIONS, "part": _PART},
        },
    },
}

has_or_lacks_status = pytest.mark.parametrize("has_status", [True, False])


async def served(server: Server, cluster: Cluster, *, has_status: bool = True) -> KubeObject:
    """Serve a new kind, and create an object of it."""
    kind = f"K{unique('x').partition('-')[2]}"
    version = f"{kind.lower()}.example.com/v1"
    await asyncio.to_thread(
        server.api.register,
        version,
        kind,
        f"{kind.lower()}s",
        has_status=has_status,
        schema=_SCHEMA,
    )
    metadata = {"name": "a", "namespace": server.namespace()}
    return await cluster.create(
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"size": 1}}
    )


def plural_of(obj: KubeObject) -> str:
    return f"{obj.gvk.kind.lower()}s"


async def newest(cluster: Cluster, obj: KubeObject) -> KubeObject:
    return await cluster.get(obj.gvk.api_version, plural_of(obj), obj.key)


def condition(name: str, status: str = "True") -> JSONObject:
    return {"type": name, "status": status, "reason": "Suite"}


def shown(obj: KubeObject) -> dict[str, str]:
    """Return the status of each condition, in their order."""
    found = obj.at("status.conditions", list, default=[])
    return {one["type"]: one["status"] for one in found}


@has_or_lacks_status
async def test_a_condition_that_another_client_has_added_is_kept(
    server: Server, *, has_status: bool
) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster, has_status=has_status)
        await others.status(made, {"phase": "x", "conditions": [condition("Network")]})

        written = await cluster.status(made, {"conditions": [condition("Storage")]})

        assert shown(written) == {"Network": "True", "Storage": "True"}
        assert written.at("status.phase", str) == "x"


@pytest.mark.parametrize("write", ["patch", "replace", "apply", "delete"])
async def test_a_status_after_a_write_of_its_object_is_one_request(
    server: Server, write: str
) -> None:
    """As a reconcile writes that has just added its finalizer: the answer to that is the newest."""
    async with server.connect() as cluster:
        first = (await served(server, cluster)).to_dict()
        held = await cluster.patch(first, _with(first, finalizers=["example.com/held"]))
        made = await cluster.status(held, {"phase": "x", "conditions": [condition("Network")]})
        old = made.to_dict()
        if write == "patch":
            await cluster.patch(made, _with(old, annotations={"a": "b"}))
        elif write == "replace":
            await cluster.replace({**old, "spec": {"size": 2}})
        elif write == "apply":
            named = {"name": "a", "namespace": made.metadata.namespace}
            desired = {**old, "metadata": named, "spec": {"size": 3}}
            del desired["status"]
            await cluster.apply(desired, field_manager="suite", force=True)
        else:
            await cluster.delete(made)
        sent = cluster.write_statistics().sent
        both = [condition("Network"), condition("Storage")]
        written = await cluster.status(made, {"phase": "x", "conditions": both})
        assert cluster.write_statistics().sent - sent == 1  # none was refused
        assert shown(written) == {"Network": "True", "Storage": "True"}
        await cluster.patch(written, _with(written.to_dict(), finalizers=None))


def _with(obj: JSONObject, **metadata: object) -> JSONObject:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


async def test_each_of_two_writers_changes_its_own_condition(server: Server) -> None:
    """What one only passes on is the newest, and not what it has read."""
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        both = [condition("Network", "False"), condition("Storage", "False")]
        read = await cluster.status(made, {"conditions": both})
        await others.status(read, {"conditions": [condition("Network"), both[1]]})

        written = await cluster.status(read, {"conditions": [both[0], condition("Storage")]})

        assert shown(written) == {"Network": "True", "Storage": "True"}


async def test_a_condition_that_both_have_changed_is_that_of_the_last_writer(
    server: Server,
) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        read = await cluster.status(made, {"conditions": [condition("Ready", "Unknown")]})
        await others.status(read, {"conditions": [{**condition("Ready"), "theirs": "x"}]})

        written = await cluster.status(read, {"conditions": [condition("Ready", "False")]})

        assert written.at("status.conditions", list) == [condition("Ready", "False")]


async def test_a_condition_that_is_removed_stays_removed_and_others_stay(server: Server) -> None:
    old = [condition("Mine"), condition("Old"), condition("Theirs")]
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        read = await cluster.status(made, {"conditions": old})
        await others.status(read, {"conditions": [*old[:2], condition("New")]})  # removes one, too

        written = await cluster.status(read, {"conditions": [old[0], old[2]]})
        assert shown(written) == {"Mine": "True", "New": "True"}

        emptied = await cluster.status(read, {})
        assert shown(emptied) == {"New": "True"}


async def test_conditions_in_a_part_of_a_status_are_merged_too(server: Server) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        await others.status(made, {"part": {"conditions": [condition("Network")]}})

        written = await cluster.status(made, {"part": {"conditions": [condition("Storage")]}})

        found = written.at("status.part.conditions", list)
        assert [one["type"] for one in found] == ["Network", "Storage"]


class StructStatus(msgspec.Struct):
    """A status as a Struct."""

    phase: str = ""
    conditions: list[dict[str, str]] = []


@dataclasses.dataclass
class DataStatus:
    """A status as a dataclass."""

    phase: str = ""
    conditions: list[dict[str, str]] = dataclasses.field(default_factory=list)


class PydanticStatus(pydantic.BaseModel):
    """A status as a pydantic model."""

    phase: str = ""
    conditions: list[dict[str, str]] = []


@pytest.mark.parametrize("model", [StructStatus, DataStatus, PydanticStatus])
async def test_the_conditions_of_a_model_are_merged(
    server: Server, model: type[StructStatus | DataStatus | PydanticStatus]
) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        await others.status(made, {"conditions": [condition("Network")]})

        first = await cluster.status(made, model(phase="x", conditions=[condition("Storage")]))
        assert shown(first) == {"Network": "True", "Storage": "True"}
        second = await cluster.status(made, model(phase="y"))

        assert second.to_dict()["status"] == {"phase": "y", "conditions": [condition("Network")]}


async def test_a_condition_that_the_same_writer_has_changed_is_taken_back(server: Server) -> None:
    """Whatever the object shows that it still has."""
    old = [condition("Ready"), condition("Other")]
    async with server.connect() as cluster:
        made = await served(server, cluster)
        read = await cluster.status(made, {"conditions": old})

        busy = await cluster.status(
            read, {"conditions": [condition("Ready", "False"), old[1], condition("Busy")]}
        )
        assert shown(busy) == {"Ready": "False", "Other": "True", "Busy": "True"}
        written = await cluster.status(read, {"conditions": old})

        assert written.at("status.conditions", list) == old


async def test_conditions_in_another_order_are_not_sent(server: Server) -> None:
    both = [condition("A"), condition("B")]
    async with server.connect() as cluster:
        read = await cluster.status(await served(server, cluster), {"conditions": both})
        sent = cluster.write_statistics().sent
        assert await cluster.status(read, {"conditions": both[::-1]}) == read
        assert cluster.write_statistics().sent == sent


async def test_a_checked_version_is_a_conflict_at_once(server: Server) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        await others.status(made, {"conditions": [condition("Network")]})
        sent = cluster.write_statistics().sent

        with pytest.raises(pyinformer.ConflictError):
            await cluster.status(made, {"conditions": [condition("Storage")]}, check_version=True)

        assert cluster.write_statistics().sent == sent + 1
        assert shown(await newest(cluster, made)) == {"Network": "True"}


async def test_the_conditions_of_a_dry_run_are_merged_and_forgotten(server: Server) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster)
        await others.status(made, {"conditions": [condition("Network")]})
        wanted: JSONObject = {"conditions": [condition("Storage")]}

        tried = await cluster.status(made, wanted, dry_run=True)
        assert shown(tried) == {"Network": "True", "Storage": "True"}
        assert shown(await newest(cluster, made)) == {"Network": "True"}
        assert shown(await cluster.status(made, wanted)) == shown(tried)


async def test_the_conditions_of_a_successor_are_not_written(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster)
        await cluster.delete(made)
        body = made.to_dict()
        body["metadata"] = {name: body["metadata"][name] for name in ("name", "namespace")}
        await cluster.create(body)
        wanted: JSONObject = {"conditions": [condition("Ready")]}

        with pytest.raises(pyinformer.ConflictError, match="another object of that name"):
            await cluster.status(made, wanted)
        assert shown(await newest(cluster, made)) == {}
        assert shown(await cluster.status(made, wanted, check_uid=False)) == {"Ready": "True"}


async def test_the_conditions_of_a_dict_without_a_version_are_merged(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster)
        body = made.to_dict()
        body["metadata"] = {name: body["metadata"][name] for name in ("name", "namespace")}
        await cluster.status(made, {"conditions": [condition("Network")]})

        written = await cluster.status(body, {"conditions": [condition("Storage")]})

        assert shown(written) == {"Network": "True", "Storage": "True"}


def register(
    app: Operator,
    obj: KubeObject,
    kind: str,
    work: Callable[[], Awaitable[object]],
    written: asyncio.Event,
) -> None:
    """Add a reconcile that sets one condition, by the recipe of the documentation."""

    @app.reconcile(obj.gvk.api_version, plural_of(obj), name=kind.lower())
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        if obj is None or written.is_set():
            return
        await work()
        conditions = set_condition(
            obj.at("status.conditions", default=None),
            kind,
            True,
            reason="Done",
            observed_generation=obj.metadata.generation,
        )
        await cluster.status(obj, {"conditions": conditions})
        written.set()


@pytest.mark.parametrize("operators", [1, 2])
async def test_reconciles_that_began_with_one_state_keep_the_conditions_of_each_other(
    server: Server, operators: int
) -> None:
    both = asyncio.Barrier(2)
    network, storage = asyncio.Event(), asyncio.Event()

    async def work_long() -> None:
        """Return after the other has written its condition."""
        await both.wait()
        await network.wait()

    async with server.connect() as first, server.connect() as second:
        made = await served(server, first)
        apps = [Operator("network-operator"), Operator("storage-operator")][:operators]
        register(apps[0], made, "NetworkReady", both.wait, network)
        register(apps[-1], made, "StorageReady", work_long, storage)
        async with asyncio.timeout(100):
            async with apps[0].running(first):
                if operators == 1:
                    await storage.wait()
                else:
                    async with apps[1].running(second):
                        await storage.wait()
        assert shown(await newest(first, made)) == {"NetworkReady": "True", "StorageReady": "True"}


async def test_the_fields_that_another_reconcile_of_the_operator_has_written_are_kept(
    server: Server,
) -> None:
    """It is another writer, as another process is."""
    both, has_written, is_done = asyncio.Barrier(2), asyncio.Event(), asyncio.Event()
    async with server.connect() as cluster:
        made = await served(server, cluster)
        app = Operator("one")
        kind = made.gvk.api_version, plural_of(made)

        @app.reconcile(*kind, name="phases")
        async def first(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
            if obj is not None and not has_written.is_set():
                await both.wait()
                await cluster.status(obj, {**obj.at("status", dict, default={}), "phase": "x"})
                has_written.set()

        @app.reconcile(*kind, name="parts")
        async def second(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
            if obj is not None and not is_done.is_set():
                await both.wait()
                await has_written.wait()
                part = {"conditions": [condition("Ready")]}
                await cluster.status(obj, {**obj.at("status", dict, default={}), "part": part})
                is_done.set()

        async with asyncio.timeout(100), app.running(cluster):
            await is_done.wait()
        found = (await newest(cluster, made)).to_dict()["status"]
        assert found == {"phase": "x", "part": {"conditions": [condition("Ready")]}}
