"""What many informers cost while nothing changes; as client_go/rest.go measures."""

from __future__ import annotations

import asyncio
import gc
import resource
import time

from benchmarks.harness.phases import Workload
from benchmarks.harness.processes import cpu_seconds, rss_bytes
from benchmarks.peers.own_cache import connected
from pyinformer import SharedInformerFactory  # by name: what loads late loads before the clock

INFORMERS = 40
_TIMEOUT_SECONDS = 120.0
_SETTLE_SECONDS = 2.0  # the start's own timers and garbage
_MILLI, _MEGABYTE = 1e3, 1e6


async def time_rest(workload: Workload) -> dict[str, float]:
    """Start the informers and wait until all have synced; then measure while they wait.

    Cancellation:
        Safe; the informers are stopped.
    """
    gc.collect()
    wall, cpu = time.perf_counter(), cpu_seconds()
    async with (
        connected(workload) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        for number in range(INFORMERS):
            factory.informer("v1", "pods", namespaces=f"small-{number}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
        figures = {
            "rest_sync_wall_ms": (time.perf_counter() - wall) * _MILLI,
            "rest_sync_cpu_ms": (cpu_seconds() - cpu) * _MILLI,
        }
        gc.collect()
        await asyncio.sleep(_SETTLE_SECONDS)
        return figures | await _rest(workload.rest_seconds)


async def _rest(seconds: float) -> dict[str, float]:
    wall, cpu, wakeups = time.perf_counter(), cpu_seconds(), _wakeups()
    await asyncio.sleep(seconds)
    passed = time.perf_counter() - wall
    return {
        "rest_cpu_ms_per_second": (cpu_seconds() - cpu) * _MILLI / passed,
        "rest_wakeups_per_second": (_wakeups() - wakeups) / passed,
        "rest_megabytes": (rss_bytes() or 0) / _MEGABYTE,
    }


def _wakeups() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw  # each began with a wait
