"""Cancelling a task that waits for a controller loses nothing, and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pyinformer import CacheSyncTimeoutError, Controller, ControllerGroup, Request
from pyinformer.errors import InternalError, LifecycleError
from tests.controller.running import Calls, Said, options, running
from tests.virtual_time import elapse

pytestmark = pytest.mark.virtual_time


async def cancelled_after(seconds: float, waiting: Awaitable[object]) -> float:
    """Cancel the waiting task; return how long the end took after that."""

    async def wait() -> None:
        await waiting

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(wait())
    await elapse(seconds)
    task.cancel()
    began_at = loop.time()
    await asyncio.wait((task,))
    assert task.cancelled()
    return loop.time() - began_at


def unsynced() -> tuple[Controller[None], Said]:
    """Make a controller whose source never has its initial keys enqueued."""
    controller = Controller("c", Calls(), options=options())
    source = Said("slow", has_synced=False)
    controller.add_source(source)
    return controller, source


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should initialize controller queue when called",
    "controller-runtime pkg/internal/controller: should return an error if there is an error",
)
@pytest.mark.parametrize("way", ["start", "run", "group.start", "group.run"])
async def test_a_cancelled_start_stops_what_was_started(way: str) -> None:
    controller, source = unsynced()
    group = ControllerGroup(controller)
    calls: dict[str, Callable[[], Awaitable[None]]] = {
        "start": controller.start,
        "run": controller.run,
        "group.start": group.start,
        "group.run": group.run,
    }
    await cancelled_after(5.0, calls[way]())
    assert not source.is_running
    assert source.was_detached
    assert not controller.is_running
    with pytest.raises(LifecycleError):
        await controller.start()


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return an error if there is an error"
)
async def test_a_start_timeout_names_the_source_that_it_waits_for() -> None:
    controller, source = unsynced()
    with pytest.raises(CacheSyncTimeoutError, match="slow of controller c: initial keys") as caught:
        await controller.start()
    assert caught.value.waited_seconds == 120.0
    assert not source.is_running


async def test_closing_during_the_start_ends_both() -> None:
    controller, _ = unsynced()

    async def start() -> None:
        with pytest.raises(LifecycleError, match="was closed while it started"):
            await controller.start()

    task = asyncio.create_task(start())
    await elapse(5.0)
    await controller.aclose()
    await task


async def test_a_cancelled_close_takes_effect_when_everything_has_ended() -> None:
    async def reconcile(request: Request, obj: object) -> None:
        await elapse(8.0)

    async with running(reconcile) as (controller, said):
        said.say("default/a")
        assert await cancelled_after(1.0, controller.aclose()) == 7.0
        assert controller.status().outcomes["success"] == 1


async def test_a_cancelled_wait_for_the_end_changes_nothing_else() -> None:
    calls = Calls()
    async with running(calls) as (controller, said):
        assert await cancelled_after(1.0, controller.wait_ended()) == 0.0
        said.say("default/a")
        await elapse(1.0)
    assert len(calls.seen) == 1
    group = ControllerGroup(Controller("c", calls))
    async with group:
        assert await cancelled_after(1.0, group.wait_ended()) == 0.0


async def test_a_cancelled_run_closes_in_order() -> None:
    ended = list[float]()

    async def reconcile(request: Request, obj: object) -> None:
        await elapse(8.0)
        ended.append(asyncio.get_running_loop().time())

    controller = Controller("c", reconcile, options=options())
    controller.enqueue("default/a")
    assert await cancelled_after(1.0, controller.run()) == 7.0
    assert ended == [8.0]


async def test_a_cancelled_group_close_takes_effect_when_everything_has_ended() -> None:
    group = ControllerGroup(Controller("c", Calls()))
    await group.start()
    await cancelled_after(0.0, group.aclose())
    await group.aclose()


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should time out if ReconciliationTimeout is"
)
async def test_a_cancelled_reconcile_once_reaches_the_reconcile_and_awaits_it() -> None:
    story = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await elapse(2.0)
            story.append("cleaned up")

    controller = Controller("c", reconcile, options=options())
    assert await cancelled_after(1.0, controller.reconcile_once("default/a")) == 2.0
    assert story == ["cleaned up"]


async def test_a_source_that_crashes_ends_the_controller_and_is_reported() -> None:
    class Broken(Said):
        async def run(self) -> None:
            """Crash.

            Cancellation:
                Never waits.
            """
            await elapse(3.0)
            raise KeyError("bug")

    controller = Controller("c", Calls(), options=options())
    controller.add_source(Broken())
    with pytest.raises(InternalError, match="controller c crashed with KeyError"):
        async with controller:
            await controller.wait_ended()
            assert not controller.is_running


async def test_a_bug_in_a_worker_ends_the_controller_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide(*_: object) -> None:
        raise ZeroDivisionError

    controller = Controller("c", Calls(), options=options())
    monkeypatch.setattr(controller.engine, "decide", decide)
    source = Said()
    controller.add_source(source)
    controller.enqueue("default/a")
    with pytest.raises(InternalError, match="controller c crashed with ZeroDivisionError"):
        await controller.run()
    assert source.was_detached
    assert not controller.is_running
