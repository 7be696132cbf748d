"""client-go's tests of util/workqueue, under their names.

Goroutines became tasks, the fake clock a number that the test moves. Where a test waited to see
that nothing happens, it asks the queue, which decides at once.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter

import pytest

from pyinformer.errors import QueueClosedError
from pyinformer.telemetry.metrics import NO_METRICS, MetricsRegistry
from pyinformer.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    Queue,
    WithMaxWaitRateLimiter,
)
from tests.telemetry.metrics.reading import collected, histogram
from tests.waiting import until

NOW = 0.0


class Clock:
    """A clock that advances only by a call."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Touched:
    """An ordering that remembers what was touched."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.touched: list[str] = []

    def push(self, item: str, /) -> None:
        self.items.append(item)

    def pop(self) -> str:
        return self.items.pop(0)

    def touch(self, item: str, /) -> None:
        self.touched.append(item)

    def __len__(self) -> int:
        return len(self.items)


async def shut_down(queue: Queue[str], kind: str) -> None:
    """Shut a queue down in one of the two ways."""
    if kind == "drain":
        assert await queue.shut_down_with_drain(timeout_seconds=10.0) == []
    else:
        queue.shut_down()


both_kinds = pytest.mark.parametrize("kind", ["shut down", "drain"])


@pytest.mark.covers("client-go util/workqueue: TestItemExponentialFailureRateLimiter")
def test_item_exponential_failure_rate_limiter() -> None:
    """TestItemExponentialFailureRateLimiter."""
    limiter = ItemExponentialFailureRateLimiter(0.001, 1.0)
    assert [limiter.when("one", NOW) for _ in range(5)] == [0.001, 0.002, 0.004, 0.008, 0.016]
    assert limiter.num_requeues("one") == 5
    assert [limiter.when("two", NOW) for _ in range(2)] == [0.001, 0.002]
    assert limiter.num_requeues("two") == 2
    limiter.forget("one")
    assert limiter.num_requeues("one") == 0
    assert limiter.when("one", NOW) == 0.001


@pytest.mark.covers("client-go util/workqueue: TestItemExponentialFailureRateLimiterOverFlow")
@pytest.mark.parametrize("max_seconds", [1_000.0, 1_000.0 * 3_600.0])
def test_item_exponential_failure_rate_limiter_overflow(max_seconds: float) -> None:
    """TestItemExponentialFailureRateLimiterOverFlow."""
    limiter = ItemExponentialFailureRateLimiter(0.001, max_seconds)
    for _ in range(5):
        limiter.when("one", NOW)
    assert limiter.when("one", NOW) == 0.032
    for _ in range(2_000):
        limiter.when("overflow", NOW)
    assert limiter.when("overflow", NOW) == max_seconds


@pytest.mark.covers("client-go util/workqueue: TestItemFastSlowRateLimiter")
def test_item_fast_slow_rate_limiter() -> None:
    """TestItemFastSlowRateLimiter."""
    limiter = ItemFastSlowRateLimiter(0.005, 10.0, 3)
    assert [limiter.when("one", NOW) for _ in range(5)] == [0.005, 0.005, 0.005, 10.0, 10.0]
    assert limiter.num_requeues("one") == 5
    assert limiter.when("two", NOW) == 0.005
    limiter.forget("one")
    assert limiter.num_requeues("one") == 0
    assert limiter.when("one", NOW) == 0.005


@pytest.mark.covers("client-go util/workqueue: TestMaxOfRateLimiter")
def test_max_of_rate_limiter() -> None:
    """TestMaxOfRateLimiter."""
    limiter = MaxOfRateLimiter(
        ItemFastSlowRateLimiter(0.005, 3.0, 3),
        ItemExponentialFailureRateLimiter(0.001, 1.0),
    )
    delays = [limiter.when("one", NOW) for _ in range(5)]
    assert delays == [0.005, 0.005, 0.005, 3.0, 3.0]
    assert limiter.num_requeues("one") == 5
    assert [limiter.when("two", NOW) for _ in range(2)] == [0.005, 0.005]
    limiter.forget("one")
    assert limiter.num_requeues("one") == 0
    assert limiter.when("one", NOW) == 0.005


@pytest.mark.covers("client-go util/workqueue: TestWithMaxWaitRateLimiter")
def test_with_max_wait_rate_limiter() -> None:
    """TestWithMaxWaitRateLimiter."""
    limiter = WithMaxWaitRateLimiter(BucketRateLimiter(1 / 1_000.0, 100), 500.0)
    assert [limiter.when("one", NOW) for _ in range(100)] == [0.0] * 100
    assert limiter.when("one", NOW) == 500.0


@pytest.mark.covers("client-go util/workqueue: TestSimpleQueue")
def test_simple_queue() -> None:
    """TestSimpleQueue."""
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_after_nowait("foo", 0.05)
    assert len(queue) == 0
    clock.now += 0.06
    assert len(queue) == 1
    item = queue.get_nowait()
    assert item == "foo"
    queue.done("foo")
    clock.now += 10.0
    assert len(queue) == 0


@pytest.mark.covers("client-go util/workqueue: TestDeduping")
def test_deduping() -> None:
    """TestDeduping."""
    clock = Clock()
    queue = Queue[str](clock=clock)
    for delays in ((0.05, 0.07), (0.07, 0.05)):
        for delay in delays:
            queue.add_after_nowait("foo", delay)
        assert len(queue) == 0
        clock.now += 0.06
        assert len(queue) == 1
        assert queue.get_nowait() == "foo"
        queue.done("foo")
        clock.now += 0.02
        assert len(queue) == 0
        assert queue.get_nowait() is None


@pytest.mark.covers("client-go util/workqueue: TestAddTwoFireEarly")
def test_add_two_fire_early() -> None:
    """TestAddTwoFireEarly."""
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_after_nowait("foo", 1.0)
    queue.add_after_nowait("bar", 0.05)
    queue.add_after_nowait("foo", 0.09)
    assert len(queue) == 0
    clock.now += 0.06
    assert len(queue) == 1
    assert queue.get_nowait() == "bar"
    queue.done("bar")
    queue.add_after_nowait("third", 2.0)
    clock.now += 1.0
    assert queue.get_nowait() == "foo"
    queue.done("foo")
    assert queue.get_nowait() is None
    clock.now += 2.0
    assert queue.get_nowait() == "third"


@pytest.mark.covers("client-go util/workqueue: TestCopyShifting")
def test_copy_shifting() -> None:
    """TestCopyShifting."""
    clock = Clock()
    queue = Queue[str](clock=clock)
    for name, delay in (("foo", 1.0), ("bar", 0.5), ("baz", 0.3)):
        queue.add_after_nowait(name, delay)
    assert len(queue) == 0
    clock.now += 2.0
    assert [queue.get_nowait() for _ in range(3)] == ["baz", "bar", "foo"]


@pytest.mark.covers("client-go util/workqueue: TestMetricShutdown")
def test_metric_shutdown() -> None:
    """TestMetricShutdown: ours reads running work when it is collected, so no ticker can run."""
    registry = MetricsRegistry()
    queue = Queue[str]("test", metrics=registry)
    queue.add_nowait("foo")
    assert queue.get_nowait() == "foo"
    queue.shut_down()
    assert collected(registry, "workqueue_unfinished")
    queue.done("foo")
    assert collected(registry, "workqueue") == {}


@pytest.mark.covers("client-go util/workqueue: TestMetrics")
def test_metrics() -> None:
    """TestMetrics."""
    registry, clock = MetricsRegistry(), Clock()
    clock.now = 0.0
    queue = Queue[str]("test", metrics=registry, clock=clock)

    def value(name: str) -> float:
        (found,) = collected(registry, f"workqueue_{name}").values()
        return found

    for _ in range(2):  # the second is a duplicate
        queue.add_nowait("foo")
    assert value("adds_total") == 1
    assert value("depth") == 1
    clock.now = 50e-6
    assert queue.get_nowait() == "foo"
    assert histogram(registry, "workqueue_queue_duration_seconds").sum == 50e-6
    assert value("queue_duration_seconds") == 1
    assert value("depth") == 0
    for _ in range(5):
        queue.add_nowait("foo")
    assert value("adds_total") == 2
    clock.now = 75e-6
    queue.done("foo")
    assert histogram(registry, "workqueue_work_duration_seconds").sum == pytest.approx(25e-6)
    assert value("depth") == 1
    assert queue.get_nowait() == "foo"
    clock.now += 1e-3
    assert value("unfinished_work_seconds") == pytest.approx(1e-3)
    assert value("longest_running_processor_seconds") == pytest.approx(1e-3)
    queue.done("foo")
    assert value("work_duration_seconds") == 2
    assert histogram(registry, "workqueue_work_duration_seconds").sum == pytest.approx(1.025e-3)
    queue.shut_down()


def test_an_unnamed_default_queue_measures_nothing() -> None:
    """As upstream's without a name. A metrics system alone or a name alone is not enough."""
    registry = MetricsRegistry()
    queue = Queue[str](metrics=registry)
    queue.add_nowait("foo")
    assert queue.get_nowait() == "foo"
    assert collected(registry, "workqueue") == {}
    assert Queue[str]("test", metrics=NO_METRICS)._metrics is None


