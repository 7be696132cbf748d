"""CEL rules: each place of a model takes them, whatever kind of class it is."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Generic, NewType, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from pyinformer import policies
from pyinformer.errors import InvalidArgumentError, InvalidModelError
from pyinformer.operator import Rule
from tests.operator.schemas import structural_schema

T = TypeVar("T")
_SMALL = Rule("self < 10", message="too much")
_FIXED = Rule("self == oldSelf")
_EXPECTED = {"rule": "self < 10", "message": "too much"}
_FIXED_EXPECTED = {"rule": "self == oldSelf"}

_Small = Annotated[int, _SMALL]
_Port = NewType("_Port", _Small)


@Rule("self.low <= self.high")
@Rule("self.low >= 0")
class _StructRange(msgspec.Struct, rename={"high": "theHigh"}):
    low: int = 0
    high: _Small = 0


class _StructHeir(_StructRange):
    more: _Small | None = None


class _Box(msgspec.Struct, Generic[T]):
    one: T
    many: list[T] = []


class _IntBox(_Box[_Small]):
    pass


class _InnerBox(_Box[T], Generic[T]):
    """Names the variable of its base once more."""


class _NestedIntBox(_InnerBox[_Small]):
    pass


class _Limits(TypedDict):
    cpu: NotRequired[_Small]


class _StructModel(msgspec.Struct):
    plain: _Small
    several: Annotated[int, msgspec.Meta(ge=1), _SMALL, _FIXED]
    listed: list[_Small]
    mapped: dict[str, list[_Small]]
    box: _Box[_Small]
    limits: _Limits
    port: _Port
    range: _StructRange
    heir: _StructHeir | None = None
    whole: Annotated[list[int], _FIXED] = []


@Rule("self.low <= self.high")
@dataclasses.dataclass
class _DataclassRange:
    low: int = 0
    high: _Small = 0


@dataclasses.dataclass
class _DataclassModel:
    plain: Annotated[int, _SMALL, _FIXED]
    ranges: list[_DataclassRange]


@Rule("self.low <= self.theHigh")
class _PydanticRange(pydantic.BaseModel):
    low: int = 0
    high: _Small = pydantic.Field(0, alias="theHigh")


class _PydanticModel(pydantic.BaseModel):
    plain: Annotated[int, pydantic.Field(ge=1), _SMALL, _FIXED]
    listed: list[_Small]
    ranges: dict[str, _PydanticRange]


def _rules(schema: Any, *path: str) -> Any:
    for key in path:
        schema = schema[key]
    return schema.get("x-kubernetes-validations")


def test_each_place_of_a_struct_has_its_rules() -> None:
    fields = structural_schema(_StructModel)["properties"]

    assert _rules(fields, "plain") == [_EXPECTED]
    assert _rules(fields, "several") == [_EXPECTED, _FIXED_EXPECTED]
    assert fields["several"]["minimum"] == 1
    assert _rules(fields, "listed") is None
    assert _rules(fields, "listed", "items") == [_EXPECTED]
    assert _rules(fields, "mapped", "additionalProperties", "items") == [_EXPECTED]
    assert _rules(fields, "box", "properties", "one") == [_EXPECTED]
    assert _rules(fields, "box", "properties", "many", "items") == [_EXPECTED]
    assert _rules(fields, "limits", "properties", "cpu") == [_EXPECTED]
    assert _rules(fields, "port") == [_EXPECTED]
    assert _rules(fields, "whole") == [_FIXED_EXPECTED]


@pytest.mark.parametrize("model", [_IntBox, _NestedIntBox])
def test_a_subclass_of_a_parametrized_class_has_the_rules_of_its_arguments(model: type) -> None:
    fields = structural_schema(model)["properties"]

    assert _rules(fields, "one") == [_EXPECTED]
    assert _rules(fields, "many", "items") == [_EXPECTED]


def test_a_class_has_its_rules_in_their_order_and_an_heir_has_them_too() -> None:
    fields = structural_schema(_StructModel)["properties"]

    rules = [{"rule": "self.low <= self.high"}, {"rule": "self.low >= 0"}]
    assert _rules(fields, "range") == rules
    assert _rules(fields, "range", "properties", "theHigh") == [_EXPECTED]
    assert _rules(fields, "heir") == rules
    assert _rules(fields, "heir", "properties", "more") == [_EXPECTED]
    assert fields["heir"]["nullable"]


def test_a_dataclass_has_rules() -> None:
    fields = structural_schema(_DataclassModel)["properties"]

    assert _rules(fields, "plain") == [_EXPECTED, _FIXED_EXPECTED]
    assert _rules(fields, "ranges", "items") == [{"rule": "self.low <= self.high"}]
    assert _rules(fields, "ranges", "items", "properties", "high") == [_EXPECTED]


def test_a_pydantic_model_has_rules() -> None:
    fields = structural_schema(_PydanticModel)["properties"]

    assert _rules(fields, "plain") == [_EXPECTED, _FIXED_EXPECTED]
    assert fields["plain"]["minimum"] == 1
    assert _rules(fields, "listed", "items") == [_EXPECTED]
    values = fields["ranges"]["additionalProperties"]
    assert _rules(values) == [{"rule": "self.low <= self.theHigh"}]
    assert _rules(values, "properties", "theHigh") == [_EXPECTED]


def test_a_rule_of_the_whole_object_is_at_the_top() -> None:
    @Rule("self.metadata.name.size() < 20", message_expression="'too long'")
    class Model(msgspec.Struct):
        size: int = 0

    assert _rules(structural_schema(Model)) == [
        {"rule": "self.metadata.name.size() < 20", "messageExpression": "'too long'"}
    ]


_GIVEN = msgspec.Meta(extra_json_schema={"x-kubernetes-validations": [{"rule": "self > 0"}]})


class _ExtendedModel(msgspec.Struct):
    size: Annotated[int, _GIVEN, _FIXED] = 1


def test_a_rule_joins_those_that_are_given_as_an_extension() -> None:
    found = structural_schema(_ExtendedModel)["properties"]["size"]

    assert _rules(found) == [{"rule": "self > 0"}, _FIXED_EXPECTED]


def test_a_rule_has_all_that_the_server_knows() -> None:
    rule = Rule(
        """
        !oldSelf.hasValue() ||
        self.size >= oldSelf.value().size
        """,
        message="must not shrink",
        reason="FieldValueForbidden",
        field_path=".size",
        optional_old_self=True,
    )

    assert rule.to_dict() == {
        "rule": "!oldSelf.hasValue() ||\n        self.size >= oldSelf.value().size",
        "message": "must not shrink",
        "reason": "FieldValueForbidden",
        "fieldPath": ".size",
        "optionalOldSelf": True,
    }


class _Metadata(msgspec.Struct, frozen=True):
    name: Annotated[str, _FIXED] = ""


class _NamedModel(msgspec.Struct):
    metadata: _Metadata = _Metadata()


class _FreeModel(msgspec.Struct):
    free: dict[str, Annotated[Any, _FIXED]] = {}


@pytest.mark.parametrize(
    ("model", "path"),
    [
        pytest.param(_NamedModel, "metadata.name", id="of-the-server"),
        pytest.param(_FreeModel, "free.*", id="without-a-schema"),
    ],
)
def test_a_rule_where_the_definition_says_nothing_names_the_field(model: type, path: str) -> None:
    with pytest.raises(InvalidModelError, match="'self == oldSelf', but no schema") as caught:
        structural_schema(model)

    assert caught.value.path == path


class OfPolicies(msgspec.Struct):
    limits: dict[str, Annotated[int, policies.Rule("self < 10")]]


def test_a_rule_of_policies_in_a_model_is_refused() -> None:
    reason = "must have a pyinformer.operator.Rule, got a pyinformer.policies.Rule"
    with pytest.raises(InvalidModelError, match=f"OfPolicies, field limits.*: {reason}"):
        structural_schema(OfPolicies)


@pytest.mark.parametrize(
    ("expression", "options", "words"),
    [
        pytest.param("", {}, "must be an expression in CEL", id="empty"),
        pytest.param(None, {}, "must be an expression in CEL", id="not-text"),
        pytest.param("a &&\nb", {}, "several lines", id="lines-without-a-message"),
        pytest.param("self", {"message": " "}, "one line", id="empty-message"),
        pytest.param("self", {"message": "a\nb"}, "one line", id="long-message"),
        pytest.param("self", {"message_expression": " "}, "in CEL, got ' '", id="no-expression"),
        pytest.param("self", {"reason": "Invalid"}, "FieldValueForbidden", id="reason"),
    ],
)
def test_an_invalid_rule_is_refused(expression: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Rule(expression, **options)
