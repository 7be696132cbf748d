"""Reminders of thousands of objects while real events come: neither keeps the other waiting long.

The source, the pacing and the queue are the real ones; time is virtual, and a reconcile takes as
long as the test says.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pyinformer.controller.sources import PrimarySource, SourceOptions, WatchedSource
from pyinformer.workqueue import PriorityQueue
from tests.controller.sources.feeding import FedInformer, made
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from pyinformer.controller.sources import Reason, Request
    from pyinformer.objects import KubeObject

pytestmark = [pytest.mark.virtual_time, pytest.mark.timeout(120)]


@dataclass
class _Desk:
    """One worker with a queue, and a clock at its door."""

    handling_seconds: float
    ageing_seconds: float = 60.0
    asked: dict[Request, tuple[str, float]] = field(default_factory=dict)
    """Why a request waits, and since when; a real event's reason outlasts a reminder's."""
    waited: dict[str, list[float]] = field(default_factory=dict)
    """How long requests waited, by reason."""
    handled: list[tuple[str, float]] = field(default_factory=list)
    """The keys that were handled, and when."""
    peak: int = 0

    def __post_init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self.queue: PriorityQueue[Request] = PriorityQueue(
            ageing_seconds=self.ageing_seconds, clock=self._now
        )

    def __call__(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Take a request, as a controller does."""
        known = self.asked.get(request)
        if known is None or (known[0] == "resync" and reason.event != "resync"):
            self.asked[request] = (reason.event, self._now())
        self.queue.add_nowait(request, priority=priority)
        self.peak = max(self.peak, len(self.queue))

    async def work(self) -> None:
        """Handle one request after the other."""
        while True:
            request = await self.queue.get()
            why, since = self.asked.pop(request)
            self.waited.setdefault(why, []).append(self._now() - since)
            await elapse(self.handling_seconds)
            self.handled.append((request.key, self._now()))
            self.queue.done(request)


def _objects(count: int) -> list[KubeObject]:
    return [made(f"a{number}") for number in range(count)]


async def _stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_real_event_waits_less_than_100_ms_during_a_resync_of_13000_objects() -> None:
    period_seconds, count = 60.0, 13_000
    informer, desk = FedInformer(), _Desk(handling_seconds=0.001)
    informer.load(*_objects(count))
    options = SourceOptions(resync_period_seconds=period_seconds, rng=random.Random(0))
    source = PrimarySource(informer, options=options)
    source.attach(desk)
    pump = asyncio.create_task(source.run())
    loop = asyncio.get_running_loop()
    first_at = random.Random(0).uniform(0.0, period_seconds)
    await source.wait_synced()
    while (waiting := desk.queue.get_nowait()) is not None:
        desk.queue.done(waiting)
    desk.asked.clear()
    desk.peak = 0

    worker = asyncio.create_task(desk.work())
    await elapse(max(0.0, first_at - loop.time()))
    began_at = desk.handled[0][1] if desk.handled else loop.time()
    for second in range(1, 50):
        await elapse(1.0)
        informer.update(made(f"a{second}", version=2))
    await elapse(began_at + period_seconds - loop.time())
    await _stop(pump, worker)

    assert len(desk.waited["updated"]) == 49
    assert max(desk.waited["updated"]) < 0.1
    reminded = {key for key, _ in desk.handled}
    assert len(reminded) == count, "every object was reminded of within the period"
    assert desk.peak < 100, "reminders are spread, not queued"


async def test_without_pacing_and_priority_the_same_event_would_wait_for_seconds() -> None:
    """What the test above guards against is a real danger in it."""
    informer, desk = FedInformer(), _Desk(handling_seconds=0.001)
    informer.load()
    PrimarySource(informer).attach(desk)
    for obj in _objects(3_000):
        informer.add(obj)
    worker = asyncio.create_task(desk.work())
    informer.add(made("late"))
    await elapse(4.0)
    await _stop(worker)

    assert desk.waited["added"][-1] > 2.9


async def test_resyncs_are_handled_while_events_come_faster_than_they_can_be_handled() -> None:
    handling_seconds, ageing_seconds, overload_seconds = 0.01, 2.0, 30
    informer, desk = FedInformer(), _Desk(handling_seconds, ageing_seconds=ageing_seconds)
    informer.load(*_objects(400))
    options = SourceOptions(resync_period_seconds=40.0, rng=random.Random(1))
    source = PrimarySource(informer, options=options)
    source.attach(desk)
    busy = FedInformer()
    busy.load()
    WatchedSource(busy, lambda obj: obj.key).attach(desk)
    pump, worker = asyncio.create_task(source.run()), asyncio.create_task(desk.work())
    while len(desk.handled) < 400:
        await elapse(1.0)
    desk.handled.clear()
    desk.waited.clear()

    per_second = round(1.1 / handling_seconds)
    for number in range(per_second * overload_seconds):
        busy.add(made(f"new{number}"))
        await elapse(1 / per_second)
    during = list(desk.waited.get("resync", ()))
    await elapse(60.0)
    await _stop(pump, worker)

    assert len(during) > 100, "reminders were handled during the overload"
    # Beyond its age it waits only for what has waited as long; strictly by priority, it would wait
    # for the end of the overload.
    assert max(desk.waited["resync"]) < overload_seconds / 3
    assert len(desk.waited["added"]) == per_second * overload_seconds
