"""What the benchmarks send is realistic, diverse, and the same in every process.

Enters: collections of each kind. Leaves: nothing.
Invariant: sizes are those that the report names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.data.collections import RESOURCES, make_collection
from benchmarks.data.pod_parts import JSON

_SIZES = {
    "pods": (6_500, 6_800),
    "configmaps": (1_400, 1_600),
    "leases": (570, 670),
    "widgets": (38_000, 42_000),
}


@pytest.mark.parametrize("resource", RESOURCES)
def test_an_object_is_the_same_whatever_was_asked_for_before(resource: str) -> None:
    first, second = make_collection(resource, 50, seed=7), make_collection(resource, 50, seed=7)
    first.object(3, resource_version=1)
    wanted = first.object(42, resource_version=9, revision=2)
    assert second.object(42, resource_version=9, revision=2) == wanted
    other_seed = make_collection(resource, 50, seed=8)
    assert other_seed.object(42, resource_version=9, revision=2) != wanted


@pytest.mark.parametrize("resource", RESOURCES)
def test_sizes_are_those_of_the_report(resource: str) -> None:
    sizes = make_collection(resource, 1_000).sizes(1_000, sample=100)
    smallest, largest = _SIZES[resource]
    assert smallest < sizes.mean_bytes < largest
    assert sizes.min_bytes < sizes.mean_bytes < sizes.max_bytes
    assert 0.1 < sizes.managed_fields_share < 0.4


@pytest.mark.parametrize("resource", RESOURCES)
def test_names_and_uids_are_unique(resource: str) -> None:
    collection = make_collection(resource, 200)
    metadata = [
        json.loads(collection.object(index, resource_version=1))["metadata"] for index in range(200)
    ]
    assert len({(one["namespace"], one["name"]) for one in metadata}) == 200
    assert len({one["uid"] for one in metadata}) == 200


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_revision_changes_something_but_not_the_identity(resource: str) -> None:
    collection = make_collection(resource, 10)
    before, after = (
        json.loads(collection.object(5, resource_version=1, revision=revision))
        for revision in (0, 1)
    )
    assert before["metadata"] == after["metadata"]
    assert before != after


@pytest.mark.parametrize("resource", RESOURCES)
def test_objects_begin_with_their_type_and_name_their_version(resource: str) -> None:
    collection = make_collection(resource, 10)
    body = collection.object(5, resource_version=1_234)
    assert body.startswith(b"{" + collection.kind.type_meta)
    assert json.loads(body)["metadata"]["resourceVersion"] == "1234"
    assert json.loads(body)["kind"] == collection.kind.kind


def test_custom_resources_are_written_with_sorted_keys() -> None:
    body = make_collection("widgets", 10).object(3, resource_version=1)
    assert all(keys == sorted(keys) for keys in _all_keys(json.loads(body)))


def _all_keys(value: JSON) -> Iterator[list[str]]:
    if isinstance(value, dict):
        yield list(value)
    for child in value.values() if isinstance(value, dict) else value:  # type: ignore[union-attr]
        if isinstance(child, dict | list):
            yield from _all_keys(child)
