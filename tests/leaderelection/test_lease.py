"""The Lease is read and written as client-go does; what it holds besides is kept."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer.leaderelection import WrittenVersions
from pyinformer.leaderelection._lease import (
    WRITTEN_ANNOTATION,
    LeaseRecord,
    acquired,
    micro_time,
    new_lease,
    next_transitions,
    read_lease,
    released,
    renewed,
    written_in,
)

_BODY: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "name": "db-operator",
        "namespace": "ops",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"team": "db"},
        "managedFields": [{"manager": "go"}],
    },
    "spec": {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 20,
        "acquireTime": "2026-01-02T03:04:05.000006Z",
        "renewTime": "2026-01-02T03:04:07.000008Z",
        "leaseTransitions": 3,
        "strategy": "OldestEmulationVersion",
        "newField": {"deep": [1]},
    },
}


def test_a_lease_is_read() -> None:
    lease = read_lease(_BODY)
    assert (lease.holder, lease.duration_seconds, lease.transitions) == ("a_1", 20.0, 3)
    assert (lease.uid, lease.resource_version) == ("u", "7")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None, "spec": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": "x"}, id="other-types"),
        pytest.param(
            {"spec": {"leaseDurationSeconds": True, "leaseTransitions": "x"}}, id="other-values"
        ),
        pytest.param({"spec": {"leaseDurationSeconds": 0}}, id="no-duration"),
    ],
)
def test_a_malformed_lease_has_no_holder(body: dict[str, Any]) -> None:
    lease = read_lease(body)
    assert (lease.holder, lease.duration_seconds, lease.transitions) == ("", None, 0)


def test_an_acquisition_writes_what_client_go_writes_and_keeps_the_rest() -> None:
    body = acquired(
        read_lease(_BODY), holder="b_2", duration_seconds=15.0, at=1_700_000_000.5, transitions=4
    )
    moment = "2023-11-14T22:13:20.500000Z"
    assert body["spec"] == {
        "holderIdentity": "b_2",
        "leaseDurationSeconds": 15,
        "acquireTime": moment,
        "renewTime": moment,
        "leaseTransitions": 4,
        "strategy": "OldestEmulationVersion",
        "newField": {"deep": [1]},
    }
    assert type(body["spec"]["leaseDurationSeconds"]) is int  # a server refuses 15.0
    assert body["metadata"]["labels"] == {"team": "db"}
    assert body["metadata"]["resourceVersion"] == "7"
    assert "managedFields" not in body["metadata"]


def test_a_renewal_changes_the_time_and_restores_the_duration() -> None:
    body = renewed(read_lease(_BODY), duration_seconds=15.0, at=1_700_000_000.0)
    assert body["spec"]["renewTime"] == "2023-11-14T22:13:20.000000Z"
    assert body["spec"]["acquireTime"] == _BODY["spec"]["acquireTime"]
    assert body["spec"]["leaseDurationSeconds"] == 15
    assert (body["spec"]["holderIdentity"], body["spec"]["leaseTransitions"]) == ("a_1", 3)


def test_a_release_names_what_was_written() -> None:
    written = WrittenVersions(transitions=3, versions={"pods.v1": "12", "services.v1": ""})
    body = released(read_lease(_BODY), at=1_700_000_000.0, written=written)
    assert (body["spec"]["holderIdentity"], body["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert body["spec"]["leaseTransitions"] == 3
    assert written_in(read_lease(body)) == written


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param({"widgets.v1.example.com": "12"}, "12", id="the-same"),
        pytest.param({"widgets.v1beta1.example.com": "12"}, "12", id="another"),
        pytest.param(
            {"widgets.v1.example.com": "9", "widgets.v1beta1.example.com": "12"}, "12", id="both"
        ),
        pytest.param(
            {"widgets.v1.example.com": "9", "widgets.v1beta1.example.com": ""}, "", id="unknown"
        ),
        pytest.param({"widgets.v1beta1.example.com": "12", "*": ""}, "12", id="named"),
        pytest.param({"widgets.v1.example.org": "12", "*": ""}, "", id="another-group"),
        pytest.param({"widgets.v1": "12"}, None, id="the-core-group"),
    ],
)
def test_a_write_in_any_api_version_counts(versions: dict[str, str], expected: str | None) -> None:
    written = WrittenVersions(transitions=3, versions=versions)
    assert written.version_of("widgets.v1.example.com") == expected


@pytest.mark.parametrize(("count", "is_named"), [(256, True), (257, False)])
def test_a_release_names_a_bounded_number_of_resources(count: int, *, is_named: bool) -> None:
    versions = {f"r{number}.v1": "1" for number in range(count)}
    body = released(
        read_lease(_BODY), at=0.0, written=WrittenVersions(transitions=3, versions=versions)
    )
    assert (WRITTEN_ANNOTATION in body["metadata"]["annotations"]) == is_named


def test_versions_of_an_earlier_term_do_not_count() -> None:
    written = WrittenVersions(transitions=2, versions={})
    body = released(read_lease(_BODY), at=0.0, written=written)
    assert written_in(read_lease(body)) is None


def test_a_lease_that_is_held_was_not_released_cleanly() -> None:
    written = WrittenVersions(transitions=3, versions={})
    body = released(read_lease(_BODY), at=0.0, written=written)
    body["spec"]["holderIdentity"] = "b"
    assert written_in(read_lease(body)) is None


@pytest.mark.parametrize(("before", "after"), [(0, 1), (2**31 - 2, 2**31 - 1), (2**31 - 1,) * 2])
def test_the_number_of_a_term_grows_up_to_what_the_field_can_hold(before: int, after: int) -> None:
    lease = read_lease({"spec": {"leaseTransitions": before}})

    assert next_transitions(lease) == after


def test_at_the_greatest_number_an_annotation_may_be_of_an_earlier_term() -> None:
    for number, is_known in ((2**31 - 2, True), (2**31 - 1, False)):
        body = {**_BODY, "spec": {**_BODY["spec"], "leaseTransitions": number}}
        written = WrittenVersions(transitions=number, versions={"pods.v1": "7"})
        free = read_lease(released(read_lease(body), at=1.0, written=written))

        assert (written_in(free) is not None) is is_known


def test_a_release_without_knowledge_removes_the_annotation() -> None:
    written = WrittenVersions(transitions=3, versions={})
    first = released(read_lease(_BODY), at=0.0, written=written)
    again = released(read_lease(first), at=0.0, written=None)
    assert WRITTEN_ANNOTATION not in again["metadata"]["annotations"]


@pytest.mark.parametrize("text", ["", "x", "[]", '{"transition": "3", "versions": {}}'])
def test_another_programs_annotation_is_ignored(text: str) -> None:
    body = released(read_lease(_BODY), at=0.0, written=None)
    body["metadata"]["annotations"] = {WRITTEN_ANNOTATION: text}
    assert written_in(read_lease(body)) is None


def test_writes_do_not_change_what_was_read() -> None:
    before = read_lease(_BODY)
    released(before, at=0.0, written=WrittenVersions(transitions=3, versions={}))
    assert before.body["spec"]["holderIdentity"] == "a_1"
    assert "annotations" not in before.body["metadata"]


def test_a_new_lease_has_its_name_and_no_version() -> None:
    lease = new_lease("db-operator", "ops")
    assert lease.body["metadata"] == {"name": "db-operator", "namespace": "ops"}
    assert (lease.holder, lease.resource_version) == ("", "")


def test_micro_time_always_has_six_digits() -> None:
    assert micro_time(0.0) == "1970-01-01T00:00:00.000000Z"


def _version(uid: str, version: str) -> LeaseRecord:
    return read_lease({"metadata": {"uid": uid, "resourceVersion": version}})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(("u", "10"), ("u", "9"), True, id="newer"),
        pytest.param(("u", "9"), ("u", "10"), False, id="older"),
        pytest.param(("u", "x"), ("u", "x"), False, id="the-same"),
        pytest.param(("u", "x"), ("u", "9"), None, id="not-a-number"),
        pytest.param(("v", "10"), ("u", "9"), True, id="created-again"),
    ],
)
def test_versions_of_one_resource_compare(
    one: tuple[str, str], other: tuple[str, str], expected: bool | None
) -> None:
    assert _version(*one).is_newer_than(_version(*other)) is expected
