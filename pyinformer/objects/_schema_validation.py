"""What the structural schema of a custom resource does not allow in a value.

Types, nulls, required fields, enums, bounds, patterns, formats and keyed lists are checked, and the
combinations of such rules. Rules in CEL are not.

Source:
    k8s.io/kube-openapi/pkg/validation/validate; apiextensions-apiserver
    pkg/apiserver/validation/validation.go and pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from pyinformer.objects._json_decoders import JSONObject, JSONValue
from pyinformer.objects._re2_syntax_check import re2_compiled
from pyinformer.objects._schema_formats import FORMATS

SchemaCause: TypeAlias = tuple[str, str, str]
"""The reason, the path of the field, and the sentence."""

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_INVALID: Final = "FieldValueInvalid"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_ROUNDING: Final = 1e-9  # this and the next: go-openapi/swag, IsFloat64AJSONInteger
_MAX_JSON_INTEGER: Final = (1 << 53) - 1
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def schema_causes(value: JSONValue, schema: JSONObject) -> Iterator[SchemaCause]:
    """Yield what a schema does not allow in a value; paths begin below it."""
    return _found(value, schema, "")


def _found(value: JSONValue, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    if value is None and schema.get("nullable"):
        return
    kind = str(schema.get("type") or "")
    if schema.get(_INT_OR_STRING):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield _mismatch(value, "integer,string", path)
            return
    elif kind and not _is(value, kind):
        yield _mismatch(value, kind, path)
        return
    yield from _values(value, schema, path)
    yield from _combined(value, schema, path)
    if isinstance(value, dict):
        yield from _fields(value, schema, path)
    elif isinstance(value, list):
        yield from _items(value, schema, path)


def _is(value: JSONValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, int | float):
        return float(value).is_integer() and _MIN_INT64 <= value <= _MAX_INT64
    return isinstance(value, _TYPES.get(kind, (object,)))


def _mismatch(value: JSONValue, wanted: str, path: str) -> SchemaCause:
    names = {bool: "boolean", str: "string", int: "integer", float: "number"}
    names |= {dict: "object", list: "array", type(None): "null"}
    found = names[type(value)]
    if found == "integer" and not _is(value, "integer"):
        found = "number"  # it does not fit into 64 bits
    sentence = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return "FieldValueTypeInvalid", path, sentence


def _values(value: JSONValue, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    allowed = schema.get("enum")
    if allowed is not None and value not in allowed:
        supported = ", ".join(map(_text, sorted(allowed, key=str)))
        sentence = f"Unsupported value: {_text(value)}: supported values: {supported}"
        yield "FieldValueNotSupported", path, sentence
    if isinstance(value, str):
        yield from _texts(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _numbers(value, schema, path)
    elif isinstance(value, (list, dict)):
        yield from _sizes(value, schema, path)


def _texts(value: str, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    if len(value) < schema.get("minLength", 0):
        limit = f"should be at least {schema['minLength']} chars long"
        yield _invalid(value, path, limit)
    if len(value) > schema.get("maxLength", len(value)):
        sentence = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield "FieldValueTooLong", path, sentence
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, value):
        yield _invalid(value, path, f"should match '{pattern}'")
    form = str(schema.get("format") or "")
    if form in FORMATS and not FORMATS[form](value):
        yield _invalid(value, path, f"must be of type {form}: {_text(value)}")


def _matches(pattern: str, value: str) -> bool:
    compiled = re2_compiled(pattern)
    return compiled is None or compiled.search(value) is not None


def _numbers(value: float, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    least, most = (_bound(schema.get(word), value) for word in ("minimum", "maximum"))
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _invalid(value, path, f"should be {words} {least}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _invalid(value, path, f"should be {words} {most}")
    if schema.get("format") == "int32" and not -(1 << 31) <= value < 1 << 31:
        yield _invalid(value, path, "must be an int32")
    step = schema.get("multipleOf")
    if step and not _is_multiple(value, step):
        yield _invalid(value, path, f"should be a multiple of {step}")


def _bound(bound: float | None, value: float) -> float | None:
    """Return a bound as Go compares a number with it; it cuts the bound of an integer."""
    if bound is None or not isinstance(value, int):
        return bound
    return int(bound) if _MIN_INT64 <= bound <= _MAX_INT64 else _MIN_INT64


def _is_multiple(value: float, step: float) -> bool:
    """Return whether Go takes a number for a multiple; it cuts the step of an integer."""
    if isinstance(value, int):
        return step >= 1 and value % int(step) == 0
    times = value / step if step >= 1 else 1 / step * value
    if not abs(times) <= _MAX_JSON_INTEGER:
        return False
    return abs(times - round(times)) <= _ROUNDING * abs(round(times))


def _sizes(
    value: list[JSONValue] | JSONObject, schema: JSONObject, path: str
) -> Iterator[SchemaCause]:
    word, noun = ("Items", "items") if isinstance(value, list) else ("Properties", "properties")
    least, most = schema.get(f"min{word}", 0), schema.get(f"max{word}", len(value))
    if len(value) < least:
        yield _invalid(len(value), path, f"should have at least {least} {noun}")
    if len(value) > most:
        sentence = f"Too many: {len(value)}: must have at most {most} {noun}"
        yield "FieldValueTooMany", path, sentence


def _combined(value: JSONValue, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    for one in schema.get("allOf") or ():
        yield from _found(value, one, path)
    if not schema.get(_INT_OR_STRING):  # its choices are integer and string
        if schema.get("anyOf") and not _fitting(value, schema["anyOf"], path):
            yield _combination(path, "must validate at least one schema (anyOf)")
        if schema.get("oneOf") and _fitting(value, schema["oneOf"], path) != 1:
            yield _combination(path, "must validate one and only one schema (oneOf)")
    forbidden = schema.get("not")
    if forbidden and not any(_found(value, forbidden, path)):
        yield _combination(path, "must not validate the schema (not)")


def _fitting(value: JSONValue, choices: list[JSONObject], path: str) -> int:
    return sum(not any(_found(value, one, path)) for one in choices)


def _fields(value: JSONObject, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    for name in schema.get("required") or ():
        if name not in value and (path or name not in _IDENTITY):
            yield "FieldValueRequired", _below(path, name), "Required value"
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, below in value.items():
        known = properties.get(name, others)
        if isinstance(known, dict):
            yield from _found(below, known, _below(path, name))


def _items(value: list[JSONValue], schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    items = schema.get("items")
    if isinstance(items, dict):
        for number, one in enumerate(value):
            yield from _found(one, items, f"{path}[{number}]")
    yield from _duplicates(value, schema, path)


def _duplicates(value: list[JSONValue], schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    seen: set[bytes] = set()
    for number, one in enumerate(value):
        identity = one if kind == "set" else _key_values(one, keys)
        text = msgspec.json.encode(identity, order="sorted")
        if text in seen:
            yield "FieldValueDuplicate", f"{path}[{number}]", f"Duplicate value: {text.decode()}"
        seen.add(text)


def _key_values(item: JSONValue, keys: tuple[str, ...]) -> JSONValue:
    return [item.get(key) for key in keys] if isinstance(item, dict) else item


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _invalid(value: JSONValue, path: str, why: str) -> SchemaCause:
    return _INVALID, path, f"Invalid value: {_text(value)}: {path} in body {why}"


def _combination(path: str, why: str) -> SchemaCause:
    return _INVALID, "<nil>", f'Invalid value: "": "{path}" {why}'


def _text(value: JSONValue) -> str:
    return msgspec.json.encode(value).decode()
