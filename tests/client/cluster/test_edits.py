"""What users hand over: dicts, objects and models of every sort become the same JSON, or an error.

An edit through any sort of model leads to the same patch.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import pydantic
import pytest
from pydantic.alias_generators import to_camel

from pyinformer.client.cluster._json_conversion import body_of, whole_body_of
from pyinformer.client.cluster._patch_from_edits import patch_of, status_change_of
from pyinformer.errors import InvalidArgumentError, InvalidObjectError, InvalidTypeError
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject

S = TypeVar("S")

DEPLOYMENT: JSONObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "replicas": 3,
        "paused": None,
        "selector": {"matchLabels": {"app": "a"}},
        "containers": [
            {"name": "main", "image": "app:1", "resources": {"limits": {"cpu": "1"}}},
            {"name": "side", "image": "side:1", "args": ["--quiet"]},
        ],
    },
    "status": {
        "phase": "New",
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "False", "unknown": 1}],
    },
}


class Strategy(enum.Enum):
    """How."""

    ROLLING = "Rolling"


class StructContainer(msgspec.Struct):
    """A container as a Struct."""

    name: str
    image: str


class StructSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """A spec as a Struct."""

    containers: list[StructContainer]
    replicas: int | None = 1
    paused: bool | None = False


class StructModel(msgspec.Struct):
    """A deployment as a Struct."""

    spec: StructSpec


@dataclasses.dataclass
class DataContainer:
    """A container as a dataclass."""

    name: str
    image: str


@dataclasses.dataclass
class DataSpec:
    """A spec as a dataclass."""

    containers: list[DataContainer]
    replicas: int | None = 1


@dataclasses.dataclass
class DataModel:
    """A deployment as a dataclass."""

    spec: DataSpec


class PydanticContainer(pydantic.BaseModel):
    """A container in pydantic."""

    name: str
    image: str


class PydanticSpec(pydantic.BaseModel):
    """A spec in pydantic."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)
    containers: list[PydanticContainer]
    replicas: int | None = 1


class PydanticModel(pydantic.BaseModel):
    """A deployment in pydantic."""

    spec: PydanticSpec


class Condition(msgspec.Struct):
    """The little that is known of a condition."""

    type: str
    status: str


class Status(msgspec.Struct, rename="camel"):
    """The little that is known of a status."""

    observed_generation: int
    conditions: list[Condition] = []
    phase: str | None = None


def deployment() -> KubeObject:
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("apps/v1", "deployments"))
    raw = msgspec.json.encode(DEPLOYMENT)
    return codec.decode(raw, 0, len(raw))


each_model = pytest.mark.parametrize(
    ("model", "container"),
    [
        pytest.param(StructModel, StructContainer, id="struct"),
        pytest.param(DataModel, DataContainer, id="dataclass"),
        pytest.param(PydanticModel, PydanticContainer, id="pydantic"),
    ],
)


@each_model
def test_an_unedited_model_needs_no_patch(
    model: type[Any], container: Callable[..., object]
) -> None:
    obj = deployment()

    assert patch_of(obj, obj.as_type(model)) == {}


@each_model
def test_an_edit_in_a_model_keeps_unknown_fields(
    model: type[Any], container: Callable[..., object]
) -> None:
    obj = deployment()
    edited = obj.as_type(model)
    edited.spec.replicas = 1  # its default: an edit nevertheless
    edited.spec.containers[1].image = "side:2"
    edited.spec.containers.insert(0, container(name="new", image="new:1"))

    assert patch_of(obj, edited) == {
        "spec": {
            "replicas": 1,
            "containers": [
                {"name": "new", "image": "new:1"},
                DEPLOYMENT["spec"]["containers"][0],
                {"name": "side", "image": "side:2", "args": ["--quiet"]},
            ],
        }
    }


@each_model
def test_a_field_that_becomes_none_is_removed(
    model: type[Any], container: Callable[..., object]
) -> None:
    obj = deployment()
    edited = obj.as_type(model)
    edited.spec.replicas = None

    assert patch_of(obj, edited) == {"spec": {"replicas": None}}


