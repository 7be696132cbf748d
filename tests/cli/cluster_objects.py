"""Objects as an informer holds them, made from dicts without a server."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject, ObjectCodec, View

VW = TypeVar("VW", bound=View)


def hold(body: JSONObject, resource: str = "pods") -> KubeObject:
    """Return what a cache would hold of a body."""
    raw = msgspec.json.encode(body)
    return ObjectCodec[None](_resource(body, resource)).decode(raw, 0, len(raw))


def view(body: JSONObject, resource: str, projection: type[VW]) -> KubeObject[VW]:
    """Return what a cache with a projection would hold of a body."""
    raw = msgspec.json.encode(body)
    codec = ObjectCodec(_resource(body, resource), view=projection)
    return codec.decode(raw, 0, len(raw))


def _resource(body: JSONObject, resource: str) -> GroupVersionResource:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    return GroupVersionResource(group, version, resource)


def pod(
    name: str,
    *,
    uid: str = "u",
    resource_version: str = "1",
    phase: str = "Pending",
    node: str = "",
) -> JSONObject:
    """Return a pod in the namespace `default`."""
    metadata = {"name": name, "namespace": "default", "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "resourceVersion": resource_version},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }
