"""Keys from other threads, and from before there is a loop: all of them arrive, none twice."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.workqueue import (
    ItemExponentialFailureRateLimiter,
    PriorityQueue,
    Queue,
    WorkQueueStatistics,
)
from tests.waiting import until


def in_thread(call: Callable[[], None]) -> None:
    """Make a call in another thread and wait for its end."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_before_there_is_a_loop_any_thread_may_add() -> None:
    queue = Queue[str]()
    in_thread(lambda: queue.add("theirs"))
    queue.add("ours")
    assert queue.statistics().depth == 2
    assert [queue.get_nowait(), queue.get_nowait()] == ["theirs", "ours"]


def test_keys_added_before_the_loop_are_taken_by_it() -> None:
    queue = Queue[str]()
    in_thread(lambda: queue.add_after("later", 0.3))
    in_thread(lambda: queue.add("now"))

    async def take() -> list[str]:
        return [await queue.get(), await queue.get()]

    assert asyncio.run(take()) == ["now", "later"]


async def test_a_waiting_worker_is_woken_by_another_thread() -> None:
    queue = Queue[str]()
    get = asyncio.create_task(queue.get())
    await until(lambda: queue.statistics().waiters)
    in_thread(lambda: queue.add("a"))
    assert await get == "a"


async def test_many_threads_lose_nothing() -> None:
    queue = Queue[tuple[int, int]]()
    producers, each = 8, 2_000
    taken: set[tuple[int, int]] = set()

    def produce(number: int) -> None:
        for count in range(each):
            queue.add((number, count))

    async def work() -> None:
        while len(taken) < producers * each:
            async with queue.item() as item:
                assert item not in taken
                taken.add(item)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
    worker = asyncio.create_task(work())
    for thread in threads:
        thread.start()
    await asyncio.wait_for(worker, 100.0)
    for thread in threads:
        thread.join()
    assert len(taken) == producers * each
    assert queue.statistics().handed_over == 0


async def test_many_keys_of_a_thread_wake_the_loop_once_and_yield() -> None:
    queue = Queue[int]()
    queue.add(-1)
    calls: list[object] = []
    loop = asyncio.get_running_loop()
    original = loop.call_soon_threadsafe

    def counted(callback: Callable[..., object], *args: object) -> asyncio.Handle:
        calls.append(callback)
        return original(callback, *args)

    loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]  # counts only

    def produce() -> None:
        for number in range(2_500):
            queue.add(number)

    in_thread(produce)
    assert len(calls) == 1
    await asyncio.sleep(0)
    assert queue.statistics().handed_over == 1_500
    await until(lambda: not queue.statistics().handed_over)
    assert len(queue) == 2_501


async def test_priorities_delays_and_failures_cross_threads() -> None:
    limiter = ItemExponentialFailureRateLimiter(0.01, 1.0)
    queue = PriorityQueue[str](rate_limiter=limiter)
    queue.add("here")

    def produce() -> None:
        queue.add("low", priority=-1)
        queue.add_after("after", 0.01, priority=2)
        queue.add_rate_limited("failed", priority=3)

    in_thread(produce)
    await until(lambda: len(queue) == 4)
    assert [await queue.get() for _ in range(4)] == ["failed", "after", "here", "low"]
    assert queue.num_requeues("failed") == 1


def test_a_bad_key_is_refused_in_the_thread_that_gave_it() -> None:
    queue = PriorityQueue[object]()
    with pytest.raises(InvalidTypeError, match="hashable"):
        queue.add([])
    with pytest.raises(InvalidTypeError, match="None"):
        queue.add(None)
    with pytest.raises(InvalidTypeError, match="priority"):
        queue.add("a", priority=0.5)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgumentError, match="delay_seconds"):
        queue.add_after("a", float("nan"))
    assert queue.statistics().handed_over == 0


def test_adding_after_the_loop_has_ended_is_allowed() -> None:
    queue = Queue[str]()

    async def use() -> None:
        queue.add("a")
        await queue.get()

    asyncio.run(use())
    in_thread(lambda: queue.add("b"))
    assert queue.statistics().handed_over == 1


@pytest.mark.parametrize("kind", [Queue, PriorityQueue])
async def test_reading_the_status_from_another_thread_moves_no_key(
    kind: type[Queue[str] | PriorityQueue[str]],
) -> None:
    now = [0.0]
    queue = kind(clock=lambda: now[0])
    queue.add("b")  # on the loop's thread, which is the queue's from now on
    queue.add_after("a", 1.0)
    now[0] = 2.0
    seen: list[WorkQueueStatistics] = []
    in_thread(lambda: seen.append(queue.statistics()))
    assert (seen[0].depth, seen[0].delayed, seen[0].oldest_seconds) == (1, 1, 2.0)
    here = queue.statistics()
    assert (here.depth, here.delayed) == (2, 0)


@pytest.fixture
def often_interrupted() -> Iterator[None]:
    """Have threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kind", [Queue, PriorityQueue])
@pytest.mark.usefixtures("often_interrupted")
async def test_a_queue_may_be_looked_at_while_it_works(
    kind: type[Queue[int] | PriorityQueue[int]],
) -> None:
    queue = kind()
    looks = list[WorkQueueStatistics]()

    def look() -> None:
        looks.extend(queue.statistics() for _ in range(300))

    queue.add(0)
    thread = threading.Thread(target=look)
    thread.start()
    while thread.is_alive():
        for item in range(30):
            if isinstance(queue, PriorityQueue):
                queue.add_after(item, 1e-5, priority=item % 5)
            queue.add(item)
        while (taken := queue.get_nowait()) is not None:
            queue.done(taken)
    thread.join()
    assert len(looks) == 300
    assert all(look.oldest_seconds < 60.0 and look.processing >= 0 for look in looks)
