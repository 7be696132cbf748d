"""What the queues promise beyond client-go: bad keys, delays, priorities, memory, figures."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Hashable
from typing import TypeVar

import pytest

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.workqueue import (
    LOW_PRIORITY,
    PriorityQueue,
    Queue,
)

T = TypeVar("T", bound=Hashable)

QUEUES = [
    pytest.param(Queue, id="plain"),
    pytest.param(PriorityQueue, id="priority"),
]


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(queue: Queue[T]) -> list[T]:
    """Take everything that waits, and be done with it."""
    found = []
    while (item := queue.get_nowait()) is not None:
        queue.done(item)
        found.append(item)
    return found


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("key", [[], {}, None])
def test_an_invalid_key_is_refused_and_nothing_is_added(
    kind: type[Queue[object]], key: object
) -> None:
    queue = kind()
    calls: list[Callable[[], None]] = [
        lambda: queue.add_nowait(key),
        lambda: queue.add(key),
        lambda: queue.add_after_nowait(key, 5.0),
        lambda: queue.add_after(key, 5.0),
        lambda: queue.add_rate_limited_nowait(key),
    ]
    if isinstance(queue, PriorityQueue):
        by_priority = queue
        calls.append(lambda: by_priority.add_nowait(key, priority=1))
        calls.append(lambda: by_priority.add_after_nowait(key, 5.0, priority=1))
        calls.append(lambda: by_priority.add_rate_limited_nowait(key, priority=1))
    for call in calls:
        with pytest.raises(InvalidTypeError, match="item"):
            call()
    said = queue.statistics()
    assert (said.depth, said.delayed, said.processing, said.failures) == (0, 0, 0, 0)


@pytest.mark.parametrize("delay", [float("nan"), float("inf"), -float("inf"), "5"])
def test_a_delay_that_is_not_a_finite_number_is_refused(delay: float) -> None:
    queue = PriorityQueue[str]()
    for add in (queue.add_after, queue.add_after_nowait):
        with pytest.raises(InvalidArgumentError, match="delay_seconds"):
            add("a", delay)
    assert queue.statistics().delayed == 0


def test_a_negative_delay_is_none() -> None:
    queue = Queue[str]()
    queue.add_after_nowait("a", -5.0)
    assert queue.get_nowait() == "a"


def test_a_huge_delay_is_accepted() -> None:
    queue = Queue[str]()
    queue.add_after_nowait("a", 1e300)
    queue.add_after_nowait("b", 1e-9)
    assert queue.statistics().delayed >= 1
    assert queue.forget_delayed("a")


def test_an_invalid_shutdown_option_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="on_shutdown"):
        Queue[str](on_shutdown="keep")  # type: ignore[arg-type]  # what is tested


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow",
    "kube-runtime src: scheduler_should_hold_and_release_items",
)
def test_an_immediate_add_takes_the_place_of_a_delayed_one() -> None:
    """kubernetes#110642: AddAfter of five hours and Add gave two runs."""
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_after_nowait("a", 5 * 3600.0)
    queue.add_nowait("a")
    assert taken(queue) == ["a"]
    clock.now += 6 * 3600.0
    assert taken(queue) == []


@pytest.mark.covers("kube-runtime src: scheduler_should_hold_and_release_items")
def test_a_delayed_add_of_a_queued_key_adds_nothing() -> None:
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_nowait("a")
    queue.add_after_nowait("a", 10.0)
    assert taken(queue) == ["a"]
    clock.now += 11.0
    assert taken(queue) == []


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow"
)
def test_a_delayed_add_of_a_key_that_is_being_processed_waits_for_its_time() -> None:
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_nowait("a")
    assert queue.get_nowait() == "a"
    queue.add_after_nowait("a", 10.0)
    queue.done("a")
    assert taken(queue) == []
    clock.now += 11.0
    assert taken(queue) == ["a"]


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow"
)
def test_due_keys_come_before_keys_added_later() -> None:
    clock = Clock()
    queue = Queue[str](clock=clock)
    queue.add_after_nowait("due", 1.0)
    clock.now += 2.0
    queue.add_nowait("new")
    assert taken(queue) == ["due", "new"]


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow"
)
def test_after_shutdown_adds_of_every_kind_are_ignored() -> None:
    queue = PriorityQueue[str]()
    queue.shut_down()
    queue.add_nowait("a")
    queue.add("b", priority=3)
    queue.add_after("c", 1.0)
    queue.add_rate_limited("d")
    said = queue.statistics()
    assert (said.depth, said.delayed, said.failures, said.handed_over) == (0, 0, 0, 0)
    assert queue.shut_down() == []


