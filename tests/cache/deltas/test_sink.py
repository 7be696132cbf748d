"""The queues as sinks, and what they say about themselves."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable

import pytest

from pyinformer.cache.deltas import (
    DeletedFinalStateUnknown,
    Delta,
    DeltaFIFO,
    Deltas,
    DeltaType,
    QueueStatistics,
    RealFIFO,
)
from pyinformer.cache.reflector import Sink
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import Added, Deleted, KubeObject, Updated
from tests.cache.deltas.pods import known, pod, read_all, unknown

Queue = RealFIFO[None] | DeltaFIFO[None]
Make = Callable[..., Queue]


def per_object(known_objects: dict[str, KubeObject[None]] | None = None) -> RealFIFO[None]:
    return RealFIFO(known_objects=known_objects or {}, atomic_events=False)


any_queue = pytest.mark.parametrize(
    "make",
    [
        pytest.param(RealFIFO[None], id="RealFIFO-atomic"),
        pytest.param(per_object, id="RealFIFO-per-object"),
        pytest.param(DeltaFIFO[None], id="DeltaFIFO"),
    ],
)


def test_both_queues_are_sinks() -> None:
    sinks: list[Sink[None]] = [RealFIFO[None](), DeltaFIFO[None]()]

    assert all(sink.get("a") is None for sink in sinks)


@any_queue
def test_events_become_deltas_of_their_kind(make: Make) -> None:
    queue = make(known_objects=known(pod("b", 1), pod("c", 1), pod("d", 1), pod("e", 1)))

    queue.apply_nowait(Added(pod("a", 2)))
    queue.apply_nowait(Updated(pod("b", 1), pod("b", 3)))
    queue.apply_nowait(Deleted(pod("c", 4)))
    queue.apply_nowait(Deleted(pod("d", 1), final_state_unknown=True))
    queue.apply_nowait(Updated(pod("e", 1), pod("e", 1), is_resync=True))

    assert read_all(queue.drain_nowait()) == [
        "Added a 2",
        "Updated b 3",
        "Deleted c 4",
        "Deleted d (unknown 1)",
        "Sync e 1",
    ]


@any_queue
def test_get_gives_the_newest_queued_state_else_the_known_one(make: Make) -> None:
    queue = make(known_objects=known(pod("a", 1), pod("b", 1), pod("c", 1)))

    queue.update_nowait(pod("a", 2))
    queue.update_nowait(pod("a", 3))
    queue.delete_nowait(pod("b", 4))

    assert queue.get("a") is pod("a", 3)
    assert queue.get("b") is None
    assert queue.get("c") is pod("c", 1)
    assert queue.get("d") is None


@any_queue
def test_get_gives_the_state_of_a_queued_list(make: Make) -> None:
    queue = make(known_objects=known(pod("a", 1), pod("b", 1)))
    queue.update_nowait(pod("b", 2))

    queue.replace_nowait(known(pod("a", 3)), "3")
    queue.add_nowait(pod("c", 4))

    assert queue.get("a") is pod("a", 3)
    assert queue.get("b") is None
    assert queue.get("c") is pod("c", 4)


@any_queue
def test_deletions_of_what_was_never_known_are_dropped(make: Make) -> None:
    queue = make(known_objects=known(pod("a")))

    queue.delete_nowait(pod("stranger"))
    queue.delete_nowait(unknown("ghost"))
    queue.apply_nowait(Deleted(pod("stranger")))

    assert len(queue) == 0


def test_an_atomic_real_fifo_without_known_objects_queues_unknown_deletions() -> None:
    queue = RealFIFO[None]()

    queue.delete_nowait(pod("a"))

    assert read_all(queue.drain_nowait()) == ["Deleted a 1"]


@pytest.mark.parametrize("make", [per_object, DeltaFIFO[None]], ids=["RealFIFO", "DeltaFIFO"])
@pytest.mark.parametrize(("size", "slices"), [(0, 0), (1000, 0), (1001, 1), (3500, 3)])
def test_a_long_list_is_queued_in_slices(make: Make, size: int, slices: int) -> None:
    gone = pod("gone")
    objects = known(*(pod(f"p{number}") for number in range(size)))
    queue = make(known_objects=known(gone))

    work = queue.replace_nowait(objects, "9")
    assert not (slices and queue.has_synced)

    rest = [len(queue) for _ in work]
    assert len(rest) == max(0, slices - 1)
    keys = [delta.key for delta in queue.drain_nowait()]
    assert sorted(keys) == sorted([*objects, "gone"])
    assert queue.has_synced


@pytest.mark.parametrize("make", [per_object, DeltaFIFO[None]], ids=["RealFIFO", "DeltaFIFO"])
def test_a_list_consumed_while_it_is_queued_syncs_at_its_end(make: Make) -> None:
    objects = known(*(pod(f"p{number}") for number in range(2500)))
    queue = make()

    deltas = []
    work = iter(queue.replace_nowait(objects, "9"))
    while True:
        deltas += list(queue.drain_nowait())
        if next(work, "done") == "done":
            break
        assert not queue.has_synced
    deltas += list(queue.drain_nowait())

    assert [delta.key for delta in deltas] == list(objects)
    assert all(delta.is_in_initial_list for delta in deltas)
    assert queue.has_synced


def test_an_atomic_list_is_taken_at_once_however_long() -> None:
    objects = known(*(pod(f"p{number}") for number in range(2500)))
    queue = RealFIFO[None]()

    assert list(queue.replace_nowait(objects, "9")) == []
    (delta,) = queue.drain_nowait()
    assert delta.objects is objects


def test_a_real_fifo_is_synced_only_after_processing() -> None:
    queue = RealFIFO[None]()
    queue.replace_nowait(known(pod("a")), "9")
    during = []

    assert queue.process_nowait(lambda _: during.append(queue.has_synced))

    assert during == [False]
    assert queue.has_synced
    assert not queue.process_nowait(lambda _: during.append(queue.has_synced))


def test_a_delta_fifo_is_synced_before_processing() -> None:
    queue = DeltaFIFO[None]()
    queue.replace_nowait(known(pod("a")), "9")
    during = []

    assert queue.process_nowait(lambda _: during.append(queue.has_synced))

    assert during == [True]


@pytest.mark.covers("client-go tools/cache: TestProcessDeltasInBatch")
@any_queue
def test_an_entry_whose_processing_fails_is_gone_and_counts(make: Make) -> None:
    queue = make()
    queue.replace_nowait(known(pod("a")), "9")

    def fail(_: Delta[None] | Deltas[None]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        queue.process_nowait(fail)

    assert queue.has_synced
    assert len(queue) == 0


@pytest.mark.covers("client-go tools/cache: TestProcessDeltasInBatch")
def test_draining_counts_a_delta_when_the_next_is_asked_for() -> None:
    queue = per_object()
    queue.replace_nowait(known(pod("a"), pod("b")), "9")

    during = [queue.has_synced for _ in queue.drain_nowait()]

    assert during == [False, False]
    assert queue.has_synced


@any_queue
def test_a_drain_that_is_left_keeps_the_rest(make: Make) -> None:
    queue = make()
    for version in (1, 2, 3):
        queue.add_nowait(pod("a", version))

    for _ in queue.drain_nowait():
        break

    assert read_all(queue.drain_nowait()) == ["Added a 2", "Added a 3"]


@any_queue
def test_draining_takes_what_arrives_meanwhile(make: Make) -> None:
    queue = make()
    queue.add_nowait(pod("a", 1))

    taken = []
    for delta in queue.drain_nowait():
        taken.append(delta.key)
        if len(taken) < 3:
            queue.add_nowait(pod("b", len(taken)))

    assert taken == ["a", "b", "b"]


@any_queue
def test_popping_an_empty_queue_gives_none(make: Make) -> None:
    assert make().pop_nowait() is None


def test_a_batch_of_nothing_is_empty_and_a_limit_below_one_is_refused() -> None:
    queue = RealFIFO[None]()

    assert queue.pop_batch_nowait() == ()
    with pytest.raises(InvalidArgumentError, match="limit: must be at least 1, got 0"):
        queue.pop_batch_nowait(0)


def test_atomic_deltas_are_batches_of_their_own() -> None:
    queue = RealFIFO[None]()
    queue.add_nowait(pod("a"))
    queue.replace_nowait(known(pod("a")), "7")
    queue.add_nowait(pod("b"))
    queue.resync_nowait()
    queue.bookmark_nowait("9")

    batches = []
    while batch := queue.pop_batch_nowait():
        batches.append(read_all(batch))

    assert batches == [
        ["Added a 1"],
        ["ReplacedAll 7 a 1"],
        ["Added b 1"],
        ["SyncAll"],
        ["Bookmark 9"],
    ]


@pytest.mark.parametrize("make", [per_object, DeltaFIFO[None]], ids=["RealFIFO", "DeltaFIFO"])
def test_bookmarks_are_deltas_only_where_lists_are(make: Make) -> None:
    queue = make()

    queue.bookmark_nowait("9")

    assert len(queue) == 0


def test_a_delta_fifo_keeps_the_final_state_of_repeated_deletions() -> None:
    queue = DeltaFIFO[None](known_objects=known(pod("a", 1)))

    queue.delete_nowait(unknown("a", 1))
    queue.delete_nowait(pod("a", 2))
    queue.delete_nowait(unknown("a", 1))

    assert read_all(queue.drain_nowait()) == ["Deleted a 2"]


@any_queue
def test_statistics_have_depth_peak_and_age(make: Make) -> None:
    now = 100.0
    queue = make(clock=lambda: now) if make is not per_object else RealFIFO[None](clock=lambda: now)
    assert queue.statistics(now) == QueueStatistics(0, 0, 0, 0.0)

    queue.add_nowait(pod("a"))
    now = 103.0
    queue.add_nowait(pod("b"))
    now = 105.0
    assert queue.statistics(now) == QueueStatistics(2, 2, 0, 5.0)
    queue.pop_nowait()
    assert queue.statistics(now) == QueueStatistics(1, 2, 0, 2.0)
    queue.pop_nowait()
    assert queue.statistics(now) == QueueStatistics(0, 2, 0, 0.0)


def test_deltas_are_invisible_to_the_garbage_collector() -> None:
    queue = per_object()
    queue.replace_nowait(known(pod("a")), "9")

    (delta,) = queue.drain_nowait()

    assert not gc.is_tracked(delta)


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(Delta(DeltaType.ADDED, pod("a"), is_in_initial_list=True), id="object"),
        pytest.param(
            Delta(DeltaType.DELETED, DeletedFinalStateUnknown("a", pod("a"))), id="tombstone"
        ),
        pytest.param(Delta(DeltaType.REPLACED_ALL, None, {"a": pod("a")}, "5"), id="whole-list"),
        pytest.param(Delta(DeltaType.BOOKMARK, resource_version="5"), id="bookmark"),
    ],
)
def test_deltas_pickle_and_copy(delta: Delta[None]) -> None:
    restored = pickle.loads(pickle.dumps(delta))  # noqa: S301 - our own bytes
    for twin in (restored, copy.copy(delta), copy.deepcopy(delta)):
        assert twin == delta
        assert (twin.key, twin.objects) == (delta.key, delta.objects)
