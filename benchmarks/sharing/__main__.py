"""CPU of an event of a foreign key and of one of its own, and the largest share of the keys.

    python -m benchmarks.sharing
    python -m benchmarks.sharing --rounds 1 --objects 200 --keys 1000    # does it run?

Two replicas share ConfigMaps of 1 KB, with a reconcile that does nothing. A server in a process of
its own changes objects, by turns those that this process has and those that the other one has; what
this process uses until the last change has arrived is divided by their number. So an event is
read, decoded and cached in both, and one of its own is also queued and reconciled. The shares are
those of six replicas that join one after the other, without a server. The figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, Self

import pyinformer
from benchmarks.harness.processes import cpu_seconds
from benchmarks.sharing.server import NAMESPACE, name_of
from pyinformer.sharding import Owner, Table, bucket_of, quotas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_BUCKETS = pyinformer.Buckets().count
_MEMBERS = 6
_LOOK_SECONDS = 0.05
_CALM_SECONDS = 2.0  # after the last change, until all of one's own are reconciled


class Costs(NamedTuple):
    """The CPU time of one event, in microseconds, by round."""

    foreign: list[float]
    own: list[float]

    def ratio(self) -> float:
        """Return the median of the ratios of each round, foreign to own."""
        return median(one / other for one, other in zip(self.foreign, self.own, strict=True))


class _Server:
    """The server's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url: str = self._read().strip()

    @classmethod
    @contextmanager
    def running(cls, objects: int) -> Iterator[Self]:
        """Start it; it ends with the block."""
        command = [sys.executable, "-m", "benchmarks.sharing.server", str(objects)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield cls(process)
            finally:
                process.communicate()  # closes its standard input, which ends it

    def change(self, names: Sequence[str]) -> None:
        """Change objects, and wait until all are changed."""
        assert self._process.stdin is not None
        print(json.dumps(names), file=self._process.stdin, flush=True)
        self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class _Replica:
    """One replica, and what it has reconciled."""

    def __init__(self, identity: str) -> None:
        self.app = pyinformer.Operator("bench", sharding=pyinformer.Buckets(identity=identity))
        self.names: set[str] = set()
        self.last = ""
        self.has_seen_last = asyncio.Event()

        @self.app.reconcile("v1", "configmaps", workers=1)
        async def reconcile(request: pyinformer.Request, _obj: object, _cluster: object) -> None:
            self.names.add(request.name)
            if request.name == self.last:
                self.has_seen_last.set()

    async def share(self, cluster: pyinformer.Cluster) -> pyinformer.OperatorRun:
        """Start it."""
        run = self.app.running(cluster, namespaces=NAMESPACE)
        await run.start()
        return run


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing here is measured
        await asyncio.sleep(_LOOK_SECONDS)


async def other(url: str) -> None:
    """Share as the other replica until the process is ended."""
    async with pyinformer.connect(server=url) as cluster:
        await _Replica("other").share(cluster)
        await asyncio.Event().wait()


def costs(*, rounds: int, objects: int) -> Costs:
    """Measure the events."""
    with _Server.running(objects) as server:
        command = [sys.executable, "-m", "benchmarks.sharing", "--other", server.url]
        with subprocess.Popen(command) as neighbour:
            try:
                return asyncio.run(_measure(server, rounds=rounds, objects=objects))
            finally:
                neighbour.kill()


async def _measure(server: _Server, *, rounds: int, objects: int) -> Costs:
    found, replica = Costs([], []), _Replica("measured")
    async with pyinformer.connect(server=server.url) as cluster:
        run = await replica.share(cluster)
        await _until(lambda: run.sharing is not None and run.sharing.open == _BUCKETS // 2)
        own, foreign = await _split(server, replica, objects)
        size = min(len(own), len(foreign))
        for number in range(-1, rounds):  # the first warms up
            for names, figures in ((foreign[:size], found.foreign), (own[:size], found.own)):
                seconds = await _until_seen(server, replica, [*names, own[-1]])
                if number >= 0:
                    figures.append(seconds / (size + 1) * 1e6)
        await run.aclose()
    return found


async def _split(server: _Server, replica: _Replica, objects: int) -> tuple[list[str], list[str]]:
    """Return the names that a replica has, and all others."""
    replica.names.clear()
    everything = [name_of(number) for number in range(objects)]
    await asyncio.to_thread(server.change, everything)
    await asyncio.sleep(_CALM_SECONDS)
    return sorted(replica.names), sorted(set(everything) - replica.names)


async def _until_seen(server: _Server, replica: _Replica, names: list[str]) -> float:
    """Return the CPU time until the last change is reconciled, which is of a key of its own."""
    replica.last = names[-1]
    replica.has_seen_last.clear()
    began = cpu_seconds()
    await asyncio.to_thread(server.change, names)
    await replica.has_seen_last.wait()
    return cpu_seconds() - began


def largest_share(keys: int, seed: int) -> float:
    """Return the largest share of the keys of six replicas, over the mean.

    They join one after the other; who has more than its share gives up any of its buckets.
    """
    rng = random.Random(seed)
    table = Table.empty(_BUCKETS, "key")
    members = [Owner(f"bench.{number}", f"uid-{seed}-{number}", 0) for number in range(_MEMBERS)]
    for joined in range(1, _MEMBERS + 1):
        share = quotas(table, members[:joined])
        owners = list(table.owners)
        for member in members[:joined]:
            for bucket in rng.sample(its := table.of(member), max(0, len(its) - share[member])):
                owners[bucket] = None
        free = [bucket for bucket, owner in enumerate(owners) if owner is None]
        for member in members[:joined]:
            while owners.count(member) < share[member]:
                owners[free.pop()] = member
        table = replace(table, owners=tuple(owners))
    counts = Counter(
        table.owners[bucket_of(f"{NAMESPACE}/{seed}-{number}", "", buckets=_BUCKETS)]
        for number in range(keys)
    )
    return max(counts.values()) * _MEMBERS / keys


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--objects", type=int, default=4_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--other", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.other:
        asyncio.run(other(arguments.other))
        return
    found = costs(rounds=arguments.rounds, objects=arguments.objects)
    shares = [largest_share(arguments.keys, seed) for seed in range(10)]
    print(f"event of a foreign key  {median(found.foreign):7.1f} us")
    print(f"event of its own key    {median(found.own):7.1f} us")
    print(f"foreign to own          {found.ratio():7.2f}, to reach 0.80 or less")
    print(f"largest share of six    {median(shares):7.3f} of the mean, to reach 1.05 or less")
    print(f"the same, worst of ten  {max(shares):7.3f}")


if __name__ == "__main__":
    main()