def test_an_edited_dict_needs_no_model() -> None:
    obj = deployment()
    edited = obj.to_dict()
    edited["spec"]["replicas"] = 4
    edited["metadata"]["resourceVersion"] = "1"
    edited["metadata"]["labels"] = {"app": "b"}

    assert patch_of(obj, edited) == {
        "metadata": {"labels": {"app": "b"}},
        "spec": {"replicas": 4},
    }


@pytest.mark.parametrize("field", ["apiVersion", "kind", "name", "namespace"])
def test_an_edit_of_another_object_is_refused(field: str) -> None:
    obj = deployment()
    edited = obj.to_dict()
    (edited if field in edited else edited["metadata"])[field] = "other"

    with pytest.raises(InvalidArgumentError, match=f"{field} cannot be changed"):
        patch_of(obj, edited)


def test_a_partial_object_is_not_an_edit() -> None:
    with pytest.raises(InvalidArgumentError, match=r"edited: has no apiVersion: .* whole object"):
        patch_of(deployment(), {"spec": {"replicas": 1}})


def test_a_dump_of_a_model_is_not_an_edit() -> None:
    """It lacks what the model does not know, which would be removed."""
    obj = deployment()
    dumped = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": obj.metadata.name, "namespace": obj.metadata.namespace},
        "spec": {"replicas": 4},
    }
    with pytest.raises(
        InvalidArgumentError, match=r"has no metadata.uid, .* or pass a model itself"
    ):
        patch_of(obj, dumped)


@pytest.mark.parametrize("whole", [DEPLOYMENT, deployment], ids=["dict", "object"])
def test_a_whole_object_is_not_a_status(whole: Any) -> None:
    given = whole() if callable(whole) else whole
    with pytest.raises(InvalidArgumentError, match="status: must be the new status"):
        status_change_of(deployment(), given)


def test_an_object_that_does_not_fit_the_model_raises() -> None:
    with pytest.raises(InvalidObjectError, match="does not fit Status"):
        patch_of(deployment(), Status(1))


def test_a_status_in_a_model_keeps_unknown_fields() -> None:
    status = Status(2, [Condition("Ready", "True"), Condition("New", "True")], "New")

    assert status_change_of(deployment(), status).patch == {
        "status": {
            "observedGeneration": 2,
            "conditions": [
                {"type": "Ready", "status": "True", "unknown": 1},
                {"type": "New", "status": "True"},
            ],
        }
    }


def test_a_status_in_a_dict_is_the_whole_status() -> None:
    status = {"phase": "New", "conditions": DEPLOYMENT["status"]["conditions"]}

    assert status_change_of(deployment(), status).patch == {"status": {"observedGeneration": None}}
    assert status_change_of(deployment(), DEPLOYMENT["status"]).patch == {}


def test_a_first_status_may_have_required_fields() -> None:
    body = {**DEPLOYMENT, "status": {"phase": "New", "older": True}}
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("apps/v1", "deployments"))
    raw = msgspec.json.encode(body)

    found = status_change_of(codec.decode(raw, 0, len(raw)), Status(2)).patch

    assert found == {"status": {"observedGeneration": 2, "conditions": []}}


@dataclasses.dataclass
class Everything:
    """Values that JSON spells in its own way."""

    when: dt.datetime
    how: Strategy
    tags: set[str]
    pair: tuple[int, float]
    inner: StructSpec
    nothing: None = None
    unset: msgspec.UnsetType = msgspec.UNSET


def test_a_model_is_converted_to_json() -> None:
    model = Everything(
        when=dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        how=Strategy.ROLLING,
        tags={"b", "a"},
        pair=(1, 0.5),
        inner=StructSpec([StructContainer("a", "b")]),
    )
    expected: JSONObject = {
        "when": "2026-01-02T00:00:00Z",
        "how": "Rolling",
        "tags": ["a", "b"],
        "pair": [1, 0.5],
        "inner": {"containers": [{"name": "a", "image": "b"}]},
    }

    assert body_of(model) == expected
    expected["inner"] |= {"replicas": 1, "paused": False}
    assert whole_body_of(model, "edited") == expected


