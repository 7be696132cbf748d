"""Bodies of objects for tests of their readiness."""

from __future__ import annotations

from typing import Any

_GROUPS = {
    "apps/v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch/v1": ("CronJob", "Job"),
    "policy/v1": ("PodDisruptionBudget",),
    "networking.k8s.io/v1": ("Ingress",),
    "apiextensions.k8s.io/v1": ("CustomResourceDefinition",),
    "apiregistration.k8s.io/v1": ("APIService",),
    "acme.io/v1": ("Database",),
    "meta.k8s.io/v1": ("PartialObjectMetadata",),
}
VERSIONS = {kind: version for version, kinds in _GROUPS.items() for kind in kinds}


def body(kind: str, *, generation: int = 1, **parts: Any) -> dict[str, Any]:
    """Return an object of a kind; the parts are its spec, its status and others."""
    metadata = {"name": "test", "namespace": "qual", "generation": generation}
    found = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata}
    return {**found, **parts}


def condition(name: str, status: str = "True", reason: str = "", **more: Any) -> dict[str, Any]:
    """Return an entry of `status.conditions`."""
    return {"type": name, "status": status, "reason": reason, **more}


def counts(number: int, *names: str, **others: Any) -> dict[str, Any]:
    """Return a status with the same number in several fields."""
    return {"observedGeneration": 1, **dict.fromkeys(names, number), **others}
