"""Models with a part that would be read or written wrongly are refused where they are declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Generic, TypedDict, TypeVar

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from kubernetes_asyncio.client import V1ConfigMap, V1Container

import pyinformer
from pyinformer import operator
from pyinformer.errors import InvalidModelError, InvalidTypeError
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec
from pyinformer.testing import World

POOL: dict[str, Any] = {
    "apiVersion": "acme.io/v1",
    "kind": "Pool",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"maxSize": 5},
}
_T = TypeVar("_T")


@pydantic.dataclasses.dataclass
class _Spec:
    """pydantic reads `maxSize` and refuses a negative one; msgspec does neither."""

    max_size: int = pydantic.Field(default=3, alias="maxSize", ge=0)


@pydantic.dataclasses.dataclass
class _Whole:
    spec: dict[str, int]


class _InStruct(msgspec.Struct):
    spec: _Spec


@dataclasses.dataclass
class _InDataclass:
    spec: _Spec | None = None


class _Derived(_Spec):
    pass


@dataclasses.dataclass
class _Inherited:
    spec: _Derived | None = None


class _InList(msgspec.Struct):
    spec: list[Annotated[_Spec, msgspec.Meta(title="a")]] = []


class _Items(msgspec.Struct, Generic[_T], rename="camel"):
    all_items: dict[str, _T] = {}


class _InGeneric(msgspec.Struct):
    spec: _Items[_Spec]


class _Dict(TypedDict):
    first: _Spec


class _InDict(msgspec.Struct):
    spec: _Dict


class _Recursive(msgspec.Struct):
    inner: _Recursive | None = None
    spec: _Spec | None = None


class _Meta(msgspec.Struct):
    metadata: pyinformer.ObjectMeta


@dataclasses.dataclass
class _DataMeta:
    metadata: pyinformer.ObjectMeta


class _PydanticMeta(pydantic.BaseModel, arbitrary_types_allowed=True):
    metadata: pyinformer.ObjectMeta


class _PydanticSpec(pydantic.BaseModel):
    max_size: int = pydantic.Field(default=3, alias="maxSize")
    inner: _Spec | None = None


class _PydanticInStruct(msgspec.Struct):
    spec: _PydanticSpec


class _ClientInStruct(msgspec.Struct):
    spec: V1Container


class _Pydantic(pydantic.BaseModel):
    spec: _PydanticSpec


class _Template(pyinformer.View):
    inner: pyinformer.ObjectMeta


class _Seen(pyinformer.View):
    template: _Template


class _Constant(msgspec.Struct):
    template: ClassVar[_Spec]
    spec: dict[str, int]


REFUSED = [
    pytest.param(_Whole, "", "pydantic.BaseModel", id="pydantic-dataclass"),
    pytest.param(_InStruct, "spec", "pydantic.BaseModel", id="in-a-struct"),
    pytest.param(_InDataclass, "spec", "pydantic.BaseModel", id="in-a-dataclass"),
    pytest.param(_Inherited, "spec", "pydantic.BaseModel", id="inherited"),
    pytest.param(_InList, "spec", "pydantic.BaseModel", id="in-a-list"),
    pytest.param(_InGeneric, "spec", "pydantic.BaseModel", id="in-a-generic"),
    pytest.param(_InDict, "spec.first", "pydantic.BaseModel", id="in-a-typed-dict"),
    pytest.param(_Recursive, "spec", "pydantic.BaseModel", id="recursive"),
    pytest.param(_PydanticInStruct, "spec", "pydantic.BaseModel", id="model-in-a-struct"),
    pytest.param(_ClientInStruct, "spec", "msgspec.Struct", id="client-model-in-a-struct"),
    pytest.param(_Meta, "metadata", r"app.object_of\(model\).metadata", id="metadata"),
    pytest.param(_DataMeta, "metadata", r"app.object_of\(model\).metadata", id="dataclass-meta"),
    pytest.param(_PydanticMeta, "metadata", r"app.object_of\(model\).metadata", id="pydantic-meta"),
]


def _cached() -> KubeObject[None]:
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("acme.io/v1", "pools"))
    raw = msgspec.json.encode({**POOL, "metadata": {**POOL["metadata"], "resourceVersion": "1"}})
    return codec.decode(raw, 0, len(raw))


async def _reconcile(request: pyinformer.Request, found: Any, cluster: pyinformer.Cluster) -> None:
    pass


def _as_operator(model: type[Any]) -> None:
    pyinformer.Operator("test").reconcile("acme.io/v1", "pools", model=model)(_reconcile)


def _as_definition(model: type[Any]) -> None:
    operator.custom_resource_definition(
        operator.custom_resource("acme.io/v1", "pools", kind="Pool")(model)
    )


def _as_informer(model: type[Any]) -> None:
    with World([POOL]) as world:
        world.factory.informer("acme.io/v1", "pools", model=model)


@pytest.mark.parametrize("register", [_as_operator, _as_informer, _as_definition])
@pytest.mark.parametrize(("model", "path", "cure"), REFUSED)
def test_a_model_that_would_be_read_wrongly_is_refused_at_registration(
    model: type[Any], path: str, cure: str, register: Callable[[type[Any]], None]
) -> None:
    with pytest.raises(InvalidModelError, match=cure) as caught:
        register(model)

    assert (caught.value.model, caught.value.path) == (model.__name__, path)


@pytest.mark.parametrize(("model", "path", "cure"), REFUSED)
def test_such_a_model_is_refused_where_an_object_is_read(
    model: type[Any], path: str, cure: str
) -> None:
    with pytest.raises(InvalidModelError, match=cure) as caught:
        _cached().as_type(model)

    assert caught.value.path == path


@pytest.mark.parametrize("kind", [_Spec, list[_Spec], _PydanticSpec, pyinformer.ObjectMeta])
def test_a_value_is_not_read_as_a_class_that_would_misread_it(kind: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"cannot read 'spec'"):
        _cached().at("spec", kind)


def test_a_view_cannot_have_the_metadata_that_the_cache_keeps() -> None:
    with World([POOL]) as world, pytest.raises(InvalidTypeError, match="ObjectMeta"):
        world.factory.informer("acme.io/v1", "pools", model=_Seen)


def test_a_pydantic_dataclass_is_not_written_under_the_names_of_its_attributes() -> None:
    patch: Any = {"spec": _Spec(maxSize=9)}
    with World([POOL]) as world, pytest.raises(InvalidModelError, match=r"pydantic\.BaseModel"):
        world.run(lambda: world.cluster.patch(_cached(), patch))


@pytest.mark.parametrize("model", [_Pydantic, _Constant, V1ConfigMap])
def test_parts_that_are_read_by_their_own_rules_are_accepted(model: type[Any]) -> None:
    _as_operator(model)

    assert _cached().as_type(model)
