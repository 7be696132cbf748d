"""Objects go into the classes of other clients' libraries, and theirs are written as bodies."""

from __future__ import annotations

import copy
import importlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import pydantic
import pytest

import pyinformer
from pyinformer.client.cluster._json_conversion import body_of
from pyinformer.client.cluster._patch_from_edits import patch_of
from pyinformer.errors import InvalidArgumentError, InvalidObjectError
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec
from pyinformer.testing import APIServer
from tests.objects.samples import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

each_package = pytest.mark.parametrize(
    "package", ["kubernetes_asyncio", "kubernetes", "kubernetes.aio"]
)

SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"app.kubernetes.io/name": "web", "1": "one"},
        "creationTimestamp": "2026-11-22T10:00:00Z",
    },
    "spec": {
        "clusterIP": "10.0.0.1",
        "ports": [
            {"name": "a", "port": 80, "targetPort": "http"},
            {"name": "b", "port": 443, "targetPort": 8443},
        ],
    },
}
POLICY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "podSelector": {},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}],
    },
}
LEASE: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    "spec": {"holderIdentity": "a", "renewTime": "2026-11-22T10:00:00.123456Z"},
}


def cached(body: dict[str, Any]) -> KubeObject[Any]:
    """Return the object of a cache."""
    return decode(ObjectCodec(GroupVersionResource.of(body["apiVersion"], "any")), body)


def model(package: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{package}.client"), name)


def dynamic(package: str, body: dict[str, Any]) -> Any:
    """Return a body as the package's dynamic client would."""
    resource = importlib.import_module(f"{package}.dynamic.resource")
    return resource.ResourceInstance(None, copy.deepcopy(body))


@attrs.define
class AttrsPart:
    """A part of an object, as a class of attrs."""

    name: str
    image: str | None = None


@dataclass
class DataclassPart:
    """The same as a dataclass."""

    name: str
    image: str | None = None


class StructPart(msgspec.Struct):
    """The same as a Struct, which writes its defaults."""

    name: str
    image: str | None = None


class PydanticPart(pydantic.BaseModel):
    """The same as a pydantic model."""

    name: str
    image: str | None = None


@pytest.mark.parametrize("part", [AttrsPart, DataclassPart, StructPart, PydanticPart])
def test_none_is_absent_in_a_model_inside_of_a_dict(part: Any) -> None:
    """As null, an apply would own the field, and set it back to its default each time."""
    body = {"spec": {"containers": [part(name="a")], "one": part(name="b"), "null": None}}
    assert body_of(body) == {
        "spec": {"containers": [{"name": "a"}], "one": {"name": "b"}, "null": None}
    }


@attrs.define
class AttrsFlags:
    """A part with a dict whose values may be null."""

    flags: dict[str, bool | None]


@dataclass
class DataclassFlags:
    """The same as a dataclass."""

    flags: dict[str, bool | None]


class StructFlags(msgspec.Struct):
    """The same as a Struct."""

    flags: dict[str, bool | None]


class PydanticFlags(pydantic.BaseModel):
    """The same as a pydantic model."""

    flags: dict[str, bool | None]


@pytest.mark.parametrize("part", [AttrsFlags, DataclassFlags, StructFlags, PydanticFlags])
def test_none_is_absent_in_a_dict_inside_of_a_model_and_null_in_one_of_dicts(part: Any) -> None:
    flags = {"a": None, "b": True}
    assert body_of({"spec": part(flags=flags)}) == {"spec": {"flags": {"b": True}}}
    assert body_of({"spec": {"flags": flags}}) == {"spec": {"flags": flags}}


@attrs.define
class AttrsBody:
    """An object as a class of attrs, with a part of another kind."""

    spec: DataclassPart
    data: dict[str, str] | None = None


def test_a_class_of_attrs_is_a_model() -> None:
    body: Any = AttrsBody(DataclassPart("a"))
    assert body_of(body) == {"spec": {"name": "a"}}


@pytest.fixture(scope="module")
def api() -> Iterator[APIServer]:
    """A server that the tests of this file share; each has a name of its own."""
    with APIServer() as server:
        yield server


@each_package
def test_an_object_goes_into_the_classes_of_the_package_itself(package: str) -> None:
    found = cached(SERVICE).as_type(model(package, "V1Service"))
    assert type(found) is model(package, "V1Service")
    assert type(found.metadata) is model(package, "V1ObjectMeta")
    assert [type(port) for port in found.spec.ports] == [model(package, "V1ServicePort")] * 2
    assert found.spec.cluster_ip == "10.0.0.1"
    assert [port.target_port for port in found.spec.ports] == ["http", 8443]
    assert found.metadata.labels == {"app.kubernetes.io/name": "web", "1": "one"}
    assert found.metadata.creation_timestamp == datetime(2026, 11, 22, 10, tzinfo=UTC)


@each_package
def test_names_that_python_reserves_are_those_of_the_package(package: str) -> None:
    found = cached(POLICY).as_type(model(package, "V1NetworkPolicy"))
    assert found.spec.ingress[0]._from[0].pod_selector.match_labels == {"a": "b"}


@each_package
def test_a_field_newer_than_the_package_is_left_out(package: str) -> None:
    newer = {**SERVICE, "spec": {**SERVICE["spec"], "bornAfterThePackage": {"a": 1}}}
    found = cached(newer).as_type(model(package, "V1Service"))
    assert found.spec.cluster_ip == "10.0.0.1"
    assert body_of(found) == SERVICE


@each_package
def test_each_reader_has_a_model_of_its_own(package: str) -> None:
    obj = cached(SERVICE)
    first = obj.as_type(model(package, "V1Service"))
    first.metadata.labels["app.kubernetes.io/name"] = "changed"
    first.spec.ports.clear()
    assert body_of(obj.as_type(model(package, "V1Service"))) == SERVICE
    assert obj.to_dict() == SERVICE


@each_package
def test_an_object_that_does_not_fit_is_a_typed_error(package: str) -> None:
    unfit = {**SERVICE, "spec": {"ports": [{"name": "a"}]}}
    with pytest.raises(InvalidObjectError, match=r"Service 'default/web': does not fit V1Service"):
        cached(unfit).as_type(model(package, "V1Service"))


@each_package
@pytest.mark.parametrize(
    ("name", "body"), [("V1Service", SERVICE), ("V1NetworkPolicy", POLICY), ("V1Lease", LEASE)]
)
def test_a_model_is_written_as_it_was_read(package: str, name: str, body: dict[str, Any]) -> None:
    assert body_of(cached(body).as_type(model(package, name))) == body


@each_package
def test_an_edit_in_a_model_is_a_patch_that_keeps_what_the_package_does_not_know(
    package: str,
) -> None:
    newer = cached({**SERVICE, "spec": {**SERVICE["spec"], "bornAfterThePackage": {"a": 1}}})
    edited = newer.as_type(model(package, "V1Service"))
    assert patch_of(newer, edited) == {}
    edited.spec.cluster_ip = None
    assert patch_of(newer, edited) == {"spec": {"clusterIP": None}}


@each_package
async def test_a_model_is_created_and_patched(package: str, api: APIServer) -> None:
    meta = model(package, "V1ObjectMeta")(
        name=f"model-{package.replace('_', '-')}", namespace="default"
    )
    config_map = model(package, "V1ConfigMap")
    made = config_map(api_version="v1", kind="ConfigMap", metadata=meta, data={"a": "1"})
    async with pyinformer.connect(server=api.url) as cluster:
        created = await cluster.create(made)
        edited = created.as_type(config_map)
        edited.data["b"] = "2"
        assert (await cluster.patch(created, edited)).at("data") == {"a": "1", "b": "2"}


@each_package
async def test_a_model_without_kind_is_refused(package: str, api: APIServer) -> None:
    meta = model(package, "V1ObjectMeta")(name="a", namespace="default")
    async with pyinformer.connect(server=api.url) as cluster:
        with pytest.raises(InvalidArgumentError, match="must have apiVersion and kind"):
            await cluster.create(model(package, "V1ConfigMap")(metadata=meta))


@each_package
async def test_the_objects_of_a_dynamic_client_are_bodies(package: str, api: APIServer) -> None:
    name = f"dynamic-{package.replace('_', '-')}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"a": "1", "b": "2"},
    }
    async with pyinformer.connect(server=api.url) as cluster:
        created = await cluster.create(dynamic(package, body))
        edited = dynamic(package, created.to_dict())
        edited.data.a = "3"
        patched = await cluster.patch(created, edited)
        assert patched.at("data") == {"a": "3", "b": "2"}
        whole = dynamic(package, patched.to_dict())
        whole.data.b = "4"
        assert (await cluster.replace(whole)).at("data") == {"a": "3", "b": "4"}
        applied = dynamic(package, {**body, "data": {"c": "5"}})
        assert (await cluster.apply(applied, field_manager="tests")).at("data.c") == "5"


