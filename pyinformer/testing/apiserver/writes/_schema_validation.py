"""Validation of custom resources by the schema of their definition.

An update may keep what was invalid before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pyinformer.objects import JSONObject, JSONValue, SchemaCause, schema_causes
from pyinformer.testing.apiserver.admission import rule_causes
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType

_IDENTITY: Final = ("apiVersion", "kind", "metadata")


def check_object(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Refuse an object that its schema does not allow, as far as it was allowed before.

    Raises:
        Failure: 422, with one cause per finding.
    """
    if resource.list_shape != "custom" or not resource.schema:
        return
    causes = list(_causes(resource, after, resource.schema))
    if causes and before:
        old = set(_causes(resource, before, resource.schema))
        causes = [cause for cause in causes if cause not in old]
    if not causes:  # rules are for objects whose fields are of their types
        causes = list(rule_causes(after, before or None, resource.schema))
    if causes:
        name = str(after["metadata"].get("name") or "")
        raise failures.invalid(resource.kind, resource.group, name, causes)


def _causes(resource: ResourceType, body: JSONObject, schema: JSONObject) -> Iterator[SchemaCause]:
    content = {name: value for name, value in body.items() if name not in _IDENTITY}
    yield from schema_causes(content, schema)
    yield from _scale(resource, body)


def _scale(resource: ResourceType, body: JSONObject) -> Iterator[SchemaCause]:
    """Yield what is wrong with the number of replicas of a resource with a scale."""
    value: JSONValue = body
    for part in resource.scale.spec if resource.scale is not None else ():
        if not isinstance(value, dict) or part not in value:
            return
        value = value[part]
    if resource.scale is not None and (type(value) is not int or value < 0):
        path = "." + ".".join(resource.scale.spec)
        text = msgspec.json.encode(value).decode()
        reason = f"Invalid value: {text}: should be a non-negative integer"
        yield "FieldValueInvalid", path, reason
