"""A relist of everything, unchanged: what it costs, and that no handler is called.

The peak of memory begins again right before, from what the process then holds.
"""

from __future__ import annotations

import asyncio
import gc
import time

from benchmarks.harness.phases import Control, Heartbeat, Phases
from benchmarks.harness.processes import cpu_seconds, peak_rss_bytes, reset_peak, rss_bytes
from benchmarks.peers.own_cache import Synced

_POLL_SECONDS = 0.02
_CALM_SECONDS = 0.5  # for handlers that are called, and for other costs that come later
_TIMEOUT_SECONDS = 600.0


async def relist(phases: Phases, cache: Synced) -> dict[str, float]:
    """Let the watch expire, and wait until everything was listed again.

    Cancellation:
        Safe; the measurement ends.
    """
    control = Control(phases.workload)
    await asyncio.to_thread(control.post, "/benchmark/wait-for-watch")
    gc.collect()
    calls, loads = _calls(cache), _loads(cache)
    before = rss_bytes() if reset_peak() else None
    beat = Heartbeat()
    beat.start()
    wall, cpu = time.perf_counter(), cpu_seconds()
    await asyncio.to_thread(control.post, "/benchmark/expire")
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        while _loads(cache) == loads:  # noqa: ASYNC110  (the state is read as a user would)
            await asyncio.sleep(_POLL_SECONDS)
    wall, block = time.perf_counter() - wall, beat.stop()
    await asyncio.sleep(_CALM_SECONDS)
    figures = {
        "relist_wall_seconds": wall,
        "relist_cpu_seconds": cpu_seconds() - cpu,
        "relist_longest_block_seconds": block,
    }
    peak = peak_rss_bytes()
    if before is not None and peak is not None:
        figures["relist_extra_peak_bytes"] = max(0.0, peak - before)
    return {**figures, "relist_handler_calls": float(_calls(cache) - calls)}


def _calls(cache: Synced) -> int:
    return sum(follower.calls for follower in cache.followers)


def _loads(cache: Synced) -> int:
    return cache.informer.status().reflector.loads
