"""The cache on one thread: every index agrees with the objects after every kind of change."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from pyinformer.cache.store import NAMESPACE_INDEX, Indexer, IndexStatistics
from pyinformer.errors import IndexNotFoundError, InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    Added,
    Deleted,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    Updated,
    View,
)
from tests.cache.store.objects import PodView, by_key, names, pod, replace

NODE = "spec.nodeName"


@pytest.fixture
def store() -> Indexer[Any]:
    """Return an empty cache with an index over nodes."""
    made: Indexer[Any] = Indexer()
    made.add_index("node", NODE)
    return made


def statistics(store: Indexer[Any], name: str) -> IndexStatistics:
    """Return the statistics of one index."""
    return next(each for each in store.indexes() if each.name == name)


@pytest.mark.covers(
    "client-go tools/cache: TestGetIndexFuncValues",
    "client-go tools/cache: TestCache",
    "controller-runtime pkg/cache: should be able to index an object field then retrieve",
    "kube-runtime src: reflector_applied_should_add_object",
)
def test_an_object_is_found_by_key_and_by_value(store: Indexer[Any]) -> None:
    obj = pod("a", "n1")
    store.apply_nowait(Added(obj))

    assert store.get("default/a") is obj
    assert "default/a" in store
    assert len(store) == 1
    assert store.keys() == ["default/a"]
    assert store.list() == [obj]
    assert store.by_index("node", "n1") == [obj]
    assert store.by_index(NAMESPACE_INDEX, "default") == [obj]


@pytest.mark.covers("client-go tools/cache: TestCache")
def test_an_absent_key_is_none_and_an_absent_value_is_empty(store: Indexer[Any]) -> None:
    assert store.get("default/a") is None
    assert "default/a" not in store
    assert store.by_index("node", "n1") == []
    assert store.list() == store.keys() == store.index_values("node") == []


@pytest.mark.covers(
    "client-go tools/cache: TestCache", "kube-runtime src: reflector_applied_should_add_object"
)
def test_an_update_moves_an_object_from_value_to_value(store: Indexer[Any]) -> None:
    old, new = pod("a", "n1"), pod("a", "n2", version=2)
    store.apply_nowait(Added(old))
    store.apply_nowait(Updated(old, new))

    assert store.get("default/a") is new
    assert store.by_index("node", "n1") == []
    assert store.by_index("node", "n2") == [new]
    assert store.index_values("node") == ["n2"]


@pytest.mark.covers("client-go tools/cache: TestThreadSafeStoreIndexingFunctionsWithMultipleValues")
@pytest.mark.parametrize(("before", "after"), [(None, "n1"), ("n1", None), ("n1", "n1")])
def test_an_update_may_gain_lose_or_keep_a_value(
    store: Indexer[Any], before: str | None, after: str | None
) -> None:
    old, new = pod("a", before), pod("a", after, version=2)
    store.apply_nowait(Added(old))
    store.apply_nowait(Updated(old, new))
    assert store.by_index("node", "n1") == ([new] if after else [])
    assert store.index_values("node") == ([after] if after else [])


@pytest.mark.covers(
    "client-go tools/cache: TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex",
    "client-go tools/cache: TestCache",
    "kube-runtime src: reflector_applied_should_add_object",
)
def test_a_deletion_leaves_nothing_in_any_index(store: Indexer[Any]) -> None:
    store.apply_nowait(Added(pod("a", "n1")))
    store.apply_nowait(Deleted(pod("a", "n1", version=2)))

    assert len(store) == 0
    for index in ("node", NAMESPACE_INDEX):
        assert store.index_values(index) == []


@pytest.mark.covers("client-go tools/cache: TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex")
def test_a_deletion_removes_the_index_values_of_the_cached_object(
    store: Indexer[Any],
) -> None:
    """The last state that a DELETED event carries may have another value than the one cached."""
    store.apply_nowait(Added(pod("a", "n1")))
    store.apply_nowait(Deleted(pod("a", "n2", version=2)))
    store.apply_nowait(Deleted(pod("never", "n1")))
    assert store.index_values("node") == []


def test_an_object_added_twice_leaves_no_old_value_behind(store: Indexer[Any]) -> None:
    store.apply_nowait(Added(pod("a", "n1")))
    store.apply_nowait(Added(pod("a", "n2", version=2)))
    assert store.index_values("node") == ["n2"]
    assert names(store.by_index("node", "n2")) == ["a"]


def test_a_recreated_object_is_found_by_its_new_value_only(store: Indexer[Any]) -> None:
    old = pod("a", "n1")
    for event in (Added(old), Deleted(old), Added(pod("a", "n2", version=9))):
        store.apply_nowait(event)
    assert store.index_values("node") == ["n2"]


@pytest.mark.covers(
    "kube-runtime src: reflector_applied_should_add_object", "client-go tools/cache: TestCache"
)
def test_a_list_replaces_everything(store: Indexer[Any]) -> None:
    replace(store, pod("a", "n1"), pod("b", "n1"), version="5")
    replace(store, pod("b", "n2", version=2), pod("c", "n1"), version="9")

    assert names(store.list()) == ["b", "c"]
    assert names(store.by_index("node", "n1")) == ["c"]
    assert names(store.by_index("node", "n2")) == ["b"]
    assert store.resource_version == "9"


def test_a_list_is_seen_as_a_whole_or_not_at_all(store: Indexer[Any]) -> None:
    replace(store, pod("old", "n1"))
    steps = store.replace_nowait(by_key(pod(f"p{n}", "n1") for n in range(2_000)), "2")

    count = 0
    for _ in steps:
        count += 1
        assert names(store.by_index("node", "n1")) == ["old"]
        assert (len(store), store.resource_version) == (1, "1")
    assert count >= 7
    assert len(store.by_index("node", "n1")) == len(store) == 2_000
    assert store.resource_version == "2"


def test_an_abandoned_list_changes_nothing(store: Indexer[Any]) -> None:
    replace(store, pod("old", "n1"))
    steps = store.replace_nowait(by_key(pod(f"p{n}", "n2") for n in range(2_000)), "2")
    next(iter(steps))
    del steps
    store.apply_nowait(Added(pod("new", "n1")))
    assert names(store.by_index("node", "n1")) == ["new", "old"]
    assert store.index_values("node") == ["n1"]


@pytest.mark.covers("client-go tools/cache: TestThreadSafeStoreRV")
def test_a_bookmark_moves_only_the_version(store: Indexer[Any]) -> None:
    replace(store, pod("a", "n1"))
    store.bookmark_nowait("44")
    assert (store.resource_version, len(store)) == ("44", 1)


def test_a_snapshot_is_the_current_content(store: Indexer[Any]) -> None:
    obj = pod("a", "n1")
    store.apply_nowait(Added(obj))
    assert store.snapshot() == {"default/a": obj}


@pytest.mark.covers(
    "controller-runtime pkg/cache: should be able to index an object field then retrieve"
)
def test_lists_belong_to_the_caller(store: Indexer[Any]) -> None:
    store.apply_nowait(Added(pod("a", "n1")))
    for read in (store.list, store.keys, lambda: store.by_index("node", "n1")):
        read().clear()
        assert len(read()) == 1


@pytest.mark.covers("client-go tools/cache: TestTypedIndexer")
def test_an_index_added_late_knows_what_is_cached(store: Indexer[Any]) -> None:
    replace(store, pod("a", "n1", labels={"app": "x"}), pod("b", "n2", labels={"app": "x"}))
    store.add_index("app", "metadata.labels.app")
    assert names(store.by_index("app", "x")) == ["a", "b"]


@pytest.mark.covers("controller-runtime pkg/cache: TestIndexFieldDoesNotBlock")
def test_an_index_added_while_a_list_is_prepared_is_complete(store: Indexer[Any]) -> None:
    steps = store.replace_nowait(
        by_key(pod(f"p{n}", "n1", labels={"app": "x"}) for n in range(600)), "2"
    )
    next(iter(steps))
    store.add_index("app", "metadata.labels.app")
    for _ in steps:
        pass
    assert len(store.by_index("app", "x")) == 600


def test_an_index_name_can_be_used_once(store: Indexer[Any]) -> None:
    for name in ("node", NAMESPACE_INDEX):
        with pytest.raises(InvalidArgumentError, match=f"an index called '{name}' exists already"):
            store.add_index(name, NODE)


def test_an_unknown_index_is_an_error_that_names_the_existing_ones(store: Indexer[Any]) -> None:
    for read in (lambda: store.by_index("nod", "n1"), lambda: store.index_values("nod")):
        with pytest.raises(IndexNotFoundError, match="'nod'; existing: namespace, node"):
            read()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("spec.containers[0].image", "elements of lists", id="element"),
        pytest.param("data['a\"b']", "must not contain", id="double-quote"),
        pytest.param("data['a\\b']", "must not contain", id="backslash"),
        pytest.param("data['a\x1bb']", "must not contain", id="control-character"),
        pytest.param("data['\ud800']", "must not contain", id="lone-surrogate"),
    ],
)
def test_a_path_that_cannot_be_read_is_refused_where_it_is_declared(
    store: Indexer[Any], path: str, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        store.add_index("image", path)
    assert [each.name for each in store.indexes()] == [NAMESPACE_INDEX, "node"]


@pytest.mark.parametrize("path", ["data['a\"b']", ".".join(["a"] * 65)])
def test_a_path_that_is_refused_affects_no_other_index(store: Indexer[Any], path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        store.add_index("image", path)

    store.add_index("image", "data.image")
    obj = pod("a", "n1", data={"image": "web:1"})
    store.apply_nowait(Added(obj))

    assert store.by_index("image", "web:1") == [obj]
    assert store.by_index("node", "n1") == [obj]


class Zone(Enum):
    """A value by name."""

    WEST = "west"


class TextZone(str, Enum):  # noqa: UP042 - a StrEnum would hash as its text, this does not
    """The same, as text."""

    WEST = "west"


class Text(str):
    """Text of a class of its own, such as a key."""

    __slots__ = ()


@pytest.mark.covers("client-go tools/cache: TestGetIndexFuncValues")
@pytest.mark.parametrize(
    ("value", "found_by"),
    [
        pytest.param("west", ["west", Zone.WEST, TextZone.WEST, Text("west")], id="text"),
        pytest.param(Text("west"), ["west"], id="text-subclass"),
        pytest.param(Zone.WEST, ["west", Zone.WEST], id="enum"),
        pytest.param(TextZone.WEST, ["west", TextZone.WEST], id="text-enum"),
        pytest.param(80, [80, "80"], id="number"),
        pytest.param(1.5, [1.5, "1.5"], id="fraction"),
        pytest.param(True, [True, "true"], id="boolean"),
        pytest.param(["a", "b", "a", None], ["a", "b"], id="list"),
        pytest.param({"a", "b"}, ["a", "b"], id="set"),
        pytest.param((), [], id="no-value"),
        pytest.param("", [""], id="empty-text"),
    ],
)
def test_an_index_function_may_return_values_of_many_types(
    value: object, found_by: list[Any]
) -> None:
    store: Indexer[Any] = Indexer()
    store.add_index("x", lambda _: value)  # type: ignore[arg-type, return-value]  # every type is tried
    store.apply_nowait(Added(pod("a")))
    for wanted in found_by:
        assert names(store.by_index("x", wanted)) == ["a"]
    assert {type(text) for text in store.index_values("x")} <= {str}
    assert statistics(store, "x").failures == 0


def test_an_index_function_may_be_a_generator() -> None:
    store: Indexer[Any] = Indexer()
    store.add_index("letter", lambda obj: (letter for letter in obj.metadata.name))
    old, new = pod("abc"), pod("abc", version=2)
    store.apply_nowait(Added(old))
    store.apply_nowait(Updated(old, new))
    assert [store.by_index("letter", each) for each in "abc"] == [[new]] * 3
    store.apply_nowait(Deleted(new))
    assert store.index_values("letter") == []


def test_an_update_keeps_the_values_that_remain(store: Indexer[Any]) -> None:
    store.add_index("words", lambda obj: obj.metadata.labels["w"].split("-"))
    old, new = pod("a", labels={"w": "x-y"}), pod("a", labels={"w": "y-z"}, version=2)
    store.apply_nowait(Added(old))
    store.apply_nowait(Updated(old, new))
    assert [store.by_index("words", w) for w in "xyz"] == [[], [new], [new]]


@pytest.mark.parametrize("wanted", [None, b"n1", ["n1"]], ids=["none", "bytes", "list"])
def test_an_unhashable_index_value_is_refused(store: Indexer[Any], wanted: Any) -> None:
    with pytest.raises(InvalidTypeError, match="value: must be a text, a number or a boolean"):
        store.by_index("node", wanted)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("spec.nodeName", "n1", id="view-or-body"),
        pytest.param("metadata.name", "a", id="name"),
        pytest.param("metadata.uid", "a", id="uid"),
        pytest.param("metadata.labels.app", "web", id="label"),
        pytest.param("metadata.labels['e.com/x']", "y", id="quoted-label"),
        pytest.param("status.phase", "Running", id="body"),
        pytest.param("status.ready", "true", id="boolean"),
        pytest.param("status.addresses", "10.0.0.1", id="list"),
    ],
)
@pytest.mark.parametrize("viewed", [True, False], ids=["view", "plain"])
def test_a_path_gives_the_same_values_wherever_it_is_read_from(
    path: str, value: str, viewed: bool
) -> None:
    store: Indexer[Any] = Indexer(PodView if viewed else None)
    store.add_index("x", path)
    obj = pod(
        "a",
        "n1",
        labels={"app": "web", "e.com/x": "y"},
        viewed=viewed,
        status={"phase": "Running", "ready": True, "addresses": ["10.0.0.1"]},
    )
    store.apply_nowait(Added(obj))
    assert store.by_index("x", value) == [obj]
    without = pod("b", viewed=viewed)
    if not path.startswith("metadata.n") and path != "metadata.uid":
        store.apply_nowait(Added(without))
        assert len(store.index_values("x")) == 1


def test_a_path_through_a_value_of_another_type_affects_no_other_path(store: Indexer[Any]) -> None:
    store.add_index("phase", "status.phase")
    odd = pod("odd", "n1", status="text")
    store.apply_nowait(Added(odd))
    store.apply_nowait(Added(pod("good", "n1", status={"phase": "Running"})))

    assert names(store.by_index("node", "n1")) == ["good", "odd"]
    assert names(store.by_index("phase", "Running")) == ["good"]
    assert (statistics(store, "phase").failures, statistics(store, "node").failures) == (1, 0)


def _broken(obj: KubeObject[Any]) -> str:
    if "bad" in obj.metadata.name:
        raise LookupError(obj.metadata.name)
    return "good"


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_broken, id="raises"),
        pytest.param(lambda obj: {} if "bad" in obj.metadata.name else "good", id="dict"),
        pytest.param(lambda obj: object() if "bad" in obj.metadata.name else "good", id="object"),
        pytest.param(lambda obj: [[]] if "bad" in obj.metadata.name else "good", id="nested"),
    ],
)
def test_an_index_function_that_fails_leaves_its_object_out_of_that_index_alone(
    store: Indexer[Any],
    function: Callable[[KubeObject[Any]], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.add_index("broken", function)
    with caplog.at_level(logging.WARNING):
        replace(store, pod("bad-1", "n1"), pod("bad-2", "n1"), pod("ok", "n1"))

    assert names(store.by_index("node", "n1")) == ["bad-1", "bad-2", "ok"]
    assert names(store.by_index("broken", "good")) == ["ok"]
    assert store.index_values("broken") == ["good"]
    found = statistics(store, "broken")
    assert found.failures == 2
    assert "'default/bad-" in found.last_failure
    warnings = [record for record in caplog.records if "index broken failed" in record.message]
    assert len(warnings) == 1
    assert "default/bad-1" in warnings[0].message


def test_an_object_whose_index_function_fails_is_updated_and_deleted_like_any(
    store: Indexer[Any],
) -> None:
    store.add_index("broken", _broken_by_version)
    good, bad = pod("a", "n1"), pod("a", "n1", version=2)
    better = pod("a", "n1", version=3)
    store.apply_nowait(Added(good))
    store.apply_nowait(Updated(good, bad))
    assert store.by_index("broken", "good") == []
    assert store.by_index("node", "n1") == [bad]
    store.apply_nowait(Updated(bad, better))
    assert store.by_index("broken", "good") == [better]
    store.apply_nowait(Updated(better, bad))
    store.apply_nowait(Deleted(bad))
    assert store.index_values("broken") == store.index_values("node") == []
    assert statistics(store, "broken").failures == 2


def _broken_by_version(obj: KubeObject[Any]) -> str:
    if obj.metadata.resource_version == "2":
        raise ValueError
    return "good"


def test_an_object_that_does_not_fit_the_view_is_left_out_of_indexes_on_it_alone() -> None:
    store: Indexer[Any] = Indexer(PodView)
    store.add_index("node", NODE)
    store.apply_nowait(Added(pod("odd", 5, viewed=True)))
    store.apply_nowait(Added(pod("ok", "n1", viewed=True)))
    assert names(store.list()) == ["odd", "ok"]
    assert store.index_values("node") == ["n1"]
    assert statistics(store, "node").failures == 1


def test_moving_an_object_between_many_index_values_is_not_quadratic() -> None:
    """A list in a body of 1 MB can have 200,000 values: each pair of them would take an hour.

    Then this test would not end.
    """
    before, after = (tuple(f"{word}{number}" for number in range(100_000)) for word in ("a", "b"))
    values = {"1": (*before, "stays"), "2": (*before, *after), "3": (*after, "stays")}
    store: Indexer[Any] = Indexer()
    store.add_index("hosts", lambda obj: values[obj.metadata.resource_version])
    first, second = pod("first", version=1), pod("second", version=2)
    moved = pod("first", version=3)
    for obj in (first, second):
        store.apply_nowait(Added(obj))

    store.apply_nowait(Updated(first, moved))

    assert store.by_index("hosts", "stays") == [moved]
    assert all(store.by_index("hosts", value) == [second] for value in before)


class _SpecWithDefaults(View):
    """A view that shows absent fields as values."""

    node_name: str = ""
    priority: int = 0
    host_network: bool = False


class _WithDefaults(View):
    """The same for a pod."""

    spec: _SpecWithDefaults = _SpecWithDefaults()


@pytest.mark.parametrize("view", [None, _WithDefaults])
def test_an_absent_field_is_in_no_index_whatever_a_view_shows(view: type[View] | None) -> None:
    """A view that another part of a program needs must not change an index."""
    paths = {"node": "spec.nodeName", "rank": "spec.priority", "host": "spec.hostNetwork"}
    indexer: Indexer[Any] = Indexer(view)
    for name, path in paths.items():
        indexer.add_index(name, path)
    specs: dict[str, Any] = {
        "absent": {},
        "empty": {"nodeName": "", "priority": 0, "hostNetwork": False},
        "set": {"nodeName": "n1", "priority": 7, "hostNetwork": True},
    }
    codec: ObjectCodec[Any] = ObjectCodec(GroupVersionResource.of("v1", "pods"), view=view)
    for name, spec in specs.items():
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
        text = json.dumps({"kind": "Pod", "metadata": metadata, "spec": spec}).encode()
        indexer.apply_nowait(Added(codec.decode(text, 0, len(text))))
    assert [sorted(indexer.index_values(name)) for name in paths] == [
        ["", "n1"],
        ["0", "7"],
        ["false", "true"],
    ]
    assert [one.key for one in indexer.by_index("node", "")] == ["default/empty"]
