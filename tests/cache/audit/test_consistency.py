"""The comparison of a cache with a list: it names what differs, and nothing that has settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.cache.audit import MAX_NAMED, AuditReport, Comparison, Mismatches
from tests.pods import make
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.objects import KubeObject

Identities = dict[str, tuple[str, str]]
"""Uid and resource version by key."""


def objects(identities: Mapping[str, tuple[str, str]]) -> dict[str, KubeObject]:
    """Return a cache."""
    return {
        key: make(key, uid=uid, resource_version=version)
        for key, (uid, version) in identities.items()
    }


def compare(
    held: Identities, listed: Identities, now: Identities | None = None, position: str = "10"
) -> dict[str, str]:
    """Return the kind of each difference by its key."""
    comparison = Comparison(dict(objects(held)), position)
    for key, (uid, version) in listed.items():
        comparison.take(key, uid, version)
    current = objects(held if now is None else now)
    for _ in comparison.settle(current.get):
        pass
    assert comparison.checked == len(listed)
    assert sum(comparison.counts.values()) == len(comparison.named)
    return {found.key: found.kind for found in comparison.named}


@pytest.mark.covers("client-go util/consistencydetector: TestDataConsistencyChecker")
def test_equal_sides_have_no_difference() -> None:
    both = {"a": ("u", "1"), "ns/b": ("v", "2")}

    assert compare(both, both) == {}


@pytest.mark.covers("client-go util/consistencydetector: TestDataConsistencyChecker")
@pytest.mark.parametrize(
    ("held", "listed", "kind"),
    [
        pytest.param({}, {"a": ("u", "1")}, "missing", id="missing"),
        pytest.param({"a": ("u", "1")}, {}, "phantom", id="phantom"),
        pytest.param({"a": ("u", "1")}, {"a": ("u", "2")}, "stale", id="older"),
        pytest.param({"a": ("u", "2")}, {"a": ("u", "1")}, "stale", id="newer"),
        pytest.param({"a": ("u", "1")}, {"a": ("v", "1")}, "stale", id="another-uid"),
        pytest.param({"a": ("u", "x")}, {"a": ("u", "y")}, "stale", id="opaque"),
        pytest.param({}, {"a": ("", "")}, "missing", id="missing-without-identity"),
        pytest.param({"a": ("", "")}, {}, "phantom", id="phantom-without-identity"),
    ],
)
def test_each_kind_of_difference_is_found(held: Identities, listed: Identities, kind: str) -> None:
    common = {"other": ("o", "3")}

    assert compare(held | common, listed | common) == {"a": kind}


@pytest.mark.parametrize(
    ("held", "now"),
    [
        pytest.param({"a": ("u", "1")}, {}, id="deleted-meanwhile"),
        pytest.param({"a": ("u", "1")}, {"a": ("u", "3")}, id="changed-meanwhile"),
        pytest.param({"a": ("u", "1")}, {"a": ("w", "1")}, id="replaced-meanwhile"),
        pytest.param({}, {"a": ("u", "2")}, id="added-meanwhile"),
    ],
)
def test_a_change_by_a_later_event_is_not_a_difference(held: Identities, now: Identities) -> None:
    assert compare(held, {"a": ("u", "2")}, now) == {}


def test_an_object_read_beyond_the_position_is_not_a_difference() -> None:
    assert compare({"a": ("u", "11")}, {"a": ("u", "9")}, position="10") == {}
    assert compare({"a": ("u", "11")}, {}, position="10") == {}
    assert compare({"a": ("u", "x")}, {"a": ("u", "9")}, position="10") == {"a": "stale"}


def test_a_key_that_is_listed_twice_is_not_a_difference() -> None:
    comparison = Comparison(dict(objects({"a": ("u", "1")})), "10")
    for _ in range(2):
        comparison.take("a", "u", "1")
    for _ in comparison.settle(objects({"a": ("u", "1")}).get):
        pass

    assert comparison.named == []


def test_names_are_bounded_and_counts_are_not() -> None:
    many = {f"k{number:04}": ("u", "1") for number in range(1000)}
    comparison = Comparison(dict(objects(many)), "10")
    steps = sum(1 for _ in comparison.settle(objects(many).get))

    assert comparison.counts == {"missing": 0, "phantom": 1000, "stale": 0}
    assert len(comparison.mismatches("phantom").keys) == MAX_NAMED
    assert not comparison.names_all
    assert steps >= 3


_identities = st.dictionaries(
    st.sampled_from([f"ns/{letter}" for letter in "abcdefgh"]),
    st.tuples(st.sampled_from("uv"), st.sampled_from(["1", "2", "9"])),
)


@settings(max_examples=examples(150))
@given(held=_identities, listed=_identities, now=_identities)
def test_only_a_difference_that_lasts_is_reported(
    held: Identities, listed: Identities, now: Identities
) -> None:
    """Against the definition: all keys whose sides differ, and which nothing has touched."""
    wanted: dict[str, str] = {}
    for key in held.keys() | listed.keys():
        if held.get(key) == listed.get(key) or now.get(key) != held.get(key):
            continue
        kind = "stale" if key in held and key in listed else "missing"
        wanted[key] = "phantom" if key not in listed else kind

    assert compare(held, listed, now) == wanted


def test_the_text_of_a_report_is_one_sentence() -> None:
    report = AuditReport(
        informer="pods.v1",
        cause="due",
        verdict="inconsistent",
        position="10",
        checked=3,
        missing=Mismatches(1, ("default/a",)),
        stale=Mismatches(20, tuple(f"s{number:02}" for number in range(20))),
    )

    assert report.mismatches == 21
    assert str(report) == (
        "pods.v1: inconsistent at 10, 3 objects; 1 missing: default/a; 20 stale: s00, s01, s02,"
        " s03, s04, s05, s06, s07, s08, s09, ..."
    )