@pytest.mark.covers("client-go util/workqueue: TestBasic")
@both_kinds
async def test_basic(kind: str) -> None:
    """TestBasic."""
    queue = Queue[str]()
    seen, held = Counter[str](), set[str]()

    async def produce(number: int) -> None:
        for _ in range(50):
            queue.add(f"{number}")
            await asyncio.sleep(0)

    async def consume() -> None:
        while True:
            try:
                item = await queue.get()
            except QueueClosedError:
                return
            assert item != "added after shutdown!"
            assert item not in held
            held.add(item)
            await asyncio.sleep(0)
            held.remove(item)
            seen[item] += 1
            queue.done(item)

    async with asyncio.TaskGroup() as workers:
        for _ in range(10):
            workers.create_task(consume())
        async with asyncio.TaskGroup() as producers:
            for number in range(50):
                producers.create_task(produce(number))
        await shut_down(queue, kind)
        queue.add("added after shutdown!")
    assert set(seen) == {str(number) for number in range(50)}
    assert len(queue) == 0


@pytest.mark.covers("client-go util/workqueue: TestAddWhileProcessing")
@both_kinds
async def test_add_while_processing(kind: str) -> None:
    """TestAddWhileProcessing."""
    queue = Queue[str]()
    processed = Counter[str]()

    async def consume() -> None:
        while True:
            try:
                item = await queue.get()
            except QueueClosedError:
                return
            processed[item] += 1
            if processed[item] == 1:
                queue.add(item)
            await asyncio.sleep(0)
            queue.done(item)

    async with asyncio.TaskGroup() as workers:
        for number in range(50):
            queue.add(str(number))
        for _ in range(10):
            workers.create_task(consume())
        await until(lambda: sum(processed.values()) == 100)
        await shut_down(queue, kind)
    assert set(processed.values()) == {2}
    assert len(queue) == 0


