"""A program follows a real kube-apiserver through restores of its etcd, and etcd's log judges it.

Objects are written, and lost by the restore; others are written in their place, so that resource
versions are given away a second time: fewer than were lost, or more. No cache is audited.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import KubeAPIServer
from pyinformer.testing.histories import AuditedRecord, History, check_history
from tests.integration.chaos.scripted import LATER, following

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]

BUMP = 100_000


@pytest.fixture(scope="module")
def server(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    with KubeAPIServer(build=kube_apiserver_build) as running:
        yield running


@pytest.mark.parametrize(
    ("bump", "is_away", "writes_past"),
    [
        pytest.param(0, False, False, id="the-old-revision"),
        pytest.param(0, True, False, id="the-old-revision-unseen"),
        pytest.param(0, True, True, id="past-the-lost-revision-unseen"),
        pytest.param(BUMP, False, False, id="a-later-revision"),
        pytest.param(BUMP, True, True, id="a-later-revision-unseen"),
    ],
)
async def test_a_restore_leaves_nothing_lost_invented_stuck_or_out_of_order(
    server: KubeAPIServer, bump: int, *, is_away: bool, writes_past: bool
) -> None:
    """Whether the program sees the server come back, or only what it has after further writes."""
    history = History()
    async with following(server, history) as scene:
        await scene.rest()
        restore = await scene.strike("restore", bump=str(bump))
        await asyncio.to_thread(scene.writer.churn)
        await scene.rest()
        seen, restores = scene.writer.revision, scene.restores()
        away = await scene.strike("refuse") if is_away else None
        await scene.heal(restore)
        if writes_past:
            await asyncio.to_thread(scene.writer.write_past, seen)
        else:
            await asyncio.to_thread(scene.writer.write_a_little)
        if away is not None:
            await scene.heal(away)
        await scene.rest()
        is_past = scene.writer.revision > seen
        epoch = sum(one.epoch for one in scene.informer.status().namespaces)
        restores = scene.restores() - restores
    server.close_connections()
    verdict = check_history(history)

    assert verdict.holds, str(verdict)
    assert verdict.excused == (), "nothing is excused: the server does not lie"
    found = [one for one in history if isinstance(one, AuditedRecord) and one.differences]
    assert found == [], "it converges before an audit finds anything"
    assert (restores, epoch) == (1, 1), "the restore is in etcd's log, and the informer reports it"
    assert is_past == (writes_past or bump > 0)
    assert verdict.records["handled"] > 2 * LATER
    assert verdict.records["waited"] == verdict.records["waiting"] > 0
