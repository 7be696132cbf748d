"""Who is alive in a group, and which life is over for certain."""

from __future__ import annotations

import pytest

from pyinformer.sharding import Members, Owner
from tests.sharding.leases import lease

DURATION_SECONDS = 15.0
MINE = Owner("db-a", "u1", 3)


def seen(*versions: object, at: float = 0.0) -> Members:
    members = Members(DURATION_SECONDS)
    for one in versions:
        members.on_watched("db-a", one, at)  # type: ignore[arg-type]
    return members


@pytest.mark.parametrize(
    ("shown", "is_over"),
    [
        pytest.param(lease(transitions=3), False, id="held in this life"),
        pytest.param(lease(transitions=3, holder="", seconds=1), True, id="released in this life"),
        pytest.param(lease(transitions=2, holder="", seconds=1), False, id="in an earlier life"),
        pytest.param(lease(transitions=4), True, id="held in a later life"),
    ],
)
def test_a_life_is_over_if_its_lease_was_free_in_it_or_later(shown: object, is_over: bool) -> None:
    assert seen(shown).is_over(MINE, 1000.0) is is_over


def over_from(members: Members, owner: Owner, at: float) -> float:
    """Return how long after a time an owner's life counts as over, in whole seconds."""
    return next(n for n in range(1000) if members.is_over(owner, at + n))


def test_a_member_may_not_know_that_its_lease_is_another_one_for_the_duration() -> None:
    """What was known long before may be older than the owner."""
    members = seen(lease(uid="u2", transitions=9, holder="", seconds=1), at=10.0)

    assert over_from(members, MINE, 500.0) == DURATION_SECONDS


def test_the_lease_of_another_uid_is_looked_at() -> None:
    members = seen(lease(uid="u2"))
    assert members.to_look_at([MINE], 500.0) == "db-a"
    assert not members.is_over(MINE, 500.0)
    members.on_lease("db-a", lease(version=2, transitions=3), 500.0)

    assert not members.to_look_at([MINE], 600.0)
    assert not members.is_over(MINE, 600.0)


def test_a_member_whose_lease_was_freed_by_hand_may_not_know_that_for_the_duration() -> None:
    members = seen(lease(transitions=3, holder=""), at=10.0)

    assert over_from(members, MINE, 10.0) == DURATION_SECONDS


def test_a_lease_that_the_watch_does_not_show_may_exist() -> None:
    members = seen(lease(transitions=3))
    members.on_left("db-a")
    assert not members.is_over(MINE, 1000.0)

    members.on_absent("db-a")  # a read by name found none
    assert over_from(members, MINE, 1000.0) == DURATION_SECONDS


def test_a_term_lasts_as_long_as_its_own_lease_says() -> None:
    members = seen(lease(transitions=3, seconds=60))
    members.on_left("db-a")
    members.on_absent("db-a")

    assert over_from(members, MINE, 1000.0) == 60


def test_an_owner_without_a_lease_in_the_watch_is_looked_at_once_a_second() -> None:
    members = seen(lease(transitions=3))
    members.on_left("db-a")
    times = [at / 10 for at in range(25) if members.to_look_at([MINE], at / 10)]

    assert times == [0.0, 1.0, 2.0]


def test_an_older_version_changes_nothing() -> None:
    members = seen(lease(version=5, transitions=4))
    members.on_lease("db-a", lease(version=4, transitions=3), 10.0)

    assert members.is_over(MINE, 10.0)
    assert members.living(14.0) == {Owner("db-a", "u1", 4)}
    assert members.living(15.0) == frozenset()  # its age counts from the newer version


def test_a_silent_member_is_not_alive_and_can_be_revoked() -> None:
    members = seen(lease(seconds=6), at=10.0)

    assert members.next_silence(but="db-b") == 16.0
    assert not members.silent(15.9)
    assert [name for name, _ in members.silent(16.0)] == ["db-a"]
    assert members.living(15.9) == {Owner("db-a", "u1", 0)}
    assert not members.living(16.0)


def test_a_lease_that_a_read_has_found_is_not_one_that_others_see() -> None:
    members = Members(DURATION_SECONDS)
    members.on_lease("db-a", lease(), 0.0)
    assert not members.sees("db-a")

    members.on_watched("db-a", lease(version=2), 0.0)
    assert members.sees("db-a")
