"""Aggregated discovery: all served resources in one document, which current clients request first.

The document has the form of apidiscovery.k8s.io/v2 and an entity tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources._discovery import (
    groups_of,
    subresource_kind,
    subresource_verbs,
    verbs_of,
    versions_of,
)
from pyinformer.testing.apiserver.resources._resource_types import ResourceType

CONTENT_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_WANTED: Final = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}


def aggregated(
    parts: Sequence[str], accept: str, resources: Sequence[ResourceType]
) -> tuple[bytes, str] | None:
    """Return the aggregated document of a path and its entity tag, if the client prefers it.

    Args:
        parts: the path's parts.
        accept: the Accept header.
        resources: the served resources.

    Returns:
        None if the client prefers the older documents, or the path is another one.
    """
    if tuple(parts) not in (("api",), ("apis",)) or not _wants_aggregated(accept):
        return None
    is_core = parts[0] == "api"
    groups = [group for group in groups_of(resources) if (not group) is is_core]
    document: JSONObject = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_group(group, resources) for group in groups],
    }
    body = msgspec.json.encode(document)
    return body + b"\n", f'"{hashlib.sha512(body).hexdigest().upper()}"'


def _wants_aggregated(accept: str) -> bool:
    """Return whether the Accept header prefers the aggregated document to plain JSON."""
    for clause in accept.replace(" ", "").split(","):
        media_type, *parameters = clause.split(";")
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        asked.pop("q", None)
        if media_type == "application/json" and asked == _WANTED:
            return True
        if media_type in ("application/json", "*/*") and not asked:
            return False
    return False


def _group(group: str, resources: Sequence[ResourceType]) -> JSONObject:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [
                    _resource(one)
                    for one in resources
                    if (one.group, one.version) == (group, version)
                ],
                "freshness": "Current",
            }
            for version in versions_of(group, resources)
        ],
    }


def _resource(resource: ResourceType) -> JSONObject:
    # The real server leaves group and version empty for its built-in types.
    is_custom = resource.list_shape == "custom"
    here = (resource.group, resource.version) if is_custom else ("", "")
    entry: JSONObject = {
        "resource": resource.plural,
        "responseKind": _kind(*here, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": verbs_of(resource),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            _subresource(resource, name, here) for name in resource.subresources
        ]
    return entry


def _subresource(resource: ResourceType, name: str, here: tuple[str, str]) -> JSONObject:
    group, version, kind = subresource_kind(resource, name)
    place = (group, version) if group else here
    return {
        "subresource": name,
        "responseKind": _kind(*place, kind),
        "verbs": subresource_verbs(name),
    }


def _kind(group: str, version: str, kind: str) -> JSONObject:
    return {"group": group, "version": version, "kind": kind}
