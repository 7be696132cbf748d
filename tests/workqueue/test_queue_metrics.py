"""The metrics of work queues: what is counted, what is measured, and when series vanish."""

from __future__ import annotations

import asyncio
import gc

import pytest

from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.workqueue import LOW_PRIORITY, PriorityQueue, Queue
from tests.telemetry.metrics.reading import collected, histogram
from tests.virtual_time import elapse, work

LABELS = 'name="q",controller="q"'
ADDS = f"workqueue_adds_total{{{LABELS}}}"
WAITED = "workqueue_queue_duration_seconds"
WORKED = "workqueue_work_duration_seconds"


class Clock:
    """A clock that advances only by a call."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def depths(registry: MetricsRegistry) -> dict[str, float]:
    """Return the depth by priority."""
    begin = f'workqueue_depth{{{LABELS},priority="'
    found = collected(registry, "workqueue_depth")
    return {series.removeprefix(begin).removesuffix('"}'): n for series, n in found.items()}


def test_every_series_exists_at_zero_from_the_construction_on() -> None:
    registry = MetricsRegistry()
    queue = PriorityQueue[str]("q", metrics=registry)
    assert collected(registry, "workqueue") == {
        ADDS: 0,
        f'workqueue_depth{{{LABELS},priority="0"}}': 0,
        f"{WAITED}{{{LABELS}}}": 0,
        f"{WORKED}{{{LABELS}}}": 0,
        f"workqueue_retries_total{{{LABELS}}}": 0,
        f"workqueue_unfinished_work_seconds{{{LABELS}}}": 0,
        f"workqueue_longest_running_processor_seconds{{{LABELS}}}": 0,
    }
    assert len(queue) == 0


def test_a_queue_without_priorities_has_one_depth_with_an_empty_priority() -> None:
    registry = MetricsRegistry()
    queue = Queue[str]("q", metrics=registry)
    queue.add_nowait("a")
    assert depths(registry) == {"": 1}


def test_a_queue_without_a_name_has_no_metrics() -> None:
    registry = MetricsRegistry()
    queue = Queue[str](metrics=registry)
    queue.add_nowait("a")
    assert collected(registry, "workqueue") == {}


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestItemsAreInludedInLenAndMetricsOnceThe"
)
def test_the_depth_of_a_priority_stays_at_zero_once_it_was_seen() -> None:
    registry = MetricsRegistry()
    queue = PriorityQueue[str]("q", metrics=registry)
    queue.add_nowait("a", priority=LOW_PRIORITY)
    queue.add_nowait("b", priority=LOW_PRIORITY)
    queue.add_nowait("c", priority=7)
    assert depths(registry) == {"7": 1, "0": 0, "-100": 2}
    assert queue.get_nowait() == "c"
    queue.add_nowait("b", priority=7)
    assert depths(registry) == {"7": 1, "0": 0, "-100": 1}
    queue.drop_waiting()
    assert depths(registry) == {"7": 0, "0": 0, "-100": 0}


def test_twenty_five_priorities_are_remembered_and_more_are_folded_while_they_wait() -> None:
    registry = MetricsRegistry()
    queue = PriorityQueue[int]("q", metrics=registry)
    for priority in range(1, 41):
        queue.add_nowait(priority, priority=priority)
    found = depths(registry)
    assert sum(found.values()) == 40
    assert len(found) == 26
    assert found["other"] == 15
    queue.drop_waiting()
    assert depths(registry) == {"0": 0}


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestItemsAreInludedInLenAndMetricsOnceThe"
)
@pytest.mark.parametrize("kind", [Queue, PriorityQueue])
def test_adds_count_what_begins_to_wait_and_retries_what_waits_for_later(
    kind: type[Queue[str]],
) -> None:
    registry, clock = MetricsRegistry(), Clock()
    queue = kind("q", metrics=registry, clock=clock)

    def counts() -> tuple[float, float]:
        found = collected(registry, "workqueue")
        return found[ADDS], found[f"workqueue_retries_total{{{LABELS}}}"]

    queue.add_nowait("a")
    queue.add_nowait("a")
    assert counts() == (1, 0)
    queue.add_after_nowait("b", 5.0)
    queue.add_after_nowait("c", 0.0)  # at once: no retry
    assert counts() == (2, 1)
    assert queue.get_nowait() == "a"
    queue.add_nowait("a")  # comes again
    queue.add_nowait("a")
    assert counts() == (3, 1)
    queue.done("a")
    assert counts() == (3, 1)
    clock.now += 5.0
    assert len(queue) == 3
    assert counts() == (4, 1)
    queue.add_after_nowait("d", 5.0)
    queue.drop_waiting()
    assert counts() == (4, 2)


def test_a_removed_key_is_still_counted_as_added() -> None:
    registry = MetricsRegistry()
    queue = PriorityQueue[str]("q", metrics=registry)
    queue.add_nowait("a")
    queue.add_nowait("b")
    assert queue.get_nowait() == "a"
    queue.add_nowait("a")
    queue.add_after_nowait("c", 5.0)
    for key in ("a", "b", "c"):
        assert queue.remove(key)
    assert collected(registry, ADDS.partition("{")[0]) == {ADDS: 3}


@pytest.mark.virtual_time
async def test_waiting_and_work_are_measured_by_the_clock_of_the_loop() -> None:
    registry = MetricsRegistry()
    queue = PriorityQueue[str]("q", metrics=registry)
    queue.add("a")
    await elapse(2.0)
    async with queue.item():
        work(3.0)
    assert histogram(registry, WAITED).sum == 2.0
    assert histogram(registry, WORKED).sum == 3.0


async def test_the_times_of_keys_are_exact_where_others_share_a_reading_of_the_clock() -> None:
    """Of a status an error of 0.05 s is none; most keys wait for less."""
    queue = Queue[str]("q", metrics=MetricsRegistry())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add_nowait("b")
    assert queue._mark == 0.0


def test_a_key_that_is_added_while_it_is_processed_waits_from_then_on() -> None:
    registry, clock = MetricsRegistry(), Clock()
    queue = Queue[str]("q", metrics=registry, clock=clock)
    queue.add_nowait("a")
    assert queue.get_nowait() == "a"
    clock.now += 1.0
    queue.add_nowait("a")
    clock.now += 2.0
    queue.done("a")
    clock.now += 4.0
    assert queue.get_nowait() == "a"
    assert histogram(registry, WAITED).sum == 2.0 + 4.0
    assert histogram(registry, WORKED).sum == 3.0


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestItemsAreInludedInLenAndMetricsOnceThe"
)
def test_a_key_whose_priority_is_raised_has_waited_from_the_beginning() -> None:
    registry, clock = MetricsRegistry(), Clock()
    queue = PriorityQueue[str]("q", metrics=registry, clock=clock)
    queue.add_nowait("a", priority=LOW_PRIORITY)
    clock.now += 10.0
    queue.add_nowait("a")
    clock.now += 1.0
    queue.add_nowait("a", priority=3)
    assert queue.get_nowait() == "a"
    assert histogram(registry, WAITED).sum == 11.0


def test_a_dropped_key_that_is_added_once_more_waits_from_then_on() -> None:
    registry, clock = MetricsRegistry(), Clock()
    queue = PriorityQueue[str]("q", metrics=registry, clock=clock)
    queue.add_nowait("a", priority=LOW_PRIORITY)
    queue.add_nowait("a")
    queue.remove("a")
    clock.now += 10.0
    queue.add_nowait("a")
    assert queue.get_nowait() == "a"
    assert histogram(registry, WAITED).sum == 0.0


@pytest.mark.virtual_time
async def test_the_times_of_keys_move_with_the_queue_to_the_clock_of_its_loop() -> None:
    registry = MetricsRegistry()
    queue = Queue[str]("q", metrics=registry)
    queue.add_nowait("taken")  # before it has a loop
    assert queue.get_nowait() == "taken"
    queue.add_nowait("taken")
    queue.add("taken")
    await elapse(5_000.0)
    queue.done("taken")
    assert queue.get_nowait() == "taken"
    assert histogram(registry, WORKED).sum == pytest.approx(5_000.0, abs=100.0)
    assert histogram(registry, WAITED).sum == pytest.approx(5_000.0, abs=100.0)


def test_unfinished_work_is_what_it_is_at_the_moment_of_the_collection() -> None:
    registry, clock = MetricsRegistry(), Clock()
    queue = Queue[str]("q", metrics=registry, clock=clock)
    for key in ("a", "b"):
        queue.add_nowait(key)
        assert queue.get_nowait() == key
        clock.now += 10.0
    unfinished = f"workqueue_unfinished_work_seconds{{{LABELS}}}"
    longest = f"workqueue_longest_running_processor_seconds{{{LABELS}}}"
    found = collected(registry, "workqueue")
    assert (found[unfinished], found[longest]) == (30.0, 20.0)
    queue.done("a")
    found = collected(registry, "workqueue")
    assert (found[unfinished], found[longest]) == (10.0, 10.0)


@pytest.mark.virtual_time
async def test_a_queue_with_metrics_has_no_timer_of_its_own(
    timers: list[asyncio.TimerHandle],
) -> None:
    queue = Queue[str]("q", metrics=MetricsRegistry())
    queue.add("a")
    assert await queue.get() == "a"
    assert timers == []


def test_series_vanish_when_the_queue_is_shut_down_and_all_keys_are_done() -> None:
    registry = MetricsRegistry()
    queue = Queue[str]("q", metrics=registry)
    for key in ("a", "b"):
        queue.add_nowait(key)
    assert queue.get_nowait() == "a"
    queue.shut_down()
    queue.done("a")
    assert collected(registry, ADDS.partition("{")[0]) == {ADDS: 2}
    assert queue.get_nowait() == "b"
    queue.done("b")
    assert collected(registry, "workqueue") == {}


def test_series_vanish_with_a_queue_that_is_gone() -> None:
    registry = MetricsRegistry()
    queue = Queue[str]("q", metrics=registry)
    queue.add_nowait("a")
    del queue
    gc.collect()
    registry.collect()  # which finds that it is gone
    assert collected(registry, "workqueue") == {}
