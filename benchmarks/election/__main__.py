"""Measures leader election on a real kube-apiserver: pyinformer and client-go in the same run.

    python -m benchmarks.election --runs 4

Two candidates of each client compete for a Lease of their own (15/10/2 s). What happens to one
client's leader happens to the other's at the same time. A write is late if the server took it while
another candidate held the Lease, or no candidate did. No figure fails anything.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from benchmarks.election.audit import Request, audit_flags, late_writes, requests, written
from benchmarks.election.replicas import (
    Durations,
    Replicas,
    competing,
    go_command,
    python_command,
    wait,
)
from pyinformer.testing import KubeAPIServer, StaticToken

_STOPPED_SECONDS = 20.0
_COUNTED_SECONDS = 60.0
_SETTLED_SECONDS = 3.0  # after that, a candidate that has started knows the Lease
_DRAIN_SECONDS = 5

Scene: TypeAlias = Callable[[Replicas, Path], list[float]]


def hand_over(replicas: Replicas, folder: Path) -> list[float]:
    """SIGTERM without a drain: seconds until another candidate writes."""
    return _until_another_writes(replicas, folder, replicas.terminate)


def killed(replicas: Replicas, folder: Path) -> list[float]:
    """SIGKILL: seconds until another candidate writes."""
    return _until_another_writes(replicas, folder, replicas.kill)


def stopped(replicas: Replicas, folder: Path) -> list[float]:
    """SIGSTOP for 20 s: late writes of the old leader."""

    def stop(leader: str) -> None:
        """Stop it and continue it; then give it time to write."""
        replicas.signal(leader, signal.SIGSTOP)
        time.sleep(_STOPPED_SECONDS)
        replicas.signal(leader, signal.SIGCONT)
        time.sleep(replicas.durations.renew_deadline_seconds + 3.0)

    return _late_after(replicas, folder, stop)


def drained(replicas: Replicas, folder: Path) -> list[float]:
    """SIGTERM with 5 s of work to end: late writes of the old leader."""

    def drain(leader: str) -> None:
        """End it, and wait for its successor."""
        replicas.terminate(leader)
        replicas.wait_for_leader(but=leader)

    return _late_after(replicas, folder, drain)


def counted(replicas: Replicas, folder: Path) -> list[float]:
    """One minute without an event: requests for the Lease of the leader, and of the standby."""
    leader = _settled_leader(replicas, folder)
    since = time.time()
    time.sleep(_COUNTED_SECONDS)
    leases = [
        one
        for one in _log(replicas, folder)
        if one.resource == "leases" and since <= one.received_at < since + _COUNTED_SECONDS
    ]
    of_leader = sum(one.user == leader for one in leases)
    return [of_leader, len(leases) - of_leader]


SCENES: dict[str, tuple[str, Scene, int]] = {
    "hand-over": ("clean hand-over without a drain, s", hand_over, 0),
    "kill": ("after SIGKILL, s", killed, 0),
    "stop": ("late writes after SIGSTOP for 20 s", stopped, 0),
    "drain": ("late writes of a drain of 5 s", drained, _DRAIN_SECONDS),
    "requests": ("requests for the Lease in a minute: leader, standby", counted, 0),
}


def _settled_leader(replicas: Replicas, folder: Path) -> str:
    """Wait for a leader, and until all others compete."""
    started_at = replicas.started_at

    def all_compete() -> bool:
        """Look for a request for the Lease of each."""
        log = [one for one in _log(replicas, folder) if one.resource == "leases"]
        competing = {one.user for one in log if one.received_at > started_at[one.user]}
        return len(competing) == len(started_at)

    wait(all_compete, "all candidates compete")
    leader = replicas.wait_for_leader()
    time.sleep(_SETTLED_SECONDS)
    return leader


def _until_another_writes(
    replicas: Replicas, folder: Path, end: Callable[[str], float]
) -> list[float]:
    """End the leader; return the seconds until another candidate writes."""
    leader = _settled_leader(replicas, folder)
    ended_at = end(leader)
    found: list[float] = []

    def another_writes() -> bool:
        """Look for writes of another candidate; the log has them a bit after the server."""
        found.extend(
            one.received_at - ended_at
            for one in written(_log(replicas, folder), replicas.namespace)
            if one.resource == "configmaps" and one.user != leader and one.received_at > ended_at
        )
        return bool(found)

    wait(another_writes, f"a leader of {replicas.namespace} after {leader}")
    replicas.start()
    return [min(found)]


def _late_after(replicas: Replicas, folder: Path, end: Callable[[str], None]) -> list[float]:
    """End the leader; return how many late writes there were meanwhile."""
    leader, before = _settled_leader(replicas, folder), _late(replicas, folder)
    end(leader)
    replicas.start()
    return [_late(replicas, folder) - before]


def _late(replicas: Replicas, folder: Path) -> int:
    return len(late_writes(requests(folder), replicas.namespace))


def _log(replicas: Replicas, folder: Path) -> list[Request]:
    return [one for one in requests(folder) if one.namespace == replicas.namespace]


def play(
    api: KubeAPIServer, folder: Path, name: str, commands: dict[str, list[str]], runs: int
) -> dict[str, list[list[float]]]:
    """Play a scene with all clients at the same time; return the figures of each."""
    _, scene, drain_seconds = SCENES[name]
    tokens = json.loads((folder / "tokens.json").read_text(encoding="utf-8"))

    def of_client(client: str) -> list[list[float]]:
        """Play it with one client."""
        names = [f"{client}-{number}" for number in range(2)]
        replicas = Replicas(
            api,
            f"{name}-{client}",
            dict.fromkeys(names, commands[client]),
            tokens=tokens,
            durations=Durations(drain_seconds=drain_seconds),
        )
        with competing(replicas):
            figures = []
            for _ in range(1 if scene is counted else runs):
                figures.append(scene(replicas, folder))
                print(name, client, figures[-1], file=sys.stderr)
            return figures

    with ThreadPoolExecutor() as threads:
        found = {client: threads.submit(of_client, client) for client in commands}
        return {client: one.result() for client, one in found.items()}


def row(title: str, figures: dict[str, list[list[float]]]) -> str:
    """Return a row of the table in Markdown: for each client the median and the range."""
    return f"| {title} | {' | '.join(_cell(found) for found in figures.values())} |"


def _cell(found: list[list[float]]) -> str:
    if len(found[0]) > 1:
        return ", ".join(f"{one:g}" for one in found[0])
    figures = [one for (one,) in found]
    text = f"{statistics.median(figures):.3g}"
    return text if len(figures) == 1 else f"{text} ({min(figures):.3g} to {max(figures):.3g})"


def main(arguments: argparse.Namespace) -> None:
    """Play every scene that was named, and print the table."""
    commands = {"pyinformer": python_command()}
    go = go_command()
    if isinstance(go, str):
        print(f"without client-go: {go}", file=sys.stderr)
    else:
        commands["client-go"] = go
    users = [f"{client}-{number}" for client in commands for number in range(2)]
    tokens = {user: secrets.token_hex(16) for user in users}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "tokens.json").write_text(json.dumps(tokens), encoding="utf-8")
        with KubeAPIServer(
            build=True,
            tokens=[StaticToken(tokens[user], user, ("system:masters",)) for user in users],
            extra_args=audit_flags(folder, users),
        ) as api:
            table = [f"| | {' | '.join(commands)} |", "|---" * (1 + len(commands)) + "|"]
            for name in arguments.scenes or SCENES:
                figures = play(api, folder, name, commands, arguments.runs)
                table.append(row(SCENES[name][0], figures))
            print("\n".join(table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.election", description=__doc__)
    parser.add_argument("scenes", nargs="*", choices=[*SCENES, []], help="all if none is named")
    parser.add_argument("--runs", type=int, default=4)
    main(parser.parse_args())
