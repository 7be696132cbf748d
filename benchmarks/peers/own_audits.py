"""What an audit of a full cache costs, and how long the event loop waits for it; a proof, too.

A heartbeat runs during the audits, whose own cost is in their CPU time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from benchmarks.harness.phases import Heartbeat
from benchmarks.harness.processes import cpu_seconds
from pyinformer.cache.informer import core_of

if TYPE_CHECKING:
    import pyinformer

WALL, CPU = "audit_wall_s", "audit_cpu_s"
BLOCK, STEP = "audit_block_ms", "audit_step_ms"
WRONG_BLOCK, WRONG_STEP = "audit_of_a_wrong_cache_block_ms", "audit_of_a_wrong_cache_step_ms"
PROOF_BLOCK, PROOF_STEP = "proof_block_ms", "proof_step_ms"
_TIMEOUT_SECONDS = 600.0
_T = TypeVar("_T")


async def time_audits(pods: pyinformer.SharedInformer[Any]) -> dict[str, float]:
    """Audit twice: the cache as it is, and one in which every object is another.

    Cancellation:
        The audit ends, and says nothing.
    """
    # The first request other than a watch loads the HTTP library: 0.1 s, once in a process.
    await pods.cluster.connection.request("GET", "/version")
    gc.collect()
    cpu, wall = cpu_seconds(), time.perf_counter()
    report, block, step = await _timed(lambda: pods.audit(timeout_seconds=_TIMEOUT_SECONDS))
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    assert report.is_consistent, str(report)

    member = core_of(pods).caches.all[0]
    witnesses, proof_block, proof_step = await _timed(member.reflector.history_samples)
    assert witnesses

    items = member.indexer._state.items
    for key, obj in items.items():
        items[key] = structs.replace(obj, metadata=structs.replace(obj.metadata, uid="another"))
    found, wrong_block, wrong_step = await _timed(
        lambda: pods.audit(timeout_seconds=_TIMEOUT_SECONDS)
    )
    assert found.mismatches == len(items), str(found)
    blocks = {BLOCK: block, WRONG_BLOCK: wrong_block, STEP: step, WRONG_STEP: wrong_step}
    proof = {PROOF_BLOCK: proof_block, PROOF_STEP: proof_step}
    return {WALL: wall, CPU: cpu, **blocks, **proof}


async def _timed(work: Callable[[], Awaitable[_T]]) -> tuple[_T, float, float]:
    beats = Heartbeat(), Heartbeat(time.thread_time)
    for beat in beats:
        beat.start()
    await asyncio.sleep(0.05)
    found = await work()
    block, step = (beat.stop() * 1e3 for beat in beats)
    return found, block, step