@pytest.mark.covers("client-go util/workqueue: TestLen")
def test_len() -> None:
    """TestLen."""
    queue = Queue[str]()
    for item, expected in (("foo", 1), ("bar", 2), ("foo", 2)):
        queue.add(item)
        assert len(queue) == expected


@pytest.mark.covers("client-go util/workqueue: TestReinsert")
async def test_reinsert() -> None:
    """TestReinsert."""
    queue = Queue[str]()
    queue.add("foo")
    assert await queue.get() == "foo"
    queue.add("foo")
    queue.done("foo")
    assert await queue.get() == "foo"
    queue.done("foo")
    assert len(queue) == 0


@pytest.mark.covers("client-go util/workqueue: TestCollapse")
def test_collapse() -> None:
    """TestCollapse."""
    ordering = Touched()
    queue = Queue[str](ordering=ordering)
    queue.add_nowait("bar")
    queue.add_nowait("bar")
    assert ordering.touched == ["bar"]
    assert queue.get_nowait() == "bar"
    queue.done("bar")
    assert len(queue) == 0
    assert ordering.touched == ["bar"]


@pytest.mark.covers("client-go util/workqueue: TestCollapseWhileProcessing")
async def test_collapse_while_processing() -> None:
    """TestCollapseWhileProcessing."""
    ordering = Touched()
    queue = Queue[str](ordering=ordering)
    queue.add("foo")
    assert await queue.get() == "foo"
    queue.add("foo")
    queue.add("foo")
    assert ordering.touched == []
    second = asyncio.create_task(queue.get())
    await until(lambda: queue.statistics().waiters)
    assert not second.done()
    queue.done("foo")
    assert await second == "foo"
    queue.done("foo")
    assert len(queue) == 0


async def draining(queue: Queue[str]) -> asyncio.Task[list[str]]:
    """Begin a drain and return its task once it has closed the queue."""
    task = asyncio.create_task(queue.shut_down_with_drain(timeout_seconds=30.0))
    await until(lambda: queue.is_shutting_down)
    return task


@pytest.mark.covers("client-go util/workqueue: TestQueueDrainageUsingShutDownWithDrain")
async def test_queue_drainage_using_shut_down_with_drain() -> None:
    """TestQueueDrainageUsingShutDownWithDrain."""
    queue = Queue[str]()
    queue.add("foo")
    queue.add("bar")
    first, second = await queue.get(), await queue.get()
    drain = await draining(queue)
    queue.done(first)
    await asyncio.sleep(0)
    assert not drain.done()
    queue.done(second)
    assert await drain == []


