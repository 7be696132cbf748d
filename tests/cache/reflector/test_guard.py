"""The event table, row by row: what each event may do to the store and to the position.

Each test is named after its row. `r` is the event's version, `o` the cached one, `P` the position;
a verdict is what the store and its handlers see.
"""

from __future__ import annotations

import pytest

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector.guard import Decision, Suspicion
from tests.cache.reflector.samples import meta

KEY = "default/a"


def guard_at(position: str) -> Guard:
    guard = Guard()
    guard.loaded(position)
    return guard


def change(
    guard: Guard, r: str, o: str | None, *, uid: str = "u1", cached_uid: str = "u1", key: str = KEY
) -> Decision:
    """Judge an ADDED or MODIFIED event, and take it if it is good."""
    cached = None if o is None else meta(o, cached_uid)
    verdict = guard.judge_change(key, meta(r, uid), cached)
    if verdict is not Decision.SKIP:
        guard.applied(r)
    return verdict


def delete(
    guard: Guard, r: str, o: str | None, *, uid: str = "u1", cached_uid: str = "u1", key: str = KEY
) -> Decision:
    """Judge a DELETED event, and take it if it is good."""
    cached = None if o is None else meta(o, cached_uid)
    verdict = guard.judge_deletion(key, meta(r, uid), cached)
    if verdict is not Decision.SKIP:
        guard.applied(r)
    return verdict


def counts(guard: Guard) -> dict[str, int]:
    return dict(guard.statistics().counts)


@pytest.mark.parametrize(
    ("o", "verdict"),
    [
        pytest.param("100", Decision.UPDATE, id="present-is-an-update"),
        pytest.param(None, Decision.ADD, id="absent-is-an-add"),
    ],
)
@pytest.mark.parametrize("r", ["101", "1000"])
def test_change_newer_than_position_same_uid_or_absent(
    r: str, o: str | None, verdict: Decision
) -> None:
    guard = guard_at("100")
    assert change(guard, r, o) is verdict
    assert guard.position == r
    assert guard.suspicion is None
    assert counts(guard) == {}


@pytest.mark.parametrize("r", ["101", "1000"])
def test_change_newer_than_position_and_cached_other_uid(r: str) -> None:
    guard = guard_at("100")
    assert change(guard, r, "100", uid="u2") is Decision.REPLACE
    assert guard.position == r
    assert counts(guard) == {"uid_replacements": 1}


def test_change_newer_than_position_not_newer_than_cached_other_uid() -> None:
    guard = guard_at("100")
    assert change(guard, "110", "120", uid="u2") is Decision.SKIP
    assert guard.position == "110"
    assert guard.suspicion is None
    assert counts(guard) == {"duplicate_events": 1}


@pytest.mark.parametrize("r", ["110", "120"])
def test_change_newer_than_position_not_newer_than_cached_same_uid(r: str) -> None:
    guard = guard_at("100")
    assert change(guard, r, "120") is Decision.SKIP
    assert guard.position == r
    assert counts(guard) == {"duplicate_events": 1}


@pytest.mark.parametrize(
    ("o", "verdict"),
    [
        pytest.param(None, Decision.ADD, id="different-key"),
        pytest.param("90", Decision.UPDATE, id="same-key-not-yet-there"),
    ],
)
def test_change_at_position_not_yet_applied(o: str | None, verdict: Decision) -> None:
    guard = guard_at("100")
    assert change(guard, "100", o, key="default/other") is verdict
    assert guard.position == "100"
    assert counts(guard) == {"equal_rv": 1}


def test_deletion_at_position_not_yet_applied() -> None:
    """The table's row of equal versions holds for deletions: a lease's keys go in one."""
    guard = guard_at("100")
    assert delete(guard, "100", "90") is Decision.REMOVE
    assert guard.position == "100"
    assert counts(guard) == {"equal_rv": 1}


@pytest.mark.parametrize("position", ["130", "150"])
def test_identical_event_already_applied(position: str) -> None:
    guard = guard_at(position)
    assert change(guard, "130", "130") is Decision.SKIP
    assert guard.position == position
    assert guard.suspicion is None
    assert counts(guard) == {"duplicate_events": 1}


