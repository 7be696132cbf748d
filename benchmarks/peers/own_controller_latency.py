"""How long a real event waits for its reconcile while reminders of every object are worked off.

A latency begins when the informer applies the event and ends when its reconcile begins; writes are
ours, one at a time, each to another object.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence

from benchmarks.server.embedded import config_map_name
from pyinformer import (
    Cluster,
    Controller,
    ControllerOptions,
    KubeObject,
    Request,
    SharedInformerFactory,
    connect,
)

_TIMEOUT_SECONDS = 600.0
_WORK_SECONDS = 0.001  # of waiting in every reconcile, as for a quick call to the server
_EVENTS_PER_PERIOD = 150
_AT_ONCE_EVENTS = 0.4  # of those: for about as long as the reminders take when they come at once


class _Probe:
    """A predicate that sees events come, and a reconcile that sees them leave."""

    def __init__(self, *, objects: int, events: int) -> None:
        self.latencies_seconds: list[float] = []
        self.reminders = 0
        self.has_begun = asyncio.Event()
        self.has_reminder = asyncio.Event()
        self.has_every_event = asyncio.Event()
        self._initial = objects
        self._events = events
        self._came_at: dict[str, float] = {}

    def predicate(self, old: KubeObject | None, new: KubeObject | None) -> bool:
        """Note when an update came."""
        if old is not None and new is not None:
            self._came_at.setdefault(new.key, asyncio.get_running_loop().time())
        return True

    async def reconcile(self, request: Request, _: KubeObject | None) -> None:
        """Note how long the update has waited; then work a while.

        Cancellation:
            Safe.
        """
        if self._initial:
            self._initial -= 1
            if not self._initial:
                self.has_begun.set()
            return
        came_at = self._came_at.pop(str(request.key), None)
        if came_at is None:
            self.reminders += 1
            self.has_reminder.set()
        else:
            self.latencies_seconds.append(asyncio.get_running_loop().time() - came_at)
            if len(self.latencies_seconds) == self._events:
                self.has_every_event.set()
        await asyncio.sleep(_WORK_SECONDS)


async def measure_latency(url: str, *, objects: int, period_seconds: float) -> dict[str, float]:
    """Measure both ways.

    Args:
        url: of the server.
        objects: how many ConfigMaps it has.
        period_seconds: of the paced reminders.

    Cancellation:
        Safe.
    """
    figures: dict[str, float] = {}
    async with connect(server=url) as cluster:
        for name, period in (("paced", period_seconds), ("at_once", 0.0)):
            probe = await _run(cluster, objects, period, period_seconds)
            found = sorted(probe.latencies_seconds)
            figures |= {
                f"{name}_p50_ms": _percentile(found, 0.50),
                f"{name}_p99_ms": _percentile(found, 0.99),
                f"{name}_max_ms": _percentile(found, 1.0),
                f"{name}_events": len(found),
                f"{name}_reminders": probe.reminders,
            }
    return figures


async def _run(cluster: Cluster, objects: int, period: float, span_seconds: float) -> _Probe:
    per_span = min(objects, _EVENTS_PER_PERIOD)
    events = per_span if period else math.ceil(per_span * _AT_ONCE_EVENTS)
    probe = _Probe(objects=objects, events=events)
    options = ControllerOptions(resync_period_seconds=period)
    async with SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps")
        controller = Controller(
            "probe", probe.reconcile, informer, predicate=probe.predicate, options=options
        )
        async with asyncio.timeout(_TIMEOUT_SECONDS), controller:
            await probe.has_begun.wait()
            if not period:
                for number in range(objects):
                    controller.enqueue(f"default/{config_map_name(number)}")
            await probe.has_reminder.wait()
            for number in random.Random(events).sample(range(objects), events):
                await _touch(cluster, number)
                await asyncio.sleep(span_seconds / per_span)
            await probe.has_every_event.wait()
    return probe


async def _touch(cluster: Cluster, number: int) -> None:
    key = f"default/{config_map_name(number)}"
    old = await cluster.get("v1", "configmaps", key)
    edited = old.to_dict()
    edited["data"] = {"key": old.metadata.resource_version}
    await cluster.patch(old, edited)


def _percentile(ascending: Sequence[float], share: float) -> float:
    """Return milliseconds that this share of the latencies does not exceed."""
    return ascending[math.ceil(share * len(ascending)) - 1] * 1e3
