"""The clock of leader election includes the time in which the system is suspended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pyinformer.client.cluster import connect
from pyinformer.leaderelection import LeaderElector, Term
from pyinformer.testing import APIServer
from tests.suspends import HAS_CLOCK, suspending

pytestmark = HAS_CLOCK


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that suspends the machine."""
    return suspending(monkeypatch)


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
