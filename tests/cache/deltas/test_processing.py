"""What a delta means to a consumer that knows an older state."""

from __future__ import annotations

import pytest

from pyinformer.cache.deltas import Delta, DeltaType, RealFIFO, events_of
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.cache.deltas.pods import known, pod, store_event, unknown


def told(
    delta: Delta[None], *objects: KubeObject[None], selector: bool = False
) -> list[Event[None]]:
    """Return the events of a delta for a consumer that knows these objects."""
    return list(events_of(delta, known(*objects), may_still_exist=selector))


CHANGES = [DeltaType.ADDED, DeltaType.UPDATED, DeltaType.REPLACED]
of_any_type = pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.value)


@of_any_type
@pytest.mark.parametrize("initial", [True, False])
def test_a_change_of_an_unknown_object_is_an_addition(kind: DeltaType, initial: bool) -> None:
    delta = Delta(kind, pod("a", 1), is_in_initial_list=initial)

    assert told(delta) == [Added(pod("a", 1), is_in_initial_list=initial)]


@of_any_type
def test_a_change_of_a_known_object_is_an_update(kind: DeltaType) -> None:
    assert told(Delta(kind, pod("a", 2)), pod("a", 1)) == [Updated(pod("a", 1), pod("a", 2))]


@of_any_type
def test_an_unchanged_object_is_nothing(kind: DeltaType) -> None:
    assert told(Delta(kind, pod("a", 1)), pod("a", 1)) == []


@of_any_type
def test_a_recreated_object_is_a_deletion_and_an_addition(kind: DeltaType) -> None:
    old, new = pod("a", 1, "first"), pod("a", 2, "second")

    assert told(Delta(kind, new), old, selector=True) == [
        Deleted(old, final_state_unknown=True),
        Added(new),
    ]


def test_without_resource_versions_the_bodies_decide() -> None:
    same, other = _unversioned("x"), _unversioned("y")

    assert told(Delta(DeltaType.REPLACED, _unversioned("x")), same) == []
    assert told(Delta(DeltaType.REPLACED, other), same) == [Updated(same, other)]


def _unversioned(node: str) -> KubeObject[None]:
    from pyinformer.objects import GroupVersionResource, ObjectCodec

    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))
    text = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"nodeName":"%s"}}'
    data = (text % node).encode()
    return codec.decode(data, 0, len(data))


def test_a_sync_is_an_update_of_the_known_object_to_itself() -> None:
    events = told(Delta(DeltaType.SYNC, pod("a", 1)), pod("a", 1))

    assert events == [Updated(pod("a", 1), pod("a", 1), is_resync=True)]


@pytest.mark.parametrize("selector", [True, False])
def test_a_deletion_has_the_final_state(selector: bool) -> None:
    events = told(Delta(DeltaType.DELETED, pod("a", 2)), pod("a", 1), selector=selector)

    assert events == [Deleted(pod("a", 2), may_still_exist=selector)]


def test_a_tombstone_has_the_newest_known_state_and_is_marked_stale() -> None:
    events = told(Delta(DeltaType.DELETED, unknown("a", 2)), pod("a", 1))

    assert events == [Deleted(pod("a", 2), final_state_unknown=True)]


def test_a_tombstone_without_an_object_has_the_known_state() -> None:
    events = told(Delta(DeltaType.DELETED, unknown("a")), pod("a", 1))

    assert events == [Deleted(pod("a", 1), final_state_unknown=True)]


def test_a_deletion_of_another_uid_reports_the_known_uid() -> None:
    old = pod("a", 1, "first")

    events = told(Delta(DeltaType.DELETED, pod("a", 3, "second")), old)

    assert events == [Deleted(old, final_state_unknown=True)]


@pytest.mark.parametrize("gone", [pod("a", 2), unknown("a", 2), unknown("a")])
def test_no_handler_gets_the_deletion_of_what_was_never_known(gone: KubeObject[None]) -> None:
    assert told(Delta(DeltaType.DELETED, gone)) == []


def test_a_bookmark_is_nothing() -> None:
    assert told(Delta(DeltaType.BOOKMARK, resource_version="9"), pod("a", 1)) == []


def test_a_whole_list_is_its_difference_with_deletions_first() -> None:
    old = [pod("gone", 1), pod("same", 2), pod("changed", 3), pod("recreated", 4, "first")]
    new = known(pod("new", 9), pod("recreated", 8, "second"), pod("changed", 7), pod("same", 2))

    events = told(Delta(DeltaType.REPLACED_ALL, None, new, "9"), *old, selector=True)

    assert events == [
        Deleted(pod("gone", 1), final_state_unknown=True, may_still_exist=True),
        Added(pod("new", 9)),
        Deleted(pod("recreated", 4, "first"), final_state_unknown=True),
        Added(pod("recreated", 8, "second")),
        Updated(pod("changed", 3), pod("changed", 7)),
    ]


def test_a_whole_list_of_unchanged_objects_is_nothing() -> None:
    objects = [pod(f"p{number}") for number in range(1000)]

    assert told(Delta(DeltaType.REPLACED_ALL, None, known(*objects), "9"), *objects) == []


def test_a_whole_list_marks_additions_as_initial() -> None:
    delta = Delta(DeltaType.REPLACED_ALL, None, known(pod("a")), "9", is_in_initial_list=True)

    assert told(delta) == [Added(pod("a"), is_in_initial_list=True)]


def test_a_sync_of_all_is_an_update_of_everything_to_itself() -> None:
    events = told(Delta(DeltaType.SYNC_ALL), pod("a"), pod("b"))

    assert events == [
        Updated(pod("a"), pod("a"), is_resync=True),
        Updated(pod("b"), pod("b"), is_resync=True),
    ]


@pytest.mark.parametrize("kind", [DeltaType.REPLACED_ALL, DeltaType.SYNC_ALL])
def test_storing_each_event_at_once_or_all_afterwards_is_the_same(kind: DeltaType) -> None:
    old = known(pod("gone", 1), pod("changed", 3), pod("recreated", 4, "first"))
    new = known(pod("new", 9), pod("recreated", 8, "second"), pod("changed", 7))
    delta = Delta(kind, None, new, "9")
    store = dict(old)

    at_once = []
    for event in events_of(delta, store):
        store_event(store, event)
        at_once.append(event)

    assert at_once == list(events_of(delta, old))
    assert store == (new if kind is DeltaType.REPLACED_ALL else old)


@pytest.mark.parametrize("atomic", [True, False])
def test_deltas_queued_before_a_list_are_kept(atomic: bool) -> None:
    """A queued addition that the list no longer has is added and deleted (k/k#115658)."""
    store: dict[str, KubeObject[None]] = {}
    queue = RealFIFO(known_objects=store, atomic_events=atomic)
    queue.add_nowait(pod("a"))
    for _ in queue.replace_nowait({}, "2"):
        pass

    events = []
    for delta in queue.drain_nowait():
        for event in events_of(delta, store):
            store_event(store, event)
            events.append(event)

    assert events == [
        Added(pod("a"), is_in_initial_list=True),
        Deleted(pod("a"), final_state_unknown=True),
    ]
    assert store == {}