def test_a_tagged_struct_keeps_its_tag() -> None:
    class Tagged(msgspec.Struct, tag="one", tag_field="kind"):
        """A Struct with a kind."""

        size: int = 1

    assert body_of(Tagged()) == whole_body_of(Tagged(), "x") == {"kind": "one", "size": 1}


def test_a_model_of_the_kubernetes_client_is_one_too() -> None:
    from kubernetes_asyncio.client import V1ConfigMap, V1ObjectMeta

    model = V1ConfigMap(metadata=V1ObjectMeta(name="a", owner_references=[]), data={"a": "b"})

    assert body_of(model) == {"metadata": {"name": "a", "ownerReferences": []}, "data": {"a": "b"}}


def test_a_dict_is_copied_and_keeps_its_nulls() -> None:
    given = OrderedDict(a=None, b=[{"c": None}])

    found = body_of(given)

    assert found == {"a": None, "b": [{"c": None}]}
    found["b"][0]["c"] = 1
    assert given["b"] == [{"c": None}]


_LOOP: JSONObject = {}
_LOOP["self"] = _LOOP


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        pytest.param({"a": math.nan}, InvalidArgumentError, "NaN", id="nan"),
        pytest.param({"a": [math.inf]}, InvalidArgumentError, "infinity", id="infinity"),
        pytest.param({"a": object()}, InvalidTypeError, "JSON cannot express", id="object"),
        pytest.param(
            {"metadata": ObjectMeta("default", "a", "u", "1")},
            InvalidTypeError,
            r"in dict: an ObjectMeta is not all .* obj\.to_dict\(\)",
            id="metadata",
        ),
        pytest.param(_LOOP, InvalidArgumentError, "nor contain itself", id="loop"),
        pytest.param([], InvalidTypeError, "not list", id="list"),
        pytest.param("a", InvalidTypeError, "not str", id="text"),
        pytest.param(StructModel, InvalidTypeError, "StructMeta", id="class"),
        pytest.param(None, InvalidTypeError, "not NoneType", id="nothing"),
    ],
)
def test_a_value_that_is_not_an_object_is_refused(
    body: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        body_of(body)

    assert str(raised.value).startswith("obj: ")


def test_a_model_that_cannot_be_converted_is_refused_without_its_message() -> None:
    class Broken(pydantic.BaseModel):
        """A model whose serializer fails."""

        password: str = "hunter2"

        @pydantic.field_serializer("password")
        def fail(self, value: str) -> str:
            """Raise."""
            raise ValueError(value)

    with pytest.raises(InvalidArgumentError, match="cannot be written as JSON") as raised:
        body_of(Broken())

    assert "hunter2" not in str(raised.value)


class Hidden(pydantic.BaseModel):
    """A model whose fields pydantic shows as asterisks, or as null."""

    model_config = pydantic.ConfigDict(extra="allow")

    text: pydantic.SecretStr = pydantic.SecretStr("hunter2")
    data: pydantic.SecretBytes = pydantic.SecretBytes(b"h\xc3\xbcnter2")
    number: pydantic.Secret[int] = pydantic.Secret(5)
    empty: pydantic.SecretStr | None = None
    many: dict[int, list[pydantic.SecretStr]] = {
        1: [pydantic.SecretStr("a"), pydantic.SecretStr("")]
    }
    some: set[pydantic.SecretStr] = {pydantic.SecretStr(letter) for letter in "abcdefgh"}
    plain: str = "***"
    day: dt.date = dt.date(2026, 1, 2)


def test_the_secrets_of_a_pydantic_model_are_written_and_not_their_asterisks() -> None:
    assert body_of(Hidden()) == {
        "text": "hunter2",
        "data": "hünter2",
        "number": 5,
        "many": {"1": ["a", ""]},
        "some": list("abcdefgh"),
        "plain": "***",
        "day": "2026-01-02",
    }


class Sets(pydantic.BaseModel):
    """Sets, whose own order depends on how they were filled, or on the process."""

    ports: set[int]
    names: frozenset[str]
    times: set[dt.date]


def test_a_set_in_a_pydantic_model_is_written_in_one_order() -> None:
    days = {dt.date(2026, 1, day) for day in range(1, 9)}
    written = {
        "ports": [80, 443, 8080],
        "names": sorted("abcdefghij"),
        "times": sorted(day.isoformat() for day in days),
    }
    for ports in ([80, 8080, 443], [8080, 443, 80], [443, 80, 8080]):
        names = frozenset("abcdefghij")
        assert body_of(Sets(ports=set(ports), names=names, times=days)) == written


def test_an_edit_of_a_secret_is_a_patch() -> None:
    class Spec(pydantic.BaseModel):
        """A spec with a secret."""

        password: pydantic.SecretStr

    class Model(pydantic.BaseModel):
        """An object with a secret."""

        metadata: dict[str, Any]
        spec: Spec

    body = {**DEPLOYMENT, "spec": {"password": "old"}}
    raw = msgspec.json.encode(body)
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("apps/v1", "deployments"))
    before = codec.decode(raw, 0, len(raw))
    edited = before.as_type(Model)
    assert patch_of(before, edited) == {}

    edited.spec.password = pydantic.SecretStr("new")

    assert patch_of(before, edited) == {"spec": {"password": "new"}}


