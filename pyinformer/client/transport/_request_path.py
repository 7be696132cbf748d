"""What the path of a request says about the object that it is about."""

from __future__ import annotations

from typing import NamedTuple, Self

_GROUP_STEPS = {"api": 2, "apis": 3}  # /api/v1 and /apis/apps/v1


class RequestPath(NamedTuple):
    """The parts of a path from the server's root; quoted, as they are in it."""

    group: str
    """Empty for the core group."""
    namespace: str
    resource: str
    """The plural name."""
    name: str
    """Empty for a collection."""
    subresource: str

    @classmethod
    def of(cls, path: str) -> Self | None:
        """Return the parts of a path without a query; None if it is not one of a resource."""
        steps = path.strip("/").split("/")
        rest = steps[_GROUP_STEPS.get(steps[0], len(steps)) :]
        if not rest:
            return None
        # Shorter paths are about namespaces themselves, and so are their status and finalizers.
        is_inside = rest[0] == "namespaces" and rest[2:] and rest[2] not in {"status", "finalize"}
        namespace, rest = (rest[1], rest[2:]) if is_inside else ("", rest)
        name, subresource = [*rest[1:3], "", ""][:2]
        group = steps[1] if steps[0] == "apis" else ""
        return cls(group, namespace, rest[0], name, subresource)
