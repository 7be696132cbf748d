"""What one member does next, step by step; the model in test_model.py has the schedules."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import Finished, LeaderElectionOptions, Wait
from pyinformer.sharding import (
    BucketShares,
    Members,
    Owner,
    ReadMembers,
    ReadTable,
    Revoke,
    Table,
    WriteTable,
    quotas,
    read_table,
    with_table,
)
from tests.sharding.leases import lease, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.leaderelection import LeaseRecord

ME, OTHER = Owner("db-a", "u1", 0), Owner("db-b", "u2", 0)


class Member:
    """One member of a group of four buckets, and what it was shown."""

    def __init__(self) -> None:
        self.members = Members(15.0)
        self.shares = BucketShares(
            "db",
            "n",
            member="db-a",
            buckets=4,
            by="key",
            members=self.members,
            options=LeaderElectionOptions(),
            drain_seconds=20.0,
        )
        self.members.on_watched("db-a", lease(seconds=1000), 0.0)
        self.version = 10

    def join(self) -> None:
        """Show the other member."""
        self.members.on_watched("db-b", lease("db-b", uid="u2", seconds=1000), 0.0)

    def step(self, now: float = 0.0, is_busy: Callable[[int], bool] = lambda _: False) -> Any:
        """Return the next step."""
        return self.shares.next_step(now, 1.7e9, is_busy=is_busy)

    def table(self, *owners: Owner | None, uid: str = "t1", **fields: Any) -> LeaseRecord:
        """Return the next version of the table."""
        self.version += 1
        table = Table(by="key", owners=owners, dirty=frozenset())
        body = with_table(lease("db"), dataclasses.replace(table, **fields), group="db", at=0.0)
        return stored(body, version=self.version, uid=uid)

    def begin(self, *owners: Owner | None, **fields: Any) -> None:
        """Begin a life with a table."""
        self.shares.begin(ME)
        assert isinstance(self.step(), ReadTable)
        self.shares.on_table(self.table(*owners, **fields), 0.0)

    def write(self, step: Any) -> Table:
        """Carry a write out, and return the table."""
        assert isinstance(step, WriteTable)
        self.version += 1
        answer = stored(step.body, version=self.version)
        self.shares.on_written(answer, 0.0)
        table = read_table(answer, buckets=4, by="key")
        assert table is not None
        return table


@pytest.fixture
def member() -> Member:
    """Return a member that has no life yet."""
    return Member()


def test_a_member_without_a_lease_of_its_own_does_nothing(member: Member) -> None:
    member.shares.on_table(member.table(None, None, None, None), 0.0)
    assert isinstance(member.step(), Wait)


def test_the_first_member_makes_the_table_and_claims_all(member: Member) -> None:
    member.shares.begin(ME)
    assert isinstance(member.step(), ReadTable)
    member.shares.on_no_table(0.0)
    assert isinstance(member.step(), ReadMembers)
    member.shares.on_members()
    made = member.write(member.step())
    assert made == Table.empty(4, "key")
    claimed = member.write(member.step())

    assert claimed.owners == (ME,) * 4
    assert {bucket.is_dirty for bucket in member.shares.held.values()} == {True}
    assert isinstance(member.step(), Wait)


def test_buckets_of_a_table_that_is_gone_are_claimed_when_each_life_has_written_to_the_new_one(
    member: Member,
) -> None:
    member.shares.begin(ME)
    member.join()
    member.step()
    member.shares.on_no_table(0.0)
    member.step()
    member.shares.on_members()
    assert member.write(member.step()).awaited == {OTHER}
    assert isinstance(member.step(1000.0 - 1), Wait)
    member.shares.on_table(member.table(None, None, None, None, uid="t1"), 0.0)

    assert member.write(member.step()).of(ME) == [0, 1]


def test_the_owners_of_the_last_table_are_awaited_though_a_list_by_label_lacks_them(
    member: Member,
) -> None:
    member.begin(ME, ME, OTHER, OTHER)
    member.shares.on_no_table(0.0, uid="t1")
    assert isinstance(member.step(), ReadMembers)
    member.shares.on_members()

    assert member.write(member.step()).awaited == {OTHER}


def test_who_is_awaited_writes_to_the_new_table_at_once(member: Member) -> None:
    member.join()
    member.begin(None, None, None, None, awaited=frozenset({ME, OTHER}))

    assert member.write(member.step()).awaited == {OTHER}


def test_a_leader_whose_lease_was_deleted_may_lead_for_its_duration(member: Member) -> None:
    member.shares.begin(ME)
    member.step()
    member.shares.on_table(lease("db", uid="t1", version=11, holder="leader", seconds=20), 0.0)
    member.shares.on_no_table(5.0, uid="t1")

    assert member.step(5.0) == Wait(25.0)


def test_a_table_whose_annotation_was_removed_is_made_again(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    body: Any = member.shares.lease.body if member.shares.lease else {}
    member.shares.on_table(
        stored({**body, "metadata": {**body["metadata"], "annotations": {}}}, version=40), 1.0
    )

    assert isinstance(member.step(1.0), ReadMembers)


def test_a_table_of_others_shuts_all_and_is_not_written_over_while_they_live(
    member: Member,
) -> None:
    member.begin(ME, ME, ME, ME)
    member.members.on_watched("db-b", lease("db-b", uid="u2", seconds=15), 0.0)
    table = Table(by="key", owners=(OTHER,) * 8, dirty=frozenset())
    body = with_table(lease("db"), table, group="db", at=0.0)
    with pytest.raises(InvalidArgumentError, match="8 buckets"):
        member.shares.on_table(stored(body, version=30), 1.0)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="8 buckets"):
            member.step(1.0)

    assert not member.shares.held
    assert isinstance(member.step(15.0), ReadMembers)
    member.shares.on_members()
    made = member.write(member.step(15.0))
    assert made.owners == (None,) * 4
    assert OTHER not in made.awaited


def test_a_deleted_table_does_not_come_back_by_a_late_answer(member: Member) -> None:
    member.begin(ME, ME, None, None)
    step = member.step(1.0)
    answer = stored(step.body, version=20)
    member.shares.on_table(answer, 1.1)
    member.shares.on_no_table(1.1, uid="t1")
    member.shares.on_written(answer, 1.2)

    assert not member.shares.held
    assert isinstance(member.step(1.2), ReadTable)


def test_a_lease_that_cannot_be_revoked_stops_nothing_else(member: Member) -> None:
    member.members.on_watched("db-z", lease("db-z", uid="u7", holder="z", seconds=6), 0.0)
    member.begin(None, None, None, None)
    assert isinstance(member.step(6.0), Revoke)
    member.shares.on_failure(6.0)

    assert member.write(member.step(6.0)).of(ME) == [0, 1, 2, 3]


def test_conflicts_in_a_row_are_retried_after_a_pause(member: Member) -> None:
    member.begin(None, None, None, None)
    now, steps = 0.0, 0
    while now < 3.0:
        step = member.step(now)
        if isinstance(step, Wait):
            now = step.until
        elif isinstance(step, WriteTable):
            steps += 1
            member.shares.on_conflict(now)
        else:
            assert member.shares.lease is not None
            member.shares.on_table(member.shares.lease, now)

    assert steps <= 12


def test_a_leaver_that_drains_beside_a_silent_member_does_not_spin(member: Member) -> None:
    member.members.on_watched("db-b", lease("db-b", uid="u2", seconds=6), 0.0)
    member.begin(ME, ME, OTHER, OTHER)
    member.shares.leave()
    member.write(member.step(7.0, lambda _: True))  # announces that it leaves
    step = member.step(7.0, lambda _: True)

    assert isinstance(step, Wait)
    assert step.until > 7.0


def test_a_leader_is_waited_for(member: Member) -> None:
    member.shares.begin(ME)
    member.step()
    member.shares.on_table(lease("db", uid="t1", version=11, holder="leader", seconds=6), 0.0)

    assert member.step() == Wait(6.0)
    assert isinstance(member.step(6.0), ReadMembers)


def test_a_leader_that_renews_and_then_ends_is_waited_for_no_longer(member: Member) -> None:
    """Its Lease has no label, so that no watch shows it: a refused write does."""

    def refused(now: float, found: LeaseRecord) -> Any:
        assert isinstance(member.step(now), ReadMembers)
        member.shares.on_members()
        assert isinstance(member.step(now), WriteTable)
        member.shares.on_conflict(now)
        assert isinstance(member.step(now + 0.3), ReadTable)
        member.shares.on_table(found, now)
        return member.step(now + 0.3)

    member.shares.begin(ME)
    member.step()
    member.shares.on_table(lease("db", uid="t1", version=11, holder="leader", seconds=6), 0.0)
    renewed = lease("db", uid="t1", version=12, holder="leader", seconds=6)
    assert refused(6.0, renewed) == Wait(12.0)
    released = lease("db", uid="t1", version=13, holder="", seconds=1)
    assert isinstance(refused(12.0, released), ReadMembers)


def test_who_joins_gets_half_after_the_work_has_ended(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    assert isinstance(member.step(), Wait)
    member.join()

    assert isinstance(member.step(1.0, lambda _: True), Wait)
    assert [bucket.admits for bucket in member.shares.held.values()] == [True, True, False, False]
    assert member.shares.to_cancel(20.9) == []
    assert member.shares.to_cancel(21.0) == [2, 3]
    third = member.shares.held[2]
    third.record_write("pods.v1", "70")
    third.record_write("pods.v1", "9")
    given = member.write(member.step(2.0, lambda number: number == 3))
    assert (given.owners, given.dirty, given.written) == (
        (ME, None, None, ME),  # another one in place of that which is still busy
        frozenset(),
        {"pods.v1": "70"},
    )
    assert third.shut == "the bucket is given up"
    assert [bucket.admits for bucket in member.shares.held.values()] == [True, True]


def test_a_bucket_whose_work_ignores_its_cancellation_stays_and_another_one_is_given(
    member: Member,
) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    member.join()
    member.step(1.0, lambda _: True)
    member.step(25.9, lambda _: True)
    assert [bucket.admits for bucket in member.shares.held.values()] == [True, True, False, False]
    member.step(26.0, lambda _: True)
    assert [bucket.admits for bucket in member.shares.held.values()] == [False, False, True, True]
    given = member.write(member.step(26.1, lambda number: number > 1))
    assert given.owners == (None, None, ME, ME)


def test_a_bucket_in_which_something_was_cut_short_is_dirty(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    member.shares.held[3].is_unfinished = True
    member.join()
    assert member.write(member.step()).dirty == {3}


def test_a_bucket_whose_writes_are_unknown_or_that_never_opened_is_dirty(member: Member) -> None:
    member.begin(ME, ME, ME, ME, written={"pods.v1": "5"})
    member.shares.held[2].is_open = True
    member.shares.held[2].record_write("pods.v1", "")
    member.join()
    given = member.write(member.step())

    assert (given.dirty, given.written) == (frozenset({2, 3}), {"pods.v1": "5"})


def test_a_drain_is_called_off_when_the_share_grows_again(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    member.join()
    member.step(1.0, lambda _: True)
    member.members.on_watched("db-b", lease("db-b", uid="u2", version=2, holder=""), 1.0)

    assert isinstance(member.step(2.0, lambda _: True), Wait)
    assert all(bucket.admits for bucket in member.shares.held.values())


def test_a_give_up_without_an_answer_keeps_the_bucket_shut_until_a_later_write(
    member: Member,
) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    member.join()
    assert isinstance(member.step(1.0), WriteTable)
    member.shares.on_failure(1.0)
    assert sorted(member.shares.held) == [0, 1]
    # The other one is gone before it took anything, so the share has grown again.
    member.members.on_watched("db-b", lease("db-b", uid="u2", version=2, holder=""), 1.0)
    assert isinstance(member.step(2.0), ReadTable)
    member.shares.on_table(member.table(ME, ME, ME, ME), 2.0)

    assert sorted(member.shares.held) == [0, 1], "the write may still arrive"
    member.write(member.step(2.0))
    assert sorted(member.shares.held) == [0, 1, 2, 3]


def test_what_was_written_for_a_bucket_counts_though_its_give_up_was_called_off(
    member: Member,
) -> None:
    member.begin(ME, ME, ME, ME)
    for bucket in member.shares.held.values():
        bucket.is_open = True
    member.shares.held[2].record_write("pods.v1", "70")
    member.join()
    member.step(1.0)
    member.shares.on_failure(1.0)
    left = lease("db-b", uid="u2", version=2, holder="", seconds=1)
    member.members.on_watched("db-b", left, 1.0)
    member.step(2.0)
    member.shares.on_table(member.table(ME, ME, ME, ME), 2.0)
    member.write(member.step(2.0))
    for bucket in member.shares.held.values():
        bucket.is_open = True
    again = lease("db-b", uid="u2", version=3, transitions=1, seconds=1000)
    member.members.on_watched("db-b", again, 3.0)
    given = member.write(member.step(3.0))

    assert (given.owners[2], given.written) == (None, {"pods.v1": "70"})


def test_who_claims_from_a_life_that_is_over_frees_all_of_its_buckets(member: Member) -> None:
    third = Owner("db-c", "u3", 0)
    member.members.on_watched("db-c", lease("db-c", uid="u3", seconds=1000), 0.0)
    member.members.on_watched("db-b", lease("db-b", uid="u2", holder="", seconds=1), 0.0)
    member.begin(OTHER, OTHER, OTHER, third)
    claimed = member.write(member.step())

    assert (claimed.owners, claimed.dirty) == ((ME, ME, None, third), frozenset({0, 1, 2}))


def test_a_silent_member_is_revoked_before_anything_is_claimed_from_it(member: Member) -> None:
    member.members.on_watched("db-b", lease("db-b", uid="u2", seconds=6), 0.0)
    member.begin(OTHER, OTHER, ME, ME)
    assert member.step() == Wait(6.0)
    step = member.step(6.0)

    assert isinstance(step, Revoke)
    spec: Any = step.body["spec"]
    metadata: Any = step.body["metadata"]
    assert (spec["holderIdentity"], metadata["resourceVersion"]) == ("", "1")


def test_who_is_not_in_the_watch_claims_nothing(member: Member) -> None:
    member.members.on_left("db-a")
    member.begin(None, None, None, None)

    assert isinstance(member.step(), Wait)


def test_a_leaver_gives_all_up_announces_it_and_the_last_one_frees_the_lease(
    member: Member,
) -> None:
    member.begin(ME, ME, ME, ME)
    member.shares.leave()
    given = member.write(member.step())
    assert (given.owners, given.leaving) == ((None,) * 4, frozenset({ME}))
    step = member.step()
    assert isinstance(step, WriteTable)
    member.shares.on_written(stored(step.body, version=99), 0.0)

    assert member.shares.table is None
    assert isinstance(member.step(), Finished)


def test_a_leaver_that_others_see_counts_in_no_quota(member: Member) -> None:
    member.join()
    member.begin(ME, ME, None, OTHER, leaving=frozenset({OTHER}))

    assert member.write(member.step()).owners == (ME, ME, ME, OTHER)


def test_a_leaver_that_is_not_the_last_leaves_the_table_as_it_is(member: Member) -> None:
    member.join()
    member.begin(ME, ME, OTHER, OTHER)
    member.shares.leave()
    member.write(member.step())

    assert isinstance(member.step(), Finished)


def test_a_table_that_is_deleted_shuts_all_buckets_at_once(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    buckets = list(member.shares.held.values())
    member.shares.on_no_table(0.0, uid="t1")

    assert {bucket.shut for bucket in buckets} == {"the table was deleted"}


def test_a_life_that_ended_shuts_all_buckets(member: Member) -> None:
    member.begin(ME, ME, ME, ME)
    buckets = list(member.shares.held.values())
    member.shares.end("the member's Lease is lost")

    assert {bucket.shut for bucket in buckets} == {"the member's Lease is lost"}
    assert not member.shares.held


@given(
    owners=st.lists(st.sampled_from([None, *"abcdef"]), min_size=1, max_size=64),
    sharing=st.sets(st.sampled_from("abcdef"), min_size=1),
)
def test_shares_are_even_and_the_fewest_buckets_move(
    owners: list[str | None], sharing: set[str]
) -> None:
    lives = {name: Owner(name, "u", 0) for name in "abcdef"}
    table = Table(
        by="key",
        owners=tuple(None if name is None else lives[name] for name in owners),
        dirty=frozenset(),
    )
    found = quotas(table, [lives[name] for name in sorted(sharing)])

    assert sum(found.values()) == len(owners)
    assert max(found.values()) - min(found.values()) <= 1
    counts = sorted((owners.count(name) for name in sharing), reverse=True)
    least, rest = divmod(len(owners), len(sharing))
    fewest = sum(max(0, n - least - (place < rest)) for place, n in enumerate(counts))
    assert sum(max(0, owners.count(one.lease) - found[one]) for one in found) == fewest
