"""The rights that replicas need which share the keys of an operator."""

from __future__ import annotations

from pyinformer.objects import Access

_VERBS = ("create", "delete", "get", "list", "update", "watch")
_EVENT_VERBS = ("create", "get", "patch")  # as the operator's own Events need
_SHARD_VERBS = ("create", "get", "list", "update", "watch")


def group_accesses(namespace: str) -> tuple[Access, ...]:
    """Return the rights to the Leases of all members, and to Events about them.

    The names of the Leases are not known before.

    Args:
        namespace: of the Leases.
    """
    where = frozenset({namespace})
    return (
        Access("coordination.k8s.io", "leases", _VERBS, where),
        Access("events.k8s.io", "events", _EVENT_VERBS, where),
    )


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