@each_package
def test_a_part_of_a_dynamic_object_is_written_inside_of_a_dict(package: str) -> None:
    part = dynamic(package, SERVICE).spec.ports[0]
    body: Any = {"spec": {"ports": [part]}}
    assert body_of(body) == {"spec": {"ports": [SERVICE["spec"]["ports"][0]]}}


@dataclass
class Converting:
    """A dataclass whose methods know the names in JSON, as those of lightkube."""

    kind: str
    from_: list[str] = field(default_factory=list)

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Converting:
        """Read the names in JSON."""
        return cls(kind=body["kind"], from_=body.get("from", []))

    def to_dict(self) -> dict[str, Any]:
        """Write the names in JSON."""
        return {"kind": self.kind, "from": self.from_}


class Whole:
    """An object of any kind, as those of kr8s."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def to_dict(self) -> dict[str, Any]:
        """Return the whole object."""
        return self._body


def test_a_class_that_converts_itself_is_read_and_written_by_its_own_methods() -> None:
    obj = cached({**SERVICE, "from": ["a"]})
    found = obj.as_type(Converting)
    assert found == Converting("Service", ["a"])
    assert body_of(found) == {"kind": "Service", "from": ["a"]}
    found.from_.append("b")
    assert patch_of(obj, found) == {"from": ["a", "b"]}


def test_an_object_of_any_kind_is_whole_as_a_dict_is() -> None:
    obj = cached(SERVICE)
    edited = {**SERVICE, "metadata": {**SERVICE["metadata"], "labels": None}}
    assert body_of(Whole(edited)) == edited
    assert patch_of(obj, Whole(SERVICE)) == {}
    assert patch_of(obj, Whole(edited)) == {"metadata": {"labels": None}}
