"""Calls in threads return their results; a call that never returns delays no other call."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import TYPE_CHECKING

import pytest

from pyinformer._runtime.tasks import WorkerThreads

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Unblock every thread at the end."""
    event = threading.Event()
    yield event
    event.set()


async def test_the_result_comes_back() -> None:
    assert await WorkerThreads("test").run(lambda: 42) == 42


async def test_the_error_is_raised_without_a_group() -> None:
    def fail() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError):
        await WorkerThreads("test").run(fail)


async def test_an_error_that_no_future_can_carry_comes_back_as_another() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        await WorkerThreads("test").run(lambda: next(iter(())))

    cause = raised.value.__cause__
    assert isinstance(cause, StopIteration)
    assert traceback.extract_tb(cause.__traceback__)[-1].filename == __file__


async def test_calls_one_after_the_other_share_a_thread() -> None:
    threads = WorkerThreads("test")

    used = {await threads.run(threading.get_ident) for _ in range(20)}

    assert len(used) == 1
    assert threading.get_ident() not in used


async def test_a_call_that_never_returns_delays_no_other(release: threading.Event) -> None:
    threads = WorkerThreads("test")
    entered = threading.Event()

    def block() -> None:
        entered.set()
        release.wait()

    stuck = asyncio.create_task(threads.run(block))
    await threads.run(entered.wait)

    assert await threads.run(lambda: "free") == "free"

    release.set()
    await stuck


async def test_a_blocked_thread_is_a_daemon() -> None:
    assert await WorkerThreads("test").run(lambda: threading.current_thread().daemon)


async def test_a_cancelled_call_is_waited_for(release: threading.Event) -> None:
    entered = threading.Event()
    finished = []

    def block() -> None:
        entered.set()
        release.wait()
        finished.append(1)

    threads = WorkerThreads("test")
    call = asyncio.create_task(threads.run(block))
    await threads.run(entered.wait)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()

    release.set()
    await asyncio.wait([call])

    assert call.cancelled()
    assert finished == [1]


async def test_a_call_cancelled_twice_is_left_alone(release: threading.Event) -> None:
    call = asyncio.create_task(WorkerThreads("test").run(release.wait))
    for _ in range(2):
        await asyncio.sleep(0)
        call.cancel()

    await asyncio.wait([call])

    assert call.cancelled()


async def test_the_error_of_a_cancelled_call_is_dropped(release: threading.Event) -> None:
    def fail() -> None:
        release.wait()
        raise ValueError

    call = asyncio.create_task(WorkerThreads("test").run(fail))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    release.set()
    await asyncio.wait([call])

    assert call.cancelled()


async def test_a_thread_without_work_ends_and_another_serves_the_next_call() -> None:
    threads = WorkerThreads("test", idle_seconds=0.01)
    first = await threads.run(threading.current_thread)
    await asyncio.to_thread(first.join, 20.0)
    assert not first.is_alive()

    assert await threads.run(threading.current_thread) is not first


def test_a_result_for_a_loop_that_is_gone_is_dropped(release: threading.Event) -> None:
    threads = WorkerThreads("test", idle_seconds=0.01)
    serving: list[threading.Thread] = []

    def block() -> None:
        serving.append(threading.current_thread())
        release.wait()

    async def main() -> None:
        call = asyncio.create_task(threads.run(block))
        for _ in range(2):
            await asyncio.sleep(0)
            call.cancel()
        await asyncio.wait([call])

    asyncio.run(main())
    release.set()
    while not serving:
        pass
    serving[0].join(100.0)

    assert not serving[0].is_alive()
