"""`cluster.wait_ready`: a script waits for an object, by reads at growing intervals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pyinformer.errors import InvalidArgumentError, NotFoundError, ReadyTimeoutError
from pyinformer.readiness import Readiness
from pyinformer.testing import Fault, InterceptedRequest, World
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject

CLAIM: JSONObject = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"namespace": "shop", "name": "data"},
}
BOUND: JSONObject = {"status": {"phase": "Bound"}}


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, with a claim that is not bound."""
    with World([CLAIM], virtual_time=True) as world:
        yield world


async def _bind(world: World, after_seconds: float) -> None:
    await pause(after_seconds)
    claim = await world.cluster.get("v1", "persistentvolumeclaims", "shop/data")
    await world.cluster.status(claim, BOUND["status"])


def test_it_returns_the_object_once_it_is_ready(world: World) -> None:
    async def scenario() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(_bind, world, 40)
            return await world.cluster.wait_ready(CLAIM, timeout_seconds=60)

    assert world.run(scenario).at("status.phase", str) == "Bound"


def test_it_waits_for_an_object_that_does_not_exist_yet() -> None:
    empty = World([], virtual_time=True)

    async def create() -> None:
        await pause(20)
        await empty.cluster.create(CLAIM)
        await _bind(empty, 1)

    async def scenario() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(create)
            return await empty.cluster.wait_ready(CLAIM)

    with empty:
        assert empty.run(scenario).key == "shop/data"


def test_a_timeout_says_what_was_missing(world: World) -> None:
    async def scenario() -> None:
        with pytest.raises(ReadyTimeoutError) as caught:
            await world.cluster.wait_ready(CLAIM, timeout_seconds=30)
        assert str(caught.value).startswith(
            "PersistentVolumeClaim shop/data was not ready within 30.0 s: "
        )
        assert isinstance(caught.value, TimeoutError)

    world.run(scenario)


def test_a_rule_decides(world: World) -> None:
    rules = {("", "PersistentVolumeClaim"): lambda _: Readiness("Ready", "exists")}

    async def scenario() -> Any:
        return await world.cluster.wait_ready(CLAIM, rules=rules, timeout_seconds=1)

    assert world.run(scenario).key == "shop/data"


def test_what_cannot_become_ready_is_refused_at_once(world: World) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidArgumentError):
            await world.cluster.wait_ready({"kind": "Pod"})
        with pytest.raises(NotFoundError):
            await world.cluster.wait_ready({**CLAIM, "apiVersion": "gone.example.com/v1"})

    world.run(scenario)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(status=429, retry_after_seconds=1), id="busy"),
        pytest.param(Fault(status=503), id="failing"),
        pytest.param(Fault(refuse=True), id="gone"),
        pytest.param(Fault(body=b"<html>Bad gateway</html>"), id="proxy"),
    ],
)
def test_a_server_that_is_busy_or_away_is_waited_for(world: World, fault: Fault) -> None:
    """From the first request on, which looks up the kind."""
    world.patch("v1", "persistentvolumeclaims", "data", BOUND, namespace="shop")
    returned = asyncio.Event()

    def intercept(_: InterceptedRequest) -> Fault | None:
        return None if returned.is_set() else fault

    async def scenario() -> Any:
        asyncio.get_running_loop().call_later(30, returned.set)
        return await world.cluster.wait_ready(CLAIM)

    with world.intercept(intercept):
        assert world.run(scenario).key == "shop/data"


def test_a_server_that_stays_away_is_the_reason(world: World) -> None:
    async def scenario() -> None:
        with pytest.raises(ReadyTimeoutError, match=r"Claim shop/data was not .* connection"):
            await world.cluster.wait_ready(CLAIM, timeout_seconds=30)

    with world.intercept(lambda _: Fault(refuse=True)):
        world.run(scenario)


@pytest.mark.parametrize("by", ["anyio", "task"])
def test_a_cancelled_wait_ends(world: World, by: str) -> None:
    async def scenario() -> None:
        if by == "anyio":
            with anyio.move_on_after(5) as scope:
                await world.cluster.wait_ready(CLAIM)
            assert scope.cancelled_caught
            return
        task = asyncio.ensure_future(world.cluster.wait_ready(CLAIM))
        await pause(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.run(scenario)
