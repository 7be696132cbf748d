"""Unit tests of patches: cases that the tests of both servers do not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.testing.apiserver.patches import parse_configuration, parse_patch
from pyinformer.testing.apiserver.requests.failures import Failure
from pyinformer.testing.apiserver.resources import BUILT_IN

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

DEPLOYMENTS = next(one for one in BUILT_IN if one.qualified_name == "deployments.apps")
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def containers(*listed: JSONObject) -> JSONObject:
    return {"spec": {"template": {"spec": {"containers": list(listed)}}}}


def json_patch(body: JSONObject, operations: list[JSONObject]) -> JSONObject:
    """Return an object after a JSON patch."""
    raw = msgspec.json.encode(operations)
    return parse_patch("application/json-patch+json", raw, DEPLOYMENTS)(body)


def strategic_merge(body: JSONObject, patch: JSONObject) -> JSONObject:
    """Return a deployment after a strategic merge patch."""
    raw = msgspec.json.encode(patch)
    return parse_patch("application/strategic-merge-patch+json", raw, DEPLOYMENTS)(body)


def merged(body: JSONObject, patch: JSONObject) -> Any:
    return strategic_merge(body, patch)["spec"]["template"]["spec"]["containers"]


_objects = st.dictionaries(st.text("ab/~", max_size=2), _json, max_size=3)


@given(_objects, _objects)
def test_a_whole_object_can_be_tested_and_replaced(one: JSONObject, other: JSONObject) -> None:
    operations: list[JSONObject] = [
        {"op": "test", "path": "", "value": one},
        {"op": "replace", "path": "", "value": other},
    ]
    assert json_patch(one, operations) == other


@given(st.dictionaries(st.text("ab/~", min_size=1, max_size=3), _json, min_size=1))
def test_any_member_can_be_named(body: JSONObject) -> None:
    for name in body:
        pointer = "/" + name.replace("~", "~0").replace("/", "~1")
        left = {key: value for key, value in body.items() if key != name}
        assert json_patch(body, [{"op": "remove", "path": pointer}]) == left


@pytest.mark.parametrize(
    ("body", "operation"),
    [
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
        ({"a": [1, 2]}, {"op": "test", "path": "/a", "value": [1]}),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {"c": 1}}),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
        ({"a": 1}, {"op": "add", "path": "a", "value": 1}),
        ({"a": [1]}, {"op": "replace", "path": "/a/1", "value": 1}),
        ({"a": [1]}, {"op": "remove", "path": "/a/x"}),
        ({"a": [1]}, {"op": "remove", "path": "/a/-3"}),
        ({"a": [1]}, {"op": "move", "from": "/b", "path": "/a/0"}),
    ],
)
def test_an_operation_that_does_not_fit_is_refused(body: JSONObject, operation: JSONObject) -> None:
    before = str(body)
    with pytest.raises(Failure, match="the server rejected our request"):
        json_patch(body, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert str(body) == before


def test_values_of_a_json_patch_are_copied() -> None:
    operations: list[JSONObject] = [
        {"op": "add", "path": "/a", "value": {"x": []}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x/-", "value": 1},
    ]
    edit = parse_patch("application/json-patch+json", msgspec.json.encode(operations), DEPLOYMENTS)
    for _ in range(2):  # an edit is applied again after a conflict
        assert edit({}) == {"a": {"x": []}, "b": {"x": [1]}}


def test_a_partial_order_leaves_the_others_where_they_are() -> None:
    """The expectation is kube-apiserver's own answer."""
    body = containers(*({"name": name} for name in "nba"))
    patch = containers({"name": "n", "image": "i"})
    patch["spec"]["template"]["spec"]["$setElementOrder/containers"] = [
        {"name": "a"},
        {"name": "n"},
    ]
    assert [item["name"] for item in merged(body, patch)] == ["b", "a", "n"]


def test_strategic_merge_deletes_maps_and_members() -> None:
    body: JSONObject = {"metadata": {"labels": {"a": "1"}, "annotations": {"a": "1", "b": "2"}}}
    patch: JSONObject = {
        "metadata": {"labels": {"$patch": "delete"}, "annotations": {"a": None}, "finalizers": None}
    }
    assert strategic_merge(body, patch) == {"metadata": {"annotations": {"b": "2"}}}
    assert strategic_merge(body, {"$patch": "delete"}) == {}


def test_deleting_an_absent_item_changes_nothing() -> None:
    body = containers({"name": "a"})
    assert merged(body, containers({"name": "z", "$patch": "delete"})) == [{"name": "a"}]


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(Failure, match="unknown patch type found: frob"):
        strategic_merge({}, {"$patch": "frob"})


def test_a_strategic_merge_changes_nothing_that_it_is_given() -> None:
    body = containers({"name": "a", "env": [{"name": "X", "value": "1"}]})
    patch = containers({"name": "a", "env": [{"name": "X", "value": "2"}], "args": ["x"]})
    before = str(body)
    raw = msgspec.json.encode(patch)
    edit = parse_patch("application/strategic-merge-patch+json", raw, DEPLOYMENTS)
    assert edit(body) == edit(body) == patch
    assert str(body) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", {}),
        (b"{}", {}),
        (b"at: 2026-01-01\n2: two\nyes: no", {"at": "2026-01-01", "2": "two", "true": False}),
    ],
)
def test_yaml_is_read_as_kubernetes_reads_it(text: bytes, expected: JSONObject) -> None:
    assert parse_configuration(text) == expected


@pytest.mark.parametrize("text", [b"a: b: c", b"[1]", b"3", b"\xff", b"? [a]\n: 1"])
def test_yaml_that_is_not_an_object_is_400(text: bytes) -> None:
    with pytest.raises(Failure) as raised:
        parse_configuration(text)
    assert raised.value.code == 400
