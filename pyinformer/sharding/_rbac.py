"""The rights that replicas need which share the keys of an operator."""

from __future__ import annotations

from pyinformer.objects import Access

_VERBS = ("create", "delete", "get", "list", "update", "watch")
_SHARD_VERBS = ("create", "get", "list", "update", "watch")


def group_accesses(namespace: str) -> tuple[Access, ...]:
    """Return the rights to the Leases of all members, whose names are not known before.

    Args:
        namespace: of the Leases.
    """
    return (Access("coordination.k8s.io", "leases", _VERBS, frozenset({namespace})),)


def shard_accesses(namespace: str) -> tuple[Access, ...]:
    """Return the rights to the Leases of all shares, which a process of one share has to see.

    Args:
        namespace: of the Leases.
    """
    where = frozenset({namespace})
    return (
        Access("coordination.k8s.io", "leases", _SHARD_VERBS, where),
        Access("events.k8s.io", "events", ("create", "patch"), where),
    )
