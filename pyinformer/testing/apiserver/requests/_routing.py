"""Parse URLs of the Kubernetes API into Routes.

A Route says what a request asks for; whether the resource exists is decided later.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Route:
    """The verb and the place that a request names.

    Attributes:
        verb: list, watch, get, create, update, patch, delete, deletecollection; the lower-case
            method for paths outside the resource API and for methods that do not fit.
        plural: the resource; "" for paths outside the resource API.
        namespace: "" across namespaces and for cluster-scoped resources.
        parts: the path's parts.
    """

    verb: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    parts: tuple[str, ...] = ()


def parse_route(method: str, raw_path: str, *, watch: bool) -> Route:
    """Parse the method and path of a request."""
    parts = tuple(unquote(part) for part in raw_path.strip("/").split("/"))
    root = parts[0]
    if root == "api" and len(parts) > 2:  # noqa: PLR2004 - /api/v1/pods
        return _resource_route(method, "", parts[1], parts[2:], parts, watch=watch)
    if root == "apis" and len(parts) > 3:  # noqa: PLR2004 - /apis/apps/v1/deployments
        return _resource_route(method, parts[1], parts[2], parts[3:], parts, watch=watch)
    return Route(method.lower(), parts=parts)


def _resource_route(
    method: str,
    group: str,
    version: str,
    rest: tuple[str, ...],
    parts: tuple[str, ...],
    *,
    watch: bool,
) -> Route:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:  # noqa: PLR2004
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    verbs = _OBJECT_VERBS if name else _COLLECTION_VERBS
    verb = verbs.get(method, method.lower())
    if subresource and method == "POST":
        verb = "create"
    if verb == "list" and watch:
        verb = "watch"
    return Route(verb, group, version, plural, namespace, name, subresource, parts)
