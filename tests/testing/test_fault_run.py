"""A program under faults, from the fixture to the verdict."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import pytest

import pyinformer
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import FaultRun, FaultSchedule, TimedFault
from pyinformer.testing.histories import FaultRecord, read_history
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, FaultProxy

    UnderFaults: TypeAlias = Callable[..., AbstractAsyncContextManager[FaultRun]]

POD: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "pod-"}}
BUSY = FaultSchedule(
    [TimedFault(name="status", at_seconds=0.0, lasts_seconds=1.0, arguments={"status": "503"})]
)
REFUSED = FaultSchedule([TimedFault(name="refuse", at_seconds=0.0, lasts_seconds=600.0)])


async def follow(run: FaultRun, server: APIServer, reconcile: pyinformer.Reconcile[None]) -> None:
    """Run a controller of pods while the faults last."""
    async with pyinformer.SharedInformerFactory(run.cluster) as factory:
        pods = factory.informer("v1", "pods")
        run.recorder.follow(pods)
        recorded = run.recorder.reconciling("pods", reconcile, pods)
        controller = pyinformer.Controller("pods", recorded, pods)
        async with pyinformer.ControllerGroup(controller, factories=[factory]):
            server.create(POD)
            await until(lambda: run.has_calmed)
            server.create(POD)
            await run.rest(timeout_seconds=5.0)


async def right(request: pyinformer.Request, pod: pyinformer.KubeObject | None) -> None:
    """Reconcile each pod."""


async def test_a_right_controller_is_struck_and_holds(
    apiserver: APIServer, under_faults: UnderFaults, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    async with under_faults(faults=BUSY) as run:
        await follow(run, apiserver, right)
    records = list(read_history(tmp_path / "history.jsonl"))
    assert [one.phase for one in records if isinstance(one, FaultRecord)] == ["began", "healed"]
    assert {one.status for one in fault_proxy.requests} == {200, 503}


async def test_a_controller_that_gives_up_is_named_with_its_story(
    apiserver: APIServer, under_faults: UnderFaults, tmp_path: Path
) -> None:
    async def wrong(request: pyinformer.Request, pod: pyinformer.KubeObject | None) -> None:
        raise pyinformer.TerminalError("gives up")

    with pytest.raises(AssertionError, match="the last state of an object was not") as caught:
        async with under_faults(faults=BUSY) as run:
            await follow(run, apiserver, wrong)
    assert "default/pod-" in str(caught.value)
    assert str(tmp_path / "history.jsonl") in str(caught.value)


@pytest.mark.parametrize(("follows", "rests"), [(True, False), (False, True)])
async def test_a_run_that_can_judge_nothing_does_not_hold(
    apiserver: APIServer, under_faults: UnderFaults, *, follows: bool, rests: bool
) -> None:
    with pytest.raises(AssertionError, match="nothing was judged"):
        async with (
            under_faults(faults=BUSY) as run,
            pyinformer.SharedInformerFactory(run.cluster) as factory,
        ):
            pods = factory.informer("v1", "pods")
            if follows:
                run.recorder.follow(pods)
            await factory.start()
            apiserver.create(POD)
            await factory.wait_for_cache_sync(timeout_seconds=100)
            if rests:
                await run.rest()


async def test_a_schedule_without_a_fault_is_refused(under_faults: UnderFaults) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must have a fault.* in 0\.01"):
        async with under_faults(seconds=0.01):
            pass


async def test_an_error_of_the_test_is_raised_and_ends_the_faults(
    under_faults: UnderFaults,
) -> None:
    with pytest.raises(LookupError, match="of the test"):
        async with under_faults(faults=REFUSED) as run:
            assert not run.has_calmed
            raise LookupError("of the test")
    assert run.has_calmed


async def test_a_cancelled_rest_ends_the_faults(
    under_faults: UnderFaults, fault_proxy: FaultProxy
) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with under_faults(faults=REFUSED) as run:
            entered.set()
            await run.rest()

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(_answers, fault_proxy)


def _answers(proxy: FaultProxy) -> None:
    """Fail unless the proxy passes connections again."""
    port = urlsplit(proxy.url).port
    assert port
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
