"""Own writes laid over a cache: which are kept, what a reader sees, and when an entry ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyinformer.cache.store import Indexer, Lister, Overlay
from pyinformer.errors import IndexNotFoundError
from pyinformer.objects import Added, Deleted, KubeObject, Updated
from tests.cache.store.written import node_of, record, version_of

A, B = "default/a", "default/b"


class Cache:
    """A store with an overlay, as an informer keeps them, and a position set by hand."""

    def __init__(self, *, selective: bool = False, max_entries: int = 100) -> None:
        self.position = "100"
        self.buried: set[tuple[str, str]] = set()
        self.unheard: list[tuple[KubeObject[Any], KubeObject[Any] | None]] = []
        self.store: Indexer[Any] = Indexer()
        self.store.add_index("node", node_of)
        self.overlay: Overlay[Any] = Overlay(
            self.store.get,
            lambda: self.position,
            was_deleted=lambda key, uid: (key, uid) in self.buried,
            on_missed_state=lambda was, now: self.unheard.append((was, now)),
            selective=selective,
            max_entries=max_entries,
        )
        self.lister: Lister[Any] = Lister(self.store, resource="pods", written=self.overlay.entries)

    def hear(self, event: Added[Any] | Updated[Any] | Deleted[Any]) -> None:
        """Take an event as the sink and the guard do."""
        self.store.apply_nowait(event)
        self.overlay.observe(event)
        obj = event.last_known if isinstance(event, Deleted) else None
        if obj is not None:
            self.buried.add((event.key, obj.metadata.uid))
            self.position = obj.metadata.resource_version
        else:
            new = self.store.get(event.key)
            assert new is not None
            self.position = new.metadata.resource_version

    def list(self, version: int, *objects: KubeObject[Any]) -> None:
        """Take a complete list."""
        for _ in self.store.replace_nowait({o.key: o for o in objects}, str(version)):
            pass
        self.position = str(version)
        self.overlay.sweep()
        self.overlay.confirm(str(version))


@pytest.fixture
def cache() -> Cache:
    """Return a cache that holds A of uid 1 at version 90, on n1."""
    made = Cache()
    made.list(100, record(A, "1", 90))
    return made


@pytest.mark.covers(
    "client-go tools/cache: TestMutationCacheOnDeleteClearsStaleMutation",
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV",
)
def test_a_written_object_is_read_at_once_in_every_way(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 101, "n2"))
    cache.overlay.put(record("other/c", "3", 102, "n3"))
    lister = cache.lister
    assert version_of(lister[A]) == 101
    assert A in lister
    assert sorted(map(version_of, lister.list())) == [101, 102]
    assert [o.key for o in lister.list(label_selector="node=n2")] == [A]
    assert sorted(lister.keys()) == [A, "other/c"]
    assert [o.key for o in lister.namespace("other").list()] == ["other/c"]
    assert version_of(lister.namespace("default").get("a")) == 101
    assert lister.by_index("node", "n1") == []
    assert [o.key for o in lister.by_index("node", "n2")] == [A]
    assert sorted(lister.index_values("node")) == ["n2", "n3"]
    assert sorted(lister.index_values("namespace")) == ["default", "other"]
    with pytest.raises(IndexNotFoundError):
        lister.by_index("zone", "z")


async def test_walking_shows_own_writes(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 101))
    assert [version_of(o) async for o in cache.lister.iter_async()] == [101]


def test_the_store_itself_never_holds_an_own_write(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 101))
    cache.overlay.put_tombstone(B, "2")
    assert version_of(cache.store.get(A)) == 90
    assert [version_of(o) for o in cache.store.list()] == [90]


@pytest.mark.parametrize("version", [90, 95, 100])
def test_a_response_no_newer_than_the_position_is_ignored(cache: Cache, version: int) -> None:
    cache.overlay.put(record(B, "2", version))
    assert cache.lister.get(B) is None
    assert cache.overlay.statistics().ignored == 1


@pytest.mark.covers("client-go tools/cache: TestMutationCacheUpdateConcurrentDelete")
def test_a_response_that_comes_after_the_deletion_resurrects_nothing(cache: Cache) -> None:
    cache.hear(Deleted(record(A, "1", 105)))
    cache.overlay.put(record(A, "1", 103))
    assert cache.lister.get(A) is None


def test_an_older_response_that_comes_late_replaces_nothing(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 103))
    cache.overlay.put(record(A, "1", 102))
    assert version_of(cache.lister.get(A)) == 103


@pytest.mark.covers(
    "client-go tools/cache: TestMutationCacheOnAddOrUpdate",
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV",
)
def test_an_own_write_ends_with_its_own_event_and_not_with_an_older_one(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 105))
    cache.hear(Updated(record(A, "1", 90), record(A, "1", 103)))
    assert version_of(cache.lister[A]) == 105
    cache.hear(Updated(record(A, "1", 103), record(A, "1", 105)))
    assert not cache.overlay.entries
    assert version_of(cache.lister[A]) == 105


def test_an_event_of_another_key_does_not_end_an_own_write(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 105))
    cache.hear(Added(record(B, "2", 106)))
    assert version_of(cache.lister[A]) == 105


@pytest.mark.parametrize("version", [105, 106])
def test_a_bookmark_ends_the_own_writes_that_it_covers(cache: Cache, version: int) -> None:
    cache.overlay.put(record(B, "2", 105))
    cache.overlay.confirm("104")
    assert B in cache.lister
    cache.overlay.confirm(str(version))
    assert not cache.overlay.entries


def test_a_list_without_a_written_object_ends_the_own_write(cache: Cache) -> None:
    cache.overlay.put(record(B, "2", 105))
    cache.list(104, record(A, "1", 90))
    assert B in cache.lister
    cache.list(110, record(A, "1", 90))
    assert B not in cache.lister
    assert not cache.overlay.entries


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV"
)
def test_a_deleted_object_is_gone_at_once_until_its_event(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    assert cache.lister.get(A) is None
    assert cache.lister.list() == []
    assert cache.lister.keys() == []
    assert cache.lister.by_index("node", "n1") == []
    assert cache.lister.index_values("node") == []
    cache.hear(Updated(record(A, "1", 90), record(A, "1", 103)))
    assert cache.lister.get(A) is None
    cache.hear(Deleted(record(A, "1", 104)))
    assert not cache.overlay.entries


@pytest.mark.covers("client-go tools/cache: TestMutationCacheOnDelete")
def test_another_uid_under_a_deleted_name_is_seen_at_once(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    cache.hear(Deleted(record(A, "1", 103)))
    cache.overlay.put_tombstone(A, "1")  # the answer comes after the event
    assert not cache.overlay.entries
    cache.buried.clear()
    cache.overlay.put_tombstone(A, "1")
    cache.hear(Added(record(A, "2", 104)))
    assert version_of(cache.lister.get(A)) == 104


def test_a_successor_ends_the_wait_for_a_deletion(cache: Cache) -> None:
    cache.overlay.put_tombstone(B, "2", "102")
    cache.hear(Added(record(B, "0", 101)))
    assert B not in cache.lister
    cache.hear(Updated(record(B, "0", 101), record(B, "3", 104)))
    assert version_of(cache.lister.get(B)) == 104
    assert not cache.overlay.entries


def test_an_answer_that_comes_after_the_end_of_its_object_shows_nothing(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    cache.overlay.put(record(A, "1", 105))
    assert A not in cache.lister


@pytest.mark.covers("client-go tools/cache: TestMutationCacheUpdateConcurrentRecreate")
def test_a_recreated_object_is_seen_and_its_predecessor_never_again(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    cache.overlay.put(record(A, "2", 105))
    cache.overlay.put_tombstone(A, "1")  # the answer to the deletion comes last
    assert version_of(cache.lister.get(A)) == 105
    cache.overlay.put(record(A, "1", 104))
    assert version_of(cache.lister.get(A)) == 105
    cache.hear(Deleted(record(A, "1", 104)))
    assert version_of(cache.lister.get(A)) == 105
    cache.hear(Added(record(A, "2", 105)))
    assert not cache.overlay.entries


def test_the_namesake_of_a_deleted_object_stays_hidden(cache: Cache) -> None:
    cache.overlay.put(record(A, "2", 105))
    cache.overlay.put_tombstone(A, "2")
    assert A not in cache.lister


def test_an_object_is_hidden_when_it_was_created_and_deleted_unseen(cache: Cache) -> None:
    cache.overlay.put(record(B, "2", 105))
    cache.overlay.put_tombstone(B, "2")
    cache.list(103, record(A, "1", 90))
    cache.hear(Added(record(B, "2", 105)))
    assert B not in cache.lister
    cache.hear(Deleted(record(B, "2", 107)))
    assert not cache.overlay.entries


def test_a_list_confirms_a_deletion(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    cache.list(100, record(A, "1", 90))
    assert A not in cache.lister
    cache.list(105)
    assert not cache.overlay.entries


def test_a_deletion_that_the_server_does_not_carry_out_is_shown_in_the_end(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    for version in ("110", "110", "120"):
        cache.overlay.confirm(version)
    assert A not in cache.lister
    cache.overlay.confirm("130")
    assert A in cache.lister


def test_a_response_with_a_version_that_the_watch_never_reaches_is_shown_for_a_while(
    cache: Cache,
) -> None:
    """As of a gateway that numbers writes by another counter than watches."""
    cache.list(100, record(A, "1", 90))
    cache.overlay.put(record(A, "1", 9_000))
    for version in (110, 120):
        cache.hear(Updated(record(A, "1", version - 10), record(A, "1", version)))
        cache.overlay.confirm(str(version))
    assert version_of(cache.lister.get(A)) == 9_000
    cache.hear(Updated(record(A, "1", 120), record(A, "1", 130)))
    cache.overlay.confirm("130")
    assert version_of(cache.lister.get(A)) == 130


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_a_write_whose_event_was_lost_is_shown_until_a_later_one(
    cache: Cache, *, is_late: bool
) -> None:
    """A watch is past the version, and the cache has an earlier state of that object."""
    if not is_late:
        cache.overlay.put(record(A, "1", 103))
    cache.hear(Added(record(B, "2", 110)))
    cache.overlay.sweep()
    if is_late:
        cache.overlay.put(record(A, "1", 103))
    assert version_of(cache.lister.get(A)) == 103
    cache.hear(Updated(record(A, "1", 90), record(A, "1", 115)))
    assert version_of(cache.lister.get(A)) == 115
    assert not cache.overlay.entries


@pytest.mark.parametrize("was", ["1", "0"], ids=["itself", "a predecessor"])
def test_a_list_of_an_older_version_than_it_claims_leads_no_reader_back(
    cache: Cache, was: str
) -> None:
    cache.overlay.put(record(B, "1", 105))
    cache.list(110, record(B, was, 102))
    assert version_of(cache.lister.get(B)) == 105
    cache.overlay.put_tombstone(B, "1", "112")
    cache.list(115, record(B, was, 102))
    assert B not in cache.lister
    cache.list(120)
    assert B not in cache.lister
    assert not cache.overlay.entries
    cache.hear(Added(record(B, "2", 121)))
    assert version_of(cache.lister.get(B)) == 121


def test_a_list_that_stays_older_than_a_write_is_believed_in_the_end(cache: Cache) -> None:
    cache.overlay.put(record(B, "1", 105))
    for position in (110, 120, 130):
        cache.list(position, record(B, "0", 102))
        cache.overlay.confirm(str(position), is_list=True)
    assert version_of(cache.lister.get(B)) == 102


def test_own_writes_outside_of_the_selector_are_hidden() -> None:
    cache = Cache(selective=True)
    cache.list(100, record(A, "1", 90))
    cache.overlay.put_unselected(A, "1", "101")
    cache.overlay.put_unselected(B, "2", "102")
    cache.overlay.put_tombstone("default/c", "3")
    assert list(cache.overlay.entries) == [A]
    assert A not in cache.lister
    cache.overlay.put(record(A, "1", 103))  # and back again
    assert version_of(cache.lister.get(A)) == 103
    cache.hear(Deleted(record(A, "1", 101), may_still_exist=True))
    assert version_of(cache.lister.get(A)) == 103


def test_an_object_that_left_the_selector_and_came_back_can_be_deleted() -> None:
    cache = Cache(selective=True)
    cache.list(100, record(A, "1", 90))
    cache.hear(Deleted(record(A, "1", 101), may_still_exist=True))
    cache.overlay.put(record(A, "1", 102))
    cache.overlay.put_tombstone(A, "1")
    assert A not in cache.lister
    cache.overlay.clear()
    cache.hear(Added(record(A, "1", 102)))
    cache.overlay.put_tombstone(A, "1")
    assert A not in cache.lister
    cache.hear(Deleted(record(A, "1", 103)))
    assert not cache.overlay.entries


@pytest.mark.covers("client-go tools/cache: TestMutationCacheOnDelete")
def test_an_event_of_a_predecessor_does_not_end_the_deletion_of_its_successor(cache: Cache) -> None:
    cache.overlay.put_tombstone(B, "2")  # its version is unknown
    cache.hear(Added(record(B, "0", 101)))
    cache.hear(Deleted(record(B, "0", 102)))
    cache.hear(Added(record(B, "2", 103)))
    assert B not in cache.lister


def test_a_late_answer_about_a_predecessor_shows_nothing(cache: Cache) -> None:
    cache.overlay.put(record(A, "2", 105))
    cache.overlay.put_tombstone(A, "2")
    cache.overlay.put(record(A, "1", 104))
    assert A not in cache.lister


def test_an_invalid_version_hides_no_successor(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1", "garbage")
    cache.hear(Updated(record(A, "1", 90), record(A, "2", 104)))
    assert version_of(cache.lister.get(A)) == 104


def test_an_answer_in_the_step_of_its_event_is_already_known(cache: Cache) -> None:
    cache.store.apply_nowait(Updated(record(A, "1", 90), record(A, "1", 105)))
    assert cache.position == "100"  # it moves after the store
    cache.overlay.put(record(A, "1", 105))
    cache.overlay.put(record(A, "1", 103))
    assert not cache.overlay.entries


def test_a_sweep_ends_own_writes_that_the_position_has_passed(cache: Cache) -> None:
    cache.overlay.put(record(B, "2", 105))
    cache.position = "105"
    cache.overlay.sweep()
    assert not cache.overlay.entries


def test_a_new_epoch_counts_its_own_bookmarks(cache: Cache) -> None:
    cache.overlay.put_tombstone(A, "1")
    cache.overlay.confirm("110")
    cache.overlay.clear()
    cache.position = "20"  # the server went back in time
    cache.overlay.put_tombstone(A, "1")
    for version in ("30", "40", "50"):
        cache.overlay.confirm(version)
    assert A in cache.lister


def test_versions_that_cannot_be_compared_disable_the_overlay_with_one_warning(
    cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.overlay.put(record(A, "1", 101))
    with caplog.at_level(logging.WARNING):
        cache.overlay.put(record(B, "2", "abc"))
        cache.overlay.put(record(B, "2", "abd"))
        cache.overlay.put_tombstone(A, "1")
    assert len(caplog.records) == 1
    assert cache.overlay.statistics().is_off
    assert version_of(cache.lister.get(A)) == 90


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV"
)
def test_the_overlay_is_bounded_and_logs_that_once(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(max_entries=3)
    for number in range(5):
        cache.overlay.put(record(f"default/{number}", str(number), 101 + number))
    assert sorted(cache.overlay.entries) == ["default/2", "default/3", "default/4"]
    assert cache.overlay.statistics().dropped == 2
    assert len(caplog.records) == 1


def test_own_writes_that_the_position_has_passed_are_evicted_first() -> None:
    cache = Cache(max_entries=3)
    for number in range(3):
        cache.overlay.put(record(f"default/{number}", str(number), 101 + number))
    cache.position = "102"
    cache.overlay.put(record(A, "a", 110))
    assert sorted(cache.overlay.entries) == ["default/2", A]
    assert cache.overlay.statistics().dropped == 0


def test_a_write_costs_no_more_the_further_a_stalled_watch_is_behind() -> None:
    asked: list[str] = []

    def get(key: str) -> KubeObject[Any]:
        asked.append(key)
        return record(key, "1", 90)

    overlay: Overlay[Any] = Overlay(get, lambda: "100", max_entries=100)
    for number in range(200):
        overlay.put_tombstone(f"default/{number}", "1")
    asked.clear()
    for number in range(200, 300):
        overlay.put_tombstone(f"default/{number}", "1")
    assert overlay.statistics().entries == 100
    assert len(asked) == 300  # two for each, one for that which makes room, none for any other


def test_a_new_epoch_clears_the_overlay(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 101))
    cache.overlay.clear()
    assert version_of(cache.lister.get(A)) == 90


def test_a_write_that_an_event_reports_is_not_a_missed_state(cache: Cache) -> None:
    written = record(A, "1", 105)
    cache.overlay.put(written)
    cache.hear(Updated(record(A, "1", 90), written))
    cache.list(110, record(A, "1", 105))
    assert cache.unheard == []


def test_a_write_that_a_list_has_is_not_a_missed_state(cache: Cache) -> None:
    cache.overlay.put(record(A, "1", 105))
    cache.list(110, record(A, "1", 105))
    assert cache.unheard == []


def test_an_own_write_ended_by_a_list_without_an_event_is_a_missed_state(cache: Cache) -> None:
    """It was never in the store: no comparison of lists shows that it is gone."""
    ghost = record(B, "2", 105)
    cache.overlay.put(ghost)
    cache.list(110, record(A, "1", 90))
    assert cache.unheard == [(ghost, None)]


def test_a_response_that_arrives_after_the_list_without_its_object_is_a_missed_state(
    cache: Cache,
) -> None:
    """The object was made and deleted between two lists: its writer alone knows of it."""
    ghost = record(B, "2", 105)
    cache.list(110, record(A, "1", 90))
    cache.overlay.put(ghost)
    assert cache.lister.get(B) is None
    assert cache.unheard == [(ghost, None)]


def test_a_response_that_a_later_state_has_overtaken_is_a_missed_state(cache: Cache) -> None:
    between, after = record(A, "1", 105), record(A, "1", 108)
    cache.list(110, after)
    cache.overlay.put(between)
    assert cache.unheard == [(between, after)]


def test_a_response_that_a_later_own_write_has_overtaken_is_a_missed_state(cache: Cache) -> None:
    first, second = record(A, "1", 105), record(A, "1", 106)
    cache.overlay.put(second)
    cache.overlay.put(first)
    assert cache.unheard == [(first, second)]


def test_a_response_after_the_events_of_its_object_is_not_a_missed_state(cache: Cache) -> None:
    written = record(B, "2", 105)
    cache.hear(Added(written))
    cache.overlay.put(written)
    cache.hear(Deleted(record(B, "2", 106)))
    cache.overlay.put(written)
    assert cache.unheard == []


def test_a_state_that_a_list_skips_is_a_missed_state(cache: Cache) -> None:
    """The list compares the versions before and after: the one in between was read, too."""
    between, after = record(A, "1", 105), record(A, "1", 108)
    cache.overlay.put(between)
    cache.list(110, after)
    assert cache.unheard == [(between, after)]


def test_a_state_that_another_write_replaces_is_a_missed_state(cache: Cache) -> None:
    first, second = record(A, "1", 105), record(A, "1", 106)
    cache.overlay.put(first)
    cache.overlay.put(second)
    assert cache.unheard == [(first, second)]


def test_a_state_that_our_deletion_ends_is_a_missed_state(cache: Cache) -> None:
    made = record(B, "2", 105)
    cache.overlay.put(made)
    cache.overlay.put_tombstone(B, "2", "106")
    assert cache.unheard == [(made, None)]


def test_an_own_write_dropped_by_a_new_epoch_is_a_missed_state(cache: Cache) -> None:
    made = record(B, "2", 105)
    cache.overlay.put(made)
    cache.overlay.clear()
    assert cache.unheard == [(made, None)]


def test_an_object_that_comes_back_after_its_tombstone_is_a_missed_state(cache: Cache) -> None:
    """Readers saw nothing, and see it again: a reader that acted on that has to read again."""
    cache.overlay.put_tombstone(A, "1")
    for version in ("101", "102", "103"):
        assert cache.unheard == []
        cache.position = version
        cache.overlay.confirm(version)
    assert cache.unheard == [(record(A, "1", 90), None)]
