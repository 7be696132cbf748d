"""The rules of server-side apply: which configurations are refused, and what they may claim.

Nothing is stored here, and no argument is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pyinformer.objects import JSONObject, JSONValue, decoder_of, split_api_version
from pyinformer.testing.apiserver.managed_fields import field_managers, field_sets, structure
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import (
    BuiltInShape,
    ResourceType,
    Shape,
    metadata_schema,
)
from pyinformer.testing.apiserver.storage import go_json
from pyinformer.testing.apiserver.writes._registry_strategy import (
    STATUS_KEEPS,
    check_name,
    check_named,
    identity,
    keeps_metadata,
    without_status,
)

KUBECTL: Final = "kubectl"
"""The field manager of `kubectl apply --server-side`."""

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_decode: Final = decoder_of(JSONObject)
_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_JSON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}
_WORDS: Final = {
    "object": "map",
    "array": "list",
    "string": "string",
    "integer": "numeric (int or float)",
    "number": "numeric (int or float)",
    "boolean": "boolean",
}
_GO_NAMES: Final = {str: "string", bool: "bool", list: "[]interface {}"}


def check_configuration(
    resource: ResourceType, namespace: str, name: str, wanted: JSONObject
) -> JSONObject:
    """Refuse a configuration that its type does not have, or of another name; return its metadata.

    Raises:
        Failure: 400, or 500 for undeclared fields.
    """
    kind, api_version = str(wanted.get("kind", "")), str(wanted.get("apiVersion", ""))
    if (kind, api_version) != (resource.kind, resource.api_version):
        group, version = split_api_version(api_version)
        raise Failure(400, f"invalid object type: {group}/{version}, Kind={kind}")
    _check_declared(resource, name, wanted)
    metadata = identity(resource, namespace, wanted)
    check_named(metadata, name)
    check_name(metadata, name)
    if metadata.get("managedFields") is not None:
        raise Failure(400, "metadata.managedFields must be nil")
    names = ("name", "namespace", "uid", "resourceVersion")
    return {name: metadata[name] for name in names if metadata.get(name)}


def left_by_client_side_apply(
    resource: ResourceType, before: JSONObject, conflicts: Sequence[field_managers.Conflict]
) -> tuple[field_managers.Conflict, ...]:
    """Return the conflicts that remain for kubectl after client-side applies.

    What the last one has set, and no writer has changed since, kubectl may take from its owners.

    Source:
        k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go.
    """
    last = _last_applied(before)
    if last is None or last.get("apiVersion") != resource.api_version:
        return tuple(conflicts)
    content = field_managers.content({**last, "metadata": last.get("metadata") or {}})
    changes = structure.compare(content, field_managers.content(before), resource.shape)
    own = structure.fields_of(content, resource.shape) - changes.written - changes.removed
    return tuple(one for one in conflicts if one.path not in own)


def with_last_applied(after: JSONObject, wanted: JSONObject) -> JSONObject:
    """Return an object whose annotation for client-side applies is current, if it has one."""
    if _last_applied(after) is None:
        return after
    metadata = dict(wanted.get("metadata") or {})
    others = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        if name != _LAST_APPLIED
    }
    if others:
        metadata["annotations"] = others
    text = go_json({**wanted, "metadata": metadata}).decode() + "\n"
    annotations = {**after["metadata"]["annotations"], _LAST_APPLIED: text}
    return {**after, "metadata": {**after["metadata"], "annotations": annotations}}


def _last_applied(body: JSONObject) -> JSONObject | None:
    text = (body["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        return _decode(text or "")
    except msgspec.DecodeError:
        return None


def check_new_uid(resource: ResourceType, name: str, metadata: JSONObject) -> None:
    """Refuse to create an object from a configuration that names a uid."""
    uid = metadata.get("uid")
    if uid:
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was"
            " found"
        )
        raise failures.conflict(resource, name, why)


def claims(
    resource: ResourceType, wanted: JSONObject, subresource: str, *, whole: bool
) -> JSONObject:
    """Return the part of a configuration that may be applied here; null fields are ignored."""
    metadata = _without_nulls(wanted.get("metadata") or {})
    # The null of a custom resource is a value: it stays if its schema allows it, or is refused.
    kept = wanted if resource.list_shape == "custom" else _without_nulls(wanted)
    content = field_managers.content({**kept, "metadata": metadata})
    if subresource == "status":
        keeps = STATUS_KEEPS.get(resource.qualified_name, ())
        metadata = {k: v for k, v in content["metadata"].items() if k not in keeps}
        status = {name: value for name, value in content.items() if name == "status"}
        return {"metadata": {} if keeps_metadata(resource) else metadata, **status}
    return without_status(content) if resource.has_status and not whole else content


def stored(resource: ResourceType, content: JSONObject) -> JSONObject:
    """Return the content that an apply leaves, as its type stores it.

    Go's types do not distinguish a list or a map that has lost all its parts from an absent one.
    The null of a custom resource is a value, which its schema often refuses.
    """
    if resource.list_shape == "custom":
        return content
    return {
        name: structure.without_nulls(value, resource.shape.field(name))
        for name, value in content.items()
    }


def _check_declared(resource: ResourceType, name: str, wanted: JSONObject) -> None:
    """Refuse a configuration with fields that the schema lacks, or with values of other types.

    Raises:
        Failure: 500, without a reason.
    """
    if not resource.object_schema:
        return
    metadata = wanted.get("metadata")
    content = {key: value for key, value in wanted.items() if key not in _IDENTITY}
    found = [
        *_undeclared(metadata, metadata_schema(), BuiltInShape("", ("metadata",)), ".metadata"),
        *_undeclared(content, resource.object_schema, resource.shape, ""),
    ]
    if found:
        text = found[0] if len(found) == 1 else "\n  ".join(("errors:", *found))
        namespace = str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""
        raise Failure(500, f"{_untypable(resource, namespace, name)}: {text}", reason="")


def _untypable(resource: ResourceType, namespace: str, name: str) -> str:
    api_version = resource.api_version if resource.group else f"/{resource.version}"
    return (
        f"failed to create typed patch object ({namespace}/{name}; {api_version},"
        f" Kind={resource.kind})"
    )


def _undeclared(value: JSONValue, schema: JSONObject, shape: Shape, path: str) -> Iterator[str]:
    """Yield what is wrong with the fields of a value, as upstream's typed values name it."""
    kind = str(schema.get("type") or "")
    if value is None or not kind:
        return
    if not isinstance(value, _JSON_TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path}: expected {_WORDS[kind]}, got {_go_text(value, kind)}"
    elif isinstance(value, dict):
        others = schema.get("additionalProperties")
        keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or others is True
        for name, below in sorted(value.items()):
            known = (schema.get("properties") or {}).get(name, others)
            if isinstance(known, dict):
                yield from _undeclared(below, known, shape.field(name), f"{path}.{name}")
            elif not keeps and not (
                schema.get("x-kubernetes-embedded-resource") and name in _IDENTITY
            ):
                yield f"{path}.{name}: field not declared in schema"
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, one in enumerate(value):
            where = f"{path}{structure.item_text(one, shape, number)}"
            yield from _undeclared(one, schema["items"], shape.item(), where)


def _go_text(value: JSONValue, kind: str) -> str:
    if kind in ("integer", "number"):
        return _GO_NAMES.get(type(value), "map[string]interface {}")
    return f"&value.valueUnstructured{{Value:{value}}}"


def check_unambiguous(
    resource: ResourceType, name: str, namespace: str, content: JSONObject
) -> None:
    """Refuse a configuration with a keyed list whose items lack their keys or repeat them."""
    found = structure.ambiguity(content, resource.shape)
    if found is None:
        return
    path, element = field_sets.path_text(found[0]), found[1]
    if element is None and resource.list_shape != "custom":  # Go's type then has an empty key
        cause = ("FieldValueRequired", path.lstrip("."), "Required value: a key of the list")
        raise failures.invalid(resource.kind, resource.group, name, [cause])
    problem = "associative list with keys has an element that omits its key fields"
    if element is not None:
        problem = f"duplicate entries for key {field_sets.element_text(element)}"
    message = f"{_untypable(resource, namespace, name)}: {path}: {problem}"
    raise Failure(500, message, reason="")


def _without_nulls(body: JSONObject) -> JSONObject:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in body.items()
        if value is not None
    }
