"""The table of a group in the Lease of its operator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.errors import InvalidArgumentError
from pyinformer.sharding import GROUP_LABEL, Owner, Table, freed, read_table, with_table
from tests.sharding.leases import lease, stored

_FOREIGN = (
    '{"format":1,"hash":"blake2b-64","by":"key","members":[],"owners":[-2],"dirty":[],"written":{}}'
)
_owners = st.builds(
    Owner,
    st.sampled_from(["db-a", "db-b", "db-c"]),
    st.sampled_from(["u1", "u2"]),
    st.integers(0, 9),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Return a table of eight buckets."""
    owners = draw(st.lists(st.none() | _owners, min_size=8, max_size=8))
    return Table(
        by=draw(st.sampled_from(["key", "namespace", "cluster"])),
        owners=tuple(owners),
        dirty=draw(st.frozensets(st.integers(0, 7))),
        written=draw(st.dictionaries(st.sampled_from(["pods.v1", "jobs.v1.batch"]), st.just("7"))),
        leaving=draw(st.frozensets(_owners, max_size=2)),
        awaited=draw(st.frozensets(_owners, max_size=2)),
    )


@given(table=tables())
def test_a_table_is_read_as_it_was_written(table: Table) -> None:
    body = with_table(lease("db", holder=""), table, group="db", at=1.0)

    assert read_table(stored(body, version=2), buckets=8, by=table.by) == table


def test_a_written_table_keeps_what_it_does_not_know_and_names_its_preconditions() -> None:
    before = lease("db", uid="t9", version=4, holder="", annotations={"a": "b"}, labels={"c": "d"})
    body: Any = with_table(before, Table.empty(2, "key"), group="db", at=1.0)

    metadata = body["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("t9", "4")
    assert metadata["annotations"]["a"] == "b"
    assert metadata["labels"] == {"c": "d", GROUP_LABEL: "db"}
    assert body["spec"]["holderIdentity"] == "pyinformer.dev/buckets"
    assert body["spec"]["leaseDurationSeconds"] == 2**31 - 1  # plain electors wait for it


def test_what_an_earlier_leader_wrote_is_not_passed_on() -> None:
    before = lease("db", holder="", annotations={"pyinformer.dev/written": "{}"})
    body: Any = with_table(before, Table.empty(2, "key"), group="db", at=1.0)

    assert "pyinformer.dev/written" not in body["metadata"]["annotations"]


def test_the_names_of_the_owners_are_there_for_policies() -> None:
    owners = (Owner("db-b", "u2", 1), None, Owner("db-a", "u1", 0), Owner("db-b", "u2", 1))
    table = Table(by="key", owners=owners, dirty=frozenset())
    body: Any = with_table(lease("db", holder=""), table, group="db", at=1.0)

    assert body["metadata"]["annotations"]["pyinformer.dev/members"] == ",db-a,db-b,"


def test_a_freed_lease_has_no_table_and_may_be_taken_by_an_elector() -> None:
    before = stored(with_table(lease("db"), Table.empty(2, "key"), group="db", at=1.0), version=2)
    after = stored(freed(before, group="db", at=2.0), version=3)

    assert read_table(after, buckets=2, by="key") is None
    assert after.was_released
    assert after.body["metadata"]["annotations"] == {}


def test_the_lease_of_a_leader_has_no_table_although_an_annotation_is_left() -> None:
    body: Any = with_table(lease("db"), Table.empty(2, "key"), group="db", at=1.0)
    body["spec"]["holderIdentity"] = "replica-1"

    assert read_table(stored(body, version=2), buckets=2, by="key") is None


@pytest.mark.parametrize(
    ("buckets", "by", "text", "words"),
    [
        pytest.param(
            4,
            "key",
            "",
            "2 buckets by key in the Lease n/db, and this process has 4 by key",
            id="count",
        ),
        pytest.param(2, "namespace", "", "this process has 2 by namespace", id="by"),
        pytest.param(2, "key", "{", "a table that cannot be read", id="not-json"),
        pytest.param(2, "key", '{"format":2}', "a table of format 2", id="format"),
        pytest.param(2, "key", _FOREIGN, "a table that cannot be read", id="owners"),
    ],
)
def test_a_table_of_others_names_both_and_the_cure(
    buckets: int, by: Any, text: str, words: str
) -> None:
    body: Any = with_table(lease("db"), Table.empty(2, "key"), group="db", at=1.0)
    if text:
        body["metadata"]["annotations"]["pyinformer.dev/table"] = text
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        read_table(stored(body, version=2), buckets=buckets, by=by)

    assert "the last one that leaves frees the table" in str(caught.value)
