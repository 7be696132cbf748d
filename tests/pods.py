"""Objects for tests that need no server."""

from __future__ import annotations

from pyinformer.objects import GroupVersionKind, KubeObject, ObjectMeta

_GVK = GroupVersionKind("", "v1", "Pod")


def make(key: str, *, uid: str = "", resource_version: str = "1") -> KubeObject:
    """Make a pod.

    Args:
        key: `namespace/name`, or `name`.
        uid: `uid-<name>` if not given.
        resource_version: distinguishes its versions.
    """
    namespace, _, name = key.rpartition("/")
    meta = ObjectMeta(namespace, name, uid or f"uid-{name}", resource_version)
    return KubeObject(key, meta, None, b'{"metadata":{}}', _GVK)