@pytest.mark.parametrize("uid", ["u1", "u2"])
def test_change_older_than_position_not_newer_than_cached(uid: str) -> None:
    guard = guard_at("150")
    assert change(guard, "110", "130", uid=uid) is Decision.SKIP
    assert guard.position == "150"
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:ignored": 1}


@pytest.mark.parametrize("r", ["110", "120"])
def test_change_older_than_position_of_a_deleted_uid(r: str) -> None:
    guard = guard_at("110")
    assert delete(guard, "120", "110") is Decision.REMOVE
    change(guard, "150", None, key="default/other")

    assert change(guard, r, None) is Decision.SKIP
    assert guard.position == "150"
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:ignored": 1}


@pytest.mark.parametrize(
    "o", [pytest.param(None, id="absent"), pytest.param("110", id="newer-than-cached")]
)
def test_change_older_than_position_that_cannot_be_proven_stale(o: str | None) -> None:
    guard = guard_at("150")
    assert change(guard, "120", o) is Decision.SKIP
    assert guard.position == "150"
    assert guard.suspicion is Suspicion.UNPROVEN
    assert counts(guard) == {"rv_regressions:verified": 1}


def test_change_of_a_deleted_uid_at_a_later_version_is_not_a_proof() -> None:
    """A selector lets an object go and come back: its tombstone covers only what was before."""
    guard = guard_at("100")
    delete(guard, "110", "100")
    assert change(guard, "120", None) is Decision.ADD
    assert delete(guard, "130", "120") is Decision.REMOVE
    guard.loaded("150")
    assert change(guard, "140", None) is Decision.SKIP
    assert guard.suspicion is Suspicion.UNPROVEN


@pytest.mark.parametrize("r", ["101", "1000"])
def test_deletion_same_uid_newer_than_position(r: str) -> None:
    guard = guard_at("100")
    assert delete(guard, r, "100") is Decision.REMOVE
    assert guard.position == r
    assert counts(guard) == {}
    assert guard.statistics().tombstones == 1


@pytest.mark.parametrize("r", ["100", "120"])
def test_deletion_same_uid_between_cached_and_position(r: str) -> None:
    guard = guard_at("150")
    assert delete(guard, r, "100") is Decision.REMOVE
    assert guard.position == "150"
    assert counts(guard) == {"delete_old_rv": 1}
    assert delete(guard, r, None) is Decision.SKIP, "once"


def test_deletion_with_the_version_of_the_last_update_at_the_position() -> None:
    guard = guard_at("100")
    assert delete(guard, "100", "100") is Decision.REMOVE
    assert counts(guard) == {"delete_old_rv": 1}
    assert guard.resume_position == "100"


@pytest.mark.parametrize(
    ("position", "moved"),
    [
        pytest.param("150", "150", id="older-than-position"),
        pytest.param("100", "110", id="newer-than-position"),
    ],
)
def test_deletion_same_uid_older_than_cached(position: str, moved: str) -> None:
    guard = guard_at(position)
    assert delete(guard, "110", "120") is Decision.SKIP
    assert guard.position == moved
    assert guard.suspicion is Suspicion.UNPROVEN
    assert counts(guard) == {"rv_regressions:verified": 1}


@pytest.mark.parametrize(
    ("position", "moved"),
    [
        pytest.param("150", "150", id="older-than-position"),
        pytest.param("100", "120", id="newer-than-position"),
    ],
)
def test_deletion_other_uid_newer_than_cached(position: str, moved: str) -> None:
    guard = guard_at(position)
    assert delete(guard, "120", "90", uid="u2") is Decision.REMOVE_UNSEEN
    assert guard.position == moved
    assert guard.suspicion is Suspicion.UNPROVEN
    assert counts(guard) == {"rv_regressions:verified": 1}


