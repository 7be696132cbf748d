"""The scale subresource: the number of replicas of any resource that has one.

It converts a stored object to its Scale, and a written Scale to the edit of the object, with the
preconditions of the object itself. Nothing is stored here.
"""

from __future__ import annotations

from typing import Final

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.patches import Edit
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType, ScalePaths
from pyinformer.testing.apiserver.storage import make_record
from pyinformer.testing.apiserver.writes import _apply_rules, _registry_strategy

_SCALE: Final = ResourceType("autoscaling", "v1", "Scale", "scales")
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_OPERATORS: Final = {"In": "in", "NotIn": "notin"}


def scale_of(
    resource: ResourceType, body: JSONObject, *, may_lack_number: bool = False
) -> JSONObject:
    """Return the Scale of a stored object.

    Args:
        resource: its resource.
        body: the object.
        may_lack_number: whether a custom object without the number has none, as for a write.

    Raises:
        Failure: the resource has no scale (404), or a custom object lacks the number (500).
    """
    paths = _paths(resource)
    metadata = body["metadata"]
    wanted = _at(body, paths.spec)
    if wanted is None and resource.list_shape == "custom" and not may_lack_number:
        where = "." + ".".join(paths.spec)
        message = f'Internal error occurred: the spec replicas field "{where}" does not exist'
        raise Failure(500, message, details={"causes": [{"message": message[25:]}]})
    number = paths.default if wanted is None else wanted
    status: JSONObject = {"replicas": _at(body, paths.status) or 0}
    selector = _selector(_at(body, paths.selector)) if paths.selector else ""
    return {
        "kind": _SCALE.kind,
        "apiVersion": _SCALE.api_version,
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
        "spec": {"replicas": number} if number else {},
        "status": {**status, "selector": selector} if selector else status,
    }


def replace_scale(resource: ResourceType, name: str, scale: JSONObject) -> Edit:
    """Return the edit of an object for a client that replaces its Scale."""

    def edit(body: JSONObject) -> JSONObject:
        namespace = str(body["metadata"].get("namespace", ""))
        placed = {**scale, "metadata": {**(scale.get("metadata") or {})}}
        if not namespace:
            placed["metadata"].pop("namespace", None)
        metadata = _registry_strategy.identity(_SCALE, namespace, placed)
        _registry_strategy.check_named(metadata, name)
        _registry_strategy.check_name(metadata, name)
        _registry_strategy.check_update(resource, make_record(resource, body), metadata)
        path, number = _paths(resource).spec, _number(resource, name, scale)
        if not number and resource.list_shape == "custom" and _at(body, path) is None:
            where = "." + ".".join(path)
            raise Failure(400, f'the spec replicas field "{where}" cannot be empty')
        return _with(body, path, number)

    return edit


def patch_scale(resource: ResourceType, name: str, change: Edit) -> Edit:
    """Return the edit of an object for a client that patches its Scale."""

    def edit(body: JSONObject) -> JSONObject:
        scale = scale_of(resource, body, may_lack_number=True)
        return replace_scale(resource, name, change(scale))(body)

    return edit


def applied_scale(
    resource: ResourceType, namespace: str, name: str, wanted: JSONObject
) -> JSONObject:
    """Return the configuration of an object that sets what an applied Scale sets.

    Raises:
        Failure: it does not fit (400), or the object is a custom resource (500).
    """
    if resource.list_shape == "custom":
        message = (
            "failed to create manager for existing fields: failed to convert live object (/;"
            f" {_SCALE.api_version}, Kind={_SCALE.kind}) to proper version: request to convert CR"
            f" to an invalid group/version: {_SCALE.api_version}"
        )
        raise Failure(500, message, reason="")
    metadata = _apply_rules.check_configuration(_SCALE, namespace, name, wanted)
    identity = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
    }
    if (wanted.get("spec") or {}).get("replicas") is None:
        return identity
    return _with(identity, _paths(resource).spec, _number(resource, name, wanted))


def _paths(resource: ResourceType) -> ScalePaths:
    if resource.scale is None:
        raise failures.no_such_resource()
    return resource.scale


def _number(resource: ResourceType, name: str, scale: JSONObject) -> int:
    wanted: JSONValue = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(wanted, int):
        message = f'Scale in version "v1" cannot be handled as a Scale: {wanted!r} is not a number'
        raise Failure(400, message)
    if wanted >= 0:
        return wanted
    if resource.list_shape == "custom":
        path, who = "." + ".".join(_paths(resource).spec), resource
        sentence = f"Invalid value: {wanted}: should be a non-negative integer"
    else:
        path, who = "spec.replicas", _SCALE
        sentence = f"Invalid value: {wanted}: must be greater than or equal to 0"
    raise failures.invalid(who.kind, who.group, name, [("FieldValueInvalid", path, sentence)])


def _at(body: JSONValue, path: tuple[str, ...]) -> JSONValue:
    for part in path:
        body = body.get(part) if isinstance(body, dict) else None
    return body


def _with(body: JSONObject, path: tuple[str, ...], value: JSONValue) -> JSONObject:
    first, *rest = path
    if not rest:
        return {**body, first: value}
    return {**body, first: _with(body.get(first) or {}, tuple(rest), value)}


def _selector(found: JSONValue) -> str:
    """Return a selector as text; it may be text, a map, or labels and expressions."""
    if not isinstance(found, dict):
        return str(found or "")
    labels = found.get("matchLabels") or ({} if "matchExpressions" in found else found)
    said = {str(key): f"{key}={value}" for key, value in labels.items()}
    for one in found.get("matchExpressions") or ():
        key, operator = str(one.get("key")), one.get("operator")
        if operator in _OPERATORS:
            values = ",".join(sorted(map(str, one.get("values") or ())))
            said[key] = f"{key} {_OPERATORS[operator]} ({values})"
        else:
            said[key] = key if operator == "Exists" else f"!{key}"
    return ",".join(said[key] for key in sorted(said))