@pytest.mark.covers("client-go util/workqueue: TestNoQueueDrainageUsingShutDown")
async def test_no_queue_drainage_using_shut_down() -> None:
    """TestNoQueueDrainageUsingShutDown."""
    queue = Queue[str]()
    queue.add("foo")
    queue.add("bar")
    await queue.get()
    await queue.get()
    assert queue.shut_down() == []
    assert queue.statistics().processing == 2


@pytest.mark.covers("client-go util/workqueue: TestForceQueueShutdownUsingShutDown")
async def test_force_queue_shutdown_using_shut_down() -> None:
    """TestForceQueueShutdownUsingShutDown."""
    queue = Queue[str]()
    queue.add("foo")
    queue.add("bar")
    await queue.get()
    await queue.get()
    drain = await draining(queue)
    assert not drain.done()
    queue.shut_down()
    assert sorted(await drain) == ["bar", "foo"]


@pytest.mark.covers(
    "client-go util/workqueue: TestQueueDrainageUsingShutDownWithDrainWithDirtyItem"
)
async def test_queue_drainage_using_shut_down_with_drain_with_dirty_item() -> None:
    """TestQueueDrainageUsingShutDownWithDrainWithDirtyItem."""
    queue = Queue[str]()
    queue.add("foo")
    item = await queue.get()
    queue.add("foo")
    drain = await draining(queue)
    other = asyncio.create_task(queue.get())  # waits: the key will come again
    await asyncio.sleep(0)
    assert not other.done()
    queue.done(item)
    assert await other == "foo"
    assert not drain.done()
    queue.done("foo")
    assert await drain == []
    with pytest.raises(QueueClosedError):
        await queue.get()


class Collectable:
    """A key that can be watched going."""


@pytest.mark.covers("client-go util/workqueue: TestGarbageCollection")
@both_kinds
async def test_garbage_collection(kind: str) -> None:
    """TestGarbageCollection."""
    queue = Queue[Collectable]()
    item = Collectable()
    gone = weakref.ref(item)
    queue.add(item)
    queue.add(item)
    assert await queue.get() is item
    queue.add(item)
    queue.done(item)
    assert await queue.get() is item
    queue.done(item)
    queue.add_after(item, 30.0)
    assert queue.forget_delayed(item)
    del item
    if kind == "drain":
        await queue.shut_down_with_drain(timeout_seconds=1.0)
    gc.collect()
    assert gone() is None


@pytest.mark.covers("client-go util/workqueue: TestRateLimitingQueue")
def test_rate_limiting_queue() -> None:
    """TestRateLimitingQueue."""
    clock = Clock()
    queue = Queue[str](rate_limiter=ItemExponentialFailureRateLimiter(0.001, 1.0), clock=clock)

    def delay_of_next() -> float:
        return round(queue._moments[0] - clock.now, 9)

    def waited(key: str) -> float:
        queue.add_rate_limited_nowait(key)
        delay = delay_of_next()
        assert queue.forget_delayed(key)
        return delay

    assert [waited("one"), waited("one")] == [0.001, 0.002]
    assert queue.num_requeues("one") == 2
    assert [waited("two"), waited("two")] == [0.001, 0.002]
    queue.forget("one")
    assert queue.num_requeues("one") == 0
    assert waited("one") == 0.001


async def parallelize_until(*, workers: int, pieces: int, chunk: int) -> list[int]:
    """Process every piece with so many workers: what a queue and a task group give."""
    visits = [0] * pieces
    queue = Queue[int]()
    for start in range(0, pieces, chunk):
        queue.add(start)
    queue.shut_down()

    async def work() -> None:
        while True:
            try:
                async with queue.item() as start:
                    for piece in range(start, min(start + chunk, pieces)):
                        visits[piece] += 1
                        await asyncio.sleep(0)
            except QueueClosedError:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    return visits


@pytest.mark.covers("client-go util/workqueue: TestParallelizeUntil")
@pytest.mark.parametrize(
    ("pieces", "workers", "chunk"),
    [(1000, 10, 1), (1000, 10, 10), (1000, 10, 100), (999, 10, 13)],
)
async def test_parallelize_until(pieces: int, workers: int, chunk: int) -> None:
    """TestParallelizeUntil; see the page of differences."""
    visits = await parallelize_until(workers=workers, pieces=pieces, chunk=chunk)
    assert visits == [1] * pieces
