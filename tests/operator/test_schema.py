"""Structural schemas: each shape of a model has one, or an error that names the field."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from pyinformer.errors import InvalidModelError
from tests.operator.schemas import structural_schema

_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


class _Engine(enum.Enum):
    POSTGRES = "postgres"
    MYSQL = "mysql"


class _Volume(msgspec.Struct, rename="camel", frozen=True):
    """Where the data is."""

    size_gib: Annotated[int, msgspec.Meta(ge=1)] = 10


class _Tree(msgspec.Struct):
    children: list[_Tree] = []


def _field(kind: Any, **default: Any) -> dict[str, Any]:
    """Return the schema of one field of a Struct."""
    definition = [("field", kind, default["default"])] if default else [("field", kind)]
    found = structural_schema(msgspec.defstruct("Model", definition))
    return dict(found["properties"]["field"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(str, {"type": "string"}, id="str"),
        pytest.param(bool, {"type": "boolean"}, id="bool"),
        pytest.param(float, {"type": "number"}, id="float"),
        pytest.param(int | float, {"type": "number"}, id="int-or-float"),
        pytest.param(int | str, {"x-kubernetes-int-or-string": True}, id="int-or-string"),
        pytest.param(bytes, {"type": "string"}, id="bytes-may-be-empty"),
        pytest.param(
            Annotated[dt.datetime, msgspec.Meta(tz=True)],
            {"type": "string", "format": "date-time"},
            id="time",
        ),
        pytest.param(dt.timedelta, {"type": "string"}, id="a-duration-is-not-go's"),
        pytest.param(Any, _ANYTHING, id="anything"),
        pytest.param(msgspec.Raw, _ANYTHING, id="raw"),
        pytest.param(dict, {"type": "object", **_ANYTHING}, id="any-map"),
        pytest.param(
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
            id="map",
        ),
        pytest.param(list, {"type": "array", "items": _ANYTHING}, id="any-list"),
        pytest.param(
            set[str],
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            id="set",
        ),
        pytest.param(_Engine, {"type": "string", "enum": ["mysql", "postgres"]}, id="enum"),
        pytest.param(Literal[1, 2], {"type": "integer", "enum": [1, 2]}, id="literal"),
        pytest.param(
            Annotated[int, msgspec.Meta(gt=0, lt=9, description="how many")],
            {
                "type": "integer",
                "description": "how many",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            },
            id="bounds",
        ),
        pytest.param(
            Annotated[list[str], msgspec.Meta(min_length=1, max_length=3)],
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            id="length",
        ),
        pytest.param(
            Annotated[str, msgspec.Meta(extra_json_schema={"x-kubernetes-validations": []})],
            {"type": "string", "x-kubernetes-validations": []},
            id="extension",
        ),
    ],
)
def test_a_field_has_the_schema_of_its_type(kind: Any, expected: dict[str, Any]) -> None:
    found = _field(kind)

    assert sorted(map(str, found.get("enum", ()))) == sorted(map(str, expected.get("enum", ())))
    assert {**found, "enum": 0} == {**expected, "enum": 0}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(int | None, {"type": "integer"}, id="int"),
        pytest.param(int | str | None, {"x-kubernetes-int-or-string": True}, id="int-or-string"),
    ],
)
def test_what_may_be_none_is_nullable_and_needs_that_default(
    kind: Any, expected: dict[str, Any]
) -> None:
    """None is left out of what is written, which would lack a required field."""
    assert _field(kind, default=None) == {**expected, "nullable": True}
    with pytest.raises(InvalidModelError, match=r"field field: may be None.*let None be its def"):
        _field(kind)


def test_a_choice_that_may_be_null_is_one_that_may_be_absent() -> None:
    assert _field(Literal["a"] | None, default=None) == {"type": "string", "enum": ["a"]}


def test_a_field_that_may_be_unset_is_not_required() -> None:
    unset = {"default": msgspec.UNSET}
    assert _field(str | msgspec.UnsetType | None, **unset) == {"type": "string", "nullable": True}
    assert _field(Literal["a"] | msgspec.UnsetType, **unset) == {"type": "string", "enum": ["a"]}
    fields = [("field", str | msgspec.UnsetType, msgspec.UNSET)]
    kind = msgspec.defstruct("Inner", fields, frozen=True)
    assert "required" not in structural_schema(kind)
    inner = _field(kind, default=kind())
    assert inner == {"type": "object", "properties": {"field": {"type": "string"}}, "default": {}}


def test_models_within_models_have_no_references() -> None:
    assert _field(dict[str, list[_Volume]]) == {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {
                "type": "object",
                "description": "Where the data is.",
                "properties": {"sizeGib": {"type": "integer", "minimum": 1, "default": 10}},
            },
        },
    }


def test_defaults_are_in_the_schema_except_null() -> None:
    assert _field(_Volume, default=_Volume())["default"] == {"sizeGib": 10}
    assert _field(list[int], default=[])["default"] == []
    assert "default" not in _field(int | None, default=None)


@pytest.mark.parametrize(
    ("kind", "path", "words"),
    [
        pytest.param(_Tree, "field.children[]", "_Tree holds itself", id="recursion"),
        pytest.param(dict[str, _Tree], "field.*.children[]", "holds itself", id="in-a-map"),
        pytest.param(str | list[str], "field", "is a union of array, string", id="union"),
        pytest.param(list[tuple[int, str]], "field[]", "like a tuple", id="tuple"),
        pytest.param(Literal[1, "a"], "field", "of several types", id="mixed-literal"),
        pytest.param(set[tuple[int, ...]], "field", "a set of objects", id="set-of-lists"),
        pytest.param(Literal["a"] | None, "field", "may be null", id="null-choice-without-default"),
        pytest.param(list[Literal["a"] | None], "field[]", "may be null", id="null-in-a-list"),
        pytest.param(None, "field", "is of type 'null'", id="null"),
        pytest.param(dict[str, object], "field.*", "is of type object", id="object"),
    ],
)
def test_a_type_without_a_schema_names_the_field(kind: Any, path: str, words: str) -> None:
    with pytest.raises(InvalidModelError, match=words) as caught:
        _field(kind)

    assert (caught.value.model, caught.value.path) == ("Model", path)


def test_a_recursive_model_is_refused() -> None:
    with pytest.raises(InvalidModelError) as caught:
        structural_schema(_Tree)

    assert caught.value.path == "children[]"


class _First(msgspec.Struct, tag="first"):
    a: int


class _Second(msgspec.Struct, tag="second"):
    b: int


def test_a_tagged_union_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="field spec: is a union"):
        structural_schema(msgspec.defstruct("Model", [("spec", _First | _Second)]))


@pytest.mark.parametrize("base", [int, list, dict, object])
def test_a_type_without_fields_is_not_a_model(base: type) -> None:
    with pytest.raises(InvalidModelError):
        structural_schema(type("Model", (base,), {}))


class _Status(msgspec.Struct, frozen=True):
    ready: int = 0


class _WithStatus(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: dict[str, str]
    spec: _Volume
    status: _Status = _Status()


def test_server_owned_fields_are_not_in_the_schema() -> None:
    found = structural_schema(_WithStatus)

    assert found["required"] == ["spec"]
    assert found["properties"]["metadata"] == {"type": "object"}
    assert found["properties"]["apiVersion"] == {"type": "string"}
    assert "default" not in found["properties"]["status"]
    assert list(found["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]


def test_a_required_status_is_refused() -> None:
    class Model(msgspec.Struct):
        status: _Status

    with pytest.raises(InvalidModelError, match="field status: needs a default"):
        structural_schema(Model)


@dataclasses.dataclass
class _Plain:
    size: int
    note: str = "none"


def test_a_dataclass_is_described_by_its_docstring_only() -> None:
    assert structural_schema(_Plain) == {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "size": {"type": "integer"},
            "note": {"type": "string", "default": "none"},
        },
        "required": ["size"],
    }


class _Part(pydantic.BaseModel):
    """A part."""

    model_config = pydantic.ConfigDict(extra="allow")
    name: Annotated[str, pydantic.Field(pattern="a+")] = "a"


class _Whole(pydantic.BaseModel):
    part: _Part | None = None
    engine: _Engine = _Engine.MYSQL
    one: Literal["x"] = "x"
    port: int | str = pydantic.Field(alias="thePort")
    free: dict[str, Any] = {}
    ratio: Annotated[float, pydantic.Field(gt=0, le=1)] | None = None


def test_pydantic_models_convert_alike() -> None:
    found = structural_schema(_Whole)

    assert found["required"] == ["thePort"]
    assert {name: found["properties"][name] for name in _PYDANTIC} == _PYDANTIC


_PYDANTIC: dict[str, Any] = {
    "part": {
        "type": "object",
        "description": "A part.",
        "properties": {"name": {"type": "string", "pattern": "a+", "default": "a"}},
        "nullable": True,
        **_ANYTHING,
    },
    "engine": {"type": "string", "enum": ["postgres", "mysql"], "default": "mysql"},
    "one": {"type": "string", "enum": ["x"], "default": "x"},
    "thePort": {"x-kubernetes-int-or-string": True},
    "free": {"type": "object", "default": {}, **_ANYTHING},
    "ratio": {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 1,
        "nullable": True,
    },
}


class _Undefined(msgspec.Struct):
    spec: Nowhere  # type: ignore[name-defined]  # noqa: F821 - what a user forgets


class _UndefinedPydantic(pydantic.BaseModel):
    spec: Nowhere  # type: ignore[name-defined]  # noqa: F821 - what a user forgets


@pytest.mark.parametrize("model", [_Undefined, _UndefinedPydantic])
def test_an_undefined_name_is_an_error_of_the_model(model: Any) -> None:
    with pytest.raises(InvalidModelError, match="Nowhere"):
        structural_schema(model)
