"""Field ownership: sets of fields, and objects that are merged, compared and pruned.

Properties of any configuration, and cases that the tests of both servers cannot distinguish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.testing.apiserver.managed_fields.field_managers import (
    Applied,
    Author,
    Managed,
    applied,
    created,
    read,
    updated,
    write,
)
from pyinformer.testing.apiserver.managed_fields.field_sets import (
    from_fields,
    in_order,
    path_text,
    to_fields,
)
from pyinformer.testing.apiserver.managed_fields.structure import (
    ambiguity,
    compare,
    fields_of,
    merge,
    without,
)
from pyinformer.testing.apiserver.resources import BuiltInShape, ResourceType, Shape

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

_ITEM = {"type": "object", "properties": {"name": {}, "v": {}}}
_PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": _ITEM,
}
_TAGS = {"type": "array", "x-kubernetes-list-type": "set"}
_SPEC = {"properties": {"a": {}, "m": {"additionalProperties": {}}, "parts": _PARTS, "tags": _TAGS}}
SHAPE = ResourceType(
    "example.com",
    "v1",
    "Widget",
    "widgets",
    list_shape="custom",
    schema={"properties": {"spec": _SPEC}},
).shape

_names = st.sampled_from("abcd")
_values = st.integers(0, 3)
_parts = st.dictionaries(_names, _values, min_size=1, max_size=4).map(
    lambda found: [{"name": name, "v": value} for name, value in found.items()]
)
_specs = st.fixed_dictionaries(  # nothing empty: that is a value of its own, or nothing
    {"a": _values},
    optional={
        "m": st.dictionaries(_names, _values, min_size=1, max_size=3),
        "parts": _parts,
        "tags": st.lists(_names, unique=True, min_size=1, max_size=4),
        "plain": st.lists(_values, max_size=2),
    },
)
configurations = st.builds(lambda spec: {"metadata": {}, "spec": spec}, _specs)
ONE, TWO = (Author(operation="Apply", name=name) for name in ("one", "two"))
EMPTY: JSONObject = {"metadata": {}}


def apply(managed: Managed, live: JSONObject, wanted: JSONObject, author: Author) -> Applied:
    return applied(managed, live, wanted, SHAPE, author, api_version="e.x/v1", now="T")


def has(obj: Any, wanted: Any) -> bool:
    """Return whether all wanted values are there."""
    if isinstance(wanted, dict):
        return all(name in obj and has(obj[name], value) for name, value in wanted.items())
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        by_name = {item["name"]: item for item in obj}
        return all(has(by_name[item["name"]], item) for item in wanted)
    return bool(obj == wanted)


@given(configurations)
def test_fields_survive_being_written_and_read(wanted: JSONObject) -> None:
    paths = fields_of(wanted, SHAPE)
    assert from_fields(to_fields(paths)) == paths


@given(configurations, configurations)
def test_managed_fields_survive_being_written_and_read(
    first: JSONObject, second: JSONObject
) -> None:
    one = apply({}, EMPTY, first, ONE)
    two = apply(one.managed, one.content, second, TWO)
    assert read({"metadata": {"managedFields": write(two.managed)}}) == two.managed


@given(configurations, configurations)
def test_applying_twice_changes_nothing(first: JSONObject, second: JSONObject) -> None:
    one = apply({}, EMPTY, first, ONE)
    two = apply(one.managed, one.content, second, TWO)
    again = apply(two.managed, two.content, second, TWO)
    assert (again.content, again.managed, again.conflicts) == (two.content, two.managed, ())


@given(configurations, configurations)
def test_an_apply_without_conflicts_leaves_what_both_want(
    first: JSONObject, second: JSONObject
) -> None:
    one = apply({}, EMPTY, first, ONE)
    two = apply(one.managed, one.content, second, TWO)
    if two.conflicts:
        return
    for wanted in (first, second):
        kept = {name: value for name, value in wanted["spec"].items() if name != "tags"}
        assert has(two.content["spec"], kept)
        assert set(two.content["spec"].get("tags", ())) >= set(wanted["spec"].get("tags", ()))


@given(configurations, configurations, configurations)
def test_a_field_of_no_other_manager_is_removed_with_its_author(
    first: JSONObject, second: JSONObject, third: JSONObject
) -> None:
    """An author's last configuration decides, whatever it applied in between."""
    one = apply({}, EMPTY, first, ONE)
    two = apply(one.managed, one.content, second, ONE)
    three = apply(two.managed, two.content, third, ONE)
    assert fields_of(three.content, SHAPE) == fields_of(third, SHAPE)


