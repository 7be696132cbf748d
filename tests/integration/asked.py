"""The requests of informers to a server, counted by purpose: loads, watches, proofs, and so on.

They are read from the journal of the embedded server, or from the audit log of a real one. A
request counts once, whether it was answered or not.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from pyinformer.testing import APIServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

USER = "the-informers"
"""The only user whose requests a real server records."""

_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, users: [%s], verbs: [list, watch, get]}
- {level: None}
"""


class Request(NamedTuple):
    """One request of an informer."""

    what: str
    """load, page, nothing, watch-list, watch, probe, quorum, witness, verify, audit or get."""
    path: str
    query: Mapping[str, str]
    status: int
    """0 if it was not answered."""


def audit_flags(folder: Path) -> list[str]:
    """Return the flags that make a kube-apiserver write down what USER asks."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY % USER)
    log = f"--audit-log-path={folder / 'audit.log'}"
    return [f"--audit-policy-file={policy}", log, "--audit-log-mode=blocking"]


class Asked:
    """The requests of informers since the last look away."""

    def __init__(self, api: APIServer | KubeAPIServer, audit_folder: Path | None = None) -> None:
        self._api = api
        self._log = None if audit_folder is None else audit_folder / "audit.log"
        self._passed_over = 0

    def look_away(self) -> None:
        """Forget what was asked so far."""
        self._passed_over = len(self._all())

    def requests(self) -> list[Request]:
        """Return what was asked, oldest first."""
        return self._all()[self._passed_over :]

    def counts(self, *, status: int | None = None) -> Counter[str]:
        """Count what was asked, by purpose; perhaps only what was answered with a status."""
        return Counter(one.what for one in self.requests() if status in {None, one.status})

    def __str__(self) -> str:
        return "\n".join(map(str, self.requests()))

    def _all(self) -> list[Request]:
        if self._log is not None:
            return _audited(self._log)
        assert isinstance(self._api, APIServer)
        return [
            Request(_purpose(one.verb, one.query), one.path, one.query, one.status or 0)
            for one in self._api.requests
            if one.verb in {"list", "watch", "get"} and one.user_agent.startswith("pyinformer")
        ]


@dataclass(frozen=True)
class Observed:
    """A server, what informers ask of it, and the token that they have to come with."""

    server: Server
    asked: Asked
    token: str


def _audited(log: Path) -> list[Request]:
    found: dict[str, Request] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        entry = json.loads(line)
        parts = urlsplit(entry["requestURI"])
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        status = entry.get("responseStatus", {}).get("code", 0)
        # Each request has a line when it arrives, and more as it is answered.
        found[entry["auditID"]] = Request(_purpose(entry["verb"], query), parts.path, query, status)
    return list(found.values())


def _purpose(verb: str, query: Mapping[str, str]) -> str:
    if verb == "get":
        return "get"
    if verb == "watch":
        return "watch-list" if query.get("sendInitialEvents") == "true" else "watch"
    match = query.get("resourceVersionMatch", "")
    is_one = query.get("limit") == "1"
    named = "metadata.name" in query.get("fieldSelector", "")
    if match == "Exact":
        return "witness" if is_one and named else "audit"
    if query.get("continue"):
        return "page"
    if not is_one:
        return "nothing" if named else "load"  # of no object: the versions that a server knows
    if match == "NotOlderThan":
        return "probe"
    return "verify" if named else "quorum"
