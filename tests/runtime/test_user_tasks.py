"""User code in plain tasks: cancelled once, awaited for a grace period, then left alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer._runtime.tasks import UserTask, UserTasks, run_shielded
from tests.virtual_time import elapse
from tests.waiting import now, settle

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.virtual_time


class Stubborn:
    """Swallows every cancellation until it is released."""

    def __init__(self) -> None:
        self.cancellations = 0
        self.release = asyncio.Event()

    async def run(self) -> None:
        """Run as the task."""
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancellations += 1


async def test_a_task_that_ends_is_not_abandoned() -> None:
    tasks = UserTasks()
    task = tasks.spawn("sleeper", asyncio.Event().wait())  # type: ignore[arg-type] # result unused

    assert await task.stop(5.0)

    assert task.done
    assert tasks.abandoned == ()
    assert now() == 0.0


def test_a_task_that_the_end_of_the_program_has_cancelled_is_not_cancelled_again() -> None:
    """`asyncio.run` cancels every task once, and what it ends then stops the others."""
    steps: list[str] = []
    left: list[object] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append("rollback")

    async def own(task: UserTask) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            steps.append(f"ended: {await task.stop(5.0)}")

    async def main() -> None:
        task = UserTasks().spawn("worker", work())
        left.append(asyncio.create_task(own(task)))
        await settle()

    asyncio.run(main())
    assert steps == ["rollback", "ended: True"]


async def test_a_task_that_has_cancelled_itself_before_is_cancelled() -> None:
    """In Python 3.11 and 3.12 a TaskGroup of which a child fails leaves `cancelling()` at 1."""

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = UserTasks().spawn("worker", run())
    await settle()

    assert await task.stop(5.0)
    assert now() == 0.0


async def test_a_task_that_leaves_a_block_after_its_timeout_is_cancelled() -> None:
    steps: list[str] = []

    async def run() -> None:
        try:
            async with asyncio.timeout(1):
                try:
                    await asyncio.Event().wait()
                finally:
                    steps.append("rollback")
                    await elapse(3)
        except TimeoutError:
            steps.append("again")

    task = UserTasks().spawn("worker", run())
    await settle()
    await elapse(1)
    await settle()

    assert await task.stop(5.0)
    assert (steps, now()) == (["rollback"], 1.0)


async def test_the_finally_block_of_a_task_is_awaited() -> None:
    steps: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for step in ("rollback", "report"):
                await elapse(1)
                steps.append(step)

    task = UserTasks().spawn("worker", run())
    await settle()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await task.stop(5.0)

    assert steps == ["rollback", "report"]
    assert now() == 2.0


async def test_a_task_that_swallows_cancellation_is_named_and_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("stubborn", stubborn.run())
    await settle()

    assert not await task.stop(5.0)

    assert tasks.abandoned == ("stubborn",)
    assert stubborn.cancellations == 1
    assert now() == 5.0
    assert caplog.messages == ["stubborn did not end within 5.0 s and is left to itself"]
    assert caplog.records[0].levelno == logging.ERROR

    stubborn.release.set()
    await settle()

    assert not tasks.abandoned
    assert caplog.messages[1:] == ["stubborn finished late"]


async def test_cancellation_is_never_delivered_twice() -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("stubborn", stubborn.run())
    await settle()
    for _ in range(3):
        task.cancel_once()
        await task.stop(1.0)

    assert stubborn.cancellations == 1

    stubborn.release.set()
    await task.wait(1.0)


async def test_stopping_from_inside_returns_at_once() -> None:
    outcome: list[bool] = []
    handles: list[UserTask] = []

    async def run() -> None:
        outcome.append(await handles[0].wait(5.0))
        outcome.append(await handles[0].stop(5.0))

    handles.append(UserTasks().spawn("suicidal", run()))
    await settle()

    assert outcome == [False, False]
    assert now() == 0.0


async def test_waiting_does_not_cancel() -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("slow", stubborn.run())

    assert not await task.wait(2.0)
    assert now() == 2.0
    assert tasks.abandoned == ()

    stubborn.release.set()
    assert await task.wait(2.0)
    assert stubborn.cancellations == 0


@pytest.mark.parametrize("how", [pytest.param("stop", id="stop"), pytest.param("wait", id="wait")])
async def test_a_cancelled_wait_continues_up_to_its_timeout(how: str) -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("stubborn", stubborn.run())
    waiter = asyncio.create_task(task.stop(5.0) if how == "stop" else task.wait(5.0))
    await settle()

    waiter.cancel()
    await asyncio.wait([waiter])

    assert waiter.cancelled()
    assert now() == 5.0
    assert tasks.abandoned == (("stubborn",) if how == "stop" else ())
    stubborn.release.set()
    await task.wait(1.0)


async def test_a_cancelled_wait_passes_the_cancellation_on_once_the_task_has_ended() -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("slow", stubborn.run())
    waiter = asyncio.create_task(task.wait(50.0))
    await settle()

    waiter.cancel()
    await settle()
    stubborn.release.set()
    await asyncio.wait([waiter])

    assert waiter.cancelled()
    assert now() == 0.0


async def test_a_crash_is_reported_and_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crashes: list[BaseException] = []

    async def crash() -> None:
        raise ValueError("the content of a Secret")

    task = UserTasks(on_crash=crashes.append).spawn("crasher", crash())
    await task.wait(1.0)
    await settle()

    assert [type(error) for error in crashes] == [ValueError]
    (line,) = caplog.messages
    assert line.startswith("crasher crashed with ValueError at ")
    assert "Secret" not in line


def test_outside_of_a_loop_nothing_is_current() -> None:
    found: list[Callable[[], bool]] = []

    async def main() -> None:
        task = UserTasks().spawn("short", asyncio.sleep(0))
        found.append(lambda: task.is_current)
        await task.wait(1.0)

    asyncio.run(main())

    assert not found[0]()


async def test_all_tasks_are_stopped_within_one_grace(caplog: pytest.LogCaptureFixture) -> None:
    tasks, stubborn = UserTasks(), [Stubborn() for _ in range(3)]
    for number, each in enumerate(stubborn):
        tasks.spawn(f"stubborn {number}", each.run())
    await settle()

    stopping = asyncio.create_task(tasks.stop(5.0))
    await settle()
    stopping.cancel()
    await asyncio.wait([stopping])

    assert stopping.cancelled()
    assert now() == 5.0
    assert tasks.abandoned == ("stubborn 0", "stubborn 1", "stubborn 2")
    assert [each.cancellations for each in stubborn] == [1, 1, 1]
    assert all("did not end within 5.0 s" in message for message in caplog.messages)
    for each in stubborn:
        each.release.set()
    await settle()


async def test_an_excluded_task_is_not_stopped() -> None:
    tasks, stubborn = UserTasks(), Stubborn()
    task = tasks.spawn("stubborn", stubborn.run())
    await settle()
    task.detach()

    await task.wait(5.0)
    await task.stop(5.0)
    await tasks.stop(5.0)

    assert now() == 0.0
    assert stubborn.cancellations == 0
    stubborn.release.set()
    await settle()


@pytest.mark.parametrize("awaits_at_its_end", [False, True])
async def test_a_task_that_ignores_cancellation_can_be_abandoned(awaits_at_its_end: bool) -> None:
    """asyncio.run() waits for every task at the end: the tasks must be able to end."""
    told: list[str] = []
    crashes: list[BaseException] = []

    async def stubborn() -> None:
        try:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    told.append("cancelled")
        finally:
            told.append("ends")
            if awaits_at_its_end:
                await asyncio.Event().wait()

    tasks = UserTasks(on_crash=crashes.append)
    task = tasks.spawn("stubborn", stubborn())
    await elapse(1.0)
    await tasks.stop(1.0)
    assert tasks.abandoned == ("stubborn",)
    tasks.close_abandoned()
    await elapse(1.0)
    assert task.done
    assert not tasks.abandoned
    assert (told, crashes) == (["cancelled", "ends"], [])


async def test_a_shielded_coroutine_returns_and_raises_as_if_it_were_awaited() -> None:
    async def returns() -> int:
        await elapse(1)
        return 5

    async def fails() -> None:
        raise ValueError("mine")

    assert await run_shielded("it", returns()) == 5
    with pytest.raises(ValueError, match="mine"):
        await run_shielded("it", fails())


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("how", ["asyncio", "anyio"])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_shielded_coroutine_ends_before_its_caller_is_cancelled(
    caplog: pytest.LogCaptureFixture, how: str, times: int, *, fails: bool
) -> None:
    ended: list[float] = []

    async def close() -> None:
        await elapse(5)
        ended.append(now())
        if fails:
            raise ValueError("mine")

    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            await run_shielded("the close of it", close())
        ended.append(-1.0)

    task = asyncio.create_task(call())
    for _ in range(times):
        await elapse(1)
        if how == "asyncio":
            task.cancel()
        else:
            scope.cancel()
    await asyncio.wait((task,))
    assert task.cancelled() == (how == "asyncio")
    assert ended == ([5.0] if how == "asyncio" else [5.0, -1.0]) or (how, fails) == ("anyio", True)
    assert ("the close of it failed, and was cancelled: ValueError" in caplog.text) == (
        fails and how == "asyncio"
    )
