"""The start of 1, 10 and 50 informers in one program, each of a small collection of its own.

As client_go/starts.go measures: medians over repeats, the connection was used before, and the stop
is not measured.
"""

from __future__ import annotations

import gc
import statistics
import time

import pyinformer
from benchmarks.harness.phases import Workload
from benchmarks.harness.processes import cpu_seconds
from benchmarks.peers.own_cache import connected, warm_up

_COUNTS = (1, 10, 50)
_REPEATS = 5
_MILLI = 1e3
_TIMEOUT_SECONDS = 120.0


async def time_starts(workload: Workload) -> dict[str, float]:
    """Start, wait for all, stop; for each number.

    Cancellation:
        Safe; what was started is stopped.
    """
    figures: dict[str, float] = {}
    async with connected(workload) as cluster:
        await warm_up(cluster)
        for count in _COUNTS:
            spent = [await _start(cluster, count) for _ in range(_REPEATS)]
            walls, cpus = zip(*spent, strict=True)
            figures[f"start_{count}_wall_ms"] = statistics.median(walls) * _MILLI
            figures[f"start_{count}_cpu_ms"] = statistics.median(cpus) * _MILLI
    return figures


async def _start(cluster: pyinformer.Cluster, count: int) -> tuple[float, float]:
    """Return wall and CPU seconds."""
    gc.collect()
    wall, cpu = time.perf_counter(), cpu_seconds()
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        for number in range(count):
            factory.informer("v1", "pods", namespaces=f"small-{number}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
        return time.perf_counter() - wall, cpu_seconds() - cpu