def test_deletion_other_uid_older_than_cached() -> None:
    guard = guard_at("150")
    assert delete(guard, "110", "130", uid="u0") is Decision.SKIP
    assert guard.position == "150"
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:ignored": 1}
    assert guard.statistics().tombstones == 1


@pytest.mark.parametrize(
    ("r", "moved", "counted"),
    [
        pytest.param("160", "160", {}, id="newer-than-position"),
        pytest.param("100", "150", {"rv_regressions:ignored": 1}, id="older-than-position"),
    ],
)
def test_deletion_of_an_absent_key(r: str, moved: str, counted: dict[str, int]) -> None:
    guard = guard_at("150")
    assert delete(guard, r, None) is Decision.SKIP
    assert guard.position == moved
    assert guard.suspicion is None
    assert counts(guard) == counted
    assert guard.statistics().tombstones == 1


@pytest.mark.covers("client-go tools/cache: TestThreadSafeStoreRV")
@pytest.mark.parametrize("r", ["150", "151", "1000"])
def test_bookmark_not_older_than_position(r: str) -> None:
    guard = guard_at("150")
    assert guard.judge_bookmark(r)
    assert guard.position == r
    assert counts(guard) == {}


@pytest.mark.covers("client-go tools/cache: TestThreadSafeStoreRV")
@pytest.mark.parametrize("r", ["149", "99"])
def test_bookmark_older_than_position(r: str) -> None:
    guard = guard_at("150")
    assert not guard.judge_bookmark(r)
    assert guard.position == "150"
    assert guard.suspicion is Suspicion.BOOKMARK
    assert counts(guard) == {"rv_regressions:probe": 1}


@pytest.mark.parametrize("r", ["", "0", "0151", "-151", "151a", " 151", "1.5e2", "٣٤٥"])
def test_missing_or_malformed_version(r: str) -> None:
    guard = guard_at("150")
    assert change(guard, r, "100") is Decision.SKIP
    assert change(guard, r, None) is Decision.SKIP
    assert delete(guard, r, "100") is Decision.SKIP
    assert not guard.judge_bookmark(r)
    assert guard.position == "150"
    assert guard.suspicion is Suspicion.MALFORMED
    assert counts(guard) == {"rv_malformed": 4}


def test_three_regressions_in_one_connection_make_the_stream_suspect() -> None:
    guard = guard_at("150")
    for _ in range(2):
        change(guard, "110", "130")
    assert guard.suspicion is None
    delete(guard, "120", None)
    assert guard.suspicion is Suspicion.REGRESSIONS


def test_regressions_are_counted_per_connection() -> None:
    guard = guard_at("150")
    for _ in range(10):
        guard.connected()
        change(guard, "110", "130")
        delete(guard, "120", None)
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:ignored": 20}


def test_a_whole_replay_of_a_recreation_is_ignored() -> None:
    """kubernetes#58545: the old object's life comes again, after its name has another object."""
    guard = guard_at("150")
    verdicts = [
        change(guard, "110", "130", uid="u1", cached_uid="u2"),
        delete(guard, "110", "130", uid="u1", cached_uid="u2"),
        change(guard, "130", "130", uid="u2", cached_uid="u2"),
    ]
    assert verdicts == [Decision.SKIP] * 3
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:ignored": 2, "duplicate_events": 1}


def test_every_life_of_a_name_that_has_ended_is_remembered() -> None:
    guard = guard_at("100")
    change(guard, "110", None, uid="u1")
    delete(guard, "120", "110", uid="u1")
    change(guard, "130", None, uid="u2")
    delete(guard, "140", "130", uid="u2", cached_uid="u2")
    change(guard, "150", None, uid="u3")
    change(guard, "160", "150", uid="u4", cached_uid="u3")
    delete(guard, "170", "160", uid="u4", cached_uid="u4")
    for uid, r in (("u1", "110"), ("u2", "130"), ("u3", "150"), ("u4", "160")):
        guard.connected()
        assert change(guard, r, None, uid=uid) is Decision.SKIP
        assert guard.suspicion is None, uid


