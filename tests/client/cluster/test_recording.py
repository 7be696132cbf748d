"""Which responses can be recorded as writes, and when an object counts as gone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.objects import ObjectCodec
from pyinformer.testing import Fault
from tests.client.cluster.observing import RecordedWrites
from tests.client.cluster.test_objects import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType

    from pyinformer import KubeObject
    from pyinformer.testing import APIServer


@pytest.mark.parametrize(
    ("obj", "deleting"),
    [
        pytest.param(config_map(), False, id="what was sent, not what was answered"),
        pytest.param(b'{"kind":"Status","details":{"uid":"u"}}', True, id="a status"),
        pytest.param(b"{}", False, id="nothing"),
        pytest.param(b"garbage", True, id="no JSON"),
    ],
)
async def test_an_invalid_answer_is_not_recorded(
    apiserver: APIServer, obj: Any, deleting: bool
) -> None:
    heard = RecordedWrites()
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, heard)
        with pytest.raises(pyinformer.errors.InvalidObjectError):
            cluster.record_write("v1", "configmaps", obj, deleting=deleting)
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="key"):
            cluster.record_delete("v1", "configmaps", "a/b/c", uid="u")
        assert heard.events == []


async def test_a_write_recorded_under_the_wrong_resource_affects_no_other(
    apiserver: APIServer,
) -> None:
    made = apiserver.create(config_map())
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.record_write("v1", "secrets", made)
        secret = config_map() | {"kind": "Secret"}
        assert (await cluster.create(secret)).gvk.kind == "Secret"
        with pytest.raises(pyinformer.errors.InvalidObjectError, match="ConfigMap"):
            cluster.record_write("v1", "secrets", made)


async def test_a_deletion_names_a_version_of_its_object(apiserver: APIServer) -> None:
    versions: dict[str, str | None] = {}

    class Versions(RecordedWrites):
        """An observer that keeps the versions."""

        def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
            """Keep it."""
            versions[key] = resource_version

    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, Versions())
        one, two, three = [await cluster.create(config_map(name)) for name in "abc"]
        await cluster.delete(one)
        apiserver.delete("v1", "configmaps", "b")
        await cluster.delete(two)
        cluster.record_write("v1", "configmaps", three, deleting=True)
    assert versions == {obj.key: obj.metadata.resource_version for obj in (one, two, three)}


async def test_an_api_that_is_not_served_proves_nothing_about_its_objects(
    apiserver: APIServer,
) -> None:
    heard = RecordedWrites()
    things = GroupVersionResource.of("example.com/v1", "things")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(things, heard)
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.delete("example.com/v1", "things", "default/a")
        assert await cluster.delete("v1", "configmaps", "default/never") is None
    assert heard.events == []


async def test_dry_runs_are_not_reported(apiserver: APIServer) -> None:
    heard = RecordedWrites()
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        cluster.observe_writes(CONFIG_MAPS, heard)
        edited = made.to_dict() | {"data": {"a": "1"}}
        await cluster.create(config_map("b"), dry_run=True)
        await cluster.replace(edited, dry_run=True)
        await cluster.patch(made, edited, dry_run=True)
        await cluster.apply(config_map(a="2"), field_manager="me", force=True, dry_run=True)
        await cluster.delete(made, dry_run=True)
        await cluster.delete("v1", "configmaps", "default/never", dry_run=True)
        assert heard.events == []
        assert await cluster.get("v1", "configmaps", "default/a") == made


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        pytest.param({"deletionGracePeriodSeconds": 30}, "wrote", id="its grace period lasts"),
        pytest.param({"finalizers": ["example.com/a"]}, "wrote", id="a finalizer holds it"),
        pytest.param({"deletionGracePeriodSeconds": 0}, "deleted", id="nothing holds it"),
        pytest.param({}, "deleted", id="nothing ever held it"),
    ],
)
@pytest.mark.parametrize("deleting", [True, False])
async def test_an_ending_object_is_gone_when_nothing_holds_it(
    apiserver: APIServer, metadata: dict[str, Any], what: str, deleting: bool
) -> None:
    heard = RecordedWrites()
    ending = apiserver.create(config_map())
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", **metadata}
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, heard)
        cluster.record_write("v1", "configmaps", ending, deleting=deleting)
    assert [event[0] for event in heard.events] == [what]


@pytest.mark.parametrize("call", ["get", "delete", "apply"])
async def test_an_answer_that_is_nested_deeply_is_an_answer(
    apiserver: APIServer, call: str
) -> None:
    """What the server has done is not reported as failed."""
    value = b'{"a":' * 9_994 + b"1" + b"}" * 9_994
    meta = b'"name":"a","namespace":"default","uid":"u","resourceVersion":"7","finalizers":["f"]'
    meta += b',"managedFields":[{"manager":"me","operation":"Apply","fieldsV1":%s}]' % value
    body = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{%s},"data":%s}' % (meta, value)
    apiserver.faults.add(Fault(resource="configmaps", body=body, times=None))
    async with pyinformer.connect(server=apiserver.url) as cluster:
        calls: dict[str, Callable[[], Awaitable[KubeObject | None]]] = {
            "get": lambda: cluster.get("v1", "configmaps", "default/a"),
            "delete": lambda: cluster.delete("v1", "configmaps", "default/a"),
            "apply": lambda: cluster.apply(config_map(), field_manager="me"),
        }
        found = await calls[call]()
        assert found is not None
        assert (found.key, found.metadata.finalizers) == ("default/a", ("f",))


async def test_a_response_is_decoded_once(apiserver: APIServer) -> None:
    """Counted by the interpreter: one call of the codec for each write, observers included."""
    decoded = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        """Count a call of `ObjectCodec.decode`."""
        nonlocal decoded
        decoded += event == "call" and frame.f_code is ObjectCodec.decode.__code__

    recorded = RecordedWrites()
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, recorded)
        made = await cluster.create(config_map())
        sys.setprofile(count)
        try:
            replaced = await cluster.replace(made.to_dict() | {"data": {"a": "1"}})
            applied = await cluster.apply(config_map(a="2"), field_manager="me", force=True)
        finally:
            sys.setprofile(None)
    assert decoded == 2
    assert [id(obj) for obj in recorded.objects] == [id(obj) for obj in (made, replaced, applied)]


async def test_a_key_without_a_namespace_is_named_as_the_cause(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.NotFoundError, match="write 'namespace/name' if pods"):
            await cluster.get("v1", "pods", "a")
        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.get("v1", "pods", "default/a")
        assert "namespace/name" not in str(caught.value)
        await cluster.discovery.resource(GroupVersionResource.of("v1", "namespaces"))
        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.get("v1", "namespaces", "a")
        assert "namespace/name" not in str(caught.value)
