"""Coroutines that wait for keys: woken in turn, cancelled without loss, ended by shutdown."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError, LifecycleError, QueueClosedError
from pyinformer.workqueue import PriorityQueue, Queue
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


pytestmark = pytest.mark.every_loop


async def settled() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waiters_are_served_in_order() -> None:
    queue = Queue[str]()
    gets = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settled()
    assert queue.statistics().waiters == 3
    for item in "abc":
        queue.add(item)
    assert [await get for get in gets] == ["a", "b", "c"]


async def test_waiters_get_delayed_keys_that_are_due_almost_at_once() -> None:
    """A timer of uvloop for less than half a millisecond is none, and does not know its time."""
    queue = Queue[int]()
    gets = [asyncio.create_task(queue.get()) for _ in range(20)]
    await settled()
    for item in range(20):
        queue.add_after(item, (20 - item) * 0.0001)
    assert sorted(await asyncio.gather(*gets)) == list(range(20))


async def test_a_cancelled_get_takes_nothing() -> None:
    queue = Queue[str]()
    get = asyncio.create_task(queue.get())
    await settled()
    get.cancel()
    await settled()
    queue.add("a")
    assert queue.statistics().waiters == 0
    assert await queue.get() == "a"


async def test_a_get_that_is_cancelled_as_it_is_woken_hands_the_key_on() -> None:
    queue = Queue[str]()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settled()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_a_get_that_is_cancelled_before_its_wake_up_leaves_no_hole() -> None:
    queue = Queue[str]()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settled()
    first.cancel()
    queue.add("a")
    assert await second == "a"
    assert first.cancelled()


async def _by_get(queue: Queue[int]) -> None:
    queue.done(await queue.get())


async def _by_item(queue: Queue[int]) -> None:
    async with queue.item():
        pass


@pytest.mark.parametrize("take", [_by_get, _by_item])
async def test_a_worker_that_never_waits_gives_way_to_the_loop(
    take: Callable[[Queue[int]], Awaitable[None]],
) -> None:
    queue = Queue[int]()
    for number in range(100_000):
        queue.add(number)
    others_turn = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, others_turn.set)
    taken = 0
    while not others_turn.is_set():
        await take(queue)
        taken += 1
    assert 0 < taken < 100_000


async def _keys_per_turn(seconds: list[float]) -> list[int]:
    """Return how many keys one worker takes in each turn of the loop.

    Args:
        seconds: how long the block of each key takes.
    """
    now = 1000.0
    queue = Queue[int](clock=lambda: now)
    for number in range(len(seconds)):
        queue.add(number)
    turns = [0]

    async def count_turns() -> None:
        while len(queue):
            turns.append(0)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    for _ in seconds:
        async with queue.item() as key:
            turns[-1] += 1
            now += seconds[key]
    await counting
    return turns


async def test_a_worker_of_slow_blocks_has_four_milliseconds_at_a_time() -> None:
    assert max(await _keys_per_turn([0.002] * 100)) == 3
    assert max(await _keys_per_turn([0.0005] * 100)) <= 9 + 7
    assert max(await _keys_per_turn([0.0] * 1000)) >= 900


async def test_a_worker_whose_blocks_become_slow_reads_the_clock_after_eight_keys() -> None:
    turns = await _keys_per_turn([0.0] * 50 + [0.01] * 50)
    assert max(turns[:3]) <= 50 + 8
    assert turns[3:] == [1] * len(turns[3:])


async def test_the_next_loop_of_the_thread_is_refused_after_many_keys() -> None:
    queue = Queue[int](clock=lambda: 1000.0)

    async def take(count: int) -> None:
        for _ in range(count):
            await _by_item(queue)

    def run_both() -> None:
        with asyncio.Runner() as first:
            first.run(take(5))
            assert queue._granted > 0
            with asyncio.Runner() as second, pytest.raises(LifecycleError, match="event loop"):
                second.run(take(1))
            with pytest.raises(LifecycleError, match="event loop"):
                other_thread(take(1))
            first.run(take(1))

    def other_thread(work: Coroutine[object, object, None]) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, work).result()

    for number in range(20):
        queue.add_nowait(number)
    await asyncio.to_thread(run_both)
    assert len(queue) == 14


@pytest.mark.parametrize("make", [Queue[int], PriorityQueue[int]])
async def test_nothing_is_left_of_keys_that_pass_quickly(
    make: Callable[[], Queue[int]],
) -> None:
    queue = make()
    for number in range(100):
        if isinstance(queue, PriorityQueue):
            queue.add(number, priority=7)
        else:
            queue.add(number)
    for _ in range(100):
        await _by_item(queue)
    assert queue.processing() == []
    assert queue.statistics().peak == 100
    if isinstance(queue, PriorityQueue):
        assert queue.taken == {}


async def test_two_blocks_at_once_hold_a_key_each() -> None:
    queue = Queue[str]()
    queue.add("a")
    queue.add("b")
    async with queue.item() as first:
        async with queue.item() as second:
            assert queue.is_processing(first)
            assert queue.is_processing(second)
        assert (first, second) == ("a", "b")
        assert queue.processing() == ["a"]
    assert queue.processing() == []


async def test_a_block_ends_with_done_however_it_ends() -> None:
    queue = Queue[str]()
    queue.add("a")
    with pytest.raises(ZeroDivisionError):
        async with queue.item() as item:
            queue.add(item)
            raise ZeroDivisionError
    assert queue.statistics().processing == 0
    assert await queue.get() == "a"


async def test_a_cancelled_block_that_waits_takes_nothing() -> None:
    queue = Queue[str]()

    async def work() -> None:
        async with queue.item():
            pytest.fail("nothing was there to be taken")

    task = asyncio.create_task(work())
    await settled()
    task.cancel()
    await settled()
    assert task.cancelled()
    assert queue.statistics().waiters == 0


async def test_shutdown_wakes_all_waiters() -> None:
    queue = Queue[str]()
    gets = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settled()
    queue.shut_down()
    for get in gets:
        with pytest.raises(QueueClosedError):
            await get


async def test_after_shutdown_queued_keys_are_still_returned() -> None:
    queue = Queue[str]()
    queue.add("a")
    queue.shut_down()
    assert await queue.get() == "a"
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_after_shutdown_a_get_waits_for_the_key_that_will_come_again() -> None:
    queue = Queue[str]()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.shut_down()
    two = [asyncio.create_task(queue.get()) for _ in range(2)]
    await settled()
    assert not any(get.done() for get in two)
    queue.done("a")
    assert await two[0] == "a"
    with pytest.raises(QueueClosedError):
        await two[1]


@pytest.mark.virtual_time
async def test_a_drain_waits_for_queued_keys_without_workers() -> None:
    """Kubernetes' own drain looks at what is being processed alone, and returns at once."""
    queue = Queue[str]()
    queue.add("a")
    drain = asyncio.create_task(queue.shut_down_with_drain(timeout_seconds=60.0))
    await settled()
    assert not drain.done()
    queue.done(await queue.get())
    assert await drain == []


