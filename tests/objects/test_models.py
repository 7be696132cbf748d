"""Models: decoded for the call, and a misfit that names its object and its field."""

from __future__ import annotations

import dataclasses
import ipaddress
import numbers
import pathlib
import re
import threading
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypedDict

import attrs
import msgspec
import pydantic
import pytest
import typing_extensions
from kubernetes_asyncio.client import V1Pod

from pyinformer.errors import (
    InvalidModelError,
    InvalidTypeError,
    ModelMismatchError,
    TerminalError,
)
from pyinformer.objects import (
    GroupVersionKind,
    KubeObject,
    ObjectMeta,
    check_model,
    decode_model,
    why_mutable,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class _Spec(msgspec.Struct):
    replicas: int
    names: list[str] = []
    sizes: dict[str, int] = {}


class _Struct(msgspec.Struct):
    spec: _Spec


@dataclasses.dataclass
class _DataSpec:
    replicas: int


@dataclasses.dataclass
class _Data:
    spec: _DataSpec


class _PydanticSpec(pydantic.BaseModel):
    replicas: int


class _Pydantic(pydantic.BaseModel):
    spec: _PydanticSpec


class _Numbered(msgspec.Struct):
    spec: dict[int, int]


class _ChoiceSpec(msgspec.Struct):
    replicas: Literal["one", "two"]


class _Choice(msgspec.Struct):
    spec: _ChoiceSpec


class _First(msgspec.Struct, tag="first"):
    pass


class _Second(msgspec.Struct, tag="second"):
    pass


class _Tagged(msgspec.Struct):
    spec: _First | _Second


def make(body: object) -> KubeObject:
    """Return a cached object with this body."""
    meta = ObjectMeta("default", "a", "uid", "1")
    gvk = GroupVersionKind("acme.io", "v1", "Database")
    return KubeObject("default/a", meta, None, msgspec.json.encode(body), gvk)


@pytest.mark.parametrize("model", [_Struct, _Data, _Pydantic])
def test_each_call_gets_its_own_model(model: Any) -> None:
    obj = make({"spec": {"replicas": 3}})

    first, second = decode_model(obj, model), decode_model(obj, model)
    first.spec.replicas = 4

    assert second.spec.replicas == 3
    assert obj.at("spec.replicas", int) == 3


@pytest.mark.parametrize(
    ("model", "body", "path"),
    [
        pytest.param(_Struct, {"spec": {"replicas": "x"}}, "spec.replicas", id="struct"),
        pytest.param(_Struct, {"spec": {}}, "spec", id="struct-missing"),
        pytest.param(_Struct, {}, "", id="struct-missing-at-the-root"),
        pytest.param(
            _Struct, {"spec": {"replicas": 1, "names": [1]}}, "spec.names[0]", id="struct-list"
        ),
        pytest.param(
            _Struct, {"spec": {"replicas": 1, "sizes": {"a": ""}}}, "spec.sizes[...]", id="map"
        ),
        pytest.param(_Numbered, {"spec": {"x": 1}}, "spec", id="key-of-a-map"),
        pytest.param(_Data, {"spec": {"replicas": None}}, "spec.replicas", id="dataclass"),
        pytest.param(_Pydantic, {"spec": {"replicas": "x"}}, "spec.replicas", id="pydantic"),
        pytest.param(_Pydantic, {"spec": {}}, "spec.replicas", id="pydantic-missing"),
    ],
)
def test_a_misfit_names_the_key_and_the_field(model: Any, body: object, path: str) -> None:
    with pytest.raises(ModelMismatchError, match="Database 'default/a': does not fit") as caught:
        decode_model(make(body), model)

    assert (caught.value.key, caught.value.path) == ("default/a", path)
    assert isinstance(caught.value, TerminalError)  # the same bytes would not fit again


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(_Pydantic, id="pydantic"),
        pytest.param(_Choice, id="literal"),
        pytest.param(_Tagged, id="tagged-union"),
    ],
)
def test_a_misfit_shows_no_content(model: Any) -> None:
    with pytest.raises(ModelMismatchError, match="does not fit") as caught:
        decode_model(make({"spec": {"replicas": "secret - at `$.x`", "type": "secret"}}), model)

    assert "secret" not in str(caught.value)
    assert caught.value.path.startswith("spec")


