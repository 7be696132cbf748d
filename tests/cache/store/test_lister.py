"""Reading a cache: selectors, namespaces, what is missing, and what cannot be answered yet."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pyinformer.cache.store import Indexer, Lister
from pyinformer.errors import (
    CacheNotSyncedError,
    IndexNotFoundError,
    InvalidArgumentError,
    InvalidSelectorError,
    InvalidTypeError,
    NotCachedError,
    ObjectNotFoundError,
)
from pyinformer.objects import Added, Deleted, LabelSelector
from tests.cache.store.objects import names, pod, replace

WEB, DB = {"app": "web"}, {"app": "db", "tier": "back"}


class OneNamespace:
    """The readiness of a cache that watches one namespace, or is not synced."""

    staleness = ""

    def __init__(self, *, synced: bool = True) -> None:
        self._synced = synced

    def check(self, namespace: str | None) -> None:
        """Raise as an informer does."""
        if not self._synced:
            raise CacheNotSyncedError(informer="pods", state="LISTING", last_error=None)
        if namespace not in {None, "default"}:
            raise NotCachedError(informer="pods", namespace=namespace or "")

    def within(self, max_age_seconds: float) -> OneNamespace:
        """Return the readiness of a cache that was never proven."""
        del max_age_seconds
        return OneNamespace(synced=False)


@pytest.fixture
def store() -> Indexer[Any]:
    """Return a cache of four pods on two nodes."""
    made: Indexer[Any] = Indexer()
    made.add_index("node", "spec.nodeName")
    replace(
        made,
        pod("a", "n1", labels=WEB),
        pod("b", "n2", labels=DB),
        pod("c", "n1", labels=WEB, namespace="other"),
        pod("d", namespace=""),
    )
    return made


@pytest.fixture
def lister(store: Indexer[Any]) -> Lister[Any]:
    """Return a lister that is always ready."""
    return Lister(store, resource="pods")


@pytest.mark.covers(
    "client-go dynamic/dynamiclister: TestNamespaceGetMethod",
    "client-go tools/cache: TestCache",
    "client-go metadata/metadatalister: TestNamespaceGetMethod",
    "kube-runtime src: should_allow_getting_namespaced_object_by_namespaced_ref",
)
def test_an_object_is_read_by_key(lister: Lister[Any]) -> None:
    found = lister.get("default/a")
    assert found is not None
    assert found is lister["default/a"]
    assert "default/a" in lister
    assert lister["d"].metadata.name == "d"


@pytest.mark.covers(
    "controller-runtime pkg/cache: should return an error if the object is not found",
    "client-go metadata/metadatalister: TestNamespaceGetMethod",
    "kube-runtime src: should_allow_getting_namespaced_object_by_namespaced_ref",
)
def test_a_missing_object_is_none_or_an_error_that_names_it(lister: Lister[Any]) -> None:
    assert lister.get("default/x") is None
    assert "default/x" not in lister
    with pytest.raises(ObjectNotFoundError, match="pods 'default/x' is not in the cache"):
        lister["default/x"]
    with pytest.raises(KeyError):
        lister.namespace("other")["a"]


@pytest.mark.covers(
    "client-go tools/cache: TestListAll",
    "controller-runtime pkg/cache: should support filtering by labels in a single namespace",
    "client-go metadata/metadatalister: TestNamespaceGetMethod",
)
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, ["a", "b", "c", "d"], id="none"),
        pytest.param("", ["a", "b", "c", "d"], id="empty"),
        pytest.param("app=web", ["a", "c"], id="equals"),
        pytest.param("app!=web", ["b", "d"], id="differs"),
        pytest.param("app in (web, db), tier", ["b"], id="set-and-exists"),
        pytest.param({"app": "web"}, ["a", "c"], id="mapping"),
        pytest.param(LabelSelector.parse("!app"), ["d"], id="compiled"),
    ],
)
async def test_lists_are_chosen_by_labels(
    lister: Lister[Any], selector: Any, expected: list[str]
) -> None:
    assert names(lister.list(label_selector=selector)) == expected
    assert names([obj async for obj in lister.iter_async(label_selector=selector)]) == expected


def test_a_malformed_selector_is_an_error_at_the_call(lister: Lister[Any]) -> None:
    for read in (lister.list, lister.namespace("default").list, lister.iter_async):
        with pytest.raises(InvalidSelectorError):
            read(label_selector="app in")


@pytest.mark.covers(
    "client-go dynamic/dynamiclister: TestNamespaceGetMethod",
    "controller-runtime pkg/cache: should support filtering by labels in a single namespace",
    "client-go metadata/metadatalister: TestNamespaceGetMethod",
)
def test_a_namespace_lister_sees_its_namespace_only(lister: Lister[Any]) -> None:
    default, other = lister.namespace("default"), lister.namespace("other")
    assert names(default.list()) == ["a", "b"]
    assert names(default.list(label_selector="app=web")) == ["a"]
    assert names(other.list()) == ["c"]
    assert lister.namespace("nowhere").list() == []
    assert default.get("c") is None
    assert "a" in default
    assert "c" not in default
    assert default["b"].key == "default/b"


@pytest.mark.covers("client-go tools/cache: TestGetIndexFuncValues")
def test_indexes_are_read_through_the_lister(lister: Lister[Any]) -> None:
    assert names(lister.by_index("node", "n1")) == ["a", "c"]
    assert sorted(lister.index_values("node")) == ["n1", "n2"]
    assert sorted(lister.keys()) == ["d", "default/a", "default/b", "other/c"]
    with pytest.raises(IndexNotFoundError):
        lister.by_index("nope", "x")


def test_an_index_is_read_in_one_namespace(lister: Lister[Any]) -> None:
    default, other = lister.namespace("default"), lister.namespace("other")
    assert names(default.by_index("node", "n1")) == ["a"]
    assert names(other.by_index("node", "n1")) == ["c"]
    assert other.by_index("node", "n2") == []
    assert lister.namespace("nowhere").by_index("node", "n1") == []
    with pytest.raises(IndexNotFoundError):
        default.by_index("nope", "x")


@pytest.mark.covers("controller-runtime pkg/cache: TestReaderWaitsForCacheSync")
def test_reading_an_unsynced_cache_raises(store: Indexer[Any]) -> None:
    lister = Lister(store, resource="pods", readiness=OneNamespace(synced=False))
    here = lister.namespace("default")
    for read in (
        lister.list,
        lister.keys,
        lister.iter_async,
        here.list,
        lambda: lister.get("default/a"),
        lambda: lister["default/a"],
        lambda: "default/a" in lister,
        lambda: "a" in here,
        lambda: here.get("a"),
        lambda: here["a"],
        lambda: lister.by_index("node", "n1"),
        lambda: here.by_index("node", "n1"),
        lambda: lister.index_values("node"),
    ):
        with pytest.raises(CacheNotSyncedError):
            read()


async def test_a_reader_may_read_the_partial_cache_before_the_sync(store: Indexer[Any]) -> None:
    lister = Lister(store, resource="pods", readiness=OneNamespace(synced=False))
    here = lister.namespace("default")
    assert len(lister.list(allow_unsynced=True)) == len(lister.keys(allow_unsynced=True)) == 4
    assert lister.get("default/a", allow_unsynced=True) is here.get("a", allow_unsynced=True)
    assert names(here.list(allow_unsynced=True)) == ["a", "b"]
    assert names(lister.by_index("node", "n1", allow_unsynced=True)) == ["a", "c"]
    assert names(here.by_index("node", "n1", allow_unsynced=True)) == ["a"]
    assert len(lister.index_values("node", allow_unsynced=True)) == 2
    assert len([obj async for obj in lister.iter_async(allow_unsynced=True)]) == 4


def test_reading_a_namespace_that_is_not_watched_raises(store: Indexer[Any]) -> None:
    lister = Lister(store, resource="pods", readiness=OneNamespace())
    other = lister.namespace("other")
    for read in (
        other.list,
        lambda: other.get("c"),
        lambda: other.by_index("node", "n1"),
        lambda: other["c"],
        lambda: "c" in other,
        lambda: lister.get("other/c"),
        lambda: lister["other/c"],
    ):
        with pytest.raises(NotCachedError, match="'other'"):
            read()
    assert names(other.list(allow_unsynced=True)) == ["c"]
    assert names(lister.namespace("default").list()) == ["a", "b"]


async def test_a_walk_is_over_the_objects_of_the_call(
    store: Indexer[Any], lister: Lister[Any]
) -> None:
    objects = lister.iter_async()
    store.apply_nowait(Deleted(pod("a")))
    store.apply_nowait(Added(pod("late")))
    assert names([obj async for obj in objects]) == ["a", "b", "c", "d"]


class Slow:
    """Spends time on the loop, as a reader does with each object."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self) -> None:
        until = time.perf_counter() + self._seconds
        while time.perf_counter() < until:
            pass


