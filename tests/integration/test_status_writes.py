"""What a server stores of a status, and what `cluster.status()` says where it stores nothing."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import TYPE_CHECKING

import msgspec
import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.client.cluster import create_or_update
from tests.integration.objects import CONFIG_MAPS, unique

if TYPE_CHECKING:
    from pyinformer import Cluster, KubeObject
    from pyinformer.blocking import BlockingCluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_SPEC: JSONObject = {"type": "object", "properties": {"size": {"type": "integer"}}}
_STATUS: JSONObject = {
    "type": "object",
    "properties": {
        "ready": {"type": "boolean"},
        "note": {"type": "string"},
        "since": {"type": "string", "format": "date-time"},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "parts": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    },
}


def schema(**properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties}


async def served(
    server: Server, cluster: Cluster, wanted: JSONObject | None, *, has_status: bool
) -> KubeObject:
    """Serve a new kind, and create an object of it."""
    kind = f"K{unique('x').partition('-')[2]}"
    version = f"{kind.lower()}.example.com/v1"
    await asyncio.to_thread(
        server.api.register, version, kind, f"{kind.lower()}s", has_status=has_status, schema=wanted
    )
    metadata = {"name": "a", "namespace": server.namespace()}
    return await cluster.create(
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"size": 1}}
    )


@pytest.mark.parametrize("status", [{"ready": True}, {"ready": False, "count": 0}])
async def test_a_status_without_its_subresource_is_refused_if_nothing_is_stored(
    server: Server, status: JSONObject
) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC), has_status=False)

        with pytest.raises(pyinformer.errors.InvalidArgumentError) as caught:
            await cluster.status(made, status)

        words = str(caught.value)
        assert "has no status subresource" in words
        assert "add `subresources: {status: {}}`" in words
        assert "status.ready" in words
        plural = made.gvk.kind.lower() + "s"
        now = await cluster.get(made.gvk.api_version, plural, made.key)
        assert now.metadata.resource_version == made.metadata.resource_version
        assert "status" not in now.to_dict()


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should not change the status of typed objects that"
)
async def test_a_kind_that_has_no_status_at_all_is_refused(server: Server) -> None:
    async with server.connect() as cluster:
        made = await cluster.create(CONFIG_MAPS.make("a", server.namespace()))
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"configmaps\.v1 has no status"
        ):
            await cluster.status(made, {"ready": True})
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="no status"):
            await cluster.status(made, {"ready": True}, dry_run=True)


async def test_a_status_that_is_stored_without_a_subresource_is_not_an_error(
    server: Server,
) -> None:
    async with server.connect() as cluster:
        free = await served(server, cluster, None, has_status=False)
        named = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=False)
        for made in (free, named):
            stored = await cluster.status(made, {"ready": False})
            assert stored.at("status.ready", bool) is False


async def test_fields_missing_in_the_schema_are_reported_if_none_is_stored(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)

        partly = await cluster.status(made, {"ready": True, "typo": "x"})
        assert partly.to_dict()["status"] == {"ready": True}
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match=r"none of status\.typo: "):
            await cluster.status(partly, {"ready": True, "typo": "x"})


async def test_fields_that_are_dropped_beside_others_are_named_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        status: JSONObject = {
            "ready": True,
            "typo": {"x": 1, "y": 2},
            "zero": 0,
            "parts": [{"name": "a", "other": 1}, {"name": "b", "other": 2}],
            "line\nfeed": "x",
        }
        await cluster.status(made, status)
        names = ("status.typo", "status.parts[].other", "status.line\nfeed")
        plural = f"{made.gvk.kind.lower()}s"
        resource = GroupVersionResource.of(made.gvk.api_version, plural)
        assert dict(cluster.write_statistics().unstored_fields) == {str(resource): names}
        await cluster.status(made, {**status, "ready": False})
    (record,) = [one for one in caplog.records if "did not store" in one.message]
    assert "status.typo, status.parts[].other, status.line\\nfeed of a written" in record.message
    assert record.levelname == "WARNING"


@pytest.mark.covers("controller-runtime pkg/client: should update status of an existing object")
async def test_a_status_that_is_stored_whole_logs_no_warning(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        whole: JSONObject = {"ready": True, "open": {"a": "b"}, "parts": [{"name": "a"}]}
        stored = await cluster.status(made, whole)
        await cluster.status(stored, {"ready": True, "open": {"c": "d"}})
        assert cluster.write_statistics().unstored_fields == {}
    assert "did not store" not in caplog.text


async def test_a_subresource_without_a_schema_for_the_status_is_named(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC), has_status=True)
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"status\.ready: the schema of"
        ):
            await cluster.status(made, {"ready": True})


async def test_a_server_prunes_a_status_to_its_schema(server: Server) -> None:
    """The embedded server drops what the real one drops."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        stored = await cluster.status(
            made,
            {
                "note": "",
                "since": "2026-11-22T07:00:00Z",
                "open": {"a": "b"},
                "any": {"x": {"y": [1]}},
                "parts": [{"name": "a", "other": 1}],
                "gone": {"x": 1},
            },
        )
        assert stored.to_dict()["status"] == {
            "note": "",
            "since": "2026-11-22T07:00:00Z",
            "open": {"a": "b"},
            "any": {"x": {"y": [1]}},
            "parts": [{"name": "a"}],
        }
        emptied = await cluster.status(stored, {})
        assert not emptied.to_dict().get("status")


async def test_a_removal_alone_is_not_an_error(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        stored = await cluster.status(made, {"ready": True, "note": "x"})
        left = await cluster.status(stored, {"ready": True})
        assert left.to_dict()["status"] == {"ready": True}


class Ready(msgspec.Struct):
    """The little that a controller knows of a status."""

    ready: bool = False


has_or_lacks_status = pytest.mark.parametrize("has_status", [True, False])


@has_or_lacks_status
async def test_a_second_status_of_the_same_object_leads_to_the_whole_new_status(
    server: Server, *, has_status: bool
) -> None:
    """What the first changed is compared with the second, whatever the object shows."""
    old: JSONObject = {"ready": True, "note": "done", "open": {"a": "1", "b": "2"}}
    between: JSONObject = {"ready": False, "open": {"a": "3", "c": "4"}, "parts": [{"name": "p"}]}
    async with server.connect() as cluster:
        definition = schema(spec=_SPEC, status=_STATUS)
        made = await served(server, cluster, definition, has_status=has_status)
        obj = await cluster.status(made, old)

        for whole in (between, {**old, "note": "again"}, {}, between, old):
            written = await cluster.status(obj, whole)
            assert written.to_dict().get("status", {}) == whole


@pytest.mark.covers("controller-runtime pkg/client: should update status of an existing object")
async def test_a_status_that_was_replaced_or_patched_otherwise_is_known_too(
    server: Server,
) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        whole: JSONObject = {"ready": True, "note": "x"}
        obj = await cluster.status(made, whole)

        edited: JSONObject = {**obj.to_dict(), "status": {"ready": False, "note": "x"}}
        patched = await cluster.patch(obj, edited, subresource="status")
        written = await cluster.status(obj, whole)
        assert patched.at("status.ready", bool) is False
        assert written.to_dict()["status"] == whole

        body = {**written.to_dict(), "status": {"ready": True}}
        await cluster.replace(body, subresource="status")
        written = await cluster.status(obj, whole)
        assert written.to_dict()["status"] == whole


async def test_a_field_that_others_write_between_two_statuses_is_kept(server: Server) -> None:
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        first = await cluster.status(made, {"ready": False})
        await others.status(first, {"ready": False, "note": "theirs"})

        await cluster.status(first, {"ready": True})
        written = await cluster.status(first, {"ready": False})

        assert written.to_dict()["status"] == {"ready": False, "note": "theirs"}


async def test_two_parts_of_a_program_keep_each_others_fields(server: Server) -> None:
    """As event handlers, or views of a web server, of which each has its own task."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        await asyncio.create_task(cluster.status(made, {"ready": False}))
        await asyncio.create_task(cluster.status(made, {"note": "new"}))
        found = await cluster.get(made.gvk.api_version, made.gvk.kind.lower() + "s", made.key)
        assert found.to_dict()["status"] == {"ready": False, "note": "new"}

        await asyncio.create_task(
            cluster.replace({**found.to_dict(), "status": {"ready": True}}, subresource="status")
        )
        written = await cluster.status(made, {"note": "newer"})
        assert written.to_dict()["status"] == {"ready": True, "note": "newer"}


async def test_a_model_keeps_the_fields_that_this_process_wrote_beside_it(server: Server) -> None:
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        obj = await cluster.status(made, {"ready": True, "note": "old"})

        await cluster.status(obj, {"ready": False, "note": "new", "open": {"a": "1"}})
        written = await cluster.status(obj, Ready(ready=True))

        expected = {"ready": True, "note": "new", "open": {"a": "1"}}
        assert written.to_dict()["status"] == expected


async def test_a_model_takes_back_what_it_has_written_to_an_object_without_a_status(
    server: Server,
) -> None:
    """A field that a status lacks counts as the default, but here one was written since."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)

        await cluster.status(made, Ready(ready=True))
        written = await cluster.status(made, Ready())

        assert written.to_dict()["status"] == {"ready": False}


async def test_an_object_that_shows_the_last_write_is_compared_alone(server: Server) -> None:
    """What this process wrote before says nothing of a newer state."""
    async with server.connect() as cluster, server.connect() as others:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        mine = await cluster.status(made, {"ready": False})
        theirs = await others.status(mine, {"ready": True})

        for known in (mine, theirs):
            sent = cluster.write_statistics().sent
            whole = known.to_dict()["status"]
            assert await cluster.status(known, whole) == known
            assert cluster.write_statistics().sent == sent


@pytest.mark.covers("controller-runtime pkg/controller/controllerutil: patches only changed status")
@pytest.mark.parametrize("has_status", [True, False])
async def test_create_or_update_stores_a_status_that_mutate_sets(
    server: Server, *, has_status: bool
) -> None:
    async with server.connect() as cluster:
        made = await served(
            server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=has_status
        )
        await cluster.delete(made)

        def mutate(body: JSONObject) -> None:
            body["spec"] = {"size": 2}
            body["status"] = {**wanted}

        metadata = {"name": "a", "namespace": made.metadata.namespace}
        kind = {"apiVersion": made.gvk.api_version, "kind": made.gvk.kind, "metadata": metadata}

        wanted: JSONObject = {"ready": False, "note": "x"}
        new, operation = await create_or_update(cluster, kind, mutate)
        assert (operation, new.at("status", dict)) == ("created", wanted)
        same, operation = await create_or_update(cluster, kind, mutate)
        assert (operation, same.metadata.resource_version) == (
            "unchanged",
            new.metadata.resource_version,
        )
        wanted = {"ready": True}
        after, operation = await create_or_update(cluster, kind, mutate)
        assert (operation, after.at("status", dict)) == ("updated", wanted)
        wanted = {}
        after, operation = await create_or_update(cluster, kind, mutate)
        assert (operation, after.at("status", dict, default={})) == ("updated", {})
        plural = f"{made.gvk.kind.lower()}s"
        now = await cluster.get(made.gvk.api_version, plural, made.key)
        assert now.at("spec.size", int) == 2


async def test_create_or_update_does_not_write_the_status_of_what_it_creates_from(
    server: Server,
) -> None:
    """A status that only stands in `desired` is dropped, as servers drop it at a creation."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        made = await cluster.status(made, {"ready": True})
        await cluster.delete(made)
        body = made.to_dict()
        del body["metadata"]["resourceVersion"], body["metadata"]["uid"]
        new, operation = await create_or_update(cluster, body)
        assert operation == "created"
        assert not new.at("status", dict, default={})


async def test_create_or_update_says_that_a_status_was_not_stored(server: Server) -> None:
    def mutate(body: JSONObject) -> None:
        body["status"] = {"typo": 1}

    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)
        await cluster.delete(made)
        body = {name: made.to_dict()[name] for name in ("apiVersion", "kind")}
        body["metadata"] = {"name": "b", "namespace": made.metadata.namespace}
        for _ in range(2):
            with pytest.raises(
                pyinformer.errors.InvalidArgumentError, match=r"none of status\.typo"
            ):
                await create_or_update(cluster, body, mutate)


async def test_tasks_of_a_function_that_a_thread_calls_write_for_themselves(server: Server) -> None:
    """As those of a program that `asyncio.run` begins."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)

    async def program() -> JSONObject:
        """Write two fields from one state, each in a task of its own."""
        async with server.connect() as cluster:
            await asyncio.create_task(cluster.status(made, {"note": "seen"}))
            written = await asyncio.create_task(cluster.status(made, {"ready": True}))
            return written.at("status", dict)

    def run() -> JSONObject:
        with pyinformer.run_in_thread() as runner:
            return runner.call(program)

    assert await asyncio.to_thread(run) == {"ready": True, "note": "seen"}


async def test_a_thread_takes_back_what_it_has_written_and_nothing_of_others(
    server: Server,
) -> None:
    """With the object that it has read before, and each call of it has a task of its own."""
    async with server.connect() as cluster:
        made = await served(server, cluster, schema(spec=_SPEC, status=_STATUS), has_status=True)

    def write(cluster: BlockingCluster) -> JSONObject:
        """Report progress, then the end of it; another thread has reported something else."""
        cluster.status(made, {"open": {"progress": "5"}, "ready": False})
        other = Thread(target=cluster.status, args=(made, {"note": "seen"}))
        other.start()
        other.join()
        return cluster.status(made, {"ready": True}).at("status", dict)

    def run() -> JSONObject:
        with (
            pyinformer.run_in_thread() as runner,
            runner.connect(config=server.config()) as blocking,
        ):
            return write(blocking)

    assert await asyncio.to_thread(run) == {"ready": True, "note": "seen"}
