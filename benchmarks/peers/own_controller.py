"""One figure of pyinformer's controllers, measured in this process.

Reconciles do nothing but what the figure needs, with one worker; what is timed ends when the
reconcile function has had the last object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.harness.processes import cpu_seconds, pin_to_cpu, rss_bytes
from benchmarks.peers.own_controller_latency import measure_latency
from pyinformer import Cluster, Controller, KubeObject, Request, SharedInformerFactory, connect

_MICRO = 1e6
_MEGA = 1e-6
_BATCH = 10_000  # keys that wait at a time while many pass
_TIMEOUT_SECONDS = 600.0


class Counter:
    """A reconcile that does nothing, and knows when it has done so often enough."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._missing = 0
        self._is_done = asyncio.Event()

    def expect(self, count: int) -> None:
        """Count from the beginning."""
        self._missing = count
        self._is_done.clear()

    async def reconcile(self, _: Request, __: KubeObject | None) -> None:
        """Reconcile nothing.

        Cancellation:
            Nothing is awaited.
        """
        self._missing -= 1
        if not self._missing:
            self._is_done.set()

    def reconcile_in_thread(self, _: Request, __: KubeObject | None) -> None:
        """Reconcile nothing, in the thread of a plain function."""
        self._missing -= 1
        if not self._missing:
            self._loop.call_soon_threadsafe(self._is_done.set)

    async def wait(self) -> None:
        """Wait for the last.

        Cancellation:
            Safe.
        """
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await self._is_done.wait()


async def _noop(options: argparse.Namespace) -> dict[str, float]:
    keys = [_key(number) for number in range(options.objects)]
    figures: dict[str, float] = {}
    for name in ("async", "plain"):
        counter = Counter(asyncio.get_running_loop())
        reconcile = counter.reconcile if name == "async" else counter.reconcile_in_thread
        async with Controller(name, reconcile) as controller:
            counter.expect(len(keys))
            gc.collect()
            wall, cpu = time.perf_counter(), cpu_seconds()
            for key in keys:
                controller.enqueue(key)
            await counter.wait()
            figures[f"{name}_per_second"] = len(keys) / (time.perf_counter() - wall)
            figures[f"{name}_us"] = (cpu_seconds() - cpu) / len(keys) * _MICRO
    return figures


async def _start(options: argparse.Namespace) -> dict[str, float]:
    await _timed(_sync_alone, options)  # modules and connections that come late
    rounds = [
        (await _timed(_sync_alone, options), await _timed(_sync_and_reconcile, options))
        for _ in range(options.repeats)
    ]
    return {
        "informer_us": statistics.median(alone for (alone, _), _ in rounds),
        "controlled_us": statistics.median(cpu for _, (cpu, _) in rounds),
        "overhead_us": statistics.median(cpu - alone for (alone, _), (cpu, _) in rounds),
        "reconciled_ms": statistics.median(wall for _, (_, wall) in rounds),
    }


async def _timed(
    run: Callable[[Cluster, int], Awaitable[None]], options: argparse.Namespace
) -> tuple[float, float]:
    """Return CPU microseconds per object, and milliseconds of wall time."""
    async with connect(server=options.url) as cluster:
        gc.collect()
        wall, cpu = time.perf_counter(), cpu_seconds()
        await run(cluster, options.objects)
        return (cpu_seconds() - cpu) / options.objects * _MICRO, (time.perf_counter() - wall) * 1e3


async def _sync_alone(cluster: Cluster, _: int) -> None:
    async with SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=_TIMEOUT_SECONDS)


async def _sync_and_reconcile(cluster: Cluster, objects: int) -> None:
    counter = Counter(asyncio.get_running_loop())
    counter.expect(objects)
    async with SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps")
        async with Controller("no-op", counter.reconcile, informer):
            await counter.wait()


async def _passage(options: argparse.Namespace) -> dict[str, float]:
    counter = Counter(asyncio.get_running_loop())
    async with Controller("no-op", counter.reconcile) as controller:
        first = options.objects // 10
        await _pass(controller, counter, 0, first)  # arenas and free lists that are there for good
        before = _rss()
        await _pass(controller, counter, first, options.objects)
        return {"before_mb": before * _MEGA, "left_mb": (_rss() - before) * _MEGA}


async def _pass(controller: Controller[None], counter: Counter, start: int, end: int) -> None:
    for batch in range(start, end, _BATCH):
        numbers = range(batch, min(batch + _BATCH, end))
        counter.expect(len(numbers))
        for number in numbers:
            controller.enqueue(_key(number))
        await counter.wait()


async def _latency(options: argparse.Namespace) -> dict[str, float]:
    return await measure_latency(
        options.url, objects=options.objects, period_seconds=options.period_seconds
    )


def _key(number: int) -> str:
    return f"namespace-{number % 97}/name-{number}"


def _rss() -> int:
    gc.collect()
    return rss_bytes() or 0


MODES = {"noop": _noop, "start": _start, "latency": _latency, "passage": _passage}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.own_controller")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--url", default="")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--period-seconds", type=float, default=1.0)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    figures = asyncio.run(MODES[options.mode](options))
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