async def test_a_walk_yields_to_the_loop_when_its_time_is_used_up(store: Indexer[Any]) -> None:
    replace(store, *(pod(f"p{number}") for number in range(40)))
    work, turns = Slow(0.002), 0
    done = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    async for _ in Lister(store, resource="pods").iter_async():
        work()
    done.set()
    await task
    assert turns >= 10  # 80 ms of work in budgets of 4 ms


async def test_a_quick_walk_does_not_yield_to_the_loop_for_every_object(
    store: Indexer[Any],
) -> None:
    replace(store, *(pod(f"p{number}") for number in range(500)))
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(count)

    asyncio.get_running_loop().call_soon(count)
    found = [obj async for obj in Lister(store, resource="pods").iter_async()]
    assert len(found) == 500
    assert turns < 100


async def test_a_cancelled_walk_ends_and_harms_nothing(store: Indexer[Any]) -> None:
    replace(store, *(pod(f"p{number}") for number in range(200)))
    lister, seen, work = Lister(store, resource="pods"), [], Slow(0.002)
    started = asyncio.Event()

    async def read() -> None:
        async for obj in lister.iter_async():
            seen.append(obj)
            started.set()
            work()

    task = asyncio.get_running_loop().create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 < len(seen) < 200
    assert len([obj async for obj in lister.iter_async()]) == 200


