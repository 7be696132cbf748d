"""Complete the objects that a test has written down, as a server would have sent them.

Objects of the same name get the same uid, in every run.
"""

from __future__ import annotations

import uuid
from typing import Final

from pyinformer.apimachinery import GroupVersionResource, JSONObject
from pyinformer.errors import InvalidArgumentError

_NAMES: Final = uuid.UUID("6f1d6c1e-3a52-4d6e-9a53-0c5c3b7f6a10")  # equal names have equal uids
_BORN: Final = "2026-01-01T00:00:00Z"


def completed(
    obj: JSONObject, *, resource: GroupVersionResource, kind: str, namespaced: bool, version: str
) -> JSONObject:
    """Return a copy of an object with all fields that a server sets.

    Args:
        obj: the object; it is not changed.
        resource: the resource to which it must belong.
        kind: the resource's kind; "" accepts the kind in the object.
        namespaced: whether an object without a namespace is put into `default`.
        version: the resource version of an object without one.

    Raises:
        InvalidArgumentError: it is not an object of this resource.
    """
    given = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise InvalidArgumentError("obj", "is a dict with metadata and a name in it")
    kind = kind or str(obj.get("kind") or "")
    if not kind:
        reason = f"has a kind in it: that of {resource} is not known here"
        raise InvalidArgumentError("obj", reason)
    identity: JSONObject = {"apiVersion": resource.api_version, "kind": kind}
    for field, expected in identity.items():
        if obj.get(field, expected) != expected:
            reason = f"{field} is {obj[field]!r}, and this informer holds {expected!r}"
            raise InvalidArgumentError("obj", reason)
    metadata: JSONObject = dict(given)
    if namespaced:
        metadata.setdefault("namespace", "default")
    name = f"{metadata.get('namespace', '')}/{metadata['name']}"
    metadata.setdefault("uid", str(uuid.uuid5(_NAMES, f"{resource} {name}")))
    metadata.setdefault("resourceVersion", version)
    metadata.setdefault("creationTimestamp", _BORN)
    return {**identity, **obj, "metadata": metadata}
