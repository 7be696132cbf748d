"""The rights that replicas need which share the keys of an operator."""

from __future__ import annotations

from pyinformer.objects import Access

_VERBS = ("create", "delete", "get", "list", "update", "watch")


def group_accesses(namespace: str) -> tuple[Access, ...]:
    """Return the rights to the Leases of all members, whose names are not known before.

    Args:
        namespace: of the Leases.
    """
    return (Access("coordination.k8s.io", "leases", _VERBS, frozenset({namespace})),)
