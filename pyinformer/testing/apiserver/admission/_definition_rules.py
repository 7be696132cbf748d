"""The rules in CEL of a custom resource's schema: `x-kubernetes-validations`.

A rule about `oldSelf` is for updates only, and where the old value can be found: in fields, maps,
and lists with keys. An update may keep what broke a rule before.

Source:
    apiextensions-apiserver pkg/apiserver/schema/cel/validation.go and celcoststability.go;
    pkg/apiserver/schema/cel/model/types.go, Escape.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final

import msgspec

from pyinformer.objects import JSONObject, JSONValue, SchemaCause
from pyinformer.testing.apiserver.admission._expressions import (
    EvaluationError,
    evaluate,
    message_of,
    reads,
)
from pyinformer.testing.apiserver.storage import is_same_json

_ABSENT: Final = object()
_RULES: Final = "x-kubernetes-validations"
_METADATA: Final[JSONObject] = {"name": {}, "generateName": {}}
_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return"),
        *("var", "void", "while"),
    )
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[./-]")


def rule_causes(
    body: JSONObject, before: JSONObject | None, schema: JSONObject
) -> Iterator[SchemaCause]:
    """Yield the rules of a schema that an object breaks.

    Args:
        body: the object.
        before: the object before an update; None if it is new.
        schema: of the resource.

    Raises:
        Failure: only a real server can evaluate a rule (501).
    """
    fields = schema.get("properties") or {}
    declared = (fields.get("metadata") or {}).get("properties") or {}
    metadata = {"properties": {**_METADATA, **declared}}
    root = {**schema, "properties": {**fields, "metadata": metadata}}
    return _found(body, _ABSENT if before is None else before, root, "")


def _found(value: JSONValue, old: object, schema: JSONObject, path: str) -> Iterator[SchemaCause]:
    if value is None:
        return
    for rule in schema.get(_RULES) or ():
        yield from _broken(rule, value, old, schema, path)
    if isinstance(value, dict):
        properties, others = _fields(schema)
        for name, one in value.items():
            below = properties.get(name, others)
            if below:
                before = old.get(name, _ABSENT) if isinstance(old, dict) else _ABSENT
                place = f"{path}.{name}" if name in properties else f"{path}[{name}]"
                yield from _found(one, before, below, place.removeprefix("."))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        is_kept = old is not _ABSENT and is_same_json(old, value)
        for number, one in enumerate(value):
            before = one if is_kept else _same_item(one, old, schema)
            yield from _found(one, before, schema["items"], f"{path}[{number}]")


def _same_item(item: JSONValue, old: object, schema: JSONObject) -> object:
    """Return the item of a list before, which only lists with keys can show."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return _ABSENT
    sought = _identity(item, schema)
    return next((one for one in old if _identity(one, schema) == sought), _ABSENT)


def _broken(
    rule: JSONObject, value: JSONValue, old: object, schema: JSONObject, path: str
) -> Iterator[SchemaCause]:
    expression = str(rule["rule"])
    known: dict[str, object] = {"self": _typed(value, schema)}
    if reads(expression, "oldSelf"):
        is_optional = rule.get("optionalOldSelf") is True
        if old is _ABSENT and not is_optional:
            return
        before = _ABSENT if old is _ABSENT else _typed(_aligned(old, value, schema), schema)
        known["oldSelf"] = _optional(before) if is_optional else before
    elif old is not _ABSENT and is_same_json(old, value):
        return
    where = f"{path}{rule.get('fieldPath') or ''}".removeprefix(".")
    reason = str(rule.get("reason") or "FieldValueInvalid")
    try:
        if evaluate(expression, known) is True:
            return
        why = message_of(rule, known) or f"failed rule: {expression}"
        sentence = _sentence(reason, value, why)
    except EvaluationError as error:
        kind = msgspec.json.encode(schema.get("type") or "").decode()
        shown = rule.get("message") or expression
        sentence = f"Invalid value: {kind}: {error} evaluating rule: {shown}"
        reason, where = "FieldValueInvalid", path
    yield reason, where or "<nil>", sentence


def _sentence(reason: str, value: JSONValue, why: str) -> str:
    is_plain = not isinstance(value, dict | list)
    shown = f": {msgspec.json.encode(value).decode()}" if is_plain else ""
    match reason:
        case "FieldValueForbidden":
            return f"Forbidden: {why}"
        case "FieldValueRequired":
            return f"Required value: {why}"
        case "FieldValueDuplicate":
            return f"Duplicate value{shown}"
        case _:
            return f"Invalid value{shown}: {why}"


def _optional(value: object) -> object:
    import cel

    return cel.OptionalValue.none() if value is _ABSENT else cel.OptionalValue.of(value)


def _aligned(old: object, new: object, schema: JSONObject) -> object:
    """Return an old value with the order of the new one in lists whose order means nothing.

    Such lists are equal in CEL in any order.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        properties, below = _fields(schema)
        return {
            name: _aligned(one, new.get(name), properties.get(name, below))
            for name, one in old.items()
        }
    items = schema.get("items")
    if not isinstance(old, list) or not isinstance(new, list) or not isinstance(items, dict):
        return old
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        places = {_identity(one, schema): place for place, one in enumerate(new)}
        last = len(new)
        old = sorted(old, key=lambda one: places.get(_identity(one, schema), last))
    return [_aligned(one, other, items) for one, other in zip_longest(old, new[: len(old)])]


def _fields(schema: JSONObject) -> tuple[JSONObject, JSONObject]:
    """Return the schemas of known fields, and the one of all further fields."""
    others = schema.get("additionalProperties")
    return schema.get("properties") or {}, others if isinstance(others, dict) else {}


def _identity(item: JSONValue, schema: JSONObject) -> bytes:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    found = [item.get(key) for key in keys] if isinstance(item, dict) and keys else item
    return msgspec.json.encode(found, order="deterministic")


def _typed(value: object, schema: JSONObject) -> object:
    """Return a value as CEL sees it by the schema: a field that is null is absent."""
    if isinstance(value, dict):
        properties, below = _fields(schema)
        typed: JSONObject = {}
        for name, one in value.items():
            if name not in properties:
                typed[name] = _typed(one, below)
            elif one is not None:
                typed |= dict.fromkeys((name, _escaped(name)), _typed(one, properties[name]))
        return typed
    if isinstance(value, list):
        items = schema.get("items")
        return [_typed(one, items if isinstance(items, dict) else {}) for one in value]
    if schema.get("type") == "number" and type(value) is int:
        return float(value)
    return _of_format(value, str(schema.get("format") or "")) if isinstance(value, str) else value


def _of_format(text: str, form: str) -> object:
    try:
        if form in ("date", "date-time"):
            found = datetime.fromisoformat(text)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if form == "byte":
            return base64.b64decode(text, validate=True)
        if form == "duration":
            return evaluate("duration(text)", {"text": text})
    except (ValueError, binascii.Error, EvaluationError):
        pass  # the schema itself refuses it
    return text


def _escaped(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)