@pytest.mark.parametrize("read", [list, lambda lister: lister[5], lambda lister: 5 in lister])
def test_a_key_that_is_not_text_is_refused(lister: Lister[Any], read: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^key: .*list\(\) returns the objects"):
        read(lister)


def test_a_fresh_lister_has_its_own_limit(
    store: Indexer[Any],
) -> None:
    lister = Lister(store, resource="pods", readiness=OneNamespace())
    fresh = lister.fresh(max_age_seconds=90)
    for read in (
        lambda: fresh.get("default/a"),
        fresh.list,
        fresh.keys,
        lambda: fresh.by_index("node", "n1"),
        lambda: fresh.namespace("default").list(),
        lambda: fresh["default/a"],
    ):
        with pytest.raises(CacheNotSyncedError):
            read()
    assert lister.keys()
    assert sorted(fresh.keys(allow_unsynced=True)) == sorted(lister.keys())


def test_a_cache_without_freshness_has_no_fresh_lister(store: Indexer[Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="the age of this cache is unknown"):
        Lister(store, resource="pods").fresh(max_age_seconds=90)


@pytest.mark.parametrize("name", ["", " shop", "shop ", "*", "Shop", "a/b", "x" * 64])
def test_a_namespace_that_cannot_exist_is_refused(store: Indexer[Any], name: str) -> None:
    """Its objects would look absent; for client-go an empty name is every namespace."""
    with pytest.raises(InvalidArgumentError, match=r"list\(\) reads all of them"):
        Lister(store, resource="pods").namespace(name)


@pytest.mark.parametrize("name", [None, 5, b"shop"])
def test_a_namespace_that_is_not_a_text_is_refused(store: Indexer[Any], name: Any) -> None:
    with pytest.raises(InvalidTypeError, match="namespace: must be a text"):
        Lister(store, resource="pods").namespace(name)
