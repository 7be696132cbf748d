"""The candidates for one Lease as processes, and what can happen to them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.go import go_program
from pyinformer.testing import KubeAPIServer

HERE = Path(__file__).parent
_PATIENCE_SECONDS = 200.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Durations:
    """The settings that all candidates for a Lease share; whole seconds."""

    lease_duration_seconds: int = 15
    renew_deadline_seconds: int = 10
    retry_period_seconds: int = 2
    drain_seconds: int = 0


def python_command() -> list[str]:
    """Return the command of a candidate with pyinformer."""
    return [sys.executable, str(HERE / "candidate.py")]


def go_command() -> list[str] | str:
    """Return the command of a candidate with client-go, or why there is none."""
    with go_program(HERE / "client_go", wanted=True) as program:
        return program if isinstance(program, str) else [str(program)]


class Replicas:
    """Candidates for the Lease `election` of one namespace.

    Args:
        api: the server.
        namespace: theirs; it must exist.
        commands: the command of each candidate by its name, which is also the user.
        tokens: the users' tokens.
        durations: their settings.
    """

    def __init__(
        self,
        api: KubeAPIServer,
        namespace: str,
        commands: Mapping[str, Sequence[str]],
        *,
        tokens: Mapping[str, str],
        durations: Durations,
    ) -> None:
        self._api = api
        self.namespace = namespace
        self._commands = commands
        self._tokens = tokens
        self.durations = durations
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started_at: dict[str, float] = {}
        """Unix time of each candidate's start."""
        self._given = 0

    def start(self, *names: str) -> None:
        """Start candidates; all of those that do not run if none is named."""
        for name in names or self._commands:
            if name in self.processes and self.processes[name].poll() is None:
                continue
            settings = {
                "url": self._api.url,
                "ca_file": str(self._api.ca_file),
                "token": self._tokens[name],
                "namespace": self.namespace,
                "identity": name,
                **asdict(self.durations),
            }
            self.started_at[name] = time.time()
            self.processes[name] = subprocess.Popen([*self._commands[name], json.dumps(settings)])

    def stop(self) -> None:
        """Kill all."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def holder(self) -> str:
        """Return the holder of the Lease; empty if it is free or does not exist."""
        path = "/apis/coordination.k8s.io/v1/namespaces/" + self.namespace
        leases = self._api.request("GET", f"{path}/leases")["items"]
        return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""

    def wait_for_leader(self, *, but: str = "") -> str:
        """Wait until a candidate leads, and writes; perhaps another one than before."""
        found = ""

        def leads() -> bool:
            """Look at the Lease and at the writer."""
            nonlocal found
            found = self.holder()
            return found not in {"", but} and self.last_writer() == found

        wait(leads, f"a leader of {self.namespace} other than {but!r}")
        return found

    def last_writer(self) -> str:
        """Return which candidate wrote last."""
        tick = self._api.get("v1", "configmaps", "tick", self.namespace)
        return str(tick.get("data", {}).get("by", "")) if tick else ""

    def signal(self, name: str, number: signal.Signals) -> float:
        """Send a signal to a candidate; return when."""
        at = time.time()
        self.processes[name].send_signal(number)
        return at

    def terminate(self, name: str) -> float:
        """Send SIGTERM to a candidate and wait until it has ended; return when it was sent."""
        at = self.signal(name, signal.SIGTERM)
        self.processes[name].wait(_PATIENCE_SECONDS)
        return at

    def kill(self, name: str) -> float:
        """Kill a candidate; return when."""
        at = self.signal(name, signal.SIGKILL)
        self.processes[name].wait(_PATIENCE_SECONDS)
        return at

    def give_work(self, count: int) -> None:
        """Create ConfigMaps that the leader is to label."""
        for _ in range(count):
            self._given += 1
            self._create(f"work-{self._given}", {"todo": "yes"})

    def wait_for_work(self) -> None:
        """Wait until everything is labelled."""
        wait(lambda: not self._work("todo,!by"), f"work of {self.namespace} is done")

    def done(self) -> set[str]:
        """Return the names of the ConfigMaps that are labelled."""
        return {item["metadata"]["name"] for item in self._work("todo,by")}

    def _work(self, selector: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        found: list[dict[str, Any]] = self._api.request(
            "GET", path, query={"labelSelector": selector}
        )["items"]
        return found

    def prepare(self) -> None:
        """Create the namespace, and the ConfigMap in which the leader counts."""
        metadata = {"name": self.namespace}
        self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self._create("tick", {})

    def _create(self, name: str, labels: Mapping[str, str]) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": dict(labels)}
        self._api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@contextmanager
def competing(replicas: Replicas) -> Iterator[Replicas]:
    """Run all candidates; whatever happens, they end with the block."""
    replicas.prepare()
    try:
        replicas.start()
        yield replicas
    finally:
        for process in replicas.processes.values():
            process.send_signal(signal.SIGCONT)
        replicas.stop()


def wait(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is true.

    Raises:
        TimeoutError: it did not become true.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE_SECONDS:g} s: {what}")
        time.sleep(_POLL_SECONDS)