@pytest.mark.parametrize("model", [_Struct, _Data, _Pydantic, dict])
def test_supported_models_are_accepted(model: Any) -> None:
    check_model(model)


class _Undefined(msgspec.Struct):
    spec: Nowhere  # type: ignore[name-defined]  # noqa: F821 - what a user forgets


@pytest.mark.parametrize(
    "model", [5, "Database", object(), type("Plain", (), {}), int, list, Any, _Undefined]
)
def test_a_type_that_cannot_be_decoded_into_is_refused(model: Any) -> None:
    with pytest.raises(InvalidTypeError, match="model"):
        check_model(model)


@dataclasses.dataclass
class _UndefinedData:
    spec: Nowhere  # type: ignore[name-defined]  # noqa: F821 - as above


class _UndefinedPydantic(pydantic.BaseModel):
    spec: Nowhere  # type: ignore[name-defined]  # noqa: F821 - as above


class _UndefinedInside(msgspec.Struct):
    part: _Undefined


class _UndefinedInsidePydantic(pydantic.BaseModel):
    part: _UndefinedPydantic


@pytest.mark.parametrize(
    "model",
    [_Undefined, _UndefinedData, _UndefinedPydantic, _UndefinedInside, _UndefinedInsidePydantic],
)
@pytest.mark.parametrize("read", [check_model, make({"spec": 1}).as_type])
def test_an_annotation_that_is_not_defined_is_named(
    model: type[object], read: Callable[[type[object]], object]
) -> None:
    words = rf"^model: an annotation of {model.__name__}, or of .*: name 'Nowhere'"
    with pytest.raises(InvalidTypeError, match=words) as caught:
        read(model)

    assert str(caught.value).endswith("outside of `if TYPE_CHECKING:`")
    assert isinstance(caught.value.__cause__, NameError)


class _Late(pydantic.BaseModel):
    spec: _LateSpec


class _LateSpec(pydantic.BaseModel):
    replicas: int


def test_an_annotation_may_name_a_class_that_is_defined_later() -> None:
    check_model(_Late)
    assert make({"spec": {"replicas": 3}}).as_type(_Late).spec.replicas == 3


class _Untagged(msgspec.Struct):
    spec: _Spec | _Struct


class _Bounded(msgspec.Struct):
    spec: Annotated[str, msgspec.Meta(ge=3)]


class _Misspelled(msgspec.Struct):
    spec: "no annotation"  # type: ignore[valid-type]  # noqa: F722 - the mistake


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (_Untagged, "all Struct types must be tagged"),
        (_Bounded, "Can only set `ge` on a numeric type"),
        (_Misspelled, "Forward reference must be an expression"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_shown(model: type[object], words: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"an annotation of {model.__name__}.*{words}"):
        check_model(model)


class _Array(msgspec.Struct, array_like=True):
    spec: int


def test_a_model_that_is_read_from_arrays_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"^model: _Array has array_like=True"):
        check_model(_Array)


class _Dict(TypedDict):
    spec: dict[str, Any]


class _ExtensionDict(typing_extensions.TypedDict):
    spec: dict[str, Any]


@pytest.mark.parametrize("model", [_Dict, _ExtensionDict])
def test_a_typed_dict_is_refused_since_a_patch_would_remove_what_it_does_not_know(
    model: type[Any],
) -> None:
    with pytest.raises(InvalidTypeError, match=r"model: must not be a TypedDict such as _\w*Dict"):
        check_model(model)


