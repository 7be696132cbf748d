"""Soaks a program on a real kube-apiserver: many objects, steady updates, a fault a minute.

    python -m benchmarks.soak --hours 1
    python -m benchmarks.soak --hours 0.05 --objects 2000 --rate 200

The program is a process of its own, behind a proxy that breaks connections and requests; the load
is another, past the proxy. The table shows what the program holds, and the slopes: what one more
hour would add. It exits with 1 only if the cache is not what the server has at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.soak.load import config_map
from benchmarks.soak.program import digest
from pyinformer.testing import (
    EtcdRelay,
    FaultLab,
    FaultProxy,
    FaultSchedule,
    KubeAPIServer,
    TimedFault,
)
from pyinformer.testing.faults import CATALOGUE

_ROOT: Final = Path(__file__).parents[2]
_NAMESPACE: Final = "soak"
_FILLERS: Final = 8
_SAMPLE_SECONDS: Final = 5.0
_WARM_SHARE: Final = 0.5  # of the samples: until then the allocator still grows to its size
_PATIENCE_SECONDS: Final = 300.0
_NOT_DRAWN: Final = ("restore", "expired-token", "new-certificate")
_HELD: Final = {"rss_bytes": 2**20, "tasks": 1, "descriptors": 1}
_NAMES: Final = {"rss_bytes": "RSS, MiB"}


@dataclass
class Process:
    """One of the two programs, and what it has printed."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, Any]] = field(default_factory=list)
    printed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Take what it prints, with the time at which it did."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            at = asyncio.get_running_loop().time()
            self.lines.append({"at_seconds": at, **json.loads(line)})
            self.printed.set()
            self.printed = asyncio.Event()
        raise RuntimeError(f"a program has ended: {await self.process.wait()}")


@contextlib.asynccontextmanager
async def running(
    module: str, server: KubeAPIServer | FaultProxy, *more: str
) -> AsyncIterator[Process]:
    """Run a program against a server until the block is left."""
    told = {"url": server.url, "token": server.token, "ca_file": str(server.ca_file)}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, json.dumps(told), _NAMESPACE, *more),
        cwd=_ROOT,
        stdout=subprocess.PIPE,
    )
    program = Process(child)
    try:
        async with asyncio.TaskGroup() as group:
            reads = group.create_task(program.read())
            yield program
            reads.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def schedule_of(
    names: Sequence[str], seconds: float, period_seconds: float, seed: int
) -> FaultSchedule:
    """Draw a fault at the start of each period."""
    rng = random.Random(seed)
    faults = []
    for period in range(int(seconds / period_seconds)):
        name = rng.choice(names)
        kind = CATALOGUE[name]
        faults.append(
            TimedFault(
                name=name,
                at_seconds=period * period_seconds,
                lasts_seconds=min(rng.uniform(*kind.lasts_seconds), period_seconds / 2),
                arguments=kind.draw(rng),
            )
        )
    return FaultSchedule(faults)


async def strike(lab: FaultLab, schedule: FaultSchedule, seconds: float) -> None:
    """Carry out the faults, and wait until so many seconds have passed."""
    stop, rest = threading.Event(), asyncio.create_task(asyncio.sleep(seconds))
    try:
        await asyncio.to_thread(lab.run, schedule, stop)
        await rest
    finally:
        stop.set()
        rest.cancel()


async def is_equal(program: Process, server: KubeAPIServer) -> bool:
    """Return whether the cache gets what the server has, within some minutes."""
    found = await asyncio.to_thread(server.list, "v1", "configmaps", _NAMESPACE)
    wanted = digest((one["metadata"]["name"], one["metadata"]["resourceVersion"]) for one in found)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while program.lines[-1].get("digest") != wanted:
                program.process.send_signal(signal.SIGUSR1)
                await program.printed.wait()
            return True
    return False


def per_hour(samples: list[dict[str, Any]], name: str) -> float:
    """Return how much a figure grows in an hour, by least squares."""
    times = [one["at_seconds"] / 3600 for one in samples]
    return statistics.linear_regression(times, [one[name] for one in samples]).slope


def table(samples: list[dict[str, Any]], begun: float) -> str:
    """Return what the program held at ten times, and the slopes, in Markdown."""
    names = [_NAMES.get(one, one) for one in _HELD]
    rows = [f"| minute | {' | '.join(names)} |", "|---:|" + "---:|" * len(_HELD)]
    for step in range(11):
        one = samples[(len(samples) - 1) * step // 10]
        cells = [f"{one[name] / unit:,.0f}" for name, unit in _HELD.items()]
        rows.append(f"| {(one['at_seconds'] - begun) / 60:.0f} | {' | '.join(cells)} |")
    warm = samples[int(len(samples) * _WARM_SHARE) :]
    slopes = [f"{per_hour(warm, name) / unit:+,.1f}" for name, unit in _HELD.items()]
    return "\n".join([*rows, f"| an hour | {' | '.join(slopes)} |"])


async def main(asked: argparse.Namespace) -> bool:
    """Soak, and print the report; return whether the cache was right at the end."""
    seconds = asked.hours * 3600
    with (
        EtcdRelay() as relay,
        KubeAPIServer(build=True, etcd_relays=[relay]) as server,
        FaultProxy(server, reads_requests=True, seed=asked.seed) as proxy,
    ):
        server.ensure_namespace(_NAMESPACE)
        with ThreadPoolExecutor(_FILLERS) as pool:
            objects = (config_map(_NAMESPACE, number) for number in range(asked.objects))
            for _ in pool.map(server.create, objects):
                pass
        async with running("benchmarks.soak.program", proxy, str(_SAMPLE_SECONDS)) as program:
            await program.printed.wait()
            load = (str(asked.objects), str(asked.rate))
            async with running("benchmarks.soak.load", server, *load) as writes:
                lab = FaultLab(proxy=proxy, server=server, relays=[relay])
                names = [one for one in lab.names() if one not in _NOT_DRAWN]
                schedule = schedule_of(names, seconds, asked.fault_seconds, asked.seed)
                await strike(lab, schedule, seconds)
            samples = program.lines[:]
            is_right = await is_equal(program, server)
    faults = Counter(fault.name for fault in schedule)
    begun, last, written = samples[0]["at_seconds"], samples[-1], writes.lines[-1]
    lasted = last["at_seconds"] - begun
    events = sum(last.get(one, 0) for one in ("added", "updated", "deleted"))
    print(
        f"{lasted / 60:.0f} min, {last['objects']:,} objects, {written['writes']:,} writes"
        f" ({written['writes'] / lasted:.0f} a second; {written.get('failures', 0):,} failed),"
        f" {lab.faults} faults of {len(faults)} kinds, {events:,} events of handlers,"
        f" {last['reconciles']:,} reconciles; at the end the cache"
        f" {'has what the server has' if is_right else 'DIFFERS from the server'}"
    )
    print(table(samples, begun))
    print("faults: " + ", ".join(f"{name} {n}" for name, n in sorted(faults.items())))
    if asked.json:
        asked.json.write_text("".join(f"{json.dumps(one)}\n" for one in samples), encoding="utf-8")
    return is_right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--objects", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=500.0, help="writes a second")
    parser.add_argument("--fault-seconds", type=float, default=60.0, help="from fault to fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for all samples")
    sys.exit(0 if asyncio.run(main(parser.parse_args())) else 1)
