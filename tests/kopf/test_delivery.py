"""What a stream reports to kopf: nothing is lost, merged or repeated, whatever a list shows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.kopf._reflector_sink import ReflectorSink
from pyinformer.kopf._stream_cache import CachedKeys, CachedObjects, Known
from pyinformer.objects import (
    Added,
    Deleted,
    GroupVersionKind,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    Updated,
)

POD = GroupVersionKind("", "v1", "Pod")
CODEC: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "pods"))
NOW = "2026-01-02T03:04:05Z"


def pod(name: str, version: int, uid: str = "") -> KubeObject[None]:
    """Return a pod with an annotation, so that its body is more than its identity."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-of-{name}",
        "resourceVersion": str(version),
        "annotations": {"version": str(version)},
    }
    raw = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}).encode()
    return CODEC.decode(raw, 0, len(raw))


@dataclass
class Owner:
    """The stream of a delivery."""

    is_resetting: bool = False
    woken: int = 0
    scanned: tuple[str, ...] = ()

    def is_in_initial_scan(self, obj: KubeObject[None]) -> bool:
        """Return whether the test has said so."""
        return obj.metadata.name in self.scanned

    def wake(self) -> None:
        """Count."""
        self.woken += 1

    def deletion_timestamp(self) -> str:
        """Return the present time."""
        return NOW


def delivery_of(
    known: Known | None = None, *, is_observer: bool = False, owner: Owner | None = None
) -> ReflectorSink:
    """Return a delivery of handlers, or of an observer."""
    kept = CachedKeys(POD) if known is None else known
    return ReflectorSink(kept, owner or Owner(), is_observer=is_observer)


def listing(delivery: ReflectorSink, *objects: KubeObject[None]) -> None:
    """Pass a complete list."""
    for _ in delivery.replace_nowait({obj.key: obj for obj in objects}, "100"):
        pass


def taken(delivery: ReflectorSink) -> list[Any]:
    """Return all events: type, name and version, or the word for the end of a list."""
    return [
        event
        if event == "LISTED"
        else (
            event["type"],
            event["object"]["metadata"]["name"],
            event["object"]["metadata"]["resourceVersion"],
        )
        for event in iter(delivery.take, None)
    ]


@pytest.fixture(params=[CachedKeys, CachedObjects])
def known(request: pytest.FixtureRequest) -> Known:
    """Keys alone, or objects."""
    kept: Known = CachedKeys(POD) if request.param is CachedKeys else CachedObjects()
    return kept


def test_handlers_receive_the_first_list_without_types(known: Known) -> None:
    delivery = delivery_of(known)
    assert not delivery.has_listed
    listing(delivery, pod("a", 1), pod("b", 2))
    assert delivery.has_listed
    assert taken(delivery) == [(None, "a", "1"), (None, "b", "2"), "LISTED"]


def test_observers_receive_the_first_list_as_added(known: Known) -> None:
    delivery = delivery_of(known, is_observer=True)
    listing(delivery, pod("a", 1))
    assert taken(delivery) == [("ADDED", "a", "1"), "LISTED"]


def test_observers_receive_known_objects_without_a_type(known: Known) -> None:
    delivery = delivery_of(known, is_observer=True, owner=Owner(scanned=("a", "b")))
    listing(delivery, pod("a", 1), pod("gap", 2))
    assert taken(delivery) == [(None, "a", "1"), ("ADDED", "gap", "2"), "LISTED"]
    listing(delivery, pod("a", 3), pod("b", 4), pod("gap", 2))
    assert taken(delivery) == [("MODIFIED", "a", "3"), ("ADDED", "b", "4"), "LISTED"]


def test_a_later_list_reports_what_is_new_changed_or_gone(known: Known) -> None:
    delivery = delivery_of(known)
    listing(delivery, pod("same", 1), pod("changed", 2), pod("gone", 3))
    taken(delivery)
    listing(delivery, pod("same", 1), pod("changed", 9), pod("new", 10))
    assert taken(delivery) == [
        ("DELETED", "gone", "3"),
        (None, "changed", "9"),
        (None, "new", "10"),
        "LISTED",
    ]


def test_observers_receive_types_from_a_later_list(known: Known) -> None:
    delivery = delivery_of(known, is_observer=True)
    listing(delivery, pod("same", 1), pod("changed", 2))
    taken(delivery)
    listing(delivery, pod("same", 1), pod("changed", 9), pod("new", 10))
    assert taken(delivery) == [("MODIFIED", "changed", "9"), ("ADDED", "new", "10"), "LISTED"]


