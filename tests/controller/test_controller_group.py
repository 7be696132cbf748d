"""Several controllers in one lifetime: each for itself at the start, in order at the end."""

from __future__ import annotations

import asyncio

import pytest

from pyinformer import CacheSyncTimeoutError, Controller, ControllerGroup, Request
from pyinformer.errors import InvalidArgumentError, LifecycleError
from tests.controller.running import Calls, Said, options
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


@pytest.mark.covers(
    "controller-runtime pkg/controller: should return an error if two controllers are",
    "controller-runtime pkg/controller: should return an error if two controllers are (2)",
)
def test_two_controllers_with_one_name_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="two are named 'pods'"):
        ControllerGroup(Controller("pods", Calls()), Controller("pods", Calls()))


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should wait for informers to be synced before"
)
async def test_a_controller_works_as_soon_as_its_own_sources_have_synced() -> None:
    fast_calls, slow_calls = Calls(), Calls()
    fast = Controller("fast", fast_calls, options=options())
    slow = Controller("slow", slow_calls, options=options())
    source = Said(has_synced=False)
    slow.add_source(source)
    group = ControllerGroup(fast, slow)
    fast.enqueue("default/a")
    slow.enqueue("default/a")
    starting = asyncio.create_task(group.start())
    await elapse(10.0)
    assert (fast_calls.times, slow_calls.times) == ([0.0], [])
    source.synced.set()
    await starting
    await elapse(1.0)
    assert slow_calls.times == [10.0]
    await group.aclose()


async def test_all_sources_stop_before_the_drains_and_the_drains_run_concurrently() -> None:
    story = list[str]()

    class Told(Said):
        def detach(self) -> None:
            story.append(f"detach {self.name}")

    async def reconcile(request: Request, obj: object) -> None:
        await elapse(6.0)
        story.append(f"end {request}")

    controllers = []
    for name in ("a", "b"):
        controller = Controller(name, reconcile, options=options())
        controller.add_source(Told(name))
        controller.enqueue(name)
        controllers.append(controller)
    async with ControllerGroup(*controllers) as group:
        await elapse(1.0)
        assert [one.name for one in group.status().controllers] == ["a", "b"]
        assert group.status().abandoned == ()
    assert story == ["detach a", "detach b", "end a", "end b"]
    assert asyncio.get_running_loop().time() == 6.0


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return an error if there is an error (2)"
)
async def test_a_failed_start_stops_the_other_controllers() -> None:
    working, waiting = Controller("works", Calls()), Controller("waits", Calls())
    waiting.add_source(Said(has_synced=False))
    with pytest.raises(CacheSyncTimeoutError, match="said of controller waits"):
        async with ControllerGroup(working, waiting):
            pytest.fail("it cannot start")
    assert not working.is_running


async def test_a_controller_of_a_group_is_not_started_by_itself() -> None:
    controller = Controller("c", Calls())
    async with ControllerGroup(controller):
        with pytest.raises(LifecycleError, match="was started before"):
            await controller.start()
        with pytest.raises(LifecycleError, match="was started before"):
            await ControllerGroup(controller).run()
        with pytest.raises(LifecycleError, match="close the group"):
            await controller.aclose()
        assert controller.is_running
    await controller.wait_ended()


async def test_a_group_with_a_controller_that_runs_starts_none_of_its_others() -> None:
    busy, free = Controller("busy", Calls()), Controller("free", Calls())
    async with busy:
        with pytest.raises(LifecycleError, match="controller busy was started before"):
            await ControllerGroup(free, busy).start()
        assert busy.is_running
    async with free:
        assert free.is_running


async def test_an_empty_group_starts_and_ends() -> None:
    async with ControllerGroup() as group:
        assert group.status().controllers == ()
