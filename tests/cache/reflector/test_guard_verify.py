"""What a list of one key may do, and what it makes of the events that come after it.

The list is read beyond the position (`read_at`): until the stream gets there it sends what is known
already. Each test is named after what it shows of the key.
"""

from __future__ import annotations

import pytest

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector.guard import Decision, Suspicion
from pyinformer.objects import ObjectMeta
from tests.cache.reflector.samples import meta
from tests.cache.reflector.test_guard import KEY, change, counts, delete, guard_at


def verify(
    guard: Guard, found: ObjectMeta | None, cached: ObjectMeta | None, read_at: str = "200"
) -> Decision:
    return guard.judge_verified(KEY, found, cached, read_at)


def test_an_unproven_event_names_its_key() -> None:
    guard = guard_at("150")
    change(guard, "120", None)
    assert guard.to_verify == KEY
    guard.connected()
    assert guard.to_verify == ""


@pytest.mark.parametrize("r", ["110", "170"])
def test_the_deletion_of_another_object_names_its_key(r: str) -> None:
    guard = guard_at("150")
    delete(guard, r, "90", uid="u2")
    assert guard.to_verify == KEY


@pytest.mark.parametrize(
    ("found", "cached", "verdict"),
    [
        pytest.param("180", None, Decision.ADD, id="appeared"),
        pytest.param("180", "100", Decision.UPDATE, id="changed"),
        pytest.param("100", "100", Decision.SKIP, id="unchanged"),
        pytest.param(None, "100", Decision.REMOVE_UNSEEN, id="gone"),
    ],
)
def test_a_verified_object_is_applied_and_the_position_stays(
    found: str | None, cached: str | None, verdict: Decision
) -> None:
    guard = guard_at("150")
    shown = None if found is None else meta(found, "u1")
    assert verify(guard, shown, None if cached is None else meta(cached, "u1")) is verdict
    assert (guard.position, guard.suspicion) == ("150", None)


def test_another_object_replaces_the_earlier_one_and_leaves_a_tombstone() -> None:
    guard = guard_at("150")
    assert verify(guard, meta("180", "u2"), meta("100", "u1")) is Decision.REPLACE
    assert guard.has_tombstone(KEY, "u1")
    assert guard.position == "150"


@pytest.mark.parametrize("uid", ["u1", "u2"])
def test_events_before_a_verification_change_nothing(uid: str) -> None:
    """An object that existed in between is neither added nor removed."""
    guard = guard_at("150")
    verify(guard, meta("180", "u1"), None)
    assert change(guard, "160", "180", uid=uid) is Decision.SKIP
    assert delete(guard, "170", "180", uid=uid) is Decision.SKIP
    assert guard.suspicion is None
    assert guard.position == "170"
    assert counts(guard) == {"duplicate_events": 2}


def test_an_object_created_and_deleted_before_a_verification_is_not_delivered() -> None:
    guard = guard_at("150")
    verify(guard, None, meta("100", "u1"))
    assert change(guard, "160", None, uid="u2") is Decision.SKIP
    assert delete(guard, "170", None, uid="u2") is Decision.SKIP
    assert guard.suspicion is None
    assert change(guard, "210", None, uid="u3") is Decision.ADD


def test_the_event_that_was_verified_is_stale_when_it_comes_again() -> None:
    guard = guard_at("150")
    change(guard, "120", None)
    verify(guard, None, None)
    guard.connected()
    assert change(guard, "120", None) is Decision.SKIP
    assert guard.suspicion is None
    assert counts(guard) == {"rv_regressions:verified": 1, "rv_regressions:ignored": 1}


def test_events_after_a_verification_are_applied() -> None:
    guard = guard_at("150")
    verify(guard, meta("180", "u1"), None)
    assert change(guard, "210", "180") is Decision.UPDATE
    assert delete(guard, "220", "210") is Decision.REMOVE


def test_an_old_deletion_of_what_a_verify_showed_is_applied() -> None:
    """It carries the version of the last update, which is the one that was shown."""
    guard = guard_at("150")
    verify(guard, meta("180", "u1"), None)
    assert delete(guard, "180", "180") is Decision.REMOVE


def test_an_object_of_a_verification_proves_no_rewind_before_the_stream() -> None:
    guard = guard_at("150")
    verify(guard, meta("180", "u1"), None)
    cached = meta("180", "u1")
    assert not guard.proves_rewind(KEY, meta("170", "u1"), cached)
    guard.judge_bookmark("200")
    assert guard.proves_rewind(KEY, meta("170", "u1"), cached)


def test_an_object_cached_before_proves_a_rewind_though_a_verify_showed_it_too() -> None:
    guard = guard_at("150")
    verify(guard, meta("100", "u1"), meta("100", "u1"))
    assert guard.proves_rewind(KEY, meta("90", "u1"), meta("100", "u1"))


def test_an_object_absent_at_a_verification_proves_no_rewind_before_the_stream() -> None:
    guard = guard_at("150")
    verify(guard, None, meta("100", "u1"))
    assert not guard.proves_rewind(KEY, meta("100", "u1"), None)
    guard.judge_bookmark("200")
    assert guard.proves_rewind(KEY, meta("100", "u1"), None)


@pytest.mark.parametrize(
    ("found", "cached", "read_at"),
    [
        pytest.param(meta("100", "u1"), meta("100", "u1"), "140", id="behind-the-position"),
        pytest.param(None, None, "140", id="nothing-behind-the-position"),
        pytest.param(meta("90", "u1"), meta("100", "u1"), "200", id="older-than-cached"),
        pytest.param(meta("90", "u2"), meta("100", "u1"), "200", id="other-older-than-cached"),
        pytest.param(meta("210", "u1"), None, "200", id="newer-than-its-list"),
        pytest.param(meta("110", "u9"), None, "200", id="seen-to-die"),
        pytest.param(None, meta("205", "u1"), "200", id="gone-before-what-is-cached"),
    ],
)
def test_a_verification_older_than_the_cache_requests_a_history_check(
    found: ObjectMeta | None, cached: ObjectMeta | None, read_at: str
) -> None:
    guard = guard_at("100")
    delete(guard, "120", None, uid="u9")
    guard.judge_bookmark("150")
    assert verify(guard, found, cached, read_at) is Decision.SKIP
    assert guard.suspicion is Suspicion.CONTRADICTED
    assert guard.position == "150"
    assert counts(guard) == {"rv_regressions:probe": 1}


def test_a_verification_older_than_an_earlier_one_requests_a_history_check() -> None:
    guard = guard_at("150")
    verify(guard, None, meta("100", "u1"), "200")
    assert verify(guard, meta("100", "u2"), None, "180") is Decision.SKIP
    assert guard.suspicion is Suspicion.CONTRADICTED


def test_a_verify_without_a_comparable_version_is_malformed() -> None:
    guard = guard_at("150")
    assert verify(guard, None, meta("100", "u1"), "") is Decision.SKIP
    assert guard.suspicion is Suspicion.MALFORMED


def test_readings_are_bounded_and_the_oldest_go_first() -> None:
    guard = guard_at("150")
    for number in range(1_001):
        guard.judge_verified(f"default/{number}", None, None, "200")
    assert change(guard, "160", None, key="default/0") is Decision.ADD
    assert change(guard, "161", None, key="default/1") is Decision.SKIP
    assert len(guard.read_after("150")) == 1_000


def test_a_new_epoch_forgets_what_verifies_showed() -> None:
    guard = guard_at("150")
    verify(guard, None, meta("100", "u1"), "200")
    guard.loaded("120", broken=True)
    assert not guard.read_after("0")
    assert change(guard, "160", None) is Decision.ADD