class _DictStatus(msgspec.Struct):
    status: _Dict | None = None


@dataclasses.dataclass
class _ExtensionDictStatus:
    status: _ExtensionDict


class _PydanticDictStatus(pydantic.BaseModel):
    status: _ExtensionDict | None = None


class _DictOfModelsStatus(msgspec.Struct):
    status: dict[str, list[_DictStatus]] = {}


@pytest.mark.parametrize(
    "model", [_DictStatus, _ExtensionDictStatus, _PydanticDictStatus, _DictOfModelsStatus]
)
def test_a_status_that_is_a_dict_of_fields_is_refused_as_well(model: type[Any]) -> None:
    with pytest.raises(InvalidModelError, match="field status: has values that are plain dicts"):
        check_model(model)


class _PlainStatus(msgspec.Struct):
    status: dict[str, Any] | None = None


def test_a_status_that_is_a_whole_dict_is_accepted() -> None:
    check_model(_PlainStatus)


class _PydanticInStruct(msgspec.Struct):
    spec: _PydanticSpec


@dataclasses.dataclass
class _PydanticInData:
    spec: _PydanticSpec | None = None


class _AddressSpec(msgspec.Struct):
    hosts: dict[str, list[ipaddress.IPv4Address]] = {}
    parent: _AddressSpec | None = None


class _Address(msgspec.Struct):
    spec: _AddressSpec


class _PathSpec(msgspec.Struct, rename="camel"):
    work_dir: pathlib.Path


@dataclasses.dataclass
class _Path:
    spec: _PathSpec


@pytest.mark.parametrize(
    ("model", "path", "reason"),
    [
        (_PydanticInStruct, "spec", "is the pydantic model _PydanticSpec"),
        (_PydanticInData, "spec", "is the pydantic model _PydanticSpec"),
        (_Address, r"spec\.hosts", "nothing of an object can be decoded into IPv4Address"),
        (_Path, r"spec\.workDir", "nothing of an object can be decoded into Path"),
    ],
)
def test_a_field_that_can_never_be_decoded_refuses_the_model(
    model: Any, path: str, reason: str
) -> None:
    """Otherwise each object fails, and the error blames the object."""
    with pytest.raises(InvalidModelError, match=f"field {path}: {reason}"):
        check_model(model)
    with pytest.raises(InvalidTypeError, match=f"field {path}: {reason}"):
        make({"spec": {}}).as_type(model)


class _Sized(Protocol):
    size: int


class _AnythingSpec(msgspec.Struct):
    value: object
    number: numbers.Number
    quota: Decimal | None = None
    parent: _AnythingSpec | None = None
    sized: _Sized | None = None
    known: ClassVar[pathlib.Path] = pathlib.Path()


class _Anything(msgspec.Struct):
    spec: _AnythingSpec


def test_a_field_of_an_abstract_class_is_accepted_if_a_value_of_json_is_one() -> None:
    check_model(_Anything)

    found = make({"spec": {"value": {"a": 1}, "number": 2, "quota": "1.5"}}).as_type(_Anything)
    assert (found.spec.value, found.spec.quota) == ({"a": 1}, Decimal("1.5"))


class _UnsetSpec(msgspec.Struct, rename="camel"):
    image: str
    storage_class: str | msgspec.UnsetType | None = msgspec.UNSET


class _Unset(msgspec.Struct):
    spec: _UnsetSpec | msgspec.UnsetType = msgspec.UNSET


def test_a_field_may_be_unset_as_msgspec_has_it() -> None:
    """An absent field and one that is null are two things in Kubernetes."""
    check_model(_Unset)

    absent, null = ({"image": "a"}, {"image": "a", "storageClass": None})
    assert make({"spec": absent}).as_type(_Unset).spec == _UnsetSpec("a")
    assert make({"spec": null}).as_type(_Unset).spec == _UnsetSpec("a", None)
    assert make({}).as_type(_Unset).spec is msgspec.UNSET