@given(configurations, configurations, configurations)
def test_a_dropped_item_goes_whatever_another_manager_has_edited_in_it(
    first: JSONObject, edited: JSONObject, second: JSONObject
) -> None:
    one = apply({}, EMPTY, first, ONE)
    author = Author(operation="Update", name="u", api_version="e.x/v1")
    managed = updated(one.managed, one.content, edited, SHAPE, author, now="T")
    two = apply(managed, edited, second, ONE)
    names = {item["name"] for item in edited["spec"].get("parts", ())}
    dropped = {item["name"] for item in first["spec"].get("parts", ())} & names
    wanted = [item["name"] for item in second["spec"].get("parts", ())]
    left = [item["name"] for item in two.content["spec"].get("parts") or ()]
    assert sorted(left) == sorted((names - dropped).union(wanted))
    paths = frozenset().union(*(owned.paths for owned in two.managed.values()))
    items = {path[:3] for path in paths if path[1:2] == ("f:parts",) and len(path) > 2}
    assert items <= fields_of(two.content, SHAPE), "nothing below a removed item has an owner"


@given(configurations, configurations)
def test_an_update_takes_what_it_changes_from_all_managers(
    first: JSONObject, second: JSONObject
) -> None:
    one = apply({}, EMPTY, first, ONE)
    author = Author(operation="Update", name="u", api_version="e.x/v1")
    managed = updated(one.managed, one.content, second, SHAPE, author, now="T")
    changes = compare(one.content, second, SHAPE)
    taken = managed[author].paths if author in managed else frozenset()
    assert taken == changes.written
    left = managed[ONE].paths if ONE in managed else frozenset()
    assert not left & (changes.written | changes.removed)


@given(configurations, configurations)
def test_merging_keeps_what_is_there_and_adds_what_is_wanted(
    live: JSONObject, wanted: JSONObject
) -> None:
    merged = merge(live, wanted, SHAPE)
    assert fields_of(merged, SHAPE) >= fields_of(wanted, SHAPE)
    assert without(merged, set(), SHAPE) == merged


@pytest.mark.parametrize(
    ("old", "new", "order"),
    [
        ("fdba", "agdf", "bagdf"),
        ("adcef", "bcafe", "dbcafe"),
        ("adbef", "dghfb", "adeghfb"),
        ("ea", "bdg", "eabdg"),
        ("", "ab", "ab"),
    ],
)
def test_items_are_laid_out_as_kube_apiserver_does(old: str, new: str, order: str) -> None:
    """The expectations are kube-apiserver's own answers."""
    lists = [[{"name": name} for name in names] for names in (old, new)]
    live, wanted = ({"spec": {"parts": items}} for items in lists)
    merged: Any = merge(live, wanted, SHAPE)
    assert "".join(item["name"] for item in merged["spec"]["parts"]) == order


def test_paths_are_shown_as_in_conflicts() -> None:
    shape = BuiltInShape("services")
    body = {
        "metadata": {"finalizers": ["e.x/a"]},
        "spec": {"ports": [{"port": 80, "name": "h"}], "type": "ClusterIP"},
    }
    assert [path_text(path) for path in in_order(fields_of(body, shape))] == [
        '.metadata.finalizers[="e.x/a"]',
        ".spec.type",
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
        '.spec.ports[port=80,protocol="TCP"].port',
    ]


def test_conditions_of_jobs_are_one_value_and_those_of_pods_are_not() -> None:
    body: JSONObject = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    paths = {
        resource: fields_of(body, BuiltInShape(resource)) for resource in ("pods", "jobs.batch")
    }
    assert paths["jobs.batch"] == {("f:status", "f:conditions")}
    assert len(paths["pods"]) == 3


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([{"name": "a"}, {"name": "b"}], None),
        ([{"name": "a"}, {"name": "a"}], 'k:{"name":"a"}'),
        ([{"v": 1}], "no key"),
        (["a"], "no key"),
    ],
)
def test_lists_with_indistinguishable_items_are_found(parts: Any, found: str | None) -> None:
    problem = ambiguity({"spec": {"parts": parts}}, SHAPE)
    if found is None:
        assert problem is None
    else:
        expected = None if found == "no key" else found
        assert problem == (("f:spec", "f:parts"), expected)


def test_malformed_fields_are_read_as_far_as_they_go() -> None:
    assert from_fields(None) == frozenset()
    assert from_fields({"f:a": 1, "f:b": {"f:c": {}}}) == {("f:b", "f:c")}


_leaves = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from("abc"))
_fields_of_pods = st.sampled_from(
    ["containers", "env", "finalizers", "labels", "name", "ports", "selector", "status", "x"]
)
_anything = st.recursive(
    _leaves,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_fields_of_pods, below, max_size=3),
    max_leaves=12,
)


@given(
    metadata=st.dictionaries(_fields_of_pods, _anything, max_size=3),
    body=st.dictionaries(_fields_of_pods | st.just("spec"), _anything, max_size=4),
    shape=st.sampled_from([SHAPE, BuiltInShape("pods")]),
)
def test_the_creator_owns_defaulted_fields(
    metadata: JSONObject, body: JSONObject, shape: Shape
) -> None:
    content = {**body, "metadata": metadata}
    author = Author(operation="Update", name="me", api_version="v1")

    slowly = updated({}, {"metadata": {}}, content, shape, author, now="now")

    assert created(content, shape, author, now="now") == write(slowly)
