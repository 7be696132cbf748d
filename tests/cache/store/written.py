"""Objects for the tests of own writes: any uid, version and node, made without a codec."""

from __future__ import annotations

from typing import Any

from pyinformer.objects import GroupVersionKind, KubeObject, Labels, ObjectKey, ObjectMeta

_KIND = GroupVersionKind("", "v1", "Pod")


def record(key: str, uid: str, version: int | str, node: str = "n1") -> KubeObject[Any]:
    """Return a pod whose `node` is a label."""
    parts = ObjectKey(key)
    meta = ObjectMeta(
        parts.namespace, parts.name, uid, str(version), labels=Labels.of({"node": node})
    )
    return KubeObject(key, meta, None, b"{}", _KIND)


def node_of(obj: KubeObject[Any]) -> str:
    """Return where a record says that it is; an index function."""
    return str(obj.metadata.labels["node"])


def version_of(obj: KubeObject[Any] | None) -> int:
    """Return a record's version as a number; 0 for none."""
    return 0 if obj is None else int(obj.metadata.resource_version)
