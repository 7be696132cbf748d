"""Which fields belong to an apply after the move from updates, on a scripted server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.client.cluster import upgrade_managed_fields
from pyinformer.errors import (
    ConflictError,
    InvalidArgumentError,
    InvalidObjectError,
    InvalidTypeError,
    NotFoundError,
)
from tests.client.transport.serving import response, serving

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.client.transport.serving import Request

_PLACE = ("v1", "configmaps", "default/a")


def entry(
    manager: str, operation: str, fields: JSONObject, *, version: str = "v1", subresource: str = ""
) -> JSONObject:
    found = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**found, "subresource": subresource} if subresource else found


class Stored:
    """One config map on a server that knows two requests."""

    def __init__(self, *entries: Any, conflicts: int = 0) -> None:
        self.meta: JSONObject = {
            "name": "a",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": "1",
            "managedFields": list(entries),
        }
        self.patches = 0
        self._conflicts = conflicts

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer a GET or a JSON patch."""
        if request.method == "PATCH":
            self.patches += 1
            assert request.headers["content-type"] == "application/json-patch+json"
            if self._conflicts:
                self._conflicts -= 1
                writer.write(response(b"{}", status=409))
                return
            fields, version = msgspec.json.decode(request.body)
            assert fields["path"] == "/metadata/managedFields"
            assert version["value"] == self.meta["resourceVersion"]
            self.meta |= {"managedFields": fields["value"], "resourceVersion": "2"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.meta}
        writer.write(response(msgspec.json.encode(body)))


async def upgraded(
    *entries: JSONObject, managers: Any = ("old",), subresource: str = ""
) -> list[JSONObject]:
    stored = Stored(*entries)
    async with (
        serving(stored) as server,
        pyinformer.connect(server=server.url, field_manager="new") as cluster,
    ):
        found = await upgrade_managed_fields(
            cluster, *_PLACE, managers=managers, subresource=subresource
        )
    assert found.metadata.resource_version == ("2" if stored.patches else "1")
    assert stored.patches == int(stored.meta["managedFields"] != list(entries))
    result: list[JSONObject] = stored.meta["managedFields"]
    return result


async def test_an_entry_becomes_that_of_the_apply() -> None:
    other = entry("other", "Update", {"f:data": {"f:b": {}}})
    assert await upgraded(other, entry("old", "Update", {"f:data": {"f:a": {}}})) == [
        other,
        entry("new", "Apply", {"f:data": {"f:a": {}}}),
    ]


async def test_an_entry_is_united_with_that_of_an_earlier_apply() -> None:
    """A field that one set names, and below which the other has fields, is named with a dot."""
    old: JSONObject = {
        "f:data": {".": {}, "f:a": {}},
        "f:metadata": {"f:labels": {}},
        'k:{"a":1}': {".": {}, "f:x": {}},
        "f:same": {},
    }
    new: JSONObject = {
        "f:data": {"f:b": {"f:c": {}}},
        "f:metadata": {"f:labels": {"f:d": {}}},
        'k:{"a":1}': {"f:y": {}},
        "f:same": {},
    }
    assert await upgraded(entry("old", "Update", old), entry("new", "Apply", new)) == [
        entry(
            "new",
            "Apply",
            {
                "f:data": {".": {}, "f:a": {}, "f:b": {"f:c": {}}},
                "f:metadata": {"f:labels": {".": {}, "f:d": {}}},
                'k:{"a":1}': {".": {}, "f:x": {}, "f:y": {}},
                "f:same": {},
            },
        )
    ]


async def test_several_managers_and_versions_become_one() -> None:
    entries = [
        entry("old", "Update", {"f:a": {}}),
        entry("older", "Update", {"f:b": {}}),
        entry("old", "Update", {"f:c": {}}, version="v1beta1"),
    ]
    assert await upgraded(*entries, managers=["old", "older", "old"]) == [
        entry("new", "Apply", {"f:a": {}, "f:b": {}})
    ]


async def test_only_updates_of_one_subresource_move() -> None:
    entries = [
        entry("old", "Update", {"f:a": {}}),
        entry("old", "Update", {"f:status": {}}, subresource="status"),
        entry("old", "Apply", {"f:b": {}}),
    ]
    assert await upgraded(*entries, subresource="status") == [
        entries[0],
        entry("new", "Apply", {"f:status": {}}, subresource="status"),
        entries[2],
    ]
    assert await upgraded(*entries, managers=["absent"]) == entries
    assert await upgraded() == []


async def test_a_conflict_is_read_and_written_again() -> None:
    stored = Stored(entry("old", "Update", {"f:a": {}}), conflicts=2)
    async with serving(stored) as server, pyinformer.connect(server=server.url) as cluster:
        call = {"managers": ["old"], "field_manager": "new"}
        await upgrade_managed_fields(cluster, *_PLACE, **call)  # type: ignore[arg-type]
        assert stored.patches == 3
        stored = Stored(entry("old", "Update", {"f:a": {}}), conflicts=99)
    async with serving(stored) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(ConflictError):
            await upgrade_managed_fields(cluster, *_PLACE, managers=["old"], field_manager="new")


async def test_invalid_arguments_are_refused() -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match="field_manager"):
            await upgrade_managed_fields(cluster, *_PLACE, managers=["old"])
        with pytest.raises(InvalidTypeError, match="managers: must be a sequence"):
            await upgrade_managed_fields(cluster, *_PLACE, managers="old", field_manager="new")
        with pytest.raises(InvalidArgumentError, match="key"):
            await upgrade_managed_fields(
                cluster, "v1", "configmaps", "a/b/c", managers=["old"], field_manager="new"
            )


@pytest.mark.parametrize("body", [b"[]", b'{"metadata": {"managedFields": [1]}}', b"{"])
async def test_an_answer_that_cannot_be_read_is_an_error(body: bytes) -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(
            InvalidObjectError, match=r"cannot be decoded|must be a list of objects"
        ):
            await upgrade_managed_fields(cluster, *_PLACE, managers=["old"], field_manager="new")


async def test_an_absent_object_is_not_found() -> None:
    async def answer(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status=404))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(NotFoundError):
            await upgrade_managed_fields(cluster, *_PLACE, managers=["old"], field_manager="new")


async def test_a_cancelled_upgrade_leaves_the_cluster_usable() -> None:
    asked = asyncio.Event()
    stored = Stored(entry("old", "Update", {"f:a": {}}))

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "PATCH" and not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        await stored(request, writer)

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        call = upgrade_managed_fields(cluster, *_PLACE, managers=["old"], field_manager="new")
        upgrade = asyncio.ensure_future(call)
        await asked.wait()
        upgrade.cancel()
        await asyncio.wait([upgrade])
        assert upgrade.cancelled()
        await upgrade_managed_fields(cluster, *_PLACE, managers=["old"], field_manager="new")
    assert stored.patches == 1
