"""Leases of members, and of the operator, as a server returns them."""

from __future__ import annotations

from typing import Any

from pyinformer.leaderelection import LeaseRecord, read_lease


def lease(
    name: str = "db-a",
    *,
    uid: str = "u1",
    version: int = 1,
    holder: str = "db-a",
    transitions: int = 0,
    seconds: int = 15,
    **metadata: Any,
) -> LeaseRecord:
    """Return a version of a Lease."""
    return read_lease(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": "n",
                "uid": uid,
                "resourceVersion": str(version),
                **metadata,
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": seconds,
                "leaseTransitions": transitions,
            },
        }
    )


def stored(body: Any, *, version: int, uid: str = "t1") -> LeaseRecord:
    """Return what a server answers to a write."""
    metadata = {**body["metadata"], "uid": uid, "resourceVersion": str(version)}
    return read_lease({**body, "metadata": metadata})