def test_keys_added_by_another_thread_before_shutdown_are_not_lost() -> None:
    queue = Queue[str]()
    queue.add("a")  # no loop yet: it stands in the inbox
    queue.shut_down()
    assert taken(queue) == ["a"]


def test_done_of_a_queued_key_changes_nothing() -> None:
    """Upstream puts it into the queue a second time."""
    queue = Queue[str]()
    queue.add_nowait("a")
    queue.done("a")
    queue.done("stranger")
    assert len(queue) == 1
    assert taken(queue) == ["a"]


def test_the_state_of_a_key_can_be_queried() -> None:
    clock = Clock()
    queue = PriorityQueue[str](clock=clock)
    queue.add_after_nowait("a", 1.0)
    assert (queue.is_waiting("a"), queue.is_processing("a")) == (True, False)
    clock.now += 1.0
    assert queue.get_nowait() == "a"
    assert (queue.is_waiting("a"), queue.is_processing("a")) == (False, True)
    queue.add_nowait("a")
    assert (queue.is_waiting("a"), queue.is_processing("a")) == (True, True)
    assert queue.remove("a")
    queue.done("a")
    assert (queue.is_waiting("a"), queue.is_processing("a")) == (False, False)


@pytest.mark.covers(
    "controller-runtime pkg/controller/priorityqueue: TestHighPriorityItemsAreReturnedBeforeLow"
)
def test_higher_priorities_go_first_and_equals_in_order() -> None:
    queue = PriorityQueue[str]()
    for item, priority in (
        ("l1", LOW_PRIORITY),
        ("a", 0),
        ("h", 5),
        ("l2", LOW_PRIORITY),
        ("b", 0),
    ):
        queue.add_nowait(item, priority=priority)
    assert queue.statistics().depth_by_priority == ((5, 1), (0, 2), (LOW_PRIORITY, 2))
    assert taken(queue) == ["h", "a", "b", "l1", "l2"]


def test_a_key_keeps_the_priority_with_which_it_was_taken_until_done() -> None:
    queue = PriorityQueue[str]()
    queue.add_nowait("a", priority=3)
    assert queue.get_nowait() == "a"
    queue.add_nowait("a", priority=-1)
    assert queue.priority_of("a") == 3
    queue.done("a")
    assert queue.priority_of("a") == -1


def test_an_urgent_key_passes_thirteen_thousand_older_keys() -> None:
    clock = Clock()
    queue = PriorityQueue[str](clock=clock)
    for number in range(13_000):
        queue.add_nowait(f"resync-{number}", priority=LOW_PRIORITY)
    clock.now += 3600.0
    for number in range(9):
        queue.add_nowait(f"event-{number}")
    first = [queue.get_nowait() for _ in range(12)]
    assert [item for item in first if str(item).startswith("event")] == [
        f"event-{number}" for number in range(9)
    ]


def test_nothing_starves_under_a_flood_of_urgent_keys() -> None:
    clock = Clock()
    queue = PriorityQueue[str](clock=clock, ageing_seconds=60.0)
    for number in range(1_000):
        queue.add_nowait(f"low-{number}", priority=LOW_PRIORITY)
    seen: set[str] = set()
    for turn in range(4 * 1_000 + 6_000):  # 100 turns a second, and a fresh urgent key for each
        clock.now += 0.01
        queue.add_nowait(f"urgent-{turn}")
        item = queue.get_nowait()
        assert item is not None
        queue.done(item)
        seen.add(item)
    assert sum(item.startswith("low") for item in seen) == 1_000


