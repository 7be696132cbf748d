"""When periodic audits are due: spread about their period, and soon after a suspicion."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, cast

import pytest

from pyinformer.cache.informer._auditor import Auditor
from pyinformer.cache.reflector import ReflectorOptions, ReflectorState, RequestBudget
from pyinformer.cache.store import Indexer
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch
from pyinformer.objects import GroupVersionResource

if TYPE_CHECKING:
    from pyinformer.cache.reflector import ReflectorStatus

pytestmark = pytest.mark.virtual_time
PERIOD_SECONDS = 1800.0


class NeverAsked:
    """A reflector that no audit gets to ask."""

    state = ReflectorState.LOADING
    position = ""

    def status(self) -> ReflectorStatus:
        """Fail."""
        raise AssertionError

    def request_relist(self, reason: str) -> None:
        """Fail."""
        raise AssertionError(reason)

    def request_proof(self, reason: str) -> None:
        """Fail."""
        raise AssertionError(reason)


def auditor(seed: int, period_seconds: float) -> Auditor:
    """Return one that has begun nothing; its connection leads nowhere, and is never opened."""
    connection = Connection(ClusterConfig(server="http://nowhere.invalid"))
    return Auditor(
        "pods",
        ListWatch(connection, GroupVersionResource.of("v1", "pods")),
        Indexer(),
        reflector=cast("Any", NeverAsked()),
        request_budget=RequestBudget(),
        options=ReflectorOptions(rng=random.Random(seed)),
        period_seconds=period_seconds,
    )


async def wait_due(auditor: Auditor) -> str:
    """Wait until an audit is due, and return the suspicion that made it so, if any."""
    return await auditor._wait_due()


async def test_the_interval_of_audits_varies_by_half() -> None:
    """So that those of many informers, started together, do not come together."""
    now = asyncio.get_running_loop().time
    waited = []
    for seed in range(200):
        began = now()
        assert not await wait_due(auditor(seed, PERIOD_SECONDS))
        waited.append(now() - began)

    assert PERIOD_SECONDS * 0.5 <= min(waited) < PERIOD_SECONDS * 0.55
    assert PERIOD_SECONDS * 1.45 < max(waited) <= PERIOD_SECONDS * 1.5


@pytest.mark.parametrize("period_seconds", [0.0, PERIOD_SECONDS], ids=["no-period", "period"])
async def test_after_a_suspicion_an_audit_is_due_within_seconds(period_seconds: float) -> None:
    now = asyncio.get_running_loop().time
    began = now()
    suspicious = auditor(1, period_seconds)
    suspicious.suspect_nowait("an event older than the position")

    assert await wait_due(suspicious) == "an event older than the position"
    assert 1.0 <= now() - began <= 3.0
