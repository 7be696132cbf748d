"""The objects of the benchmarks are realistic, diverse, and equal in every process.

Their sizes are those that the report names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.data.collections import RESOURCES, make_collection
from benchmarks.data.pod_parts import JSON
from benchmarks.data.templates import MARKERS, MAX_RESOURCE_VERSION, TemplatePods
from tests.soak import in_soak

_SIZES = {
    "pods": (6_500, 6_800),
    "configmaps": (1_400, 1_600),
    "leases": (570, 670),
    "widgets": (38_000, 42_000),
}


@pytest.mark.parametrize("resource", RESOURCES)
def test_an_object_does_not_depend_on_earlier_requests(resource: str) -> None:
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


def test_pods_of_templates_are_all_different() -> None:
    pods = TemplatePods(300, templates=40)
    metadata = [json.loads(_template_pod(pods, index))["metadata"] for index in range(300)]
    assert len({(one["namespace"], one["name"]) for one in metadata}) == 300
    assert len({one["uid"] for one in metadata}) == 300
    assert len({one["resourceVersion"] for one in metadata}) == 300


def test_a_pod_of_a_template_is_named_alike_everywhere() -> None:
    pods = TemplatePods(300, templates=40)
    for index in (0, 9, 249, 299):  # two of a StatefulSet
        pod = json.loads(_template_pod(pods, index))
        metadata, status, address = pod["metadata"], pod["status"], pod["status"]["podIP"]
        assert metadata["name"].startswith(metadata["generateName"])
        labels = metadata["labels"]
        named = labels.get("statefulset.kubernetes.io/pod-name", metadata["name"])
        assert named == metadata["name"]
        assert metadata["name"].endswith(labels.get("apps.kubernetes.io/pod-index", ""))
        assert status["podIPs"] == [{"ip": address}]
        assert metadata["annotations"]["cni.example.com/address"] == f"{address}/32"
        fields = metadata["managedFields"][1]["fieldsV1"]["f:status"]["f:podIPs"]
        assert f'k:{{"ip":"{address}"}}' in fields
        node = status["hostIP"].removeprefix("10.200.").replace(".", "-")
        assert pod["spec"]["nodeName"].startswith(f"ip-10-{node}-17.")


def test_pods_of_templates_are_those_of_every_turn_but_for_their_identity() -> None:
    pods = TemplatePods(300, templates=40)
    first, later = (json.loads(_template_pod(pods, index)) for index in (7, 7 + 40 * 3))
    assert first["spec"]["containers"] == later["spec"]["containers"]
    assert first["metadata"]["labels"] == later["metadata"]["labels"]
    assert first["spec"]["nodeName"] != later["spec"]["nodeName"]


def test_pods_of_templates_have_the_sizes_of_pods() -> None:
    sizes = TemplatePods(1_000_000).sizes(1_000_000, sample=200)
    assert 6_500 < sizes.mean_bytes < 6_800
    assert 0.30 < sizes.managed_fields_share < 0.37
    assert sizes.workloads >= 500


@pytest.mark.soak
def test_an_identity_is_as_long_as_its_marker_up_to_ten_million_pods() -> None:
    pods = TemplatePods(in_soak(8_000_000, otherwise=400_000))  # as many templates
    for index in (0, 155, 156, 24_336, 1_000_000, 7_999_999):
        identity = pods.identity(index, resource_version=MAX_RESOURCE_VERSION)
        assert list(map(len, identity)) == list(map(len, MARKERS))


def test_no_marker_is_left_and_none_was_there() -> None:
    pods = TemplatePods(100)
    plain = make_collection("pods", 100)
    for index in range(100):
        assert not any(marker in _template_pod(pods, index) for marker in MARKERS)
        assert not any(marker in plain.object(index, resource_version=1) for marker in MARKERS)


def _template_pod(pods: TemplatePods, index: int) -> bytes:
    return pods.object(index, resource_version=1_000_000 + index)


def _all_keys(value: JSON) -> Iterator[list[str]]:
    if isinstance(value, dict):
        yield list(value)
    for child in value.values() if isinstance(value, dict) else value:  # type: ignore[union-attr]
        if isinstance(child, dict | list):
            yield from _all_keys(child)
