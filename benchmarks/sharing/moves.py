"""How soon buckets have their next owner, and what sharing asks of a real kube-apiserver.

    python -m benchmarks.sharing.moves --runs 3
    python -m benchmarks.sharing.moves --runs 1 --rest-seconds 1    # does it run?

Replicas are processes (15/10/2 s, 128 buckets) whose reconciles take up to a second: two, then four
that join at once, a minute at rest, three that get SIGTERM at once, and one that is killed. A move
counts from the end of the last drain until the last bucket is open; of joining replicas from the
last own Lease on, since the start of six interpreters is not a move. The requests are those of the
audit log. The figures are medians, with the range.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pyinformer
from benchmarks.election.audit import Request, audit_flags, requests
from benchmarks.election.replicas import wait
from pyinformer.testing import KubeAPIServer, StaticToken

GROUP: Final = "bench"
_BUCKETS: Final = pyinformer.Buckets().count
_OBJECTS: Final = 300
_FEW, _MANY, _LEFT = 2, 6, 3
_CALM_SECONDS: Final = 3.0  # after that, a share is what it stays
_END_SECONDS: Final = 100.0


@dataclass(frozen=True, slots=True)
class Durations:
    """Those of the Leases."""

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0


class Share(NamedTuple):
    """What one replica had from a time on."""

    at: float
    """Unix time in seconds."""
    is_member: bool
    open: int
    catching_up: int
    draining: int


@dataclass(slots=True)
class Figures:
    """What the runs have measured."""

    join: list[float] = field(default_factory=list)
    leave: list[float] = field(default_factory=list)
    kill: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)


class _Group:
    """The replicas of one run, in a namespace of their own."""

    def __init__(
        self, api: KubeAPIServer, folder: Path, namespace: str, tokens: dict[str, str]
    ) -> None:
        self._api, self._folder, self._tokens = api, folder, tokens
        self.namespace = namespace
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, names: Sequence[str], durations: Durations) -> None:
        """Start replicas."""
        for name in names:
            settings = {
                "url": self._api.url,
                "ca_file": str(self._api.ca_file),
                "token": self._tokens[name],
                "namespace": self.namespace,
                "identity": name,
                "group": GROUP,
                "log": str(self._log_of(name)),
                "durations": asdict(durations),
            }
            command = [sys.executable, "-m", "benchmarks.sharing.replica", json.dumps(settings)]
            self.processes[name] = subprocess.Popen(command)

    def shares(self, name: str) -> list[Share]:
        """Return what a replica had, from its start on."""
        log = self._log_of(name)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [Share(*json.loads(line)) for line in lines if line.endswith("]")]

    def wait_until_shared(self, names: Sequence[str]) -> None:
        """Wait until these replicas have equal shares, and nothing moves."""
        least, rest = divmod(_BUCKETS, len(names))
        wanted = sorted([least] * (len(names) - rest) + [least + 1] * rest)

        def is_shared() -> bool:
            last = [found[-1] for name in names if (found := self.shares(name))]
            return (
                sorted(one.open for one in last) == wanted
                and not any(one.catching_up or one.draining for one in last)
                and time.time() > max(one.at for one in last) + _CALM_SECONDS
            )

        wait(is_shared, f"{len(names)} replicas share")

    def move_seconds(self, names: Sequence[str], began_at: float) -> float:
        """Return how long a move took that these replicas have ended, beyond its drains."""
        opened_at = max(_reached_at(self.shares(name)) for name in names)
        drained_at = [
            one.at
            for name in self.processes
            for one in self.shares(name)
            if one.draining == 0 and began_at < one.at <= opened_at
            if _was_draining(self.shares(name), one)
        ]
        return opened_at - max([began_at, *drained_at])

    def member_at(self, name: str) -> float:
        """Return when a replica's own Lease was acquired."""
        return next(one.at for one in self.shares(name) if one.is_member)

    def end(self) -> None:
        """Kill all."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def log(self) -> list[Request]:
        """Return the requests for Leases."""
        return [
            one
            for one in requests(self._folder)
            if one.namespace == self.namespace and one.resource == "leases"
        ]

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{self.namespace}-{name}.log"


def _reached_at(shares: Sequence[Share]) -> float:
    """Return when a replica had as many open buckets as it has in the end."""
    reached = shares[-1]
    for one in reversed(shares):
        if one.open != reached.open:
            break
        reached = one
    return reached.at


def _was_draining(shares: Sequence[Share], one: Share) -> bool:
    place = shares.index(one)
    return place > 0 and shares[place - 1].draining > 0


def play(group: _Group, durations: Durations, rest_seconds: float, figures: Figures) -> None:
    """Play one run."""
    names = [f"r{number}" for number in range(_MANY)]
    group.start(names[:_FEW], durations)
    group.wait_until_shared(names[:_FEW])
    began_at = time.time()
    group.start(names[_FEW:], durations)
    group.wait_until_shared(names)
    joined_at = max(group.member_at(name) for name in names[_FEW:])
    figures.join.append(group.move_seconds(names, joined_at))

    rests_at = time.time()
    time.sleep(rest_seconds)
    at_rest = [one for one in group.log() if rests_at <= one.received_at < rests_at + rest_seconds]
    figures.requests.append(len(at_rest) / _MANY * 60.0 / rest_seconds)

    left, stay = names[: _MANY - _LEFT], names[_MANY - _LEFT :]
    ended_at = time.time()
    for name in left:
        group.processes[name].send_signal(signal.SIGTERM)
    group.wait_until_shared(stay)
    figures.leave.append(group.move_seconds(stay, ended_at))
    for name in left:
        group.processes[name].wait(_END_SECONDS)
    writes = [
        one
        for one in group.log()
        if one.name == GROUP
        and one.verb in {"create", "update", "patch"}
        and one.received_at >= began_at
    ]
    figures.writes.append(len(writes))
    figures.refused.append(sum(not one.revision for one in writes))

    killed_at = time.time()
    group.processes[stay[0]].kill()
    group.wait_until_shared(stay[1:])
    figures.kill.append(group.move_seconds(stay[1:], killed_at))


@contextmanager
def _server(folder: Path, tokens: dict[str, str], *, build: bool) -> Iterator[KubeAPIServer]:
    users = [StaticToken(token, name, ("system:masters",)) for name, token in tokens.items()]
    flags = audit_flags(folder, list(tokens))
    with KubeAPIServer(build=build, tokens=users, extra_args=flags) as api:
        yield api


def measure(
    *, runs: int, rest_seconds: float, durations: Durations | None = None, build: bool = True
) -> Figures:
    """Play the runs."""
    figures = Figures()
    tokens = {f"r{number}": secrets.token_hex(16) for number in range(_MANY)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with _server(folder, tokens, build=build) as api:
            for run in range(runs):
                group = _Group(api, folder, f"run-{run}", tokens)
                _fill(api, group.namespace)
                try:
                    play(group, durations or Durations(), rest_seconds, figures)
                finally:
                    group.end()
                print(run, {name: of[-1] for name, of in _by_name(figures)}, file=sys.stderr)
    return figures


def _fill(api: KubeAPIServer, namespace: str) -> None:
    api.ensure_namespace(namespace)
    for number in range(_OBJECTS):
        metadata = {"name": f"m{number}", "namespace": namespace}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def _by_name(figures: Figures) -> list[tuple[str, list[float]]]:
    return list(asdict(figures).items())


def _line(title: str, found: Sequence[float], goal: str) -> str:
    text = f"{median(found):.1f} ({min(found):.1f} to {max(found):.1f})"
    return f"{title:48} {text:24} to reach {goal}"


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing.moves")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rest-seconds", type=float, default=60.0)
    arguments: Any = parser.parse_args()
    found = measure(runs=arguments.runs, rest_seconds=arguments.rest_seconds)
    print(_line("four join: last bucket open, s", found.join, "3"))
    print(_line("three leave: last bucket open, s", found.leave, "3"))
    print(_line("after SIGKILL: last bucket open, s", found.kill, "16"))
    print(_line("requests per member and minute at rest, of six", found.requests, "32"))
    print(_line("writes of the table in 2-6-3", found.writes, "64"))
    print(_line("refused of them", found.refused, "12"))


if __name__ == "__main__":
    main()
