"""pyinformer as its users write it, in the memory mode that the peer's name says.

The public call site only; what is timed ends when the handlers, not just the store, have seen the
last update.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.harness.phases import Phases
from benchmarks.peers.own_audits import time_audits
from benchmarks.peers.own_cache import Memory, Synced, synced
from benchmarks.peers.own_handlers import QueueFollower
from benchmarks.peers.own_lister import time_lister
from benchmarks.peers.own_reads import time_reads
from benchmarks.peers.own_recording import LoopTime, recorded
from benchmarks.peers.own_relist import relist
from benchmarks.peers.own_rest import time_rest
from benchmarks.peers.own_sharing import time_sharing
from benchmarks.peers.own_starts import time_starts
from pyinformer.telemetry import NO_METRICS, Metrics

_TIMEOUT_SECONDS = 600.0
_FEW = 1_000  # objects of the smoke


async def run(phases: Phases) -> None:
    """Measure the default: managedFields stripped."""
    await _measure(phases, "strip_managed_fields")


async def run_prometheus(phases: Phases) -> None:
    """Measure the default with metrics for Prometheus."""
    from pyinformer.telemetry.prometheus import PrometheusMetrics

    await _measure(phases, "strip_managed_fields", PrometheusMetrics())


async def run_recording(phases: Phases) -> None:
    """Measure the default while everything is recorded."""
    with TemporaryDirectory() as folder:
        await _measure(phases, "strip_managed_fields", path=Path(folder, "updates.jsonl"))


async def run_raw(phases: Phases) -> None:
    """Measure with whole bodies kept."""
    await _measure(phases, "raw")


async def run_compact(phases: Phases) -> None:
    """Measure with bodies compressed."""
    await _measure(phases, "compact")


async def run_metadata(phases: Phases) -> None:
    """Measure with metadata alone, on the wire and in the cache."""
    phases.workload = msgspec.structs.replace(phases.workload, indexes=1)
    await _measure(phases, "metadata")


async def run_private_dict(phases: Phases) -> None:
    """Measure with a view, two indexes, and a handler that takes every object as its own dict."""
    phases.workload = msgspec.structs.replace(phases.workload, handler="object", indexes=2)
    await _measure(phases, "strip_managed_fields")


async def run_reads(phases: Phases) -> None:
    """Measure reads of cached, stripped objects."""
    async with synced(phases, "strip_managed_fields") as cache:
        phases.result.extra = time_reads(cache.informer.lister.list())
    phases.result.extra |= await time_sharing(phases.workload.url)


async def run_audit(phases: Phases) -> None:
    """Measure audits of the cache."""
    async with synced(phases, "strip_managed_fields") as cache:
        phases.result.extra = await time_audits(cache.informer)


async def _measure(
    phases: Phases, memory: Memory, metrics: Metrics = NO_METRICS, *, path: Path | None = None
) -> None:
    if phases.workload.work == "starts":
        phases.begin()
        phases.result.extra |= await time_starts(phases.workload)
        phases.synced(0)
        return
    if phases.workload.work == "rest":
        phases.begin()
        phases.synced(0)  # no heartbeat wakes the program while it rests
        phases.result.extra |= await time_rest(phases.workload)
        return
    async with synced(phases, memory, metrics) as cache:
        match phases.workload.work:
            case "reads":
                phases.result.extra |= await asyncio.to_thread(time_lister, cache.informer)
            case "relist":
                phases.result.extra |= await relist(phases, cache)
            case "metrics":
                from benchmarks.peers.own_metrics import time_metrics

                is_small = phases.workload.objects < _FEW
                phases.result.extra |= await time_metrics(metrics, is_small=is_small)
        if phases.workload.updates:
            async with AsyncExitStack() as stack:
                if path is not None:
                    await stack.enter_async_context(recorded(cache.informer, path))
                await _follow(phases, cache)
            phases.updated(seen=cache.followers[0].updates)


async def _follow(phases: Phases, cache: Synced) -> None:
    async with asyncio.TaskGroup() as workers, asyncio.timeout(_TIMEOUT_SECONDS):
        queues = [one.queue for one in cache.followers if isinstance(one, QueueFollower)]
        draining = [workers.create_task(queue.drain()) for queue in queues]
        await phases.release_updates()
        loop_time = LoopTime()
        for follower in cache.followers:
            await follower.has_last_update.wait()
        for queue in queues:
            queue.shut_down()
        if draining:
            await asyncio.wait(draining)
        phases.result.extra |= loop_time.figures(phases.workload.updates)
    if phases.workload.updates_per_second:
        phases.result.extra |= cache.followers[0].latencies.figures(phases.workload)
