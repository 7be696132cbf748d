"""What a kube-apiserver has done for the candidates, in the order in which it did it.

The audit log has every request and the resource version of what it wrote. All resources of one etcd
share one revision, so the Lease and the writes have one order, and no clock decides who led.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  users: [%(users)s]
  verbs: [create, update, patch]
- level: Metadata
  users: [%(users)s]
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: None
"""


def audit_flags(folder: Path, users: Sequence[str]) -> list[str]:
    """Return the flags with which a kube-apiserver logs what these users do."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY % {"users": ", ".join(users)}, encoding="utf-8")
    log = f"--audit-log-path={folder / 'audit.log'}"
    return [f"--audit-policy-file={policy}", log, "--audit-log-mode=blocking"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a candidate."""

    namespace: str
    user: str
    verb: str
    resource: str
    name: str
    received_at: float
    """Unix time in seconds."""
    revision: int
    """The resource version of what it wrote; 0 if it wrote nothing."""
    holder: str
    """The holder of the Lease after it; empty for other resources."""


def requests(folder: Path) -> list[Request]:
    """Return all requests of the candidates, in the order of the log."""
    log = folder / "audit.log"
    return list(dict(_entries(log)).values()) if log.exists() else []


def written(log: Sequence[Request], namespace: str) -> list[Request]:
    """Return what was written in a namespace, in the order of etcd."""
    writes = [one for one in log if one.namespace == namespace and one.revision]
    return sorted(writes, key=lambda one: one.revision)


def late_writes(log: Sequence[Request], namespace: str) -> list[Request]:
    """Return the writes of candidates that did not hold the Lease when the server took them."""
    holder, late = "", []
    for one in written(log, namespace):
        if one.resource == "leases":
            holder = one.holder
        elif one.user != holder:
            late.append(one)
    return late


def _entries(log: Path) -> Iterator[tuple[str, Request]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # a server was killed while it wrote the line
        reference = entry.get("objectRef", {})
        done = entry.get("responseObject", {}) if _is_good(entry) else {}
        yield (
            entry["auditID"],
            Request(
                namespace=reference.get("namespace", ""),
                user=entry["user"]["username"],
                verb=entry["verb"],
                resource=reference.get("resource", ""),
                name=reference.get("name", ""),
                received_at=datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp(),
                revision=int(done.get("metadata", {}).get("resourceVersion", 0)),
                holder=done.get("spec", {}).get("holderIdentity") or "",
            ),
        )


def _is_good(entry: dict[str, Any]) -> bool:
    return bool(entry.get("responseStatus", {}).get("code", 0) in {200, 201})
