"""Versions without an order among all objects: `per_object`, `opaque`, and finding out."""

from __future__ import annotations

import logging

import pytest

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector.guard import Decision, Order, Suspicion
from tests.cache.reflector.samples import meta
from tests.cache.reflector.test_guard import KEY, change, counts, delete

OTHER = "default/other"


def guard_of(order: Order, position: str = "150") -> Guard:
    guard = Guard(order=order)
    guard.loaded(position)
    return guard


@pytest.mark.parametrize(
    ("r", "o", "verdict", "position", "counted"),
    [
        pytest.param("160", "100", Decision.UPDATE, "160", {}, id="newer"),
        pytest.param("110", "100", Decision.UPDATE, "110", {}, id="newer-behind-the-position"),
        pytest.param("9", None, Decision.ADD, "9", {}, id="unknown"),
        pytest.param("100", "100", Decision.SKIP, "100", {"duplicate_events": 1}, id="the-same"),
        pytest.param("90", "100", Decision.SKIP, "150", {"rv_regressions:ignored": 1}, id="older"),
        pytest.param("160", "170", Decision.SKIP, "150", {"rv_regressions:ignored": 1}, id="old"),
    ],
)
def test_per_object_compares_with_the_cached_version_only(
    r: str, o: str | None, verdict: Decision, position: str, counted: dict[str, int]
) -> None:
    guard = guard_of("per_object")
    assert change(guard, r, o) is verdict
    assert guard.position == position
    assert guard.resume_position == "150"
    assert guard.suspicion is None
    assert counts(guard) == counted


def test_per_object_another_object_replaces_whatever_its_version() -> None:
    guard = guard_of("per_object")
    assert change(guard, "1", "100", uid="u2") is Decision.REPLACE
    assert change(guard, "100", "1", uid="u1", cached_uid="u2") is Decision.SKIP, "it is dead"
    assert guard.position == "1"


def test_per_object_a_deleted_object_returns_only_by_a_later_change() -> None:
    guard = guard_of("per_object")
    assert delete(guard, "110", "100") is Decision.REMOVE
    assert change(guard, "105", None) is Decision.SKIP
    assert change(guard, "111", None) is Decision.ADD


def test_per_object_deletions() -> None:
    guard = guard_of("per_object")
    assert delete(guard, "100", "100") is Decision.REMOVE
    assert guard.position == "100"
    assert delete(guard, "7", None, key=OTHER) is Decision.SKIP
    assert guard.position == "7"
    assert guard.suspicion is None


@pytest.mark.parametrize("uid", ["u1", "u2"])
def test_per_object_a_deletion_that_proves_nothing_is_verified(uid: str) -> None:
    guard = guard_of("per_object")
    assert delete(guard, "90", "100", uid=uid) is Decision.SKIP
    assert (guard.suspicion, guard.to_verify) == (Suspicion.UNPROVEN, KEY)
    assert guard.position == "150"


def test_per_object_the_deletion_of_one_known_to_be_dead_is_ignored() -> None:
    guard = guard_of("per_object")
    delete(guard, "110", "100")
    assert delete(guard, "110", "5", uid="u1", cached_uid="u2") is Decision.SKIP
    assert guard.suspicion is None


@pytest.mark.parametrize("r", ["", "0", "x"])
def test_per_object_needs_numbers(r: str) -> None:
    guard = guard_of("per_object")
    assert change(guard, r, "100") is Decision.SKIP
    assert guard.suspicion is Suspicion.MALFORMED


def test_per_object_a_bookmark_is_the_position_whatever_it_says() -> None:
    guard = guard_of("per_object")
    assert guard.judge_bookmark("9")
    assert guard.position == "9"


def test_per_object_a_verify_is_compared_with_the_cached_version_only() -> None:
    guard = guard_of("per_object")
    assert guard.judge_verified(KEY, meta("101", "u1"), meta("100", "u1"), "7") is Decision.UPDATE
    assert guard.judge_verified(KEY, meta("90", "u1"), meta("100", "u1"), "7") is Decision.SKIP
    assert guard.suspicion is Suspicion.CONTRADICTED
    assert guard.judge_verified(KEY, None, meta("100", "u1"), "7") is Decision.REMOVE_UNSEEN


@pytest.mark.parametrize("order", ["per_object", "opaque"])
def test_a_list_behind_the_position_is_not_a_new_epoch_without_a_global_order(order: Order) -> None:
    guard = guard_of(order)
    assert not guard.is_behind("9")
    assert not guard.loaded("9")
    assert guard.newest_tombstone() is None


