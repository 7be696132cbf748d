"""Shell completion of the contexts of the kubeconfig and the names of common resources.

No request is sent to a server. A kubeconfig that cannot be read completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_RESOURCES = (
    "configmaps",
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "endpointslices",
    "events",
    "horizontalpodautoscalers",
    "ingresses",
    "jobs",
    "leases",
    "namespaces",
    "networkpolicies",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "poddisruptionbudgets",
    "pods",
    "replicasets",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "services",
    "statefulsets",
    "storageclasses",
)


def complete_resource(incomplete: str) -> list[str]:
    """Return the common resources whose names begin with this text."""
    return [name for name in _RESOURCES if name.startswith(incomplete)]


def complete_context(incomplete: str) -> list[str]:
    """Return the contexts in the kubeconfig files whose names begin with this text."""
    given = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config"))
    paths = [Path(path).expanduser() for path in given.split(os.pathsep) if path]
    names = dict.fromkeys(name for path in paths for name in _contexts(path))
    return sorted(name for name in names if name.startswith(incomplete))


def _contexts(path: Path) -> Iterator[str]:
    from pyinformer.objects import load_yaml

    try:
        found = load_yaml(path.read_bytes())
    except (OSError, ValueError):
        return
    entries = found.get("contexts") if isinstance(found, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            yield name
