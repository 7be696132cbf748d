"""The rules of server-side apply: which configurations are refused, and what they may claim.

Nothing is stored here, and no argument is changed.
"""

from __future__ import annotations

from pyinformer.apimachinery import JSONObject
from pyinformer.testing.apiserver.managed_fields import field_managers, field_sets, structure
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.writes._rules import (
    STATUS_KEEPS,
    check_name,
    check_named,
    identity,
    keeps_metadata,
    without_status,
)


def check_configuration(
    resource: ResourceType, namespace: str, name: str, wanted: JSONObject
) -> JSONObject:
    """Refuse a configuration with another name or with managedFields; return its metadata."""
    kind, api_version = str(wanted.get("kind", "")), str(wanted.get("apiVersion", ""))
    if (kind, api_version) != (resource.kind, resource.api_version):
        group, _, version = api_version.rpartition("/")
        raise Failure(400, f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = identity(resource, namespace, wanted)
    check_named(metadata, name)
    check_name(metadata, name)
    if metadata.get("managedFields") is not None:
        raise Failure(400, "metadata.managedFields must be nil")
    names = ("name", "namespace", "uid", "resourceVersion")
    return {name: metadata[name] for name in names if metadata.get(name)}


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
    content = field_managers.content(
        _without_nulls({**wanted, "metadata": wanted.get("metadata") or {}})
    )
    if subresource == "status":
        keeps = STATUS_KEEPS.get(resource.qualified_name, ())
        metadata = {k: v for k, v in content["metadata"].items() if k not in keeps}
        status = {name: value for name, value in content.items() if name == "status"}
        return {"metadata": {} if keeps_metadata(resource) else metadata, **status}
    return without_status(content) if resource.has_status and not whole else content


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
    api_version = resource.api_version if resource.group else f"/{resource.version}"
    message = (
        f"failed to create typed patch object ({namespace}/{name}; {api_version},"
        f" Kind={resource.kind}): {path}: {problem}"
    )
    raise Failure(500, message, reason="")


def _without_nulls(body: JSONObject) -> JSONObject:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in body.items()
        if value is not None
    }
