"""Decode the bodies of writes as Go does: into the fields of a type, or a refusal.

A field that the type lacks is dropped; the client gets a warning, or a refusal with
`fieldValidation=Strict`. A value of another type than its field is a 400. The metadata of every
object has a type; the rest of a custom resource is decoded only if its numbers are.

Source:
    sigs.k8s.io/json; k8s.io/apimachinery/pkg/runtime/serializer/json, Decode;
    apiextensions-apiserver pkg/apiserver/schema/objectmeta, Coerce.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import (
    GO_TYPE,
    IF_MAP,
    ResourceType,
    built_in_schema,
    metadata_schema,
)

_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_SIZES: Final = {"int32": 2**31, "int64": 2**63}
_LARGEST_INTEGRAL: Final = 1e21  # Go writes larger floats with an exponent
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EXACT_TIME: Final = re.compile(r"[^.,]+[.,]\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]++)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")
_ZEROS: Final[dict[str, JSONValue]] = {"string": "", "integer": 0, "number": 0, "boolean": False}


@dataclass(slots=True)
class Decoded:
    """A decoded body.

    Attributes:
        body: the object, without the unknown fields of built-in types and of metadata.
        unknown: the paths of the fields that the type lacks, such as `spec.containers[0].imag`.
    """

    body: JSONObject
    unknown: list[str]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands: for messages."""

    struct: str = ""  # the innermost Go struct, without its package
    names: tuple[str, ...] = ()  # the fields that lead here, as Go's errors name them
    path: str = ""  # the same with the places of items
    unknown: list[str] = field(default_factory=list)

    def below(self, name: str) -> _Place:
        path = f"{self.path}.{name}" if self.path else name
        return replace(self, names=(*self.names, name), path=path)

    def item(self, number: int) -> _Place:
        return replace(self, path=f"{self.path}[{number}]")


_Schema: TypeAlias = JSONObject


def decode(resource: ResourceType, body: JSONObject, kind: str = "") -> Decoded:
    """Decode an object.

    Args:
        resource: the resource that is written.
        body: the parsed body; it is not changed.
        kind: the kind of the body, if it has one of its own, such as `autoscaling/v1/Scale`.

    Raises:
        Failure: a value does not have the type of its field (400).
    """
    place = _Place()
    try:
        if kind:
            schema = built_in_schema(*_parts(kind))
        elif resource.list_shape == "custom":
            return _custom(resource, body, place)
        else:
            schema = resource.object_schema
        if not schema:
            return Decoded(body, [])
        found = _struct(body, schema, place)
        return Decoded(found, place.unknown)
    except _GoError as error:
        name = kind.rpartition("/")[2] or resource.kind
        version = _parts(kind)[1] if kind else resource.version
        raise DecodingFailure(name, version, str(error)) from None


def decode_applied(resource: ResourceType, configuration: JSONObject) -> JSONObject:
    """Return the configuration of an apply as Go decodes it; its fields are known to be declared.

    Raises:
        Failure: a built-in type cannot have a value, such as text that is not in base64 (500).
    """
    if resource.list_shape == "custom":
        return {name: _numbers(value) for name, value in configuration.items()}
    try:
        return decode(resource, configuration).body
    except DecodingFailure as failure:
        raise Failure(500, failure.why, reason="") from None


def check_known(resource: ResourceType, unknown: list[str]) -> None:
    """Refuse unknown fields, as `fieldValidation=Strict` does.

    Raises:
        Failure: 400.
    """
    if unknown:
        found = ", ".join(f'unknown field "{one}"' for one in unknown)
        why = f"strict decoding error: {found}"
        raise DecodingFailure(resource.kind, resource.version, why)


