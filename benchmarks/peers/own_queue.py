"""Figures of one of pyinformer's work queues, measured in this process.

As client_go/queue.go measures: keys exist before, one worker, no metrics, CPU time per key, median
over repeats with a fresh queue each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from benchmarks.harness.processes import cpu_seconds, pin_to_cpu, rss_bytes
from pyinformer.workqueue import LOW_PRIORITY, PriorityQueue, Queue

Work: TypeAlias = "Callable[[Queue[str], list[str]], Awaitable[None]]"

_MICRO = 1e6
_MEGA = 1e-6
_DELAY_SECONDS = 3_600.0


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.own_queue")
    parser.add_argument("--kind", choices=("queue", "priority-queue"), required=True)
    parser.add_argument("--mode", choices=("speed", *_WEIGHED), required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    if options.mode == "speed":
        figures = asyncio.run(_speed(options.kind, options.keys, options.repeats))
    else:
        figures = _WEIGHED[options.mode](options.kind, options.keys)
    print(msgspec.json.encode(figures).decode())


async def _speed(kind: str, keys: int, repeats: int) -> dict[str, float]:
    """Measure on a running loop, as programs use a queue; there readings of the clock are shared.

    Cancellation:
        Safe; the measurement ends.
    """
    names = [_name(number) for number in range(keys)]
    return {name: await _per_key(work, kind, names, repeats) for name, work in _TIMED.items()}


async def _per_key(work: Work, kind: str, names: list[str], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        queue = _delaying(kind) if work is _delay else _plain(kind)
        queue.add(names[0])  # which makes the running loop the queue's
        _take(queue)
        if work is _duplicate:
            await _add(queue, names)
        gc.collect()
        before = cpu_seconds()
        await work(queue, names)
        found.append((cpu_seconds() - before) / len(names) * _MICRO)
    return statistics.median(found)


async def _item(queue: Queue[str], names: list[str]) -> None:
    await _add(queue, names)
    for _ in names:
        async with queue.item():
            pass
    assert not len(queue)


async def _waiting(queue: Queue[str], names: list[str]) -> None:
    for name in names:
        queue.add_nowait(name)
    for _ in names:
        item = queue.get_nowait()
        assert item is not None
        queue.done(item)
    assert not len(queue)


async def _passing(queue: Queue[str], names: list[str]) -> None:
    for name in names:
        queue.add_nowait(name)
        item = queue.get_nowait()
        assert item is not None
        queue.done(item)


async def _add(queue: Queue[str], names: list[str]) -> None:
    for name in names:
        queue.add(name)


async def _duplicate(queue: Queue[str], names: list[str]) -> None:
    await _add(queue, names)
    assert len(queue) == len(names)


async def _delay(queue: Queue[str], names: list[str]) -> None:
    assert isinstance(queue, Queue)
    for name in names:
        queue.add_after(name, _DELAY_SECONDS)


_TIMED: Mapping[str, Work] = {
    "item_us": _item,
    "waiting_us": _waiting,
    "passing_us": _passing,
    "duplicate_us": _duplicate,
    "delayed_us": _delay,
}


def _take(queue: Queue[str]) -> None:
    item = queue.get_nowait()
    assert item is not None
    queue.done(item)


def _ready(kind: str, keys: int) -> dict[str, float]:
    queue = _plain(kind)
    before = _rss()
    for number in range(keys):
        if isinstance(queue, PriorityQueue):  # not 0, which needs no note
            queue.add_nowait(_name(number), priority=LOW_PRIORITY)
        else:
            queue.add_nowait(_name(number))
    assert len(queue) == keys
    return {"ready_mb": (_rss() - before) * _MEGA}


def _delayed(kind: str, keys: int) -> dict[str, float]:
    queue = _delaying(kind)
    before = _rss()
    for number in range(keys):
        if isinstance(queue, PriorityQueue):
            queue.add_after_nowait(_name(number), _DELAY_SECONDS, priority=LOW_PRIORITY)
        else:
            queue.add_after_nowait(_name(number), _DELAY_SECONDS)
    assert queue.statistics().delayed == keys
    return {"delayed_mb": (_rss() - before) * _MEGA}


def _passage(kind: str, keys: int) -> dict[str, float]:
    queue = _plain(kind)
    _pass(queue, 0, keys // 100)  # modules, free lists and arenas that are there for good
    before = _rss()
    _pass(queue, keys // 100, keys)
    return {"passage_mb": (_rss() - before) * _MEGA}


def _pass(queue: Queue[str], start: int, end: int) -> None:
    for number in range(start, end):
        queue.add_nowait(_name(number))
        item = queue.get_nowait()
        assert item is not None
        queue.done(item)


def _delaying(kind: str) -> Queue[str]:
    return PriorityQueue[str]() if kind == "priority-queue" else Queue[str]()


def _plain(kind: str) -> Queue[str]:
    return PriorityQueue[str]() if kind == "priority-queue" else Queue[str]()


def _name(number: int) -> str:
    return f"namespace-{number % 97}/name-{number}"


def _rss() -> int:
    gc.collect()
    return rss_bytes() or 0


_WEIGHED = {"ready": _ready, "delayed": _delayed, "passage": _passage}


if __name__ == "__main__":
    main()
