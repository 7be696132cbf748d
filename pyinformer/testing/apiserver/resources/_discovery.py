"""Discovery: version, health, groups and resources.

Each answer is built from the resources served at that moment, so changed definitions show at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources._openapi_stub import openapi_v3
from pyinformer.testing.apiserver.resources._resource_types import ResourceType

_HEALTH: Final = ("readyz", "livez", "healthz")
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_CUSTOM_VERBS: Final = [*_VERBS[1:6], "create", *_VERBS[6:]]  # in the order of the real server
_TERMINATING_VERBS: Final = ["delete", "deletecollection", "get", "list", "watch"]
_SUBRESOURCE_VERBS: Final = {
    "binding": ["create"],
    "eviction": ["create"],
    "exec": ["create", "get"],
    "finalize": ["update"],
    "log": ["get"],
    "token": ["create"],
}
_SUBRESOURCE_KINDS: Final = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "", "PodExecOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_VERSION_FORM: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_MATURITY: Final = {None: 2, "beta": 1, "alpha": 0}

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
        resources: the served resources.

    Returns:
        A JSON object, a plain text, or None if there is nothing at this path.
    """
    match tuple(parts):
        case (health,) if health in _HEALTH:
            return "ok"
        case ("version",):
            return VERSION
        case ("",):
            return {"paths": _paths(resources)}
        case ("openapi", "v3", *rest):
            return openapi_v3(rest, resources)
        case ("api",):
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ("apis",):
            listed = [_group(group, resources) for group in groups_of(resources) if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ("api", version):
            return _resource_list("", version, resources)
        case ("apis", group) if any(resource.group == group for resource in resources):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, resources)}
        case ("apis", group, version):
            return _resource_list(group, version, resources)
    return None


def groups_of(resources: Sequence[ResourceType]) -> list[str]:
    """Return the served groups, each once."""
    return list(dict.fromkeys(resource.group for resource in resources))


def versions_of(group: str, resources: Sequence[ResourceType]) -> list[str]:
    """Return the versions of a group, the preferred one first: v2, v1, v1beta1, v1alpha1."""
    found = dict.fromkeys(resource.version for resource in resources if resource.group == group)
    return sorted(found, key=_priority, reverse=True)


def verbs_of(resource: ResourceType) -> list[str]:
    """Return the verbs of a resource, in the order of the real server."""
    if resource.is_virtual:
        return ["create"]
    if resource.qualified_name == "namespaces":
        return [verb for verb in _VERBS if verb != "deletecollection"]
    if resource.is_terminating:
        return _TERMINATING_VERBS
    return _CUSTOM_VERBS if resource.list_shape == "custom" else _VERBS


def subresource_kind(resource: ResourceType, subresource: str) -> tuple[str, str, str]:
    """Return group, version and kind of a subresource; "" stands for those of the resource."""
    return _SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))


def subresource_verbs(subresource: str) -> list[str]:
    """Return the verbs of a subresource."""
    return _SUBRESOURCE_VERBS.get(subresource, ["get", "patch", "update"])


def _priority(version: str) -> tuple[int, int, int]:
    found = _VERSION_FORM.fullmatch(version)
    if found is None:
        return (-1, 0, 0)
    number, stage, step = found.groups()
    return (_MATURITY[stage], int(number), int(step or 0))


def _paths(resources: Sequence[ResourceType]) -> list[str]:
    places = {f"/apis/{one.api_version}" if one.group else "/api/v1" for one in resources}
    groups = {f"/apis/{group}" for group in groups_of(resources) if group}
    health = {f"/{name}" for name in _HEALTH}
    return sorted(
        {"/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"} | places | groups | health
    )


def _group(group: str, resources: Sequence[ResourceType]) -> JSONObject:
    listed = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in versions_of(group, resources)
    ]
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
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs_of(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_subresource(resource, name) for name in resource.subresources)]


def _subresource(resource: ResourceType, name: str) -> JSONObject:
    group, version, kind = subresource_kind(resource, name)
    entry: JSONObject = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if group:
        entry |= {"group": group, "version": version}
    return {**entry, "kind": kind, "verbs": subresource_verbs(name)}
