"""The discovery documents that clients read before they request objects.

One list of kinds stands behind all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from benchmarks.data.kinds import CONFIG_MAPS, LEASES, PODS, WIDGETS, Kind
from benchmarks.data.pod_parts import JSON

ENDPOINTS = Kind("v1", "endpoints", "Endpoints")
KINDS = (PODS, CONFIG_MAPS, ENDPOINTS, LEASES, WIDGETS)
_NAMESPACES: JSON = {  # kopf waits until it has found them; no peer requests one
    "name": "namespaces",
    "singularName": "namespace",
    "namespaced": False,
    "kind": "Namespace",
    "verbs": ["get", "list", "watch"],
}

_VERSION: Mapping[str, JSON] = {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}


def find_kind(root: str, resource: str) -> Kind | None:
    """Return the kind that is served below a root, such as `/api/v1`, under a name."""
    return next((k for k in KINDS if (k.root, k.resource) == (root, resource)), None)


def discover(path: str) -> bytes | None:
    """Return a document of discovery; None where there is none."""
    document = _documents().get(path.rstrip("/"))
    return None if document is None else json.dumps(document, separators=(",", ":")).encode()


def _documents() -> dict[str, Mapping[str, JSON]]:
    groups = [kind.api_version for kind in KINDS if "/" in kind.api_version]
    versions: list[JSON] = ["v1"]
    by_path: dict[str, Mapping[str, JSON]] = {
        "/version": _VERSION,
        "/api": {"kind": "APIVersions", "versions": versions},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(version) for version in groups],
        },
        "/api/v1": _resources("v1"),
    }
    for version in groups:
        by_path[f"/apis/{version.partition('/')[0]}"] = {
            "kind": "APIGroup",
            "apiVersion": "v1",
            **_group(version),
        }
        by_path[f"/apis/{version}"] = _resources(version)
    return by_path


def _group(group_version: str) -> dict[str, JSON]:
    name, _, version = group_version.partition("/")
    entry: dict[str, JSON] = {"groupVersion": group_version, "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _resources(group_version: str) -> dict[str, JSON]:
    resources: list[JSON] = [
        {
            "name": kind.resource,
            "singularName": kind.kind.lower(),
            "namespaced": True,
            "kind": kind.kind,
            "verbs": ["get", "list", "watch"],
        }
        for kind in KINDS
        if kind.api_version == group_version
    ]
    if group_version == "v1":
        resources.append(_NAMESPACES)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }
