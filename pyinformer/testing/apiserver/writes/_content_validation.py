"""Validation of what some built-in kinds contain, as far as controllers get it wrong.

Source:
    pkg/apis/core/validation/validation.go and events.go; pkg/apis/coordination/validation.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pyinformer.apimachinery import JSONObject
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import go_json

_Causes: TypeAlias = list[tuple[str, str, str]]
_IMMUTABLE: Final = "Forbidden: field is immutable when `immutable` is set"
_FROZEN: Final = {"configmaps": ("data", "binaryData"), "secrets": ("data",)}


def check_content(resource: ResourceType, before: JSONObject, after: JSONObject) -> None:
    """Refuse an object whose content its kind does not allow.

    Args:
        resource: its resource.
        before: the stored object; empty for a new one.
        after: the object.

    Raises:
        Failure: 422, with one cause per finding.
    """
    causes: _Causes = []
    if before and resource.qualified_name in _FROZEN:
        causes += _immutable(_FROZEN[resource.qualified_name], before, after)
    if before and resource.qualified_name == "secrets" and after.get("type") != before.get("type"):
        shown = go_json(after.get("type")).decode()
        causes.append(("FieldValueInvalid", "type", f"Invalid value: {shown}: field is immutable"))
    if causes:
        name = str(after["metadata"].get("name") or "")
        raise failures.invalid(resource.kind, resource.group, name, causes)


def _immutable(names: tuple[str, ...], before: JSONObject, after: JSONObject) -> _Causes:
    """Return what an update changes of an immutable ConfigMap or Secret."""
    if not before.get("immutable"):
        return []
    changed = [name for name in names if (after.get(name) or {}) != (before.get(name) or {})]
    released = [] if after.get("immutable") else ["immutable"]
    return [("FieldValueForbidden", name, _IMMUTABLE) for name in (*released, *changed)]