@dataclasses.dataclass
class _OwnFieldSpec:
    image: str
    changed: threading.Event = dataclasses.field(
        default_factory=threading.Event, init=False, compare=False
    )


@dataclasses.dataclass
class _OwnField:
    spec: _OwnFieldSpec


@attrs.define
class _OwnAttribute:
    spec: dict[str, str]
    changed: threading.Event = attrs.field(factory=threading.Event, init=False)


@pytest.mark.parametrize("model", [_OwnField, _OwnAttribute])
def test_a_field_that_the_model_makes_itself_may_be_of_any_class(model: Any) -> None:
    check_model(model)

    assert isinstance(make({"spec": {"image": "a"}}).as_type(model), model)


class _FrozenSpec(msgspec.Struct, frozen=True):
    names: tuple[str, ...] = ()
    size: int | None = None
    mode: Literal["a", "b"] = "a"
    since: datetime | None = None
    kinds: frozenset[str] = frozenset()
    noted: Annotated[int, msgspec.Meta(ge=0)] = 0
    inner: _FrozenSpec | None = None


class _FrozenStruct(msgspec.Struct, frozen=True):
    spec: _FrozenSpec


@dataclasses.dataclass(frozen=True)
class _FrozenData:
    spec: _FrozenSpec
    pair: tuple[str, int] = ("", 0)


class _FrozenPydantic(pydantic.BaseModel, frozen=True):
    names: tuple[str, ...]
    size: Annotated[int, pydantic.Field(ge=0)]


class _FrozenOuter(pydantic.BaseModel, frozen=True):
    spec: _FrozenPydantic


@pytest.mark.parametrize(
    "model", [_FrozenSpec, _FrozenStruct, _FrozenData, _FrozenPydantic, _FrozenOuter]
)
def test_frozen_models_cannot_be_changed(model: type[Any]) -> None:
    assert why_mutable(model) == ""


class _WithList(msgspec.Struct, frozen=True):
    names: list[str]


class _WithDict(msgspec.Struct, frozen=True):
    spec: _WithList | None
    labels: dict[str, str]


class _WithAny(msgspec.Struct, frozen=True):
    status: Any


@dataclasses.dataclass(frozen=True)
class _WithThawed:
    specs: tuple[_Struct, ...]


class _ThawedPydantic(pydantic.BaseModel, frozen=True):
    spec: _PydanticSpec


class _Private(pydantic.BaseModel, frozen=True):
    kind: str
    _seen: list[str] = pydantic.PrivateAttr(default_factory=list)


class _Extra(pydantic.BaseModel, frozen=True, extra="allow"):
    name: str


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (_Struct, "_Struct is a _Struct, which is not frozen"),
        (_Data, "_Data is a _Data, which is not frozen"),
        (_Pydantic, "_Pydantic is a _Pydantic, which is not frozen"),
        (_WithList, r"_WithList.names is list\[str\], which readers could change: use a tuple"),
        (_WithDict, r"_WithDict.spec.names is list\[str\]"),
        (_WithAny, "_WithAny.status is a Any, which is not frozen"),
        (_WithThawed, r"_WithThawed.specs\[\] is a _Struct, which is not frozen"),
        (_ThawedPydantic, "_ThawedPydantic.spec is a _PydanticSpec, which is not frozen"),
        (_Extra, "_Extra is a _Extra, which is not frozen"),
        (_Private, "_Private._seen is a private attribute, which readers could change"),
        (V1Pod, "V1Pod is a V1Pod, which is not frozen"),
        (dict, "dict is a dict, which is not frozen"),
        (dict[str, Any], r"dict is dict\[str, typing.Any\], which readers could change"),
    ],
)
def test_a_model_that_can_be_changed_says_where(model: type[Any], reason: str) -> None:
    assert re.match(reason, why_mutable(model)), why_mutable(model)