@pytest.mark.parametrize("priority", [0.5, "high", None])
def test_a_priority_that_is_not_an_integer_is_refused(priority: int) -> None:
    queue = PriorityQueue[str]()
    with pytest.raises(InvalidTypeError, match="priority"):
        queue.add_nowait("a", priority=priority)
    with pytest.raises(InvalidTypeError, match="priority"):
        queue.add_after_nowait("a", 1.0, priority=priority)
    with pytest.raises(InvalidTypeError, match="priority"):
        queue.add_rate_limited_nowait("a", priority=priority)
    assert queue.statistics().failures == 0


def test_dropping_queued_keys_returns_them_and_keeps_keys_in_process() -> None:
    queue = PriorityQueue[str]()
    queue.add_nowait("processing")
    queue.get_nowait()
    queue.add_nowait("processing")
    queue.add_nowait("ready", priority=2)
    queue.add_after_nowait("delayed", 60.0, priority=1)
    assert sorted(queue.drop_waiting()) == ["delayed", "processing", "ready"]
    assert queue.statistics().dropped == 3
    assert queue.processing() == ["processing"]
    queue.done("processing")
    assert taken(queue) == []


class _Key:
    """A key of which a test sees whether anything still has it."""


def test_keys_that_passed_through_leave_nothing_behind() -> None:
    clock = Clock()
    queue = PriorityQueue[_Key](clock=clock)
    alive: weakref.WeakSet[_Key] = weakref.WeakSet()
    for number in range(5_000):
        clock.now += 0.01
        key, failed = _Key(), _Key()
        alive.update((key, failed))
        queue.add_after_nowait(key, 1.0, priority=number % 3)
        queue.add_nowait(key, priority=-(number % 2))
        queue.add_nowait(key, priority=9)
        queue.add_rate_limited_nowait(failed)
        queue.forget(failed)
        taken(queue)
    clock.now += 10_000.0
    taken(queue)
    said = queue.statistics()
    assert (said.depth, said.delayed, said.processing, said.again) == (0, 0, 0, 0)
    assert (said.handed_over, said.waiters, said.failures) == (0, 0, 0)
    del key, failed
    gc.collect()
    assert not alive


def test_memory_stays_flat_however_many_keys_pass() -> None:
    queue = PriorityQueue[str]()

    def pass_through(start: int, count: int) -> None:
        for number in range(start, start + count):
            queue.add_nowait(f"default/{number}", priority=number % 2)
            taken(queue)

    pass_through(0, 2_000)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    pass_through(2_000, count := 20_000)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < count


def test_stale_entries_of_timers_and_queues_are_bounded() -> None:
    """A key that is added for later and then at once, again and again, leaves no heap behind."""
    clock = Clock()
    queue = PriorityQueue[str](clock=clock)
    queue.add_nowait("low", priority=-5)
    queue.add_after_nowait("head", 1.0)
    tracemalloc.start()
    for _ in range(5_000):
        clock.now += 1e-5
        queue.add_after_nowait("a", 5 * 3600.0, priority=-5)
        queue.add_nowait("a", priority=-5)
        queue.add_nowait("a", priority=5)
        assert queue.get_nowait() == "a"
        queue.done("a")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20_000
    assert taken(queue) == ["low"]


class _Compared:
    """A key that counts how often it is compared."""

    comparisons = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        _Compared.comparisons += 1
        return self is other

    def __hash__(self) -> int:
        return self.number


def test_removing_one_of_many_keys_due_at_one_time_is_not_linear() -> None:
    queue = Queue[_Compared](clock=lambda: 0.0)
    keys = [_Compared(number) for number in range(2_000)]
    for key in keys:
        queue.add_after_nowait(key, 1.0)
    _Compared.comparisons = 0
    for key in reversed(keys[1:]):
        assert queue.forget_delayed(key)
    assert queue.statistics().delayed == 1
    assert _Compared.comparisons < 20_000