def test_a_recreated_object_is_deleted_first(known: Known) -> None:
    delivery = delivery_of(known)
    listing(delivery, pod("a", 1))
    taken(delivery)
    listing(delivery, pod("a", 9, "another"))
    assert taken(delivery) == [("DELETED", "a", "1"), (None, "a", "9"), "LISTED"]


def test_an_unchanged_listed_object_is_not_reported(known: Known) -> None:
    delivery = delivery_of(known)
    listing(delivery, pod("a", 1))
    taken(delivery)
    record = delivery.get("default/a")
    assert record is not None
    listing(delivery, record)
    assert taken(delivery) == ["LISTED"]


def test_a_list_of_another_history_reports_equal_versions_again() -> None:
    delivery = delivery_of(owner=(owner := Owner()))
    listing(delivery, pod("a", 1))
    taken(delivery)
    owner.is_resetting = True
    listing(delivery, pod("a", 1))
    assert taken(delivery) == [(None, "a", "1"), "LISTED"]


def test_events_keep_their_order_and_their_bodies(known: Known) -> None:
    delivery = delivery_of(known)
    first, second = pod("a", 1), pod("a", 2)
    delivery.apply_nowait(Added(first))
    delivery.apply_nowait(Updated(first, second))
    delivery.apply_nowait(Deleted(second))
    bodies = [event["object"] for event in iter(delivery.take, None) if event != "LISTED"]
    assert bodies == [json.loads(first.raw), json.loads(second.raw), json.loads(second.raw)]
    assert bodies[1] is not bodies[2]
    assert delivery.keys() == []


NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=True), st.booleans())
JSON = st.recursive(
    st.one_of(NUMBERS, st.none(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(spec=JSON)
def test_every_body_is_what_kopf_would_decode(spec: object) -> None:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    raw = json.dumps(body).encode()
    obj = KubeObject("default/a", pod("a", 1).metadata, None, raw, POD)
    delivery = delivery_of()
    delivery.apply_nowait(Added(obj))
    event = delivery.take()
    assert event is not None
    assert event != "LISTED"
    assert repr(event["object"]) == repr(json.loads(raw))


def test_a_missed_deletion_has_the_last_known_body_and_a_deletion_timestamp() -> None:
    delivery = delivery_of(CachedObjects())
    listing(delivery, pod("a", 1))
    taken(delivery)
    listing(delivery)
    event = delivery.take()
    assert event is not None
    assert event != "LISTED"
    metadata: Any = event["object"]["metadata"]
    assert metadata["annotations"] == {"version": "1"}
    assert metadata["deletionTimestamp"] == NOW


def test_without_bodies_a_missed_deletion_has_the_identity() -> None:
    delivery = delivery_of(CachedKeys(POD))
    listing(delivery, pod("a", 1))
    taken(delivery)
    old = delivery.get("default/a")
    assert old is not None
    delivery.apply_nowait(Deleted(old, final_state_unknown=True))
    assert delivery.take() == {
        "type": "DELETED",
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "namespace": "default",
                "uid": "uid-of-a",
                "resourceVersion": "1",
                "deletionTimestamp": NOW,
            },
        },
    }


def test_a_deletion_that_the_server_reports_stays_as_it_is() -> None:
    delivery = delivery_of()
    delivery.apply_nowait(Added(pod("a", 1)))
    delivery.take()
    delivery.apply_nowait(Deleted(pod("a", 2)))
    event = delivery.take()
    assert event is not None
    assert event != "LISTED"
    assert "deletionTimestamp" not in event["object"]["metadata"]


def test_deletions_wait_for_the_end_of_a_pause_and_all_else_is_listed_again(known: Known) -> None:
    delivery = delivery_of(known)
    listing(delivery, pod("a", 1), pod("b", 2), pod("c", 3))
    taken(delivery)
    delivery.apply_nowait(Updated(pod("a", 1), pod("a", 4)))
    delivery.apply_nowait(Deleted(pod("b", 5)))
    delivery.pause()
    delivery.resume()
    listing(delivery, pod("a", 4))
    assert taken(delivery) == [
        ("DELETED", "b", "5"),
        ("DELETED", "c", "3"),
        (None, "a", "4"),
        "LISTED",
    ]


def unfinished(delivery: ReflectorSink, steps: int, *objects: KubeObject[None]) -> None:
    """Pass a list whose reflector is stopped after some steps."""
    for _ in islice(delivery.replace_nowait({obj.key: obj for obj in objects}, "100"), steps):
        pass


@pytest.mark.parametrize("is_paused", [True, False])
def test_what_an_unfinished_list_has_reported_is_known(known: Known, *, is_paused: bool) -> None:
    """A long list is applied in steps; kopf takes its first objects before the last are there."""
    delivery = delivery_of(known)
    listing(delivery, pod("a", 1))
    unfinished(delivery, 2, pod("a", 2, "another"), pod("b", 3))
    assert taken(delivery) == [
        (None, "a", "1"),
        "LISTED",
        ("DELETED", "a", "1"),
        (None, "a", "2"),
    ]
    if is_paused:
        delivery.pause()
    delivery.resume()
    listing(delivery, pod("b", 3))
    assert taken(delivery) == [("DELETED", "a", "2"), (None, "b", "3"), "LISTED"]


def test_a_warm_stream_replays_what_it_knows() -> None:
    delivery = delivery_of(CachedObjects())
    assert not delivery.can_replay
    listing(delivery, pod("a", 1), pod("b", 2))
    taken(delivery)
    delivery.pause()
    delivery.apply_nowait(Updated(pod("a", 1), pod("a", 3)))
    delivery.apply_nowait(Deleted(pod("b", 4)))
    delivery.apply_nowait(Added(pod("c", 5)))
    assert delivery.can_replay
    delivery.replay()
    assert taken(delivery) == [
        ("DELETED", "b", "4"),
        (None, "a", "3"),
        (None, "c", "5"),
        "LISTED",
    ]


def test_a_pause_keeps_no_deletion_of_what_kopf_has_never_received(known: Known) -> None:
    """Objects may come and go by the thousand; a list in the pause shows the same as events."""
    delivery = delivery_of(known)
    listing(delivery, pod("a", 1), pod("b", 1))
    taken(delivery)
    delivery.apply_nowait(Added(pod("untaken", 2)))
    delivery.pause()
    for number in range(3, 1_000):
        delivery.apply_nowait(Added(pod(f"p{number}", number)))
        delivery.apply_nowait(Updated(pod(f"p{number}", number), pod(f"p{number}", number + 1)))
        delivery.apply_nowait(Deleted(pod(f"p{number}", number + 2)))
    delivery.apply_nowait(Deleted(pod("untaken", 2_000)))
    delivery.apply_nowait(Added(pod("late", 2_001)))
    listing(delivery, pod("b", 1), pod("listed", 2_002))
    listing(delivery, pod("b", 1), pod("stays", 2_003))
    assert len(delivery) == 1, "the deletion of a, which kopf has received"
    delivery.resume()
    listing(delivery, pod("b", 1))
    assert taken(delivery) == [("DELETED", "a", "1"), (None, "b", "1"), "LISTED"]


def test_a_deletion_after_a_pause_is_reported_if_the_object_was(known: Known) -> None:
    delivery = delivery_of(known)
    listing(delivery)
    taken(delivery)
    delivery.pause()
    delivery.apply_nowait(Added(pod("a", 1)))
    delivery.resume()
    listing(delivery, pod("a", 1))
    delivery.apply_nowait(Deleted(pod("a", 2)))
    assert taken(delivery) == [(None, "a", "1"), "LISTED", ("DELETED", "a", "2")]


def widget(name: str, version: int, levels: int) -> KubeObject[None]:
    """Return a custom resource with a value of so many levels."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
    }
    value = '{"a":' * levels + "1" + "}" * levels
    raw = json.dumps({"apiVersion": "e.io/v1", "kind": "Widget", "metadata": metadata, "spec": 0})
    text = raw.replace('"spec": 0', f'"spec": {value}').encode()
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("e.io/v1", "widgets"))
    return codec.decode(text, 0, len(text))


@pytest.mark.parametrize("levels", [600, 3_000, 9_900])
def test_an_object_that_is_nested_too_deeply_is_not_reported_but_its_deletion_is(
    known: Known, levels: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its handlers would fail, and the operator would end. The log names the object once."""
    delivery = delivery_of(known)
    deep, deeper = widget("deep", 2, levels), widget("deep", 3, levels)
    listing(delivery, widget("good", 1, 5), deep)
    delivery.apply_nowait(Updated(deep, deeper))
    delivery.apply_nowait(Added(widget("late", 4, 5)))
    assert taken(delivery) == [(None, "good", "1"), "LISTED", ("ADDED", "late", "4")]
    (record,) = caplog.records
    assert "Widget default/deep cannot be decoded" in record.getMessage()

    delivery.apply_nowait(Deleted(widget("deep", 5, levels)))
    event = delivery.take()
    assert event is not None
    assert event != "LISTED"
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["uid"] == "uid-of-deep"
    assert event["object"]["metadata"].get("deletionTimestamp") == NOW

    delivery.apply_nowait(Added(widget("deep", 6, 5)))
    assert taken(delivery) == [("ADDED", "deep", "6")]


def test_a_list_that_is_under_way_cannot_be_replayed() -> None:
    delivery = delivery_of(CachedObjects())
    listing(delivery, pod("a", 1))
    steps = iter(delivery.replace_nowait({"default/a": pod("a", 2)}, "100"))
    next(steps)
    assert not delivery.can_replay
    for _ in steps:
        pass
    assert delivery.can_replay
    assert not delivery_of(CachedKeys(POD)).can_replay


def test_readers_are_woken_for_each_event() -> None:
    delivery = delivery_of(owner=(owner := Owner()))
    listing(delivery, pod("a", 1))
    assert owner.woken == 2


NAMES = st.sampled_from("abcd")
STATES = st.dictionaries(NAMES, st.tuples(st.integers(1, 3), st.integers(0, 1)))


class Reader:
    """Follows the events as kopf does: what exists, and what it was notified of."""

    def __init__(self) -> None:
        self.existing: dict[str, str] = {}
        self.deletions: Counter[str] = Counter()
        self.births: Counter[str] = Counter()

    def read(self, delivery: ReflectorSink, most: int | None = None) -> None:
        """Take events, at most so many."""
        while (most is None or most > 0) and (event := delivery.take()) is not None:
            most = None if most is None else most - 1
            if event == "LISTED":
                continue
            metadata = event["object"]["metadata"]
            uid, version = metadata["uid"], metadata["resourceVersion"]
            if event["type"] == "DELETED":
                self.deletions[uid] += 1
                self.existing.pop(uid, None)
            else:
                self.births[uid] += uid not in self.existing
                self.existing[uid] = version


def _lives(steps: list[tuple[str, dict[str, tuple[int, int]], int]]) -> list[set[str]]:
    """Return the uids of each list."""
    return [{f"{name}-{life}" for name, (_, life) in state.items()} for _, state, _ in steps]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("list"), STATES, st.integers(0, 9)),
            st.tuples(st.just("pause"), STATES, st.integers(0, 9)),
            st.tuples(st.just("cut"), STATES, st.integers(0, 9)),
        ),
        max_size=8,
    ),
    bodies=st.booleans(),
    is_observer=st.booleans(),
)
def test_after_any_lists_and_pauses_kopf_knows_what_exists(
    steps: list[tuple[str, dict[str, tuple[int, int]], int]], *, bodies: bool, is_observer: bool
) -> None:
    delivery = delivery_of(CachedObjects() if bodies else CachedKeys(POD), is_observer=is_observer)
    reader = Reader()
    state: dict[str, tuple[int, int]] = {}
    for number, (what, state, most) in enumerate(steps):
        reader.read(delivery, most)
        pods = [pod(name, 10 * number + v, f"{name}-{life}") for name, (v, life) in state.items()]
        if what == "cut":
            unfinished(delivery, 2, *pods)
            reader.read(delivery, most)
        if what != "list" and not is_observer:
            delivery.pause()
        if what != "list":
            delivery.resume()
        if what != "cut" or number == len(steps) - 1:
            listing(delivery, *pods)
    reader.read(delivery)
    assert set(reader.existing) == {f"{name}-{life}" for name, (_, life) in state.items()}
    for uid, lives in reader.births.items():
        absences = sum(uid not in lived for lived in _lives(steps))
        assert lives <= 1 + absences
        assert reader.deletions[uid] <= absences
    for uid, version in reader.existing.items():
        assert version == str(10 * (len(steps) - 1) + state[uid.partition("-")[0]][0])
