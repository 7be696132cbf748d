"""A start warns of the fields that a server drops, and of no others. The server is the witness."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

import pyinformer
from pyinformer.errors import APIStatusError
from pyinformer.operator import custom_resource, custom_resource_definition
from pyinformer.testing import APIServer, Fault
from tests.integration.hooks_replicas import free_port
from tests.integration.servers import RealServer
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
_KEY: Final = "any"  # of each map in the objects


class _Part(msgspec.Struct, frozen=True):
    known: int = 1
    size: int = 1


class _Deep(msgspec.Struct, frozen=True):
    part: _Part = _Part()
    size: int = 1


class _Template(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: dict[str, Any] = msgspec.field(default_factory=lambda: {"labels": {_KEY: "x"}})
    spec: _Part = _Part()
    size: int = 1


class _Spec(msgspec.Struct):
    engine: str = "postgres"
    image: str = "postgres:17"
    part: _Part = _Part()
    parts: list[_Part] = msgspec.field(default_factory=lambda: [_Part()])
    by_name: dict[str, _Part] = msgspec.field(default_factory=lambda: {_KEY: _Part()})
    open: _Deep = _Deep()
    labels: dict[str, str] = msgspec.field(default_factory=lambda: {_KEY: "x"})
    values: _Part = _Part()
    free: dict[str, Any] = msgspec.field(default_factory=lambda: {_KEY: 1})
    closed: dict[str, Any] = msgspec.field(default_factory=lambda: {"known": 1})
    template: _Template = _Template()


class _OldSpec(msgspec.Struct):
    engine: str = "postgres"
    size: int = 1


def _models(group: str) -> tuple[type, type]:
    """Return the models of two versions."""

    @custom_resource(f"{group}/v1beta1", "databases", kind="Database", storage=False)
    class OldDatabase(msgspec.Struct):
        spec: _OldSpec

    @custom_resource(f"{group}/v1", "databases", versions=[OldDatabase])
    class Database(msgspec.Struct):
        spec: _Spec

    return Database, OldDatabase


def _older(definition: JSONObject) -> JSONObject:
    """Return the definition as it may be from before some fields were added to the model."""
    new, old = definition["spec"]["versions"]
    spec = new["schema"]["openAPIV3Schema"]["properties"]["spec"]
    closed = {"type": "object", "properties": {"known": {"type": "integer"}}}
    spec["properties"] |= {
        "part": closed,
        "parts": {"type": "array", "items": closed},
        "by_name": {"type": "object", "additionalProperties": closed},
        "open": {"type": "object", **_OPEN, "properties": {"part": closed}},
        "labels": {"type": "object"},
        "values": {"type": "object", "additionalProperties": {"type": "integer"}},
        "closed": closed,
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", **_OPEN}},
        },
    }
    del spec["properties"]["image"]
    del old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    return definition


_DROPPED: Final = {
    "spec.image of v1",
    "spec.part.size of v1",
    "spec.parts[].size of v1",
    "spec.by_name.*.size of v1",
    "spec.open.part.size of v1",
    "spec.labels.* of v1",
    "spec.template.size of v1",
    "spec.size of v1beta1",
}


def _lost(sent: Any, stored: Any, path: str) -> Iterator[str]:
    """Yield what an object has lost on the server, in the words of the warning."""
    if isinstance(sent, dict):
        for name, value in sent.items():
            below = f"{path}.{'*' if name == _KEY else name}"
            if name in stored:
                yield from _lost(value, stored[name], below)
            else:
                yield below
    elif isinstance(sent, list):
        for one, its in zip(sent, stored, strict=True):
            yield from _lost(one, its, f"{path}[]")


async def _created(cluster: Cluster, group: str, version: str, spec: Any) -> set[str]:
    """Create an object as soon as its version is served; return what it has lost."""
    sent = msgspec.to_builtins(spec)
    metadata = {"namespace": "default", "name": version}
    body = {"apiVersion": f"{group}/{version}", "kind": "Database", "metadata": metadata}
    for _ in range(300):
        try:
            made = await cluster.create({**body, "spec": sent})
        except pyinformer.NotFoundError:
            await pause(0.1)
            continue
        stored = made.to_dict()["spec"]
        return {f"{one} of {version}" for one in _lost(sent, stored, "spec")}
    pytest.fail("it is not served")


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one for one in caplog.records if one.name == "pyinformer.operator"]
    return [one.getMessage() for one in found if one.levelno == logging.WARNING]


def _fields(warning: str) -> set[str]:
    return set(warning.partition(" lacks ")[2].partition(", which ")[0].split(", "))


async def test_a_start_names_the_fields_that_the_server_drops(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"{secrets.token_hex(4)}.acme.io"
    model, _ = _models(group)
    app = pyinformer.Operator("dropping")
    app.reconcile(f"{group}/v1", "databases", model=model)(_nothing)
    async with server.connect() as cluster:
        made = await cluster.create(_older(custom_resource_definition(model)))
        new = await _created(cluster, group, "v1", _Spec())
        old = await _created(cluster, group, "v1beta1", _OldSpec())
        assert new | old == _DROPPED
        await _published(cluster, f"{group}/v1", "known")
        await _published(cluster, f"{group}/v1beta1", "engine")
        async with app.running(cluster):
            (warning,) = _warnings(caplog)
        assert _fields(warning) == _DROPPED
        assert warning.startswith(f"the server's definition of databases.{group} lacks ")
        assert f": pyinformer crd {__name__}:_models.<locals>.Database | kubectl apply" in warning

        caplog.clear()
        edited = made.to_dict()
        edited["spec"]["versions"] = custom_resource_definition(model)["spec"]["versions"]
        await cluster.patch(made, edited)
        await _published(cluster, f"{group}/v1", "image")
        await _published(cluster, f"{group}/v1beta1", "size")
        async with app.running(cluster):
            assert _warnings(caplog) == []


async def _published(cluster: Cluster, api_version: str, field: str) -> None:
    """Wait until the server publishes a field, a moment after it knows it: each version apart."""
    for _ in range(300):
        try:
            answer = await cluster.request("GET", f"/openapi/v3/apis/{api_version}")
        except pyinformer.NotFoundError:
            answer = b""
        if f'"{field}"'.encode() in answer:
            return
        await pause(0.1)
    pytest.fail("it is not published")


async def test_foreign_definitions_are_compared_with_hooks_only(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """A reconcile may read what only newer versions of a foreign definition have."""
    group = f"{secrets.token_hex(4)}.acme.io"
    declared, _ = _models(group)
    namespace = server.namespace()

    class Plain(msgspec.Struct):
        spec: _OldSpec

    def app(*, has_hooks: bool) -> pyinformer.Operator:
        webhooks = pyinformer.Webhooks(url="https://127.0.0.1", host="127.0.0.1", port=0)
        found = pyinformer.Operator(namespace, webhooks=webhooks if has_hooks else None)
        found.reconcile(f"{group}/v1", "databases", model=Plain)(_nothing)
        if has_hooks:
            found.default(f"{group}/v1", "databases", model=Plain)(lambda _obj, _review: None)
        return found

    async with server.connect() as cluster:
        await cluster.create(_older(custom_resource_definition(declared)))
        await _published(cluster, f"{group}/v1", "known")
        async with app(has_hooks=False).running(cluster):
            assert _warnings(caplog) == []
        async with app(has_hooks=True).running(cluster):
            (warning,) = [one for one in _warnings(caplog) if " lacks " in one]
    assert _fields(warning) == {"spec.size of v1"}
    assert "which Plain has" in warning
    assert ": add them to it, or " in warning


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_the_server_drops_what_a_default_sets_in_such_a_field(
    kube_apiserver: KubeAPIServer, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"{secrets.token_hex(4)}.acme.io"
    model, _ = _models(group)
    port = free_port()
    webhooks = pyinformer.Webhooks(url=f"https://127.0.0.1:{port}", host="127.0.0.1")
    app = pyinformer.Operator(f"dropping-{port}", webhooks=webhooks)
    app.reconcile(f"{group}/v1", "databases", model=model)(_nothing)

    @app.default(f"{group}/v1", "databases", model=model)
    def fill(database: Any, review: object) -> None:
        database.spec.image = database.spec.engine = "own"

    async with RealServer(kube_apiserver).connect() as cluster:
        await cluster.create(_older(custom_resource_definition(model)))
        await _published(cluster, f"{group}/v1", "known")
        for configuration in app.webhook_configurations():
            await cluster.create(configuration)
        async with app.running(cluster):
            (warning,) = [one for one in _warnings(caplog) if " lacks " in one]
            assert "spec.image of v1" in _fields(warning)
            spec: dict[str, Any] = {}
            while "engine" not in spec:
                with suppress(APIStatusError):  # the server does not trust the hook yet
                    metadata = {"namespace": "default", "name": "a"}
                    body = {"apiVersion": f"{group}/v1", "kind": "Database", "metadata": metadata}
                    made = await cluster.create({**body, "spec": {}}, dry_run=True)
                    spec = made.to_dict()["spec"]
                await pause(0.1)
            assert (spec["engine"], spec.get("image")) == ("own", None)
        for configuration in app.webhook_configurations():
            await cluster.delete(configuration)


async def test_a_definition_without_a_schema_lacks_nothing(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"{secrets.token_hex(4)}.acme.io"
    model, _ = _models(group)
    server.api.register(f"{group}/v1", "Database", "databases")
    app = pyinformer.Operator("dropping")
    app.reconcile(f"{group}/v1", "databases", model=model)(_nothing)
    async with server.connect() as cluster, app.running(cluster):
        assert _warnings(caplog) == []


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 403}, id="forbidden"),
        pytest.param({"status": 404}, id="not-served"),
        pytest.param({"body": b"<html>"}, id="a-page"),
        pytest.param({"body": b'{"components": {"schemas": [1]}}'}, id="another-document"),
        pytest.param({"refuse": True}, id="cut"),
        pytest.param({"hang": True}, id="silent"),
    ],
)
async def test_a_start_needs_no_schemas(
    fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    model, _ = _models("acme.io")
    app = pyinformer.Operator("dropping")
    app.reconcile("acme.io/v1", "databases", model=model)(_nothing)
    with APIServer() as api:
        api.create(_older(custom_resource_definition(model)))
        api.faults.add(Fault(match=lambda one: "/openapi/" in one.path, times=None, **fault))
        async with pyinformer.connect(server=api.url) as cluster, app.running(cluster):
            assert _warnings(caplog) == []
            assert any("/openapi/" in one.path for one in api.requests)
        api.faults.release()


async def _nothing(_request: object, _obj: object, _cluster: object) -> None:
    """Do nothing."""