def test_what_a_serializer_of_the_model_makes_of_a_secret_stays() -> None:
    class Model(pydantic.BaseModel):
        """A model that hides its secret itself."""

        password: pydantic.SecretStr = pydantic.SecretStr("hunter2")

        @pydantic.field_serializer("password", when_used="json")
        def show(self, value: pydantic.SecretStr) -> str:
            """Return its length."""
            return f"{len(value)} letters"

    assert body_of(Model()) == {"password": "7 letters"}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_pydantic_would_make_null_is_refused(number: float) -> None:
    for other in (number, {"deep": [number]}):
        with pytest.raises(InvalidArgumentError, match="NaN or infinity"):
            body_of(Hidden.model_validate({"other": other}))


def test_no_status_and_an_empty_one_are_the_same() -> None:
    body = {name: value for name, value in DEPLOYMENT.items() if name != "status"}
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("apps/v1", "deployments"))
    raw = msgspec.json.encode(body)

    assert status_change_of(codec.decode(raw, 0, len(raw)), {}).patch == {}


def test_an_object_within_a_dict_is_taken_whole() -> None:
    assert body_of({"template": deployment()})["template"] == DEPLOYMENT


@dataclasses.dataclass
class DataclassOf(Generic[S]):
    """A generic dataclass."""

    spec: S


class StructOf(msgspec.Struct, Generic[S]):
    """A generic Struct."""

    spec: S


class StructOfSpec(StructOf[StructSpec]):
    """A subclass, which knows the argument."""


@pytest.mark.parametrize("model", [StructOf, DataclassOf])
def test_an_instance_of_a_generic_class_is_refused_since_its_arguments_are_unknown(
    model: type[Any],
) -> None:
    """What `StructSpec` does not know, such as the resources, would be removed."""
    edited = deployment().as_type(model[StructSpec])
    edited.spec.replicas = 5
    with pytest.raises(InvalidTypeError, match=r"use a subclass as the model, `class Sub\(\w+Of"):
        patch_of(deployment(), edited)
    with pytest.raises(InvalidTypeError, match="status: is of the generic class"):
        status_change_of(deployment(), edited)


def test_a_subclass_of_a_generic_class_keeps_what_it_does_not_know() -> None:
    edited = deployment().as_type(StructOfSpec)
    edited.spec.replicas = 5
    assert patch_of(deployment(), edited) == {"spec": {"replicas": 5}}