def test_both_uids_have_tombstones_when_a_deletion_proves_the_cached_one_deleted() -> None:
    guard = guard_at("150")
    delete(guard, "160", "90", uid="u2")
    for uid in ("u1", "u2"):
        guard.connected()
        assert change(guard, "155", None, uid=uid) is Decision.SKIP
        assert guard.suspicion is None


@pytest.mark.parametrize("cached", ["7", None])
def test_a_deletion_with_an_old_version_is_not_a_sample_of_its_time(cached: str | None) -> None:
    guard = guard_at("16")

    delete(guard, "7", cached)  # what it names died after 16: the server has it there

    assert guard.newest_tombstone() is None
    delete(guard, "17", None)
    guard.judge_bookmark("18")
    assert guard.newest_tombstone() == (KEY, "u1", "17")


def test_a_sample_is_taken_only_if_no_change_of_its_version_is_missing() -> None:
    """The first of a batch may be all that arrived: who else died in it is cached still."""
    guard = guard_at("100")
    delete(guard, "110", "90")
    assert (guard.position, guard.resume_position) == ("110", "100")
    assert guard.newest_tombstone() == (KEY, "u1", "110")  # of its own death it is certain
    change(guard, "111", None, key="default/b")
    assert guard.resume_position == "110"
    assert guard.newest_tombstone() == (KEY, "u1", "110")


def test_the_deletion_of_another_uid_with_an_old_version_is_not_a_sample() -> None:
    guard = guard_at("150")
    delete(guard, "110", "130", uid="u0")
    assert guard.newest_tombstone() is None


def test_a_deletion_with_the_version_of_a_verification_is_not_a_sample() -> None:
    guard = guard_at("100")
    guard.judge_verified(KEY, meta("120", "u1"), None, "130")
    assert delete(guard, "120", "120") is Decision.REMOVE
    guard.judge_bookmark("140")
    assert guard.newest_tombstone() is None


@pytest.mark.parametrize("way", ["event", "list"])
def test_an_object_that_returns_to_the_selector_has_no_tombstone(way: str) -> None:
    guard = guard_at("100")
    delete(guard, "110", "90")
    if way == "event":
        change(guard, "120", None)
    else:
        assert not guard.proves_rewind(KEY, meta("120", "u1"), None)
    guard.judge_bookmark("130")
    assert not guard.has_tombstone(KEY, "u1")
    assert guard.newest_tombstone() is None


def test_a_later_deletion_with_an_old_version_does_not_shorten_a_tombstone() -> None:
    guard = guard_at("100")
    delete(guard, "120", "100")
    delete(guard, "105", None)
    assert change(guard, "115", None) is Decision.SKIP
    assert guard.suspicion is None


def test_tombstones_are_bounded_and_the_oldest_go_first() -> None:
    guard = guard_at("1")
    for version in range(1, 10_003):
        delete(guard, str(100_000 + version), None, uid=f"u{version}", key=f"default/{version}")
    assert guard.statistics().tombstones == 10_000
    assert change(guard, "100002", None, uid="u2", key="default/2") is Decision.SKIP
    assert guard.suspicion is Suspicion.UNPROVEN
    guard.connected()
    assert change(guard, "100003", None, uid="u3", key="default/3") is Decision.SKIP
    assert guard.suspicion is None


def test_a_disconnect_resumes_at_the_distinct_version_before() -> None:
    """More changes of the position's own version may have been on their way."""
    guard = guard_at("100")
    assert guard.resume_position == "100"
    change(guard, "110", None)
    assert guard.resume_position == "100"
    change(guard, "110", None, key="default/b")
    assert guard.resume_position == "100", "the same version is not before itself"
    change(guard, "1200", None, key="default/c")
    assert guard.resume_position == "110"


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(lambda guard: change(guard, "110", None, key="default/b"), id="add"),
        pytest.param(lambda guard: delete(guard, "110", "90", key="default/b"), id="delete"),
        pytest.param(lambda guard: delete(guard, "110", None, key="default/b"), id="unknown"),
    ],
)
def test_equal_versions_do_not_move_the_distinct_version_before(same: object) -> None:
    guard = guard_at("100")
    change(guard, "110", None)
    assert callable(same)
    same(guard)
    assert guard.resume_position == "100"
    change(guard, "120", None)
    assert guard.resume_position == "110"


