"""When periodic audits are due: spread about their period, and soon after a suspicion."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import pytest

from pyinformer.cache.informer import SharedInformer, core_of
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client import Cluster
from pyinformer.client.transport import Body
from pyinformer.client.transport.http import Query
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, until

PERIOD_SECONDS = 1800.0


class Audited(Line):
    """A connection to a World that notes when an audit lists."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster.connection)
        self.audits: list[float] = []

    def stream(
        self, path: str, query: Query = (), **options: Any
    ) -> AbstractAsyncContextManager[Body]:
        """Open a stream."""
        if ("resourceVersionMatch", "Exact") in query:
            self.audits.append(now())
        return super().stream(path, query, **options)


def audited(
    period_seconds: float, then: Callable[[SharedInformer[None], Audited], Any]
) -> list[float]:
    """Do something with a synced informer; return when its audits began."""

    async def scenario() -> None:
        informer: SharedInformer[None] = SharedInformer(
            Cluster(world.cluster.config, connection=line),
            "v1",
            "pods",
            options=ReflectorOptions(rng=random.Random(1)),
            audit_period_seconds=period_seconds,
        )
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await then(informer, line)

    with World(virtual_time=True) as world:
        line = Audited(world)
        world.run(scenario)
    return line.audits


def test_the_interval_of_audits_varies_by_half() -> None:
    """So that those of many informers, started together, do not come together."""

    async def wait(_informer: SharedInformer[None], _line: Audited) -> None:
        await pause(PERIOD_SECONDS * 110)

    waited = [after - before for before, after in pairwise(audited(PERIOD_SECONDS, wait))]
    assert len(waited) > 100
    assert PERIOD_SECONDS * 0.5 <= min(waited) < PERIOD_SECONDS * 0.55
    assert PERIOD_SECONDS * 1.45 < max(waited) <= PERIOD_SECONDS * 1.5


@pytest.mark.parametrize("period_seconds", [0.0, PERIOD_SECONDS], ids=["no-period", "period"])
def test_after_a_suspicion_an_audit_is_due_within_seconds(period_seconds: float) -> None:
    reason, suspected_at = "an event older than the position", list[float]()

    async def suspect(informer: SharedInformer[None], line: Audited) -> None:
        await pause(100)
        assert line.audits == []
        suspected_at.append(now())
        core_of(informer).caches.all[0].auditor.suspect_nowait(reason)
        await until(lambda: informer.last_audit)
        assert informer.last_audit is not None
        assert informer.last_audit.cause == reason

    (audit,) = audited(period_seconds, suspect)
    assert 1.0 <= audit - suspected_at[0] <= 3.0