class DecodingFailure(Failure):
    """A body that cannot be decoded; `why` is the reason alone."""

    def __init__(self, kind: str, version: str, why: str) -> None:
        super().__init__(400, f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        self.why = why


class _GoError(Exception):
    """A value that Go cannot decode."""


def _parts(kind: str) -> tuple[str, str, str]:
    group, version, name = kind.rsplit("/", 2)
    return group, version, name


def _custom(resource: ResourceType, body: JSONObject, place: _Place) -> Decoded:
    found: JSONObject = {name: _numbers(value) for name, value in body.items()}
    if isinstance(body.get("metadata"), dict):
        below = replace(place, path="metadata")
        found["metadata"] = _struct(body["metadata"], metadata_schema(), below)
    unknown = list(place.unknown)
    if resource.schema:
        content = {name: value for name, value in body.items() if name not in _IDENTITY}
        unknown += _undeclared(content, resource.schema, "")
    return Decoded(found, sorted(unknown))


def _numbers(value: JSONValue) -> JSONValue:
    """Return a value with whole numbers as Go writes them: 2.0 is 2."""
    if isinstance(value, dict):
        return {name: _numbers(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_numbers(below) for below in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_INTEGRAL:
        return int(value)
    return value


def _undeclared(value: JSONValue, schema: _Schema, path: str) -> list[str]:
    """Return the paths of the fields that a schema does not have."""
    found: list[str] = []
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        is_open = bool(schema.get(_KEEPS_UNKNOWN)) or others is True
        for name, below in value.items():
            known, where = properties.get(name, others), f"{path}.{name}" if path else name
            if isinstance(known, dict):
                found += _undeclared(below, known, where)
            elif not (
                is_open or (schema.get("x-kubernetes-embedded-resource") and name in _IDENTITY)
            ):
                found.append(where)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, below in enumerate(value):
            found += _undeclared(below, schema["items"], f"{path}[{number}]")
    return found


def _struct(value: JSONObject, schema: _Schema, place: _Place) -> JSONObject:
    properties = schema["properties"]
    inside = replace(place, struct=schema[GO_TYPE].rpartition(".")[2])
    found: JSONObject = {}
    for name, below in value.items():
        known = properties.get(name)
        if known is None:
            inside.unknown.append(inside.below(name).path)
        elif below is not None:  # Go's types do not distinguish a null field from an absent one
            found[name] = _value(below, known, inside.below(name))
    return found


def _value(value: JSONValue, schema: _Schema, place: _Place) -> JSONValue:
    if isinstance(value, dict) and IF_MAP in schema:
        schema = schema[IF_MAP]
    go_type = schema.get(GO_TYPE, "")
    if not go_type:
        return value
    if "properties" in schema:
        return _struct(_checked(value, dict, go_type, place), schema, place)
    if "items" in schema:
        items = _checked(value, list, go_type, place)
        return [_item(one, schema["items"], place.item(i)) for i, one in enumerate(items)]
    if "additionalProperties" in schema:
        below = schema["additionalProperties"]
        pairs = _checked(value, dict, go_type, place).items()
        return {
            name: _item(one, below, replace(place, path=f"{place.path}.{name}"))
            for name, one in pairs
        }
    if go_type == "intstr":
        return value if isinstance(value, str) else _scalar(value, "int32", "integer", place)
    return _scalar(value, go_type, schema.get("type", ""), place)


def _item(value: JSONValue, schema: _Schema, place: _Place) -> JSONValue:
    if value is not None:
        return _value(value, schema, place)
    if "properties" in schema:
        return {}
    return _ZEROS.get(schema.get("type", ""))


def _scalar(value: JSONValue, go_type: str, kind: str, place: _Place) -> JSONValue:
    match go_type:
        case "time" | "microtime":
            return _time(_checked(value, str, "string", place), is_exact=go_type == "microtime")
        case "[]uint8":
            return _base64(_checked(value, str, go_type, place))
        case "quantity":
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise _mismatch(value, "string", place)
            return _quantity(value)
        case "bool":
            return _checked(value, bool, go_type, place)
        case "string":
            return _checked(value, str, go_type, place)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _mismatch(value, go_type, place)
    if kind == "integer" and (isinstance(value, float) or abs(value) >= _SIZES[go_type]):
        raise _mismatch(value, go_type, place, text=f" {value}")
    return value


def _checked(value: JSONValue, wanted: type, go_type: str, place: _Place) -> JSONValue:
    if type(value) is not wanted:
        raise _mismatch(value, go_type, place)
    return value


def _mismatch(value: JSONValue, go_type: str, place: _Place, text: str = "") -> _GoError:
    words = {str: "string", bool: "bool", list: "array", dict: "object"}
    found = words.get(type(value), "number")
    where = ".".join((place.struct, *place.names))
    return _GoError(
        f"json: cannot unmarshal {found}{text} into Go struct field {where} of type {go_type}"
    )


def _time(text: str, *, is_exact: bool) -> str:
    """Return a time as Go writes it: in UTC, without or with microseconds."""
    try:
        fits = _TIME.fullmatch(text) and (not is_exact or _EXACT_TIME.fullmatch(text))
        if not fits:
            raise ValueError
        moment = datetime.fromisoformat(text.replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError):
        layout = "2006-01-02T15:04:05.000000Z07:00" if is_exact else "2006-01-02T15:04:05Z07:00"
        raise _GoError(f'parsing time "{text}" as "{layout}": cannot parse "{text}"') from None
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if is_exact else "%Y-%m-%dT%H:%M:%SZ"
    return moment.strftime(form)


def _base64(text: str) -> str:
    plain = text.replace("\r", "").replace("\n", "")
    try:
        binascii.a2b_base64(plain, strict_mode=True)
    except (binascii.Error, ValueError):
        odd = _NOT_BASE64.search(plain)
        place = len(plain) if odd is None else odd.start()
        raise _GoError(f"illegal base64 data at input byte {place}") from None
    return plain


def _quantity(value: JSONValue) -> str:
    text = str(value)
    if _QUANTITY.fullmatch(text) is None:
        why = f"quantities must match the regular expression '^{_QUANTITY.pattern}$'"
        raise _GoError(why)
    return text
