"""Objects as a server would have sent them, of what a test has written down.

What enters is a dict with a name in it; what leaves is a copy with all that a server adds. Objects
of the same name have the same uid, in every run.
"""

from __future__ import annotations

import uuid
from typing import Final

from pyinformer.apimachinery import GroupVersionResource, InvalidArgumentError, JSONObject

_NAMES: Final = uuid.UUID("6f1d6c1e-3a52-4d6e-9a53-0c5c3b7f6a10")  # uids of the same name are equal
_BORN: Final = "2026-01-01T00:00:00Z"


def completed(
    obj: JSONObject, *, resource: GroupVersionResource, kind: str, namespaced: bool, version: str
) -> JSONObject:
    """Return a copy of an object with all that a server would have given it.

    Args:
        obj: it is not changed.
        resource: what it has to be an object of.
        kind: the resource's kind; "" takes the object's own.
        namespaced: whether it lives in `default` if it names no namespace.
        version: its resource version, if it has none.

    Raises:
        InvalidArgumentError: it is no object of this resource.
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
