"""diff: every value that differs is reported once, by its path and without its content."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import ABSENT, Change, diff, parse_path

POD: dict[str, object] = {
    "metadata": {
        "name": "web",
        "labels": {"app.kubernetes.io/name": "web"},
        "resourceVersion": "1",
        "managedFields": [{"manager": "a"}],
    },
    "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]},
}


class _Object:
    """Anything with to_dict(), as a KubeObject has."""

    def __init__(self, content: dict[str, object]) -> None:
        self._content = content

    def to_dict(self) -> dict[str, object]:
        return self._content


def _with(path: tuple[str | int, ...], value: object) -> dict[str, object]:
    """Return the pod with another value at a path."""
    pod = copy.deepcopy(POD)
    holder: object = pod
    for step in path[:-1]:
        holder = holder[step]  # type: ignore[index]  # a walk through JSON
    holder[path[-1]] = value  # type: ignore[index]  # as above
    return pod


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        pytest.param(
            ("spec", "containers", 0, "image"), "x:2", "spec.containers[0].image", id="in-a-list"
        ),
        pytest.param(("metadata", "name"), "db", "metadata.name", id="field"),
        pytest.param(
            ("metadata", "labels", "app.kubernetes.io/name"),
            "db",
            "metadata.labels['app.kubernetes.io/name']",
            id="name-with-dots",
        ),
        pytest.param(("spec", "it's"), 1, """spec["it's"]""", id="name-with-a-quote"),
        pytest.param(("a.b",), 1, "['a.b']", id="name-with-dots-at-the-root"),
        pytest.param(("spec", "containers"), None, "spec.containers", id="null-for-a-list"),
        pytest.param(("spec",), [], "spec", id="list-for-a-dict"),
    ],
)
def test_one_change_is_reported_by_its_path(
    path: tuple[str | int, ...], value: object, text: str
) -> None:
    (change,) = diff(POD, _with(path, value))
    assert change.path == path
    assert change.new == value
    assert str(change) == text


def test_paths_without_positions_can_be_read_again() -> None:
    """What a change prints, `at()` takes."""
    paths = [("spec", "a-b"), ("a.b", "c"), ("x", "it's"), ("$ref",), ("0", " ")]
    assert [parse_path(str(Change(path, 0, 1))) for path in paths] == paths


def test_absent_is_not_null() -> None:
    (change,) = diff({"a": None}, {})
    assert (change.old, change.new) == (None, ABSENT)
    (change,) = diff({}, {"a": None})
    assert (change.old, change.new) == (ABSENT, None)


def test_a_part_that_one_side_lacks_is_one_change() -> None:
    (change,) = diff({}, {"spec": {"a": {"b": 1}, "c": 2}})
    assert change == Change(("spec",), ABSENT, {"a": {"b": 1}, "c": 2})


def test_lists_compare_by_position() -> None:
    changes = diff({"l": [1, 2, 3]}, {"l": [0, 2]})
    assert [(str(change), change.old, change.new) for change in changes] == [
        ("l[0]", 1, 0),
        ("l[2]", 3, ABSENT),
    ]


def test_changes_come_in_the_order_of_the_older_object() -> None:
    changes = diff({"b": 1, "a": [1, {"z": 1}], "c": 1}, {"d": 1, "a": [2, {"z": 2}], "b": 2})
    assert [str(change) for change in changes] == ["b", "a[0]", "a[1].z", "c", "d"]


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        pytest.param(True, 1, True, id="true-is-not-one"),
        pytest.param(0, False, True, id="zero-is-not-false"),
        pytest.param(1, 1.0, False, id="one-number"),
        pytest.param("1", 1, True, id="text-is-no-number"),
        pytest.param([], {}, True, id="list-is-no-dict"),
        pytest.param("", None, True, id="empty-is-not-null"),
    ],
)
def test_values_differ_as_json_does(old: object, new: object, differ: bool) -> None:
    assert bool(diff({"a": old}, {"a": new})) is differ


def test_fields_that_change_with_every_write_are_ignored() -> None:
    newer = _with(("metadata", "resourceVersion"), "2")
    newer["metadata"]["managedFields"] = []  # type: ignore[index]  # JSON
    assert diff(POD, newer) == ()
    everything = diff(POD, newer, ignore=())
    paths = ["metadata.resourceVersion", "metadata.managedFields[0]"]
    assert [str(change) for change in everything] == paths


def test_fields_of_that_name_elsewhere_are_not_ignored() -> None:
    (change,) = diff({"spec": {"managedFields": 1}}, {"spec": {"managedFields": 2}})
    assert str(change) == "spec.managedFields"


def test_ignored_paths_hide_what_is_below_them() -> None:
    labels = ["metadata.labels['app.kubernetes.io/name']"]
    newer = _with(("metadata", "labels", "app.kubernetes.io/name"), {"deep": 1})
    assert diff(POD, newer, ignore=labels) == ()
    with pytest.raises(InvalidArgumentError):
        diff(POD, newer, ignore=["metadata..labels"])


def test_objects_and_dicts_compare() -> None:
    newer = _with(("metadata", "name"), "db")
    assert diff(_Object(POD), newer) == diff(POD, _Object(newer)) == diff(POD, newer)


def test_a_value_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"^new: must be an object or its dict, not None"):
        diff(POD, None)  # type: ignore[arg-type]  # an on_delete that has no newer object


def test_no_text_of_a_change_holds_values() -> None:
    changes = diff({"data": {"password": "hunter1"}}, {"data": {"password": "hunter2"}})
    for text in (str(changes), repr(changes), str(changes[0]), f"{changes[0]}"):
        assert "password" in text
        assert "hunter" not in text


def test_changes_survive_a_pickle() -> None:
    change = Change(("a", 0), ABSENT, [1])
    restored = pickle.loads(pickle.dumps(change))  # noqa: S301 - our own bytes
    assert restored == change
    assert restored.old is ABSENT


def test_depth_does_not_end_the_comparison() -> None:
    """Ten thousand levels: what a decoder lets through, this compares."""
    old: dict[str, object] = {"leaf": 1}
    new: dict[str, object] = {"leaf": 2}
    for _ in range(10_000):
        old, new = {"a": old}, {"a": new}
    (change,) = diff(old, new)
    assert len(change.path) == 10_001


def test_paths_of_deep_values_are_not_kept_for_each() -> None:
    """One of a megabyte, 900 levels deep, has room for 500,000 values: 4 GB of paths."""
    old: object = [0] * 2_000
    new: object = [*old[:1_000], *range(1, 1_001)]  # type: ignore[index]  # a list
    for _ in range(900):
        old, new = {"a": old}, {"a": new}
    tracemalloc.start()
    try:
        changes = diff(old, new)  # type: ignore[arg-type]  # two dicts
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(changes) == 1_000
    assert changes[0].path == ("a",) * 900 + (1_000,)
    assert peak < 1 << 20


def test_a_change_cannot_be_changed() -> None:
    change = Change(("a",), 0, 1)
    with pytest.raises(AttributeError):
        change.old = 2  # type: ignore[misc]  # the attempt is the point
    with pytest.raises(AttributeError):
        change.path = ()  # type: ignore[misc]  # the attempt is the point
    assert hash(change) == hash(Change(("a",), 0, 1))
    match change:
        case Change(path, old, new):
            assert (path, old, new) == (("a",), 0, 1)


_Json: TypeAlias = "bool | int | str | list[_Json] | dict[str, _Json] | None"
_scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
_json = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)
_objects = st.dictionaries(st.text(max_size=3), _json, max_size=4)


@settings(deadline=None)
@given(_objects)
def test_an_object_does_not_differ_from_its_copy(content: dict[str, _Json]) -> None:
    assert diff(content, copy.deepcopy(content), ignore=()) == ()


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for name in value for leaf in _leaves(value[name], (*path, name))]
    if isinstance(value, list) and value:
        return [leaf for at, each in enumerate(value) for leaf in _leaves(each, (*path, at))]
    return [path]


@settings(deadline=None)
@given(_objects.filter(bool), st.data())
def test_exactly_the_changed_leaf_is_reported(
    content: dict[str, _Json], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(_leaves(content)))
    changed = copy.deepcopy(content)
    holder: object = changed
    for step in path[:-1]:
        holder = holder[step]  # type: ignore[index]  # a walk through JSON
    old = holder[path[-1]]  # type: ignore[index]  # as above
    holder[path[-1]] = "another value"  # type: ignore[index]  # as above
    assert diff(content, changed, ignore=()) == (Change(path, old, "another value"),)


@settings(deadline=None)
@given(_objects, _objects)
def test_applying_the_changes_gives_the_newer_object(
    old: dict[str, _Json], new: dict[str, _Json]
) -> None:
    result: object = copy.deepcopy(old)
    changes = diff(old, new, ignore=())
    removals = [change for change in changes if change.new is ABSENT]
    kept = [change for change in changes if change.new is not ABSENT]
    for change in (*kept, *reversed(removals)):  # lists grow and shrink at their end
        holder = result
        for step in change.path[:-1]:
            holder = holder[step]  # type: ignore[index]  # a walk through JSON
        _apply(holder, change)
    assert diff(result, new, ignore=()) == ()  # type: ignore[arg-type]  # it is a dict


def _apply(holder: object, change: Change) -> None:
    step = change.path[-1]
    if change.new is ABSENT:
        del holder[step]  # type: ignore[attr-defined]  # JSON
    elif isinstance(holder, list) and change.old is ABSENT:
        holder.append(change.new)
    else:
        holder[step] = change.new  # type: ignore[index]  # JSON
