"""The clock of leader election includes the time in which the system is suspended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from pyinformer._clock import lease_time
from pyinformer.cluster import connect
from pyinformer.leaderelection import LeaderElector, Term
from pyinformer.testing import APIServer

pytestmark = pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no clock that includes suspends"
)
_SUSPENDED_SECONDS = 1_000_000.0


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes the system's clocks as they are after a suspend."""
    system = time.clock_gettime
    suspended_seconds = 0.0

    def read(clock: int) -> float:
        """Return a clock; only one of them includes suspends."""
        return system(clock) + (suspended_seconds if clock == time.CLOCK_BOOTTIME else 0.0)

    def suspend() -> None:
        """Suspend the system for long."""
        nonlocal suspended_seconds
        suspended_seconds = _SUSPENDED_SECONDS

    monkeypatch.setattr(time, "clock_gettime", read)
    return suspend


def test_lease_time_includes_suspends(suspend: Callable[[], None]) -> None:
    before = lease_time()
    suspend()
    assert lease_time() >= before + _SUSPENDED_SECONDS


async def test_a_term_is_over_after_a_suspend(suspend: Callable[[], None]) -> None:
    found: list[bool] = []

    async def lead(term: Term) -> None:
        found.append(term.has_ended)
        suspend()
        found.append(term.has_ended)
        running.cancel()
        await asyncio.Event().wait()

    with APIServer() as server:
        async with connect(server=server.url) as cluster:
            elector = LeaderElector(cluster, "db-operator", namespace="default")
            running = asyncio.create_task(elector.run(lead))
            await asyncio.wait([running])
    assert found == [False, True]
