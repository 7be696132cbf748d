"""The host: errors without groups, readiness, bounded ends, and crashes that are raised."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer._runtime.tasks import Host, start_later
from pyinformer.errors import InformerError, InternalError, LifecycleError
from tests.virtual_time import VirtualTimeLoop, elapse
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

pytestmark = pytest.mark.virtual_time


async def crash() -> None:
    """Crash, as a task of the host with a bug does."""
    raise ZeroDivisionError


class Slow:
    """A main function that takes time to become ready, and to clean up."""

    def __init__(self, *, ready_after_seconds: float = 0.0, cleanup_seconds: float = 0.0) -> None:
        self.ready_after_seconds = ready_after_seconds
        self.cleanup_seconds = cleanup_seconds
        self.cleaned_up = False

    async def __call__(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            await elapse(self.ready_after_seconds)
            ready()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await elapse(self.cleanup_seconds)
            self.cleaned_up = True


async def test_a_task_that_is_added_later_runs_in_the_context_of_the_start() -> None:
    """What the first caller of a shared object has set must not stay in force for all others."""
    current = ContextVar("current", default="nothing")
    found: list[str] = []

    async def note(what: str) -> None:
        found.append(f"{what} {current.get()}")

    host = Host("test")
    current.set("the start")
    await host.start()
    current.set("the caller")
    host.start_soon(note, "in")
    host.start_soon(note, "again in")
    await settle()
    assert found == ["in the start", "again in the start"]
    await host.aclose()
    with pytest.raises(LifecycleError):
        host.start_soon(note, "after")


async def test_start_waits_for_readiness() -> None:
    host = Host("test", Slow(ready_after_seconds=3.0))
    assert not host.is_running

    await host.start()

    assert now() == 3.0
    assert host.is_running
    await host.aclose()
    assert not host.is_running


async def test_an_error_of_the_caller_is_raised_without_a_group() -> None:
    host = Host("test")

    with pytest.raises(ValueError, match="mine") as caught:
        async with host:
            host.task_group.start_soon(anyio.sleep_forever)
            raise ValueError("mine")

    assert not hasattr(caught.value, "__notes__")


async def test_an_error_before_readiness_is_raised_by_start_without_a_group() -> None:
    async def main(group: TaskGroup, ready: Callable[[], None]) -> None:
        raise FileNotFoundError("no kubeconfig")

    with pytest.raises(FileNotFoundError):
        await Host("test", main).start()


async def test_a_crash_is_raised_at_the_end_without_a_group() -> None:
    told: list[InformerError] = []
    host = Host("the factory", on_crash=told.append)
    with pytest.raises(InternalError) as caught:
        async with host:
            host.task_group.start_soon(crash)
            await settle()
            assert not host.is_running
            assert len(told) == 1

    assert str(caught.value).startswith("the factory crashed with ZeroDivisionError. This is a bug")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    await host.aclose()


async def test_a_crash_is_a_note_on_the_callers_error() -> None:
    host = Host("the factory")
    with pytest.raises(ValueError, match="mine") as caught:
        async with host:
            host.task_group.start_soon(crash)
            await settle()
            raise ValueError("mine")

    (note,) = caught.value.__notes__
    assert note.startswith("meanwhile: the factory crashed with ZeroDiv")


async def test_each_of_several_crashes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def crash_too() -> None:
        raise LifecycleError("the second")

    host = Host("the factory")
    with pytest.raises(InternalError):
        async with host:
            host.task_group.start_soon(crash)
            host.task_group.start_soon(crash_too)
            await settle()

    (line,) = [message for message in caplog.messages if "crashed with" in message]
    assert "ExceptionGroup of 2 [ZeroDivisionError at " in line
    assert "LifecycleError (the second) at " in line


async def test_a_crash_by_one_of_our_own_errors_keeps_its_class() -> None:
    async def lose() -> None:
        raise LifecycleError("lost")

    host = Host("test")
    await host.start()
    host.task_group.start_soon(lose)
    await settle()

    with pytest.raises(LifecycleError, match="lost"):
        await host.aclose()


async def test_closing_waits_for_what_runs_inside() -> None:
    slow = Slow(cleanup_seconds=2.0)
    host = Host("test", slow)
    await host.start()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await host.aclose()

    assert slow.cleaned_up
    assert now() == 2.0


async def test_closing_is_bounded_and_logs_the_timeout(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow(cleanup_seconds=60.0)
    host = Host("test", slow)
    await host.start()

    await host.aclose(1.5)

    assert now() == 1.5
    assert caplog.messages == ["test did not stop within 1.5 s"]
    await host.aclose(60.0)
    assert slow.cleaned_up


async def test_closing_what_was_never_started_does_nothing() -> None:
    await Host("test").aclose()

    assert now() == 0.0


async def test_closing_from_inside_returns_at_once() -> None:
    async def main(group: TaskGroup, ready: Callable[[], None]) -> None:
        ready()
        await host.aclose()

    host = Host("test", main)
    await host.start()
    await host.aclose()

    assert now() == 0.0


async def test_a_host_runs_once() -> None:
    host = Host("test")
    await host.start()
    await host.aclose()

    with pytest.raises(LifecycleError, match="test was started before"):
        await host.start()


async def test_without_a_running_host_there_is_no_task_group() -> None:
    host = Host("test")

    with pytest.raises(LifecycleError, match="test is not running"):
        _ = host.task_group


async def test_a_cancelled_start_leaves_nothing_running() -> None:
    slow = Slow(ready_after_seconds=100.0, cleanup_seconds=1.0)
    starting = asyncio.create_task(Host("test", slow).start())
    await settle()

    starting.cancel()
    await asyncio.wait([starting])

    assert starting.cancelled()
    assert slow.cleaned_up
    assert now() == 1.0


async def test_a_start_cancelled_before_the_first_step_leaves_nothing_running() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await Host("test").start()

    assert scope.cancelled_caught


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_host_that_others_cancel_at_its_start_fails(has_begun: bool) -> None:
    """Its starter was not cancelled, and must not look so."""
    host = Host("test", Slow(ready_after_seconds=100.0))
    starting = asyncio.create_task(host.start())
    await asyncio.sleep(0)  # the host's task is made and has not run
    if has_begun:
        await settle()
    (task,) = (one for one in asyncio.all_tasks() if one.get_name() == "pyinformer host of test")

    task.cancel()

    with pytest.raises(LifecycleError, match="cancelled by other code"):
        await starting
    await host.wait_ready()
    await host.aclose()


async def test_an_error_during_a_cancelled_start_is_not_reported_as_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await crash()

    starting = asyncio.create_task(Host("test", main).start())
    await settle()
    starting.cancel()
    await asyncio.wait([starting])
    assert starting.cancelled()
    del starting
    gc.collect()

    assert caplog.messages == []


async def test_a_cancelled_close_still_closes() -> None:
    slow = Slow(cleanup_seconds=2.0)
    host = Host("test", slow)
    await host.start()
    closing = asyncio.create_task(host.aclose())
    await settle()

    closing.cancel()
    await asyncio.wait([closing])

    assert closing.cancelled()
    assert slow.cleaned_up


async def test_leaving_in_another_task_than_entering_works() -> None:
    host = Host("test")
    await asyncio.create_task(host.__aenter__())

    await asyncio.create_task(host.__aexit__(None, None, None))

    assert not host.is_running


async def test_a_main_function_that_returns_ends_the_host() -> None:
    async def main(group: TaskGroup, ready: Callable[[], None]) -> None:
        group.start_soon(anyio.sleep_forever)

    host = Host("test", main)
    await host.start()

    assert not host.is_running
    await host.aclose()


async def test_closing_before_the_first_step_ends_at_once() -> None:
    slow = Slow(ready_after_seconds=100.0)
    host = Host("test", slow)
    starting = asyncio.create_task(host.start())
    await asyncio.sleep(0)  # the host's task is made and has not run

    await host.aclose()
    await starting

    assert slow.cleaned_up
    assert now() == 0.0


def test_a_loop_that_ends_stops_the_host_without_a_log_line() -> None:
    slow = Slow(ready_after_seconds=100.0)

    async def main() -> None:
        starting = asyncio.create_task(Host("test", slow).start())
        await settle()
        assert not starting.done()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())

    assert slow.cleaned_up


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "beside another error"])
def test_what_ends_the_program_reaches_the_event_loop(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException], *, is_alone: bool
) -> None:
    async def end() -> None:
        raise kind(7)

    async def main(group: TaskGroup, ready: Callable[[], None]) -> None:
        ready()
        if not is_alone:
            group.start_soon(crash)
        group.start_soon(end)
        await anyio.sleep_forever()

    async def program() -> None:
        host = Host("it", main)
        await host.start()
        try:
            await anyio.sleep_forever()
        finally:
            with pytest.raises(LifecycleError, match="it ends with the program"):
                await host.aclose()

    with pytest.raises(kind):
        asyncio.run(program())
    assert "crashed" not in caplog.text


async def test_a_task_that_is_started_later_takes_part_in_the_end_of_the_group() -> None:
    began: list[float] = []
    async with anyio.create_task_group() as group:

        async def hang() -> None:
            """Hang until the group is cancelled."""
            began.append(now())
            await anyio.sleep_forever()

        start_later(group, 2.0, hang)
        start_later(group, 1.0, hang).cancel()
        await elapse(1.9)
        assert not began
        await elapse(0.2)
        assert began == [pytest.approx(2.0)]
        start_later(group, 0.0, hang)
        group.cancel_scope.cancel()
    await settle()
    assert len(began) == 1  # what is due after the end does not start
