"""What metrics cost a queue, a reconcile and a scrape, measured in this process.

The handles of prometheus_client are measured beside pyinformer's: its labels().inc(), and a child
that is bound once.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

import prometheus_client

from benchmarks.harness.processes import cpu_seconds
from pyinformer import Controller, KubeObject, Request, SharedInformerFactory, connect
from pyinformer.telemetry import NO_METRICS, Metrics
from pyinformer.telemetry.prometheus import PrometheusMetrics
from pyinformer.testing import APIServer
from pyinformer.workqueue import PriorityQueue

QUEUE, RECONCILE, MORE = "queue_us", "reconcile_us", "reconcile_more_us"
INC, OBSERVE = "inc_us", "observe_us"
CHILD, LABELS = "prometheus_child_us", "prometheus_labels_us"
SCRAPE, BLOCKED, LINES = "scrape_ms", "blocked_ms", "scrape_lines"

_MICRO, _MILLI = 1e6, 1e3
_REPEATS: Final = 5
_CYCLES: Final = 5_000
_CALLS: Final = 50_000
_INFORMERS: Final = 50
_CONTROLLERS: Final = 10
_SCRAPES: Final = 9
_BEAT_SECONDS: Final = 0.001
_TIMEOUT_SECONDS: Final = 600.0


async def time_metrics(metrics: Metrics, *, is_small: bool = False) -> dict[str, float]:
    """Measure a queue and a reconcile with these metrics, and if they are ours, a scrape.

    Cancellation:
        Safe; what was opened is closed.
    """
    share = 100 if is_small else 1
    figures = {
        QUEUE: statistics.median(_cycles(metrics, _CYCLES // share) for _ in range(_REPEATS)),
        **await _reconciles(metrics, _CYCLES // share),
    }
    if isinstance(metrics, PrometheusMetrics):
        figures |= _handles(metrics, _CALLS // share)
        informers = 2 if is_small else _INFORMERS
        figures |= await _scrapes(informers, 1 if is_small else _CONTROLLERS)
    return figures


def _cycles(metrics: Metrics, count: int) -> float:
    """Return the microseconds of CPU of add, get and done."""
    queue = PriorityQueue[str]("bench", metrics=metrics)
    keys = [f"namespace-{number % 97}/name-{number}" for number in range(count)]
    gc.collect()
    before = cpu_seconds()
    for key in keys:
        queue.add_nowait(key)
        item = queue.get_nowait()
        assert item is not None
        queue.done(item)
    took_seconds = cpu_seconds() - before
    queue.shut_down()
    return took_seconds / count * _MICRO


async def _reconciles(metrics: Metrics, count: int) -> dict[str, float]:
    """Return the microseconds of CPU of a reconcile, and how many more than without metrics."""
    rounds = [
        (await _reconcile(NO_METRICS, count), await _reconcile(metrics, count))
        for _ in range(_REPEATS)
    ]
    return {
        RECONCILE: statistics.median(found for _, found in rounds),
        MORE: statistics.median(found - without for without, found in rounds),
    }


async def _reconcile(metrics: Metrics, count: int) -> float:
    missing, is_done = count, asyncio.Event()

    async def reconcile(_: Request, __: KubeObject | None) -> None:
        """Count.

        Cancellation:
            Nothing is awaited.
        """
        nonlocal missing
        missing -= 1
        if not missing:
            is_done.set()

    async with Controller("bench", reconcile, metrics=metrics) as controller:
        gc.collect()
        before = cpu_seconds()
        for number in range(count):
            controller.enqueue(f"namespace-{number % 97}/name-{number}")
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await is_done.wait()
        return (cpu_seconds() - before) / count * _MICRO


def _handles(metrics: PrometheusMetrics, count: int) -> dict[str, float]:
    registry = prometheus_client.CollectorRegistry()
    calls = prometheus_client.Counter("app_calls", "Calls.", ["way", "to"], registry=registry)
    child = calls.labels("a", "b")
    labels = {"way": "a", "to": "b"}
    seconds = metrics.histogram("app_seconds", labels)
    return {
        INC: _per_call(metrics.counter("app_calls_total", labels).inc, count),
        OBSERVE: _per_call(lambda: seconds.observe(0.3), count),
        CHILD: _per_call(child.inc, count),
        LABELS: _per_call(lambda: calls.labels("a", "b").inc(), count),
    }


def _per_call(call: Callable[[], object], count: int) -> float:
    found = []
    for _ in range(_REPEATS):
        before = cpu_seconds()
        for _ in range(count):
            call()
        found.append((cpu_seconds() - before) / count * _MICRO)
    return statistics.median(found)


async def _scrapes(informers: int, controllers: int) -> dict[str, float]:
    """Measure scrapes in a thread, of synced informers and running controllers."""
    metrics = PrometheusMetrics()
    with APIServer() as server:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(connect(server=server.url))
            factory = await stack.enter_async_context(
                SharedInformerFactory(cluster, metrics=metrics)
            )
            for number in range(informers):
                factory.informer("v1", "configmaps", namespaces=f"namespace-{number}")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)
            for number in range(controllers):
                one = Controller(f"controller-{number}", _nothing, metrics=metrics)
                (await stack.enter_async_context(one)).enqueue("default/a")
            return await _timed_scrapes(metrics)


async def _nothing(_: Request, __: KubeObject | None) -> None:
    """Reconcile nothing.

    Cancellation:
        Nothing is awaited.
    """


async def _timed_scrapes(metrics: PrometheusMetrics) -> dict[str, float]:
    _, render = metrics.exposition("")
    took_ms, blocked_ms = [], []
    for _ in range(_SCRAPES):
        found: list[float] = []
        thread = threading.Thread(target=_scrape, args=(render, found))
        blocked_ms.append(await _longest_block(thread) * _MILLI)
        took_ms.append(found[0] * _MILLI)
    lines = float(render().count(b"\n"))
    return {
        SCRAPE: statistics.median(took_ms),
        BLOCKED: statistics.median(blocked_ms),
        LINES: lines,
    }


def _scrape(render: Callable[[], bytes], found: list[float]) -> None:
    before = time.thread_time()
    render()
    found.append(time.thread_time() - before)


async def _longest_block(thread: threading.Thread) -> float:
    """Return for how long a beat of the loop was late while a thread ran, in seconds."""
    loop = asyncio.get_running_loop()
    longest_seconds = 0.0
    thread.start()
    while thread.is_alive():
        due_at = loop.time() + _BEAT_SECONDS
        await asyncio.sleep(_BEAT_SECONDS)
        longest_seconds = max(longest_seconds, loop.time() - due_at)
    thread.join()
    return longest_seconds
