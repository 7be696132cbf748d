"""Lists of a real kube-apiserver go back to older versions; etcd's log judges the program."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import Fault, KubeAPIServer
from pyinformer.testing.histories import AuditedRecord, History, check_history
from tests.integration.chaos.scripted import LATER, following
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.chaos.scripted import Scene

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]

EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


@pytest.fixture(scope="module")
def server(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    with KubeAPIServer(build=kube_apiserver_build) as running:
        yield running


class Expiry:
    """Answers every watch by 410 while it is on, so that the program lists."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._is_on = False
        fault = Fault(verb="watch", body=EXPIRED, match=lambda _: self._is_on, times=None)
        scene.proxy.faults.add(fault)

    async def force_a_list(self) -> None:
        """Expire watches until everything has been listed."""
        before = self._lists()
        self._is_on = True
        self._scene.proxy.cut()
        await until(lambda: self._lists() > before, what="a list of everything")
        self._is_on = False

    def _lists(self) -> int:
        """Return how often everything was listed; proofs of the history list one object."""
        return sum(
            (one.verb, one.resource, one.status) == ("list", "configmaps", 200) and not one.query
            for one in self._scene.proxy.requests
        )


@pytest.mark.parametrize("lie", ["older-list", "rewound-list"])
async def test_lists_that_go_back_are_reported_and_right_after_one_audit(
    server: KubeAPIServer, lie: str
) -> None:
    """Each is reported as another history.

    What is wrong then is found by the audit, or before it by a proof: that depends on the object
    for which the proof asks.
    """
    history = History()
    async with following(server, history) as scene:
        await scene.rest()
        lying = await scene.strike(lie)
        expiry = Expiry(scene)
        await expiry.force_a_list()  # the one that is repeated
        await asyncio.to_thread(scene.writer.churn)
        await scene.rest()
        await expiry.force_a_list()
        await until(lambda: scene.informer.state.value == "watching")
        await scene.heal(lying)
        await scene.recorder.audit()
        await scene.rest()
        epoch = sum(one.epoch for one in scene.informer.status().namespaces)
    server.close_connections()
    verdict = check_history(history)
    audits = sum(isinstance(one, AuditedRecord) for one in history)

    assert verdict.holds, str(verdict)
    assert verdict.excused, "the program has shown the lie"
    assert (audits, epoch > 0) == (1, True)
    assert verdict.records["handled"] > 2 * LATER
