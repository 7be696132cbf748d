"""Plays each fault of the catalogue to pyinformer and client-go at the same time, one by one.

    python -m benchmarks.recovery.by_fault --runs 3
    python -m benchmarks.recovery.by_fault cut hold-watches

A fault strikes for five seconds, while objects change; kube-apiserver and etcd have one relay in
between. How long a cache takes counts from the end of the fault until it has what the server has;
after SIGKILL from the first write that is answered again.
The proxies of faults of the network pass TLS on, so that client-go speaks HTTP/2; those of requests
end TLS, and count the requests from the beginning of the fault until the cache is right. No figure
fails anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.recovery.following import (
    NAMESPACE,
    Client,
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
    TimedFault,
)
from pyinformer.testing.faults import CATALOGUE, Part

_FAULT_SECONDS = 5.0
_PATIENCE_SECONDS = 90.0
_AUDITS_SECONDS = 10.0
_PARTS: tuple[Part, ...] = ("network", "requests", "etcd-watches", "server")
_NOT_PLAYED = frozenset({"expired-token", "new-certificate", "restore"})
_KILLS = frozenset({"kill-apiserver", "kill-etcd"})
_POLL_SECONDS = 0.02
_WHILE_WRITING = frozenset({"compact", "hold-watches"})
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
    return [
        one for one, kind in CATALOGUE.items() if kind.part in _PARTS and one not in _NOT_PLAYED
    ]


@contextlib.asynccontextmanager
async def following(
    api: KubeAPIServer, kinds: dict[str, tuple[list[str], Path]], *, reads_requests: bool
) -> AsyncIterator[list[Followed]]:
    """Start a proxy and a client of each kind."""
    clients: list[Followed] = []
    async with contextlib.AsyncExitStack() as stack:
        for name, (command, folder) in kinds.items():
            proxy = stack.enter_context(FaultProxy(api, reads_requests=reads_requests))
            address = ServerAddress(url=proxy.url, ca_file=proxy.ca_file, token=proxy.token)
            client = await started(name, command, folder, proxy, address)
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
    of_clients = [FaultLab(proxy=client.proxy) for client in clients]
    labs = of_clients if part in {"network", "requests"} else [lab]
    killing: asyncio.Task[int] | None = None
    if fault.name in _KILLS:
        healed, killing = await kill(fault, server, lab)
    else:
        begun = [await asyncio.to_thread(one.begin, fault) for one in labs]
        if part in {"network", "requests"} or fault.name in _WHILE_WRITING:
            await server.write_for(_FAULT_SECONDS)
        else:  # the server does not answer writes either
            await asyncio.sleep(_FAULT_SECONDS)
        for one, number in zip(labs, begun, strict=True):
            await asyncio.to_thread(one.end, number)
        healed = asyncio.get_running_loop().time()
        await server.write()
    took = await all_equal_after(server, clients, healed, _PATIENCE_SECONDS)
    if killing is not None:
        await killing
    return {
        client.name: Figure(
            took[client.name],
            client.deletions - server.deletions - before[client.name],
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
        KubeAPIServer(build=True, etcd_relays=[relay]) as api,
        tempfile.TemporaryDirectory() as folder,
    ):
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        server, lab = Server(api, rng), FaultLab(server=api, relays=[relay])
        await server.write()
        kinds = commands("", Path(folder), audits_seconds=_AUDITS_SECONDS)
        columns = ("median / longest, s", "requests", "deletions invented")
        heads = "".join(f" {name}: {column} |" for name in kinds for column in columns)
        table = [f"| fault |{heads}", "|---|" + "---|" * len(columns) * len(kinds)]
        for name in arguments.faults or played():
            figures: dict[str, list[Figure]] = {one: [] for one in kinds}
            for _ in range(arguments.runs):
                reads_requests = CATALOGUE[name].part == "requests"
                async with following(api, kinds, reads_requests=reads_requests) as clients:
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
