"""Waiting for a queue: a cancelled wait takes nothing, and no wait sleeps beside an entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import pytest

from pyinformer.cache.deltas import Delta, DeltaFIFO, RealFIFO
from pyinformer.errors import QueueClosedError
from tests.cache.deltas.pods import pod, read_all, settled

Queue = RealFIFO[None] | DeltaFIFO[None]

any_queue = pytest.mark.parametrize(
    "make",
    [pytest.param(RealFIFO[None], id="RealFIFO"), pytest.param(DeltaFIFO[None], id="DeltaFIFO")],
)


def words(item: object) -> list[str]:
    """Return what one pop gave, a delta or those of a key, in words."""
    deltas: list[object] = list(item) if isinstance(item, tuple) else [item]
    found = [delta for delta in deltas if isinstance(delta, Delta)]
    assert len(found) == len(deltas)
    return read_all(found)


@any_queue
async def test_pop_returns_what_is_queued_already(make: Callable[[], Queue]) -> None:
    queue = make()
    queue.add_nowait(pod("foo"))

    assert words(await queue.pop()) == ["Added foo 1"]


@any_queue
async def test_pop_waits_for_an_arrival(make: Callable[[], Queue]) -> None:
    queue = make()
    waiting = asyncio.create_task(queue.pop())
    await settled()
    assert not waiting.done()

    queue.add_nowait(pod("foo"))

    assert words(await waiting) == ["Added foo 1"]
    assert queue.statistics(0.0).waiters == 0


@any_queue
async def test_several_waiters_share_the_arrivals(make: Callable[[], Queue]) -> None:
    queue = make()
    waiting = [asyncio.create_task(queue.pop()) for _ in range(3)]
    await settled()

    for name in "ab":
        queue.add_nowait(pod(name))
    await settled()

    assert [task.done() for task in waiting] == [True, True, False]
    assert [words(task.result()) for task in waiting[:2]] == [["Added a 1"], ["Added b 1"]]
    queue.add_nowait(pod("c"))
    assert words(await waiting[2]) == ["Added c 1"]


@any_queue
async def test_a_pop_cancelled_while_waiting_takes_nothing(make: Callable[[], Queue]) -> None:
    queue = make()
    waiting = asyncio.create_task(queue.pop())
    await settled()

    waiting.cancel()
    await settled()
    queue.add_nowait(pod("foo"))

    assert waiting.cancelled()
    assert queue.statistics(0.0).waiters == 0
    assert words(queue.pop_nowait()) == ["Added foo 1"]


@any_queue
async def test_a_pop_cancelled_by_a_deadline_takes_nothing(make: Callable[[], Queue]) -> None:
    queue = make()

    with anyio.move_on_after(0):
        await queue.pop()
    queue.add_nowait(pod("foo"))

    assert words(queue.pop_nowait()) == ["Added foo 1"]


@any_queue
async def test_a_pop_cancelled_after_its_wake_up_leaves_it_to_the_next(
    make: Callable[[], Queue],
) -> None:
    queue = make()
    first, second = (asyncio.create_task(queue.pop()) for _ in range(2))
    await settled()

    queue.add_nowait(pod("foo"))  # wakes the first
    first.cancel()  # before it could run

    assert words(await second) == ["Added foo 1"]
    assert first.cancelled()


@any_queue
async def test_a_pop_cancelled_before_it_begins_takes_nothing(make: Callable[[], Queue]) -> None:
    queue = make()
    queue.add_nowait(pod("foo"))

    with anyio.CancelScope() as scope:
        scope.cancel()
        await queue.pop()

    assert len(queue) == 1


@any_queue
async def test_an_arrival_stolen_from_a_woken_waiter_leaves_it_waiting(
    make: Callable[[], Queue],
) -> None:
    queue = make()
    waiting = asyncio.create_task(queue.pop())
    await settled()

    queue.add_nowait(pod("stolen"))
    assert words(queue.pop_nowait()) == ["Added stolen 1"]
    await settled()
    assert not waiting.done()
    queue.add_nowait(pod("foo"))

    assert words(await waiting) == ["Added foo 1"]


@any_queue
async def test_pop_lets_others_run_although_the_queue_is_never_empty(
    make: Callable[[], Queue],
) -> None:
    queue = make()
    order = []

    async def consume() -> None:
        for _ in range(3):
            await queue.pop()
            order.append("pop")

    async def other() -> None:
        order.append("other")

    for name in "abc":
        queue.add_nowait(pod(name))
    async with asyncio.TaskGroup() as group:
        group.create_task(consume())
        group.create_task(other())

    assert order[0] == "other"


@any_queue
async def test_a_closed_queue_gives_what_it_holds_then_fails(make: Callable[[], Queue]) -> None:
    queue = make()
    queue.add_nowait(pod("a"))
    queue.add_nowait(pod("b"))

    queue.close()

    assert queue.is_closed
    assert words(await queue.pop()) == ["Added a 1"]
    assert words(await queue.pop()) == ["Added b 1"]
    with pytest.raises(QueueClosedError, match="closed and empty"):
        await queue.pop()
    assert queue.pop_nowait() is None


@any_queue
async def test_close_wakes_all_waiters_and_may_be_repeated(
    make: Callable[[], Queue],
) -> None:
    queue = make()
    waiting = [asyncio.create_task(queue.pop()) for _ in range(3)]
    await settled()

    queue.close()
    queue.close()

    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 3


@any_queue
async def test_wait_ends_with_an_arrival_and_takes_nothing(make: Callable[[], Queue]) -> None:
    queue = make()
    waiting = asyncio.create_task(queue.wait())
    await settled()
    assert not waiting.done()

    queue.add_nowait(pod("foo"))
    await waiting

    assert read_all(queue.drain_nowait()) == ["Added foo 1"]


@any_queue
async def test_wait_cancelled_takes_nothing(make: Callable[[], Queue]) -> None:
    queue = make()
    waiting = asyncio.create_task(queue.wait())
    await settled()

    waiting.cancel()
    await settled()

    assert queue.statistics(0.0).waiters == 0
