"""Plays each fault of the catalogue to pyinformer and client-go at the same time, one by one.

    python -m benchmarks.recovery.by_fault --runs 3
    python -m benchmarks.recovery.by_fault cut hold-watches

A fault strikes for five seconds, while objects change; kube-apiserver and etcd have one relay in
between. How long a cache takes counts from the end of the fault until it has what the server has;
after SIGKILL from the first write that is answered again.
The proxies pass TLS on, so that client-go speaks HTTP/2; those of faults of requests end TLS, and
count the requests from the beginning of the fault until the cache is right. Open watches do not
notice that rights, descriptors or a token are gone: these faults begin with a cut. No figure fails
anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import resource
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple, Never, TypeAlias, final

from benchmarks.recovery.following import (
    NAMESPACE,
    Client,
    Login,
    Server,
    all_equal_after,
    answers,
    check_equal,
    commands,
    started,
)
from pyinformer.errors import InformerError
from pyinformer.testing import (
    EtcdRelay,
    FaultLab,
    FaultProxy,
    KubeAPIServer,
    ServerAddress,
    StaticToken,
    TimedFault,
)
from pyinformer.testing.faults import CATALOGUE, ChangingFacts, Part

_FAULT_SECONDS = 5.0
_PATIENCE_SECONDS = 90.0
_AUDITS_SECONDS = 10.0
# ConfigMaps have no definition, and the others need a hand inside of the program.
_NOT_PLAYED = frozenset({"delete-definition", "change-definition", "block-loop", "step-clock"})
_OF_CLIENTS: frozenset[Part] = frozenset({"network", "requests", "program"})
_CUT = frozenset({"withdraw-rights", "no-descriptors", "expired-token"})
_KILLS = frozenset({"kill-apiserver", "kill-etcd"})
_POLL_SECONDS = 0.02
_WHILE_WRITING = frozenset({"compact", "hold-watches", "withdraw-rights", "restore"})
_USER = "follower"
_ARGUMENTS: Mapping[str, dict[str, str]] = {
    "cut-after": {"bytes": "3000"},
    "drip": {"bytes_per_second": "500"},
    "delay": {"seconds": "0.5"},
    "split": {"bytes": "1"},
    "join": {"seconds": "0.5"},
    "status": {"status": "503"},
    "truncated-chunk": {"bytes": "700"},
    "hold-watches": {"prefix": "/registry/configmaps/"},
    "fail-ranges": {"prefix": "/registry/configmaps/"},
    "delay-ranges": {"prefix": "/registry/configmaps/", "seconds": "2"},
    "freeze-program": {"seconds": str(_FAULT_SECONDS)},
}
Followed: TypeAlias = Client[FaultProxy]


class Figure(NamedTuple):
    """What one client did with one fault."""

    seconds: float
    """How long it took until it had what the server had."""
    invented: int
    """How many deletions were not true."""
    requests: int
    """How many it sent since the fault began; 0 of faults of the network."""


def fault_of(name: str) -> TimedFault:
    """Return the fault that is played."""
    lasts = _FAULT_SECONDS if CATALOGUE[name].has_end else 0.0
    return TimedFault(
        name=name, at_seconds=0.0, lasts_seconds=lasts, arguments=_ARGUMENTS.get(name, {})
    )


def played() -> list[str]:
    """Return the names of all faults that can be played."""
    return [one for one in CATALOGUE if one not in _NOT_PLAYED]


@final
class _Process:
    """What a lab can do to a client from outside."""

    def __init__(self, client: Followed) -> None:
        self._client = client
        self._pid = client.process.pid
        self._limits = resource.prlimit(self._pid, resource.RLIMIT_NOFILE)

    def take_descriptors(self) -> None:
        """Allow none beyond the standard ones; what is open stays open."""
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, (3, self._limits[1]))

    def give_descriptors(self) -> None:
        """Allow as many as at first."""
        resource.prlimit(self._pid, resource.RLIMIT_NOFILE, self._limits)

    def renew_token(self, token: str) -> None:
        """Write the file that it reads."""
        self._client.login.token_file.write_text(token)

    def renew_trust(self, ca_pem: bytes) -> None:
        """Write the file that it reads."""
        self._client.login.ca_file.write_bytes(ca_pem)

    def freeze(self, seconds: float) -> None:
        """Stop it for a while."""
        self._client.process.send_signal(signal.SIGSTOP)
        threading.Event().wait(seconds)
        self._client.process.send_signal(signal.SIGCONT)

    def block(self, seconds: float) -> Never:
        """Refuse: it is not played."""
        raise NotImplementedError(seconds)

    def step_clock(self, seconds: float) -> Never:
        """Refuse: it is not played."""
        raise NotImplementedError(seconds)


def bind(api: KubeAPIServer) -> ChangingFacts:
    """Give the clients' user its rights, and return what takes them away."""
    group = "rbac.authorization.k8s.io"
    named = {"apiVersion": f"{group}/v1", "metadata": {"name": NAMESPACE}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    api.create({**named, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": group, "kind": "ClusterRole", "name": NAMESPACE}
    user = {"apiGroup": group, "kind": "User", "name": _USER}
    api.create({**named, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]})
    return ChangingFacts(api, bindings=[NAMESPACE])


@contextlib.asynccontextmanager
async def following(
    api: ServerAddress,
    kinds: dict[str, tuple[list[str], Path]],
    files: Path,
    *,
    reads_requests: bool,
) -> AsyncIterator[list[Followed]]:
    """Start a proxy and a client of each kind."""
    clients: list[Followed] = []
    async with contextlib.AsyncExitStack() as stack:
        for name, (command, folder) in kinds.items():
            proxy = stack.enter_context(FaultProxy(api, reads_requests=reads_requests))
            address = ServerAddress(url=proxy.url, ca_file=proxy.ca_file, token=proxy.token)
            client = await started(name, command, folder, proxy, Login.put(address, files / name))
            stack.callback(client.process.kill)
            stack.callback(asyncio.create_task(client.read()).cancel)
            clients.append(client)
        yield clients


async def kill(fault: TimedFault, server: Server, lab: FaultLab) -> tuple[float, asyncio.Task[int]]:
    """Kill a program of the server, which starts again.

    Returns:
        When a write was answered first; and what ends when the server is ready, which is later.
    """
    killing = asyncio.create_task(asyncio.to_thread(lab.begin, fault))
    if fault.name == "kill-etcd":
        await killing  # it is back at once
    else:
        while await answers(server.api):  # noqa: ASYNC110 - another process
            await asyncio.sleep(_POLL_SECONDS)
    while True:
        with contextlib.suppress(InformerError, OSError):
            await server.write()
            break
        await asyncio.sleep(_POLL_SECONDS)
    answered = asyncio.get_running_loop().time()
    return answered, killing


async def play(
    fault: TimedFault, server: Server, clients: list[Followed], lab: FaultLab
) -> dict[str, Figure]:
    """Play a fault; return what each client did."""
    await check_equal(server, clients, _PATIENCE_SECONDS)
    await server.write_for(1.0)
    before = {client.name: client.deletions - server.deletions for client in clients}
    sent = {client.name: len(client.proxy.requests) for client in clients}
    part = CATALOGUE[fault.name].part
    of_clients = [FaultLab(proxy=one.proxy, program=_Process(one)) for one in clients]
    labs = of_clients if part in _OF_CLIENTS else [lab]
    killing: asyncio.Task[int] | None = None
    if fault.name in _KILLS:
        healed, killing = await kill(fault, server, lab)
    else:
        beginning = asyncio.gather(*(asyncio.to_thread(one.begin, fault) for one in labs))
        if fault.name != "freeze-program":  # which has ended when it has begun
            await beginning
        if fault.name in _CUT:
            for client in clients:
                client.proxy.cut()
        if part in _OF_CLIENTS or fault.name in _WHILE_WRITING:
            await server.write_for(_FAULT_SECONDS)
        else:  # the server does not answer writes either
            await asyncio.sleep(_FAULT_SECONDS)
        for one, number in zip(labs, await beginning, strict=True):
            await asyncio.to_thread(one.end, number)
        healed = asyncio.get_running_loop().time()
        if fault.name == "restore":
            await server.read_again()
        await server.write()
    took = await all_equal_after(server, clients, healed, _PATIENCE_SECONDS)
    if killing is not None:
        await killing
    return {
        client.name: Figure(
            took[client.name],
            # What a restore brings back, or takes, is not invented.
            client.deletions - server.deletions - before[client.name]
            if fault.name != "restore"
            else 0,
            len(client.proxy.requests) - sent[client.name],
        )
        for client in clients
    }


def row(name: str, figures: Mapping[str, list[Figure]]) -> str:
    """Return a row of the table in Markdown."""
    cells = []
    for runs in figures.values():
        seconds = [one.seconds for one in runs]
        never = sum(one > _PATIENCE_SECONDS for one in seconds)
        invented = max(0, *(one.invented for one in runs))
        requests = statistics.median(one.requests for one in runs)
        middle = "-" if never == len(seconds) else f"{statistics.median(seconds):.1f}"
        most = f"> {_PATIENCE_SECONDS:.0f}" if never else f"{max(seconds):.1f}"
        cells += [f"{middle} / {most}", f"{requests:g}", str(invented) if invented else ""]
    lie = " (a lie)" if CATALOGUE[name].is_lie else ""
    return f"| {name}{lie} | {' | '.join(cells)} |"


async def main(arguments: argparse.Namespace) -> None:
    """Play every fault that was asked for, and print the table."""
    rng = random.Random(arguments.seed)
    with (
        EtcdRelay() as relay,
        KubeAPIServer(
            build=True, etcd_relays=[relay], tokens=[StaticToken(_USER, _USER, ())]
        ) as api,
        tempfile.TemporaryDirectory() as folder,
    ):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        server = Server(api, rng)
        lab = FaultLab(server=api, relays=[relay], facts=bind(api))
        followed = ServerAddress(url=api.url, ca_file=api.ca_file, token=_USER)
        await server.write()
        kinds = commands("", Path(folder), audits_seconds=_AUDITS_SECONDS)
        columns = ("median / longest, s", "requests", "deletions invented")
        heads = "".join(f" {name}: {column} |" for name in kinds for column in columns)
        table = [f"| fault |{heads}", "|---|" + "---|" * len(columns) * len(kinds)]
        for name in arguments.faults or played():
            figures: dict[str, list[Figure]] = {one: [] for one in kinds}
            for _ in range(arguments.runs):
                reads_requests = CATALOGUE[name].part == "requests"
                async with following(
                    followed, kinds, Path(folder), reads_requests=reads_requests
                ) as clients:
                    found = await play(fault_of(name), server, clients, lab)
                print(name, found, file=sys.stderr, flush=True)
                for one, figure in found.items():
                    figures[one].append(figure)
            table.append(row(name, figures))
        print("\n".join(table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery.by_fault", description=__doc__
    )
    parser.add_argument("faults", nargs="*", choices=[*played(), []], help="all if none is named")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(main(parser.parse_args()))
