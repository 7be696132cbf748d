"""What a server says about itself: version, health, groups and resources.

What enters is the path of a request outside the resource API, what leaves is an answer or None.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyinformer.apimachinery import JSONObject
from pyinformer.testing._resources import ResourceType

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_HEALTH = ("readyz", "livez", "healthz")

VERSION: JSONObject = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+pyinformer",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "CPython",
    "platform": "embedded",
}


def discover(parts: Sequence[str], resources: Sequence[ResourceType]) -> JSONObject | str | None:
    """Answer a path outside the resource API.

    Args:
        parts: the path's parts.
        resources: what is served.

    Returns:
        A JSON object, a plain text, or None if there is nothing at this path.
    """
    match tuple(parts):
        case (health,) if health in _HEALTH:
            return "ok"
        case ("version",):
            return VERSION
        case ("api",):
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ("apis",):
            groups = dict.fromkeys(resource.group for resource in resources if resource.group)
            listed = [_group(group, resources) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ("api", version):
            return _resource_list("", version, resources)
        case ("apis", group) if any(resource.group == group for resource in resources):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, resources)}
        case ("apis", group, version):
            return _resource_list(group, version, resources)
    return None


def _group(group: str, resources: Sequence[ResourceType]) -> JSONObject:
    versions = dict.fromkeys(resource.version for resource in resources if resource.group == group)
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(
    group: str, version: str, resources: Sequence[ResourceType]
) -> JSONObject | None:
    chosen = [
        resource
        for resource in resources
        if resource.group == group and resource.version == version
    ]
    if not chosen:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": chosen[0].api_version,
        "resources": [entry for resource in chosen for entry in _entries(resource)],
    }


def _entries(resource: ResourceType) -> list[JSONObject]:
    entry: JSONObject = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if not resource.has_status:
        return [entry]
    status = {"name": f"{resource.plural}/status", "singularName": "", "verbs": _STATUS_VERBS}
    return [entry, {**entry, **status}]