@pytest.mark.parametrize("applied", ["change", "deletion", "deletion-of-unknown"])
def test_the_replay_of_a_batch_is_absorbed(applied: str) -> None:
    """What comes again because the watch resumed before the position changes nothing."""
    guard = guard_at("100")
    if applied == "change":
        change(guard, "110", None)
        assert change(guard, "110", "110") is Decision.SKIP
    else:
        delete(guard, "110", "90" if applied == "deletion" else None)
        before = counts(guard)
        assert delete(guard, "110", None) is Decision.SKIP
        assert counts(guard) == before
    assert guard.position == "110"
    assert guard.resume_position == "100"
    assert guard.suspicion is None


def test_a_list_and_a_bookmark_make_the_position_safe_to_resume_at() -> None:
    """Otherwise a quiet stream would one day resume at a version the server has forgotten."""
    guard = guard_at("100")
    change(guard, "110", None)
    assert guard.judge_bookmark("110")
    assert guard.resume_position == "110"
    change(guard, "120", None)
    guard.loaded("120")
    assert guard.resume_position == "120"


def test_a_first_list_is_not_a_new_epoch() -> None:
    guard = Guard()
    assert not guard.loaded("100")
    assert (guard.position, guard.epoch) == ("100", 0)


@pytest.mark.parametrize("listed", ["150", "151", "1000"])
def test_a_list_not_older_than_the_position_continues_the_epoch(listed: str) -> None:
    guard = guard_at("150")
    assert not guard.loaded(listed)
    assert (guard.position, guard.epoch) == (listed, 0)


@pytest.mark.parametrize("listed", ["149", "99"])
def test_a_list_older_than_the_position_is_a_new_epoch(listed: str) -> None:
    guard = guard_at("150")
    delete(guard, "160", None)
    assert guard.loaded(listed)
    assert (guard.position, guard.resume_position, guard.epoch) == (listed, listed, 1)
    assert guard.statistics().tombstones == 0, "what died may live again"
    assert counts(guard) == {"lineage_resets": 1, "rv_regressions:reset": 1}


def test_an_item_that_proves_a_rewind_is_a_new_epoch_though_the_list_is_newer() -> None:
    guard = guard_at("150")
    assert guard.loaded("200", rewound=True)
    assert (guard.position, guard.epoch) == ("200", 1)


def test_versions_compare_as_numbers_of_any_length() -> None:
    huge = str(2**128 - 1)
    guard = guard_at("999")
    assert change(guard, "1000", "999") is Decision.UPDATE
    assert change(guard, huge, "1000") is Decision.UPDATE
    assert change(guard, "2", huge) is Decision.SKIP
    assert guard.position == huge


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_regression_is_counted_with_type_source_and_action(kind: str) -> None:
    guard = guard_at("150")
    guard.counts.event_type = kind
    (delete if kind == "DELETED" else change)(guard, "110", None if kind == "DELETED" else "130")
    assert guard.counts.detailed() == {("rv_regressions", kind, "event", "ignored"): 1}
    assert counts(guard) == {"rv_regressions:ignored": 1}


def test_every_regression_has_as_many_details() -> None:
    guard = guard_at("150")
    guard.judge_bookmark("140")
    guard.judge_verified(KEY, None, None, "140")
    guard.loaded("160", rewound=True)
    guard.loaded("140")
    assert [what for what in guard.counts.detailed() if what[0] == "rv_regressions"] == [
        ("rv_regressions", "BOOKMARK", "bookmark", "probe"),
        ("rv_regressions", "", "verify", "probe"),
        ("rv_regressions", "", "list_item", "reset"),
        ("rv_regressions", "", "list", "reset"),
    ]
    assert counts(guard) == {
        "rv_regressions:probe": 2,
        "rv_regressions:reset": 2,
        "lineage_resets": 2,
    }