@pytest.mark.parametrize(
    ("r", "o", "verdict"),
    [
        pytest.param("zz", "aa", Decision.UPDATE, id="other"),
        pytest.param("aa", "zz", Decision.UPDATE, id="other-that-sorts-before"),
        pytest.param("90", "100", Decision.UPDATE, id="smaller-number"),
        pytest.param("zz", None, Decision.ADD, id="unknown"),
        pytest.param("aa", "aa", Decision.SKIP, id="the-same"),
    ],
)
def test_opaque_applies_every_event_but_a_repetition(
    r: str, o: str | None, verdict: Decision
) -> None:
    guard = guard_of("opaque", "x1")
    assert change(guard, r, o) is verdict
    assert guard.position == r
    assert guard.suspicion is None


def test_opaque_without_a_version_everything_is_taken_and_the_position_stays() -> None:
    guard = guard_of("opaque", "x1")
    assert change(guard, "", "") is Decision.UPDATE
    assert guard.position == "x1"


@pytest.mark.parametrize(
    ("uid", "verdict"), [("u1", Decision.REMOVE), ("", Decision.REMOVE), ("u2", Decision.SKIP)]
)
def test_opaque_a_deletion_applies_to_the_uid_that_it_names_or_to_any(
    uid: str, verdict: Decision
) -> None:
    guard = guard_of("opaque", "x1")
    assert delete(guard, "x2", "x0", uid=uid) is verdict
    assert guard.position == "x2"


@pytest.mark.parametrize(("r", "position"), [("x9", "x9"), ("", "x1")])
def test_opaque_a_bookmark_is_the_position_if_it_has_one(r: str, position: str) -> None:
    guard = guard_of("opaque", "x1")
    assert guard.judge_bookmark(r) is bool(r)
    assert guard.position == position
    assert guard.suspicion is None


def test_opaque_a_verify_is_taken_as_it_is() -> None:
    guard = guard_of("opaque", "x1")
    assert guard.judge_verified(KEY, meta("a", "u1"), meta("b", "u1"), "") is Decision.UPDATE
    assert guard.judge_verified(KEY, meta("a", "u1"), meta("a", "u1"), "") is Decision.SKIP
    assert guard.judge_verified(KEY, None, meta("a", "u1"), "") is Decision.REMOVE_UNSEEN
    assert guard.suspicion is None


@pytest.mark.parametrize(("position", "can"), [("", False), ("0", False), ("x1", True)])
def test_opaque_a_list_without_a_version_cannot_be_resumed(position: str, can: bool) -> None:
    assert guard_of("opaque", position).can_resume is can


@pytest.mark.parametrize("order", ["global", "per_object", "opaque"])
def test_a_proven_break_is_a_new_epoch_in_any_order(order: Order) -> None:
    guard = guard_of(order)
    assert guard.begin_load("200", broken=True)
    assert guard.is_resetting
    assert guard.loaded("200", broken=True)
    assert (guard.epoch, guard.is_resetting) == (1, False)


def test_another_order_is_one_error_line_and_in_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = Guard(resource="pods.v1")
    guard.loaded("150")
    with caplog.at_level(logging.ERROR):
        guard.use_order("per_object")
        guard.use_order("per_object")
    assert [record.getMessage() for record in caplog.records] == [
        "pods.v1: resource versions are taken as per_object instead of global from now on"
    ]
    assert guard.order == guard.statistics().order == "per_object"
    assert change(guard, "110", "100") is Decision.UPDATE


def streams_that_go_back(guard: Guard, count: int) -> None:
    for number in range(count):
        guard.connected()
        change(guard, str(110 + number), "100", key=f"default/{number}")
        assert guard.suspicion is Suspicion.UNPROVEN


def test_streams_that_go_back_while_each_object_grows_show_no_order() -> None:
    guard = guard_of("global")
    streams_that_go_back(guard, 2)
    assert not guard.sees_no_order()
    streams_that_go_back(guard, 1)
    assert guard.sees_no_order()
    guard.use_order("per_object")
    assert not guard.sees_no_order()


def test_an_object_that_goes_back_itself_is_a_replay_and_no_missing_order() -> None:
    guard = guard_of("global")
    streams_that_go_back(guard, 2)
    change(guard, "90", "100")
    streams_that_go_back(guard, 2)
    assert not guard.sees_no_order()
