"""Pruning and defaulting: what the server drops from an object, and what it adds to it.

A built-in type drops null fields, and one without a status drops the status; its other fields are
not changed here. A custom resource keeps the fields of its structural schema, or all fields if it
has no schema, and gets the defaults of the schema.

Source:
    apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go and
    pkg/apiserver/schema/defaulting/algorithm.go.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.resources import BUILT_IN, ResourceType

_WITHOUT_STATUS: Final = frozenset(
    one.qualified_name for one in BUILT_IN if not (one.has_status or one.is_virtual)
)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")  # kept in every object, with any schema
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_HOLDS_OBJECT: Final = "x-kubernetes-embedded-resource"


def pruned(resource: ResourceType, body: JSONObject) -> JSONObject:
    """Return a copy of an object without the fields that its type does not have.

    Custom resources get their defaults.
    """
    if resource.schema:
        return _defaulted_map(_map(body, resource.schema), resource.schema) | _identity_of(body)
    if resource.list_shape != "built-in":
        return body
    dropped = "status" if resource.qualified_name in _WITHOUT_STATUS else ""
    # Go's types do not distinguish a null field from an absent one.
    return {name: value for name, value in body.items() if value is not None and name != dropped}


def without_nulls(resource: ResourceType, body: JSONObject) -> JSONObject:
    """Return a copy of a custom resource without the nulls that its schema does not allow.

    A client that creates, replaces or patches may send them; one that applies may not.
    """
    if resource.list_shape != "custom" or not resource.schema:
        return body
    return _map_without_nulls(body, resource.schema) | _identity_of(body)


def _without_nulls(value: JSONValue, schema: JSONObject) -> JSONValue:
    if isinstance(value, list):
        return [_without_nulls(one, _items_of(schema)) for one in value]
    return _map_without_nulls(value, schema) if isinstance(value, dict) else value


def _map_without_nulls(value: JSONObject, schema: JSONObject) -> JSONObject:
    found: JSONObject = {}
    for name, below in value.items():
        known = _field_of(schema, name)
        if below is not None or known is None or known.get("nullable") or _is_open(known):
            found[name] = _without_nulls(below, known or {})
    return found


def _field_of(schema: JSONObject, name: str) -> JSONObject | None:
    known = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return known if isinstance(known, dict) else None


def _items_of(schema: JSONObject) -> JSONObject:
    items = schema.get("items")
    return items if isinstance(items, dict) else {}


def _is_open(schema: JSONObject) -> bool:
    """Return whether a place may have any value: no type, and unknown fields are kept."""
    return bool(schema.get(_KEEPS_UNKNOWN)) and not schema.get("type")


def _defaulted_map(value: JSONObject, schema: JSONObject) -> JSONObject:
    found = dict(value)
    for name, known in (schema.get("properties") or {}).items():
        is_missing = name not in found or (found[name] is None and not known.get("nullable"))
        if is_missing and "default" in known:
            found[name] = deepcopy(known["default"])
    for name, below in found.items():
        known = _field_of(schema, name)
        if known is not None:
            found[name] = _defaulted(below, known)
    return found


def _defaulted(value: JSONValue, schema: JSONObject) -> JSONValue:
    if isinstance(value, list):
        return [_defaulted(one, _items_of(schema)) for one in value]
    return _defaulted_map(value, schema) if isinstance(value, dict) else value


def _identity_of(body: JSONObject) -> JSONObject:
    return {name: body[name] for name in _IDENTITY if name in body}


def _value(value: JSONValue, schema: JSONObject) -> JSONValue:
    if isinstance(value, dict):
        found = _map(value, schema)
        if schema.get(_HOLDS_OBJECT):
            found |= _identity_of(value)
        return found
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [_value(one, items) for one in value]
    return value


def _map(value: JSONObject, schema: JSONObject) -> JSONObject:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    keeps_others = bool(schema.get(_KEEPS_UNKNOWN)) or others is True
    found: JSONObject = {}
    for name, below in value.items():
        known = properties.get(name, others)
        if isinstance(known, dict):
            found[name] = _value(below, known)
        elif keeps_others:
            found[name] = below
    return found