@pytest.mark.virtual_time
async def test_a_drain_ends_at_its_deadline_and_names_what_is_left() -> None:
    queue = Queue[str]()
    for item in "ab":
        queue.add(item)
    stuck = await queue.get()
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert await queue.shut_down_with_drain(timeout_seconds=60.0) == [stuck, "b"]
    assert loop.time() == before + 60.0


async def test_every_concurrent_drain_is_woken_at_the_end() -> None:
    queue = Queue[str]()
    queue.add("a")
    item = await queue.get()
    drains = [
        asyncio.create_task(queue.shut_down_with_drain(timeout_seconds=30.0)) for _ in range(2)
    ]
    await settled()
    queue.done(item)
    assert [await drain for drain in drains] == [[], []]


async def test_dropping_queued_keys_ends_a_drain() -> None:
    queue = Queue[str]()
    queue.add("a")
    drain = asyncio.create_task(queue.shut_down_with_drain(timeout_seconds=30.0))
    await settled()
    assert queue.drop_waiting() == ["a"]
    assert await drain == []


async def test_a_cancelled_drain_leaves_the_queue_shut_down() -> None:
    queue = Queue[str]()
    queue.add("a")
    drain = asyncio.create_task(queue.shut_down_with_drain(timeout_seconds=30.0))
    await settled()
    drain.cancel()
    await settled()
    assert drain.cancelled()
    assert queue.is_shutting_down
    assert queue._drainers == []


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
async def test_a_drain_needs_a_deadline(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
        await Queue[str]().shut_down_with_drain(timeout_seconds=seconds)


@pytest.mark.virtual_time
async def test_a_get_wakes_at_exactly_the_time_of_a_delayed_key() -> None:
    queue = Queue[str]()
    queue.add_after("late", 3600.0)
    get = asyncio.create_task(queue.get())
    await settled()
    queue.add_after("soon", 10.0)
    loop = asyncio.get_running_loop()
    assert await get == "soon"
    assert loop.time() == 10.0
    assert await queue.get() == "late"
    assert loop.time() == 3600.0


@pytest.mark.virtual_time
async def test_as_many_waiters_wake_as_keys_fall_due() -> None:
    queue = Queue[str]()
    for item in "abc":
        queue.add_after(item, 5.0)
    gets = [asyncio.create_task(queue.get()) for _ in range(3)]
    assert [await get for get in gets] == ["a", "b", "c"]
    assert asyncio.get_running_loop().time() == 5.0


@pytest.mark.virtual_time
async def test_more_keys_than_one_step_takes_fall_due_at_once() -> None:
    queue = Queue[int]()
    for number in range(2_500):
        queue.add_after(number, 5.0)
    assert [await queue.get() for _ in range(2_500)] == list(range(2_500))
    assert asyncio.get_running_loop().time() == 5.0


@pytest.mark.virtual_time
async def test_keys_added_before_the_loop_keep_delay_and_age() -> None:
    queue = Queue[str]()
    queue.add_after_nowait("later", 30.0)  # by the clock of threads, long after second 0
    queue.add_nowait("now")
    assert await queue.get() == "now"
    assert queue.statistics().oldest_seconds == 0.0
    assert await queue.get() == "later"
    assert asyncio.get_running_loop().time() == pytest.approx(30.0, abs=0.5)


@pytest.mark.virtual_time
async def test_shutdown_drops_or_flushes_delayed_keys() -> None:
    dropping = Queue[str]()
    flushing = Queue[str](on_shutdown="flush")
    for queue in (dropping, flushing):
        queue.add_after("a", 10.0)
        queue.add_after("b", 5.0)
    assert dropping.shut_down() == ["b", "a"]
    assert dropping.statistics().dropped == 2
    with pytest.raises(QueueClosedError):
        await dropping.get()
    assert flushing.shut_down() == []
    assert flushing.statistics().dropped == 0
    assert [await flushing.get(), await flushing.get()] == ["b", "a"]


@pytest.mark.virtual_time
async def test_shutdown_leaves_no_timer(timers: list[asyncio.TimerHandle]) -> None:
    queue = Queue[str]()
    queue.add_after("a", 3600.0)
    get = asyncio.create_task(queue.get())
    await settled()
    (timer,) = timers
    queue.shut_down()
    assert timer.cancelled()
    with pytest.raises(QueueClosedError):
        await get


@pytest.mark.virtual_time
async def test_a_given_clock_is_kept_when_a_loop_starts() -> None:
    times = [100.0]
    queue = Queue[str](clock=lambda: times[0])
    queue.add_after("a", 10.0)
    get = asyncio.create_task(queue.get())
    await elapse(9.0)
    times[0] = 109.0
    assert not get.done()
    times[0] = 110.0
    await elapse(2.0)
    assert await get == "a"


async def test_a_key_seems_older_than_it_is_by_one_reading_of_the_clock_at_most() -> None:
    loop = asyncio.get_running_loop()
    queue = Queue[str]()
    queue.add("first")
    is_over = asyncio.Event()
    loop.call_later(
        0.05, is_over.set
    )  # right after the queue's own timer, by when its reading ends
    await is_over.wait()
    # The clock of uvloop counts milliseconds, and their difference is rounded as all floats are.
    assert queue.statistics().oldest_seconds >= 0.05 - 1e-6
    assert queue.get_nowait() == "first"
    before = loop.time()
    queue.add("second")
    assert queue.statistics().oldest_seconds <= loop.time() - before + 1e-6


def test_no_reading_of_the_clock_is_left_by_a_loop_that_has_ended() -> None:
    queue = Queue[str]()

    async def take_and_add() -> None:
        before = asyncio.get_running_loop().time()
        queue.done(await queue.get())
        queue.add("a")
        oldest_seconds = queue.statistics().oldest_seconds
        assert oldest_seconds <= asyncio.get_running_loop().time() - before

    queue.add("a")
    asyncio.run(take_and_add())
    asyncio.run(take_and_add())


async def test_a_queue_belongs_to_one_loop_at_a_time() -> None:
    queue = Queue[str]()
    queue.add("a")

    async def elsewhere() -> str:
        return await queue.get()

    with pytest.raises(LifecycleError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, elsewhere())
    assert await queue.get() == "a"


def test_a_queue_continues_with_the_next_loop() -> None:
    queue = Queue[str]()

    async def take() -> str:
        return await queue.get()

    queue.add("a")
    assert asyncio.run(take()) == "a"
    queue.add("b")
    assert asyncio.run(take()) == "b"


def test_a_key_is_not_taken_by_a_second_loop_while_the_first_may_continue() -> None:
    """Both loops run in one thread, by turns; the key is there, so get would not wait."""
    queue = Queue[str]()

    async def take() -> str:
        async with queue.item() as item:
            return item

    queue.add("a")
    queue.add("b")
    with asyncio.Runner() as first:
        assert first.run(take()) == "a"
        with asyncio.Runner() as second, pytest.raises(LifecycleError, match="another event loop"):
            second.run(take())
        assert first.run(take()) == "b"
