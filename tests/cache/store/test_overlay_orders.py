"""Own writes where versions of two objects do not compare: no position proves anything of them.

Each object counts its own versions here, or has versions that only equal each other or do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.store import Indexer, Lister, Overlay
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, VersionOrder
from tests.cache.store.written import record

if TYPE_CHECKING:
    from collections.abc import Callable

A = "default/a"


class Cache:
    """A store with an overlay, whose position is always far beyond every version."""

    def __init__(
        self, order: VersionOrder, *stored: KubeObject[Any], selective: bool = False
    ) -> None:
        self.order = order
        self.position = "900"
        self.now = 0.0
        self.is_polled = False
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.buried: set[tuple[str, str]] = set()
        self.store: Indexer[Any] = Indexer()
        self.overlay: Overlay[Any] = Overlay(
            self.store.get,
            lambda: self.position,
            order=lambda: self.order,
            now=lambda: self.now,
            later=lambda seconds, call: self.timers.append((self.now + seconds, call)),
            is_polled=lambda: self.is_polled,
            was_deleted=lambda key, uid: (key, uid) in self.buried,
            selective=selective,
        )
        self.lister: Lister[Any] = Lister(self.store, resource="pods", written=self.overlay.entries)
        for obj in stored:
            self.store.apply_nowait(Added(obj))

    def wait(self, seconds: float) -> None:
        """Let time pass in which nothing arrives."""
        self.now += seconds
        due = [call for at, call in self.timers if at <= self.now]
        self.timers = [one for one in self.timers if one[0] > self.now]
        for call in due:
            call()

    def hear(self, event: Event[Any]) -> None:
        """Take an event as the sink and the guard do."""
        self.store.apply_nowait(event)
        if isinstance(event, Deleted):
            self.buried.add((event.key, event.last_known.metadata.uid))
        self.overlay.observe(event)

    def list(self, *objects: KubeObject[Any], version: str = "950") -> None:
        """Take a complete list."""
        found = {str(obj.key): obj for obj in objects}
        for _ in self.store.replace_nowait(
            found, version, ended_nowait=lambda: self.overlay.ended_by(found, version)
        ):
            pass
        self.overlay.sweep()
        self.overlay.learn_order()
        self.overlay.confirm(version, is_list=True)

    @property
    def shown(self) -> str:
        """What a reader sees of A: its uid and version, or nothing."""
        assert [obj.key for obj in self.lister.list()] == ([A] if A in self.lister else [])
        return self.shown_of(A)

    def shown_of(self, key: str) -> str:
        """What a reader sees of a key."""
        found = self.lister.get(key)
        return "" if found is None else f"{found.metadata.uid}@{found.metadata.resource_version}"


def _updated(cache: Cache, uid: str, version: int | str) -> None:
    old = cache.store.get(A)
    new = record(A, uid, version)
    cache.hear(Added(new) if old is None else Updated(old, new))


UNORDERED = pytest.mark.parametrize("order", [VersionOrder.PER_OBJECT, VersionOrder.OPAQUE])


@UNORDERED
def test_a_write_is_read_although_the_position_is_beyond_its_version(order: VersionOrder) -> None:
    cache = Cache(order, record(A, "1", 4))
    cache.overlay.put(record(A, "1", 5))
    assert cache.shown == "1@5"
    cache.overlay.confirm("901")  # a bookmark
    assert cache.shown == "1@5"
    _updated(cache, "1", 5)
    assert not cache.overlay.entries


@UNORDERED
def test_a_created_object_is_read_until_its_event_comes(order: VersionOrder) -> None:
    cache = Cache(order)
    cache.overlay.put(record(A, "1", 1))
    assert cache.shown == "1@1"
    _updated(cache, "1", 1)
    assert cache.shown == "1@1"
    assert not cache.overlay.entries


def test_per_object_an_older_event_of_the_object_ends_nothing_and_a_newer_one_does() -> None:
    cache = Cache(VersionOrder.PER_OBJECT, record(A, "1", 3))
    cache.overlay.put(record(A, "1", 10))
    _updated(cache, "1", 9)
    assert cache.shown == "1@10"
    _updated(cache, "1", 11)
    assert cache.shown == "1@11"
    assert not cache.overlay.entries


def test_opaque_any_other_version_of_the_object_ends_nothing() -> None:
    cache = Cache(VersionOrder.OPAQUE, record(A, "1", "x"))
    cache.overlay.put(record(A, "1", "w"))
    _updated(cache, "1", "y")
    assert cache.shown == "1@w"
    _updated(cache, "1", "w")
    _updated(cache, "1", "z")
    assert cache.shown == "1@z"


@UNORDERED
def test_a_write_that_no_event_names_ends_soon_after_the_first_of_its_object(
    order: VersionOrder,
) -> None:
    """A server that sends only the newest state, or answers writes from another counter."""
    cache = Cache(order, record(A, "1", 4))
    cache.now = 3600.0
    cache.overlay.put(record(A, "1", 99))
    cache.now += 1000.0  # nothing was sent meanwhile: the watch may be behind
    _updated(cache, "1", 5)
    cache.now += 9.0
    _updated(cache, "1", 6)
    assert cache.shown == "1@99"
    cache.now += 1.0
    cache.hear(Added(record("default/b", "2", 7)))  # of any object
    assert not cache.overlay.entries
    assert cache.shown_of(A) == "1@6"


@UNORDERED
def test_a_response_that_comes_after_its_event_and_a_later_one_hides_nothing(
    order: VersionOrder,
) -> None:
    cache = Cache(order)
    cache.list(record(A, "1", 4), record("default/b", "2", 4))
    _updated(cache, "1", 5)
    _updated(cache, "1", 6)
    for late in (4, 5, 6):
        cache.overlay.put(record(A, "1", late))
        assert cache.shown_of(A) == "1@6"
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    cache.overlay.put(record(A, "1", 5))
    assert cache.shown_of(A) == ""


@UNORDERED
def test_a_list_after_a_write_that_it_does_not_show_begins_the_wait_for_its_event(
    order: VersionOrder,
) -> None:
    """The write and a later one fell between a cut and the list."""
    cache = Cache(order, record(A, "1", 4))
    cache.overlay.put(record(A, "1", 9))
    cache.list(record(A, "1", 5))
    assert cache.shown == "1@9"
    cache.now += 10.0
    cache.hear(Added(record("default/b", "2", 7)))
    assert cache.shown_of(A) == "1@5"


@UNORDERED
@pytest.mark.parametrize("selective", [False, True])
def test_answers_that_come_after_the_end_of_their_object_and_its_successor_hide_nothing(
    order: VersionOrder, *, selective: bool
) -> None:
    cache = Cache(order, selective=selective)
    cache.list(record(A, "old", 4))
    _updated(cache, "old", 5)
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    cache.overlay.put(record(A, "old", 5))  # of a patch of ours before the deletion
    assert cache.shown == ""
    _updated(cache, "new", 1)
    cache.overlay.put_tombstone(A, "old", "6")
    cache.overlay.put_tombstone(A, "old")
    assert cache.shown == "new@1"
    _updated(cache, "new", 2)
    assert cache.shown == "new@2"


def test_opaque_a_version_that_comes_again_is_read_at_once() -> None:
    """Some servers hash the content."""
    cache = Cache(VersionOrder.OPAQUE)
    cache.list(record(A, "1", "x"))
    _updated(cache, "1", "y")
    cache.now += 10.0
    cache.overlay.put(record(A, "1", "x"))
    assert cache.shown == "1@x"


def test_opaque_only_the_newest_versions_are_remembered() -> None:
    cache = Cache(VersionOrder.OPAQUE)
    cache.list(record(A, "1", 0))
    for version in range(1, 10_000):
        _updated(cache, "1", version)
    assert len(cache.overlay.seen) <= 4_096


@UNORDERED
def test_a_watch_that_is_behind_leads_no_reader_back(order: VersionOrder) -> None:
    cache = Cache(order, record(A, "1", 4))
    cache.overlay.put(record(A, "1", 7))
    for version in (5, 6):
        cache.now += 5.0
        _updated(cache, "1", version)
        assert cache.shown == "1@7"
    cache.overlay.put(record(A, "1", 9))  # the time counts from its own events
    cache.now += 5.0
    _updated(cache, "1", 7)
    assert cache.shown == "1@9"
    cache.now += 5.0
    _updated(cache, "1", 9)
    cache.now += 100.0
    _updated(cache, "1", 10)
    assert cache.shown == "1@10"


@UNORDERED
def test_an_object_under_the_name_with_a_greater_version_is_the_one_before(
    order: VersionOrder,
) -> None:
    cache = Cache(order, record(A, "old", 70))
    cache.overlay.put(record(A, "new", 1))
    assert cache.shown == "new@1"
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    assert cache.shown == "new@1"
    _updated(cache, "new", 1)
    assert not cache.overlay.entries


@UNORDERED
def test_an_object_whose_end_was_received_is_not_brought_back(order: VersionOrder) -> None:
    cache = Cache(order, record(A, "1", 5))
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    cache.overlay.put(record(A, "1", 6))
    assert cache.shown == ""


@UNORDERED
def test_an_end_of_the_object_ends_the_write(order: VersionOrder) -> None:
    cache = Cache(order, record(A, "1", 4))
    cache.overlay.put(record(A, "1", 5))
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    assert cache.shown == ""
    assert not cache.overlay.entries


@UNORDERED
def test_an_own_write_that_two_lists_lack_is_no_longer_shown(order: VersionOrder) -> None:
    """The first may have begun before the write; the second has begun after the first."""
    cache = Cache(order)
    cache.overlay.put(record(A, "1", 5))
    cache.list()
    assert cache.shown == "1@5"
    cache.list()
    assert cache.shown == ""
    assert not cache.overlay.entries


@UNORDERED
def test_a_response_after_a_list_that_lacks_the_object_is_shown_for_ten_seconds(
    order: VersionOrder,
) -> None:
    """Another client has deleted it: no event will ever report it, and nothing else may come."""
    cache = Cache(order, record(A, "1", 4))
    cache.list()
    cache.wait(1.5)
    cache.overlay.put(record(A, "1", 5))  # or the watch will bring what the list could not have
    assert cache.shown == "1@5"
    cache.wait(10.0)
    assert cache.shown == ""
    assert not cache.overlay.entries


@UNORDERED
def test_an_own_write_where_nothing_is_watched_is_shown_until_the_lists_are_past_it(
    order: VersionOrder,
) -> None:
    """Everything is listed each half minute: until then nothing can contradict the response."""
    cache = Cache(order)
    cache.is_polled = True
    cache.list()
    cache.wait(1.5)
    cache.overlay.put(record(A, "1", 5))
    cache.wait(28.0)
    assert cache.shown == "1@5"
    cache.list(record(A, "1", 5))
    assert cache.shown == "1@5"
    assert not cache.overlay.entries


@UNORDERED
def test_an_object_that_left_the_selector_does_not_hide_its_successor_for_good(
    order: VersionOrder,
) -> None:
    cache = Cache(order, record(A, "1", 4), selective=True)
    cache.overlay.put_unselected(A, "1", "5")
    cache.list(record(A, "2", 1))
    cache.wait(1.0)
    _updated(cache, "2", 2)
    cache.wait(10.0)
    assert cache.shown == "2@2"


@UNORDERED
def test_events_of_another_object_end_a_write_after_ten_seconds(order: VersionOrder) -> None:
    """Of what had the name before, if the watch is behind; or of what has it now."""
    cache = Cache(order, record(A, "1", 4))
    cache.overlay.put(record(A, "2", 5))
    _updated(cache, "3", 1)
    assert cache.shown == "2@5"
    cache.wait(10.0)
    assert cache.shown == "3@1"


@UNORDERED
def test_a_list_that_has_the_write_ends_it(order: VersionOrder) -> None:
    cache = Cache(order)
    cache.overlay.put(record(A, "1", 5))
    cache.list(record(A, "1", 5))
    assert not cache.overlay.entries


@UNORDERED
def test_a_deleted_object_is_hidden_and_its_successor_is_not(order: VersionOrder) -> None:
    cache = Cache(order, record(A, "1", 70))
    cache.overlay.put_tombstone(A, "1", "71")
    assert cache.shown == ""
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    _updated(cache, "2", 1)
    assert cache.shown == "2@1"
    assert not cache.overlay.entries


@UNORDERED
def test_a_deletion_hides_who_had_the_name_before(order: VersionOrder) -> None:
    """This process created and deleted an object while the cache still holds another one."""
    cache = Cache(order, record(A, "old", 1))
    cache.overlay.put(record(A, "mine", 50))
    cache.overlay.put_tombstone(A, "mine", "51")
    assert cache.shown == ""
    gone = cache.store.get(A)
    assert gone is not None
    cache.hear(Deleted(gone))
    assert cache.shown == ""
    _updated(cache, "next", 1)
    assert cache.shown == "next@1"


@UNORDERED
def test_the_answer_to_a_deletion_does_not_hide_what_was_created_since(
    order: VersionOrder,
) -> None:
    cache = Cache(order, record(A, "old", 70))
    cache.overlay.put(record(A, "new", 1))
    cache.overlay.put_tombstone(A, "old", "71")
    assert cache.shown == "new@1"


def test_opaque_versions_of_any_text_are_shown() -> None:
    cache = Cache(VersionOrder.OPAQUE)
    cache.overlay.put(record(A, "1", "not a number"))
    assert cache.shown == "1@not a number"
    assert not cache.overlay.statistics().is_off


def test_a_weaker_version_order_applies_to_earlier_own_writes() -> None:
    cache = Cache(VersionOrder.GLOBAL, record(A, "1", 4))
    cache.position = "4"
    cache.overlay.put(record(A, "1", 5))
    cache.order = VersionOrder.PER_OBJECT
    cache.overlay.confirm("901")
    assert cache.shown == "1@5"
    _updated(cache, "1", 5)
    assert not cache.overlay.entries
