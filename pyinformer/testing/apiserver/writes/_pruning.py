"""Pruning: fields that the type of an object does not have are dropped without an error.

A built-in type drops null fields, and one without a status drops the status; its other fields are
not checked. A custom resource keeps the fields of its structural schema, or all fields if it has no
schema.

Source:
    apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go.
"""

from __future__ import annotations

from typing import Final

from pyinformer.apimachinery import JSONObject, JSONValue
from pyinformer.testing.apiserver.resources import BUILT_IN, ResourceType

_WITHOUT_STATUS: Final = frozenset(
    one.qualified_name for one in BUILT_IN if not (one.has_status or one.is_virtual)
)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")  # kept in every object, with any schema
_KEEPS_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
_HOLDS_OBJECT: Final = "x-kubernetes-embedded-resource"


def pruned(resource: ResourceType, body: JSONObject) -> JSONObject:
    """Return a copy of an object without the fields that its type does not have."""
    if resource.schema:
        return _map(body, resource.schema) | _identity_of(body)
    if resource.list_shape != "built-in":
        return body
    dropped = "status" if resource.qualified_name in _WITHOUT_STATUS else ""
    # Go's types do not distinguish a null field from an absent one.
    return {name: value for name, value in body.items() if value is not None and name != dropped}


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
