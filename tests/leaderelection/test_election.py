"""The state machine alone: deletions, edits by hand, and responses that come too late."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElectionOptions
from pyinformer.leaderelection._election import Election, Read, Wait, Write
from pyinformer.leaderelection._lease import LeaseRecord, read_lease


def _lease(  # the fields of a Lease
    holder: str,
    version: int,
    *,
    uid: str = "u1",
    seconds: int | None = 15,
    renewed: str = "2026-01-02T03:04:05.000006Z",
    labels: dict[str, str] | None = None,
) -> LeaseRecord:
    metadata: dict[str, Any] = {"uid": uid, "resourceVersion": str(version)}
    if labels is not None:
        metadata["labels"] = labels
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return read_lease({"metadata": metadata, "spec": spec})


def _answer(write: object, version: int, *, uid: str = "u1") -> LeaseRecord:
    """Return the Lease as the server has stored it."""
    assert isinstance(write, Write)
    metadata = {**write.body["metadata"], "uid": uid, "resourceVersion": str(version)}
    return read_lease({**write.body, "metadata": metadata})


def _election() -> Election:
    """Return the election of replica a, which has not sent anything."""
    options = LeaderElectionOptions()
    return Election("db", "ops", identity="a", options=options, rng=random.Random(0))


def _that_knows(lease: LeaseRecord | None, at: float = 0.0) -> Election:
    election = _election()
    assert isinstance(election.next_step(at, at), Read)
    if lease is None:
        election.on_absent(at)
    else:
        election.on_lease(lease, at)
    return election


def _that_leads() -> Election:
    """Return an election that has created the Lease at 0 s."""
    election = _that_knows(None)
    election.on_lease(_answer(election.next_step(0.0, 0.0), 1), 0.0)
    assert election.tenure is not None
    return election


def test_an_acquisition_answered_after_the_lease_was_deleted_begins_no_term() -> None:
    election = _that_knows(_lease("", 5, seconds=1))
    write = election.next_step(0.0, 0.0)
    answer = _answer(write, 6)
    election.on_watched_deletion("u1", 0.2)  # and another replica creates it, unseen
    election.on_lease(answer, 0.3)
    assert election.tenure is None
    assert isinstance(election.next_step(2.0, 2.0), Read)


def test_a_creation_answered_after_a_deletion_and_another_creation_begins_no_term() -> None:
    election = _that_knows(None)
    answer = _answer(election.next_step(0.0, 0.0), 6)
    election.on_watched(answer, 0.1)
    election.on_watched_deletion("u1", 0.2)
    election.on_watched(_lease("b", 8, uid="u2"), 0.3)
    election.on_lease(answer, 0.4)
    assert election.tenure is None
    assert isinstance(election.next_step(2.0, 2.0), Read)
    election.on_lease(_lease("b", 8, uid="u2"), 2.0)
    assert isinstance(election.next_step(2.0, 2.0), Wait)


def test_a_deletion_of_an_earlier_lease_does_not_spoil_a_creation() -> None:
    election = _that_knows(None)
    answer = _answer(election.next_step(0.0, 0.0), 6)
    election.on_watched_deletion("u0", 0.2)  # late news
    election.on_lease(answer, 0.3)
    assert election.tenure is not None


def test_a_response_that_does_not_show_the_write_begins_no_term() -> None:
    election = _that_knows(_lease("", 5, seconds=1))
    election.next_step(0.0, 0.0)
    election.on_lease(read_lease({}), 0.1)  # of a proxy, for example
    assert election.tenure is None
    assert isinstance(election.next_step(2.0, 2.0), Read)


def test_a_renewal_whose_response_does_not_show_it_does_not_count() -> None:
    election = _that_leads()
    assert isinstance(election.next_step(2.0, 2.0), Write)
    election.on_lease(_lease("b", 2), 2.1)
    assert isinstance(election.next_step(2.1, 2.1), Read | Wait)
    election.check_expiry(10.0)
    assert election.tenure is None


@pytest.mark.parametrize("is_coarse", [False, True])
def test_own_writes_that_come_back_are_not_those_of_a_replica_with_this_identity(
    *, is_coarse: bool
) -> None:
    """A watch shows deletions that are none, or restores of etcd bring back an earlier write."""
    election, now, version = _that_leads(), 0.0, 1
    stored = election.lease
    for _ in range(5):
        assert stored is not None
        election.on_watched_deletion("u1", now)
        assert election.tenure is None
        while election.tenure is None:
            step = election.next_step(now, now)
            match step:
                case Wait(until):
                    now = until
                case Read():
                    election.on_lease(stored, now)
                case Write(creates=True):
                    election.on_conflict(now)
                case _:
                    version += 1
                    stored = _answer(step, version)
                    stored = in_whole_seconds(stored) if is_coarse else stored
                    election.on_lease(stored, now)
        now += 1.5


def in_whole_seconds(lease: LeaseRecord) -> LeaseRecord:
    """Return what a server stores that cuts the fractions of times off."""
    spec = {**lease.body["spec"]}
    for name in ("acquireTime", "renewTime"):
        spec[name] = f"{spec[name][:19]}Z"
    return read_lease({**lease.body, "spec": spec})


def test_after_a_deletion_a_holder_with_unseen_renewals_is_waited_for() -> None:
    election = _that_knows(_lease("b", 5))
    election.next_step(0.0, 0.0)
    # The watch is lost; b renews until 20 s, when the Lease is deleted.
    election.on_watched_deletion("u1", 20.0)
    step = election.next_step(20.0, 20.0)
    assert isinstance(step, Wait)
    assert isinstance(election.next_step(34.9, 34.9), Wait)
    assert isinstance(election.next_step(35.0, 35.0), Write)


def test_after_a_deletion_of_a_free_lease_an_unseen_holder_is_waited_for() -> None:
    election = _that_knows(_lease("", 5, seconds=1))
    assert isinstance(election.next_step(0.0, 0.0), Write)
    election.on_conflict(0.1)  # another replica was faster
    assert isinstance(election.next_step(0.1, 0.1), Read)
    election.on_absent(0.2)
    assert isinstance(election.next_step(15.1, 15.1), Wait)
    assert isinstance(election.next_step(15.2, 15.2), Write)


def test_a_lease_that_is_created_again_without_a_holder_is_waited_for() -> None:
    election = _that_knows(_lease("b", 5))
    election.on_watched(_lease("", 9, uid="u2", seconds=None), 3.0)
    assert isinstance(election.next_step(17.9, 17.9), Wait)
    assert isinstance(election.next_step(18.0, 18.0), Write)


@pytest.mark.parametrize("seconds", [15, None])
def test_a_holder_that_was_removed_by_hand_is_waited_for(seconds: int | None) -> None:
    election = _that_knows(_lease("b", 5))
    election.on_watched(_lease("", 6, seconds=seconds), 3.0)
    assert isinstance(election.next_step(17.9, 17.9), Wait)
    assert isinstance(election.next_step(18.0, 18.0), Write)


def test_a_holder_that_was_removed_before_the_first_sight_is_waited_for() -> None:
    election = _that_knows(_lease("", 5), at=1.0)  # by the rules its duration would be one second
    assert isinstance(election.next_step(15.9, 15.9), Wait)
    assert isinstance(election.next_step(16.0, 16.0), Write)


def test_a_lease_that_was_released_is_taken_at_once() -> None:
    election = _that_knows(_lease("b", 5))
    election.on_watched(_lease("", 6, seconds=1), 3.0)
    assert isinstance(election.next_step(3.0, 3.0), Write)


def test_late_events_of_a_deleted_lease_are_not_a_duplicate_identity() -> None:
    election = _that_leads()
    late = []
    for version in range(2, 6):
        answer = _answer(election.next_step(2.0 * version, 2.0 * version), version)
        election.on_lease(answer, 2.0 * version)
        late.append(answer)
    election.next_step(12.0, 12.0)
    election.on_conflict(12.0)
    election.next_step(12.0, 12.0)
    election.on_absent(12.0)
    for answer in late:
        election.on_watched(answer, 12.5)
    assert election.lease is None


def test_a_creation_waits_for_a_holder_seen_after_it() -> None:
    election = _that_knows(None)
    answer = _answer(election.next_step(0.0, 0.0), 8, uid="u2")
    election.on_watched(_lease("b", 6), 0.1)
    election.on_watched_deletion("u1", 0.2)  # b may not know it yet
    election.on_lease(answer, 0.3)
    assert election.tenure is None
    assert isinstance(election.next_step(15.1, 15.1), Wait)
    again = election.next_step(15.2, 15.2)
    election.on_lease(_answer(again, 9, uid="u2"), 15.3)
    assert election.tenure is not None


def test_a_creation_after_which_another_holder_was_seen_waits_for_that() -> None:
    election = _that_knows(None)
    answer = _answer(election.next_step(0.0, 0.0), 8, uid="u2")
    election.on_watched(_lease("b", 6), 0.1)  # its deletion was not seen
    election.on_lease(answer, 0.3)
    assert election.tenure is None
    assert isinstance(election.next_step(15.2, 15.2), Wait)
    again = election.next_step(15.3, 15.3)
    election.on_lease(_answer(again, 9, uid="u2"), 15.4)
    assert election.tenure is not None


def test_a_label_set_by_hand_does_not_end_a_term() -> None:
    election = _that_leads()
    lease = election.lease
    assert lease is not None
    metadata = {**lease.body["metadata"], "resourceVersion": "2", "labels": {"a": "b"}}
    edited = read_lease({**lease.body, "metadata": metadata})
    election.on_watched(edited, 1.0)
    assert isinstance(election.next_step(2.0, 2.0), Write)
    election.on_conflict(2.1)
    assert isinstance(election.next_step(2.1, 2.1), Read)
    election.on_lease(edited, 2.2)
    renewal = election.next_step(2.2, 2.2)
    assert isinstance(renewal, Write)
    assert renewal.body["metadata"]["labels"] == {"a": "b"}
    election.on_lease(_answer(renewal, 3), 2.3)
    assert election.tenure is not None


@pytest.mark.parametrize(
    ("holder", "grows"),
    [
        pytest.param("", True, id="each read is newer"),
        pytest.param("gone", False, id="each read is the same"),
    ],
)
def test_endless_conflicts_are_retried_with_a_delay(holder: str, *, grows: bool) -> None:
    election = _that_knows(_lease(holder, 5, seconds=1))
    requests, now = 0, 0.0
    while now < 20.0:
        step = election.next_step(now, now)
        if isinstance(step, Wait):
            now = step.until
            continue
        requests += 1
        if isinstance(step, Read):
            election.on_lease(_lease(holder, 5 + requests * grows, seconds=1), now)
        else:
            election.on_conflict(now)
    assert requests <= 2 * (1 + 20 / 2) + 2


def test_the_last_write_of_an_earlier_process_is_not_a_duplicate_identity() -> None:
    election = _that_knows(_lease("a", 5))
    election.on_watched(_lease("a", 6, renewed="2026-01-02T03:04:07.000006Z"), 1.0)  # was late
    election.on_watched(
        _lease("a", 7, renewed="2026-01-02T03:04:07.000006Z", labels={"a": "b"}), 2.0
    )
    with pytest.raises(InvalidArgumentError, match="identity of its own"):
        election.on_watched(_lease("a", 8, renewed="2026-01-02T03:04:09.000006Z"), 3.0)
