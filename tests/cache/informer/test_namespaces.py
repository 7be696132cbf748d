"""Several namespaces in one informer: each by itself, all as one, and changed while it runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer import Added, Deleted, SharedInformer, SharedInformerFactory
from pyinformer.cache.informer import core_of
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import (
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    IndexNotFoundError,
    InformerConflictError,
    InvalidArgumentError,
    LifecycleError,
    NotCachedError,
    StaleCacheError,
)
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, listed, pod
from tests.followed import server_behind
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer


@asynccontextmanager
async def following(
    server: APIServer, *namespaces: str, synced: bool = True, **options: Any
) -> AsyncIterator[SharedInformer[None]]:
    """Run an informer of pods in these namespaces."""
    given: dict[str, Any] = {"namespaces": namespaces, "options": HURRIED, **options}
    async with cluster_of(server) as cluster:
        informer: SharedInformer[None] = SharedInformer(cluster, "v1", "pods", **given)
        async with informer:
            if synced:
                await informer.wait_for_cache_sync(timeout_seconds=100)
            yield informer


def forbid(server: APIServer, namespace: str, times: int | None = None) -> None:
    """Refuse pods of one namespace."""
    fault = Fault(resource="pods", namespace=namespace, status=403, times=times)
    server.faults.add(fault)


def keys(informer: SharedInformer[Any]) -> list[str]:
    """Return what the cache holds."""
    return sorted(obj.key for obj in informer.lister.list())


class Named(msgspec.Struct):
    """A model that any object fits."""

    kind: str = ""


def put(server: APIServer, *wanted: str) -> None:
    """Create pods by key."""
    for key in wanted:
        namespace, _, name = key.partition("/")
        server.create(pod(name, namespace=namespace, node=f"on-{name}", app=name))


@pytest.mark.covers(
    "controller-runtime pkg/cache: Should list serviceaccounts and find exactly one in",
    "controller-runtime pkg/cache: should return an error if getting object in unwatched",
)
async def test_only_the_configured_namespaces_are_cached(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x", "c/x")

    async with following(apiserver, "a", "b") as pods:
        assert keys(pods) == ["a/x", "b/x"]
        assert pods.namespaces == {"a", "b"}
        assert str(pods.scope) == "pods.v1 in a, b"
        put(apiserver, "b/y", "c/y")
        await until(lambda: keys(pods) == ["a/x", "b/x", "b/y"])


async def test_every_read_goes_over_all_namespaces(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "a/y", "b/x")

    async with following(apiserver, "a", "b") as pods:
        pods.add_index("node", "spec.nodeName")
        lister = pods.lister

        assert sorted(lister.keys()) == ["a/x", "a/y", "b/x"]
        assert sorted(obj.key for obj in lister.by_index("node", "on-x")) == ["a/x", "b/x"]
        assert sorted(lister.index_values("node")) == ["on-x", "on-y"]
        assert sorted(obj.key for obj in lister.list(label_selector="app=x")) == ["a/x", "b/x"]
        assert [obj.key for obj in lister.namespace("b").list()] == ["b/x"]
        assert [obj.key for obj in lister.namespace("b").by_index("node", "on-x")] == ["b/x"]
        assert lister.namespace("b").by_index("node", "on-y") == []
        assert "a/y" in lister
        assert lister.get("b/y") is None
        assert lister["b/x"].key == "b/x"
        assert sorted([obj.key async for obj in lister.iter_async()]) == ["a/x", "a/y", "b/x"]
        with pytest.raises(IndexNotFoundError):
            lister.by_index("other", "x")


async def test_an_index_holds_for_namespaces_that_come_later(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, "a") as pods:
        pods.add_index("node", "spec.nodeName")
        await pods.set_namespaces([])
        assert pods.lister.by_index("node", "on-x") == []
        pods.add_index("app", lambda obj: obj.metadata.labels["app"])
        await pods.set_namespaces(["a", "b"])
        await pods.wait_for_cache_sync(timeout_seconds=100)

        assert sorted(obj.key for obj in pods.lister.by_index("node", "on-x")) == ["a/x", "b/x"]
        assert sorted(obj.key for obj in pods.lister.by_index("app", "x")) == ["a/x", "b/x"]
        assert {one.name: one.values for one in pods.status().indexes}["app"] == 2
        with pytest.raises(InvalidArgumentError, match="exists already"):
            pods.add_index("app", "spec.nodeName")


@pytest.mark.covers(
    "controller-runtime pkg/cache: should return an error if getting object in unwatched"
)
async def test_reading_a_namespace_that_is_not_followed_raises(apiserver: APIServer) -> None:
    async with following(apiserver, "a", "b") as pods:
        with pytest.raises(NotCachedError, match=r"pods.v1 in a, b does not watch namespace 'c'"):
            pods.lister.namespace("c").list()
        with pytest.raises(NotCachedError):
            pods.lister.namespace("c").by_index("node", "n1")
        with pytest.raises(NotCachedError):
            pods.lister.get("c/x")
        assert pods.lister.get("c/x", allow_unsynced=True) is None


@pytest.mark.covers("controller-runtime pkg/cache: TestMultiNamespaceCacheStart_MultipleErrors")
async def test_a_forbidden_namespace_stops_no_other(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    put(apiserver, "a/x", "b/x", "c/x")
    forbid(apiserver, "b")
    caplog.set_level(logging.WARNING, logger="pyinformer.cache.informer")

    async with following(apiserver, "a", "b", "c", synced=False) as pods:
        notes = Notes()
        registration = pods.add_event_handler(notes)
        await until(lambda: sorted(notes.mirror) == ["a/x", "c/x"])
        await until(lambda: pods.status().reflector.attempts >= 3)

        assert [obj.key for obj in pods.lister.namespace("a").list()] == ["a/x"]
        assert pods.lister["c/x"].key == "c/x"
        with pytest.raises(CacheNotSyncedError, match=r"of pods.v1 in b is not synced .*forbidden"):
            pods.lister.namespace("b").list()
        with pytest.raises(CacheNotSyncedError, match="forbidden in b"):
            pods.lister.list()
        assert [obj.key for obj in pods.lister.list(allow_unsynced=True)] == ["a/x", "c/x"]
        assert pods.state is ReflectorState.FORBIDDEN
        assert not pods.has_synced
        assert not registration.has_synced
        states = {one.namespace: one.state for one in pods.status().namespaces}
        assert states == {
            "a": ReflectorState.WATCHING,
            "b": ReflectorState.FORBIDDEN,
            "c": ReflectorState.WATCHING,
        }
        assert "pods.v1 in b: forbidden" in pods.staleness
        assert "pods.v1 in b: forbidden" in pods.status().line()
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await pods.wait_for_cache_sync(timeout_seconds=0.05)
        (line,) = raised.value.pending
        assert line.startswith("pods.v1 in b: forbidden")
        assert "failed attempts" in line
        assert "403" in line
        warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        assert len([one for one in warnings if "pods.v1 in b: forbidden" in one]) == 1

        apiserver.faults.clear()
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert keys(pods) == ["a/x", "b/x", "c/x"]
        await until(lambda: sorted(notes.mirror) == ["a/x", "b/x", "c/x"])
        await registration.wait_synced(timeout_seconds=100)
        assert notes.faults == []


async def test_an_index_is_read_in_one_namespace_while_another_is_forbidden(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x", "a/y", "b/x")
    forbid(apiserver, "b")

    async with cluster_of(apiserver) as cluster:
        pods: SharedInformer[None] = SharedInformer(
            cluster, "v1", "pods", namespaces=["a", "b"], sharing="decoded"
        )
        pods.add_index("node", "spec.nodeName")
        async with pods:
            await until(lambda: pods.status().namespaces[0].has_synced)
            plain = pods.lister
            for namespace, read in (
                ("a", lambda name: plain.namespace(name).by_index("node", "on-x")),
                ("a", lambda name: plain.decoded.by_index("node", "on-x", namespace=name)),
            ):
                assert len(read(namespace)) == 1
                with pytest.raises(CacheNotSyncedError, match=r"pods\.v1 in b"):
                    read("b")
            with pytest.raises(CacheNotSyncedError):
                plain.by_index("node", "on-x")


async def test_a_handler_that_joins_gets_what_is_there_and_then_the_rest(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x", "b/x")
    forbid(apiserver, "b")

    async with following(apiserver, "a", "b", synced=False) as pods:
        await until(lambda: pods.status().namespaces[0].has_synced)
        notes = Notes()
        registration = pods.add_event_handler(notes)
        await until(lambda: notes.heard == ["add a/x"])
        assert not registration.has_synced

        apiserver.faults.clear()
        await registration.wait_synced(timeout_seconds=100)
        assert notes.heard == ["add a/x", "add b/x"]
        assert all(isinstance(one, Added) and one.is_in_initial_list for one in notes.events)


async def test_added_and_removed_namespaces_notify_handlers(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x", "c/x")

    async with following(apiserver, "a", "b") as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        await pods.set_namespaces(["b", "c"])

        assert pods.namespaces == {"b", "c"}
        with pytest.raises(NotCachedError):
            pods.lister.get("a/x")
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert keys(pods) == ["b/x", "c/x"]
        await until(lambda: sorted(notes.mirror) == ["b/x", "c/x"])
        (left,) = [event for event in notes.events if isinstance(event, Deleted)]
        assert left.key == "a/x"
        assert left.may_still_exist
        assert sum("b/x" in one for one in notes.heard) == 1
        assert notes.faults == []
        put(apiserver, "a/y", "c/y")
        await until(lambda: "c/y" in notes.mirror)
        assert "a/y" not in notes.mirror
    assert str(pods.scope) == "pods.v1 in b, c"


async def test_adding_a_namespace_does_not_interrupt_the_others(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, "a") as pods:
        (before,) = pods.status().namespaces
        apiserver.clear_requests()
        await pods.set_namespaces({"b", "a"})
        await pods.wait_for_cache_sync(timeout_seconds=100)

        asked = {one.namespace for one in apiserver.requests if one.resource == "pods"}
        assert asked == {"b"}
        assert pods.status().namespaces[0].position >= before.position


async def test_an_informer_of_one_namespace_can_be_given_others(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, namespaces="a") as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        await pods.set_namespaces(["b"])
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: notes.heard == ["add a/x", "delete a/x", "add b/x"])
        assert keys(pods) == ["b/x"]


async def test_handlers_of_an_unsynced_informer_are_notified_of_changed_namespaces(
    apiserver: APIServer,
) -> None:
    """Before the first sync of a namespace that hangs, another one comes; then the first goes."""
    put(apiserver, "a/x", "b/x")
    forbid(apiserver, "a")

    async with following(apiserver, "a", synced=False) as pods:
        notes = Notes()
        registration = pods.add_event_handler(notes)
        async with pods.events() as events:
            await pods.set_namespaces(["a", "b"])
            event = await anext(events)
            assert event.key == "b/x"
            assert not pods.has_synced
            await pods.set_namespaces(["b"])
            await registration.wait_synced(timeout_seconds=100)

        assert pods.has_synced
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert notes.heard == ["add b/x"]


async def test_no_namespace_at_all_is_empty_and_synced(apiserver: APIServer) -> None:
    put(apiserver, "a/x")

    async with following(apiserver, "a") as pods:
        await pods.set_namespaces([])
        assert pods.lister.list() == []
        assert pods.has_synced
        assert pods.status().objects == 0
        assert pods.staleness == ""
        assert "no namespace" in str(pods.explain("a/x"))
        report = await pods.audit(timeout_seconds=100)
        assert report.is_consistent
        await pods.set_namespaces(["a"])
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert keys(pods) == ["a/x"]


async def test_namespaces_can_be_set_before_the_start(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", namespaces=["a"], options=HURRIED)
        notes = Notes()
        pods.add_event_handler(notes)
        await pods.set_namespaces(["b"])
        async with pods:
            await pods.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: notes.heard == ["add b/x"])
    assert {one.namespace for one in apiserver.requests if one.resource == "pods"} == {"b"}


async def test_the_last_of_several_calls_decides(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x", "c/x")

    async with following(apiserver, "a") as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        wishes = (["b"], ["a", "c"], ["a"], ["c", "b"])
        await asyncio.gather(*(pods.set_namespaces(wish) for wish in wishes))
        assert pods.namespaces == {"b", "c"}
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: sorted(notes.mirror) == ["b/x", "c/x"])
        assert notes.faults == []


@pytest.mark.parametrize("turns", range(1, 5))
async def test_a_namespace_that_is_wanted_again_while_it_is_left_is_waited_for(
    apiserver: APIServer, turns: int
) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, "a", "b") as pods:
        leaving = asyncio.create_task(pods.set_namespaces(["a"]))
        for _ in range(turns):
            await asyncio.sleep(0)
        await pods.set_namespaces(["a", "b"])
        await pods.wait_for_cache_sync(timeout_seconds=100)
        followed = pods.status().namespaces
        await leaving
        await settle()

        assert all(one.has_synced for one in followed)
        assert keys(pods) == ["a/x", "b/x"]


async def test_namespaces_are_changed_though_the_wait_is_cancelled(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, "a") as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        task = asyncio.create_task(pods.set_namespaces(["b"]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: sorted(notes.mirror) == ["b/x"])
        assert pods.namespaces == {"b"}
        assert notes.faults == []


async def test_a_wait_for_namespaces_of_an_informer_that_is_closed_ends_with_an_error(
    apiserver: APIServer,
) -> None:
    async with following(apiserver, "a") as pods:
        task = asyncio.create_task(pods.set_namespaces(["b"]))
        await asyncio.sleep(0)
        await pods.aclose()
        await asyncio.wait([task])
        assert task.exception() is None or isinstance(task.exception(), LifecycleError)
        with pytest.raises(LifecycleError):
            await pods.set_namespaces(["a"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespaces": None}, "follows all of them by a single watch"),
        ({"namespaces": None, "namespace_selector": "a=b"}, "follows those that a=b chooses"),
    ],
)
async def test_setting_namespaces_needs_an_informer_of_named_namespaces(
    apiserver: APIServer, options: Any, words: str
) -> None:
    async with following(apiserver, synced=False, **options) as pods:
        with pytest.raises(InvalidArgumentError, match=words):
            await pods.set_namespaces(["a"])


async def test_invalid_namespaces_are_refused_and_change_nothing(
    apiserver: APIServer,
) -> None:
    async with following(apiserver, "a") as pods:
        for wrong in (["A"], [""], [7], None, 7):
            with pytest.raises(InvalidArgumentError):
                await pods.set_namespaces(wrong)  # type: ignore[arg-type]
        assert pods.namespaces == {"a"}


async def test_the_order_of_namespaces_does_not_matter_for_sharing(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=["a", "b"])

        assert factory.informer("v1", "pods", namespaces=("b", "a", "b")) is pods
        assert factory.informer("v1", "pods", namespaces={"a"}) is not pods
        assert factory.informer("v1", "pods", namespaces="a") is factory.informer(
            "v1", "pods", namespaces=["a"]
        )


async def test_the_namespaces_of_a_shared_informer_cannot_be_changed(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=["a"])
        factory.informer("v1", "pods", namespaces=["a"])

        with pytest.raises(InformerConflictError, match="another namespaces") as raised:
            await pods.set_namespaces(["b"])
        places = [raised.value.first_call_site, raised.value.second_call_site]
        assert places == core_of(pods).call_sites
        assert all(place.startswith(f"{__file__}:") for place in places)
        own = factory.informer("v1", "pods", namespaces=["a"], private=True)
        await own.set_namespaces(["b"])
        assert own.namespaces == {"b"}


async def test_an_informer_whose_namespaces_changed_is_not_shared(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=["a"])
        await pods.set_namespaces(["b"])
        other = factory.informer("v1", "pods", namespaces=["a"])

        assert other is not pods
        assert other.namespaces == {"a"}


async def test_a_namespace_that_is_deleted_and_made_again_is_followed(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with following(apiserver, "a", "b") as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        apiserver.delete("v1", "pods", "x", "b")
        await until(lambda: keys(pods) == ["a/x"])
        put(apiserver, "b/x")
        await until(lambda: keys(pods) == ["a/x", "b/x"])
        await until(lambda: notes.mirror == listed(apiserver))
        assert notes.faults == []


async def test_own_writes_are_read_at_once_in_each_namespace(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")

    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=["a", "b"])
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        apiserver.faults.add(Fault(resource="pods", verb="watch", refuse=True, times=None))
        apiserver.drop_connections()
        made = await cluster.create(pod("new", namespace="b", node="n9"))
        await cluster.create(pod("new", namespace="c"))
        await cluster.delete(pods.lister["a/x"], grace_period_seconds=0)

        assert pods.lister["b/new"].metadata.uid == made.metadata.uid
        assert keys(pods) == ["b/new", "b/x"]
        assert not pods.has_seen(made.metadata.resource_version)
        own_writes = pods.status().own_writes
        assert own_writes is not None
        assert own_writes.entries == 2
        with pytest.raises(StaleCacheError, match="in b"):
            await pods.wait_until(made.metadata.resource_version, timeout_seconds=0.05)
        apiserver.faults.clear()
        await pods.wait_until(made.metadata.resource_version, timeout_seconds=100)
        assert pods.has_seen(made.metadata.resource_version)
        await pods.wait_until("999999999", key="c/new", timeout_seconds=1)
        await until(lambda: not core_of(pods).context.entries)
        assert keys(pods) == ["b/new", "b/x"]


async def test_own_writes_of_a_removed_namespace_are_not_read(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=["a", "b"])
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        apiserver.faults.add(Fault(resource="pods", verb="watch", refuse=True, times=None))
        apiserver.drop_connections()
        made = await cluster.create(pod("new", namespace="b"))
        waiting = asyncio.create_task(
            pods.wait_until(made.metadata.resource_version, timeout_seconds=100)
        )
        await settle()
        await pods.set_namespaces(["a"])
        assert pods.lister.keys() == []
        with pytest.raises(LifecycleError, match="namespace b is no longer followed"):
            await waiting


async def test_waiting_for_a_key_ends_when_its_namespace_is_removed(
    apiserver: APIServer,
) -> None:
    put(apiserver, "b/y")
    async with following(apiserver, "a", "b") as pods:
        gone = asyncio.create_task(pods.wait_for("a/x", lambda one: one is not None))
        there = asyncio.create_task(pods.wait_for("b/x", lambda one: one is not None))
        await settle()
        await pods.set_namespaces(["b", "c"])
        with pytest.raises(NotCachedError):
            await gone
        put(apiserver, "b/x")
        found = await there
        assert found is not None
        assert found.key == "b/x"


async def test_a_wait_for_a_version_continues_without_a_namespace_that_is_dropped(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x")
    version = str(int(listed(apiserver)["a/x"][1]) + 1)
    async with following(apiserver, "a", "b") as pods:
        waiting = asyncio.create_task(pods.wait_until(version, timeout_seconds=100))
        await settle()
        await pods.set_namespaces(["b"])
        await settle()
        assert not waiting.done()
        put(apiserver, "b/x")
        await waiting
        assert pods.lister["b/x"].metadata.resource_version == version


async def test_a_wait_for_a_key_begins_with_the_sync_of_its_own_namespace(
    apiserver: APIServer,
) -> None:
    forbid(apiserver, "b")
    async with following(apiserver, "a", "b", synced=False) as pods:
        assert await pods.wait_for("a/x", lambda one: one is None, timeout_seconds=100) is None


async def test_an_audit_covers_every_namespace(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x", "b/y")

    async with following(apiserver, "a", "b") as pods:
        assert pods.last_audit is None
        report = await pods.audit(timeout_seconds=100)
        assert report.is_consistent
        assert report.checked == 3
        assert report.informer == "pods.v1 in a, b"
        core_of(pods).caches.all[1].indexer.apply_nowait(Deleted(pods.lister["b/y"]))
        report = await pods.audit(timeout_seconds=100)
        assert report.verdict == "inconsistent"
        assert report.missing.keys == ("b/y",)
        assert pods.last_audit is not None
        assert pods.last_audit.missing.keys == ("b/y",)
        forbid(apiserver, "a")
        apiserver.drop_connections()
        await until(lambda: pods.state is ReflectorState.FORBIDDEN)
        report = await pods.audit(timeout_seconds=100)
        assert report.verdict == "inconclusive"
        assert "pods.v1 in a: " in report.reason


@pytest.mark.parametrize("hang", [Fault(namespace="b", hang=True), None])
async def test_an_audit_does_not_wait_for_removed_namespaces(
    apiserver: APIServer, hang: Fault | None
) -> None:
    """Neither for a namespace that never synced, nor for one whose list of the audit hangs."""
    put(apiserver, "a/x", "b/x")
    async with following(apiserver, *("a", "b")[: 1 if hang else 2]) as pods:
        apiserver.faults.add(hang or Fault(verb="list", namespace="b", hang=True))
        await pods.set_namespaces(["a", "b"])
        audit = asyncio.create_task(pods.audit(timeout_seconds=3600))
        await until(lambda: apiserver.faults.held)
        await pods.set_namespaces(["a"])
        async with asyncio.timeout(100):
            report = await audit

        assert report.is_consistent
        assert report.checked == 1
        apiserver.faults.release()


async def test_an_audit_of_an_informer_that_is_closed_ends(apiserver: APIServer) -> None:
    async with following(apiserver, "a", "b") as pods:
        apiserver.faults.add(Fault(verb="list", namespace="b", hang=True))
        audit = asyncio.create_task(pods.audit(timeout_seconds=3600))
        await until(lambda: apiserver.faults.held)
        await pods.aclose()
        async with asyncio.timeout(100):
            with pytest.raises(LifecycleError):
                await audit
        apiserver.faults.release()


async def test_a_key_is_explained_by_its_own_namespace(apiserver: APIServer) -> None:
    put(apiserver, "a/x")
    forbid(apiserver, "b")

    async with following(apiserver, "a", "b", synced=False) as pods:
        await until(lambda: pods.status().namespaces[0].has_synced)
        await until(lambda: pods.state is ReflectorState.FORBIDDEN)
        assert "It is cached at" in str(pods.explain("a/x"))
        assert "forbidden" in str(pods.explain("b/x"))
        outside = str(pods.explain("c/x"))
        assert "in namespace c, and only namespaces a, b are followed" in outside
        assert "Write namespace/name, such as a/x." in str(pods.explain("x"))
        put(apiserver, "c/x")
        assert "it is not followed: only namespaces a, b are" in str(await pods.explain_live("c/x"))


async def test_a_stale_read_of_one_namespace_names_that_namespace(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x", "b/x")
    async with following(apiserver, "a", "b") as pods:
        forbid(apiserver, "b")
        apiserver.end_watches()
        states = [ReflectorState.WATCHING, ReflectorState.FORBIDDEN]
        await until(lambda: [one.state for one in pods.status().namespaces] == states)
        fresh = pods.lister.fresh(max_age_seconds=0)

        with pytest.raises(StaleCacheError, match=r"pods.v1 in a was .*no error"):
            fresh.get("a/x")
        with pytest.raises(StaleCacheError, match=r"pods.v1 in a, b was .*forbidden"):
            fresh.list()


async def test_the_position_of_all_is_that_of_the_one_that_is_furthest_behind(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x")
    async with following(apiserver, "a") as pods:
        first = pods.observed_resource_version
        apiserver.create(pod("more", namespace="c"))
        await pods.set_namespaces(["a", "b"])
        await pods.wait_for_cache_sync(timeout_seconds=100)
        positions = {one.namespace: one.position for one in pods.status().namespaces}
        assert int(positions["b"]) > int(first)
        assert pods.observed_resource_version == min(positions.values(), key=int)
        assert pods.age_seconds() is not None
        journal = [str(entry) for entry in pods.status(with_journal=True).journal]
        assert any("follows pods.v1 in a, b" in line for line in journal)
        assert any("in b: watching" in line for line in journal)


async def test_a_namespace_that_hangs_is_left_without_waiting_for_its_server(
    apiserver: APIServer,
) -> None:
    put(apiserver, "a/x")
    apiserver.faults.add(Fault(resource="pods", namespace="b", hang=True, times=None))

    async with following(apiserver, "a", "b", synced=False) as pods:
        await until(lambda: pods.status().namespaces[0].has_synced)
        async with asyncio.timeout(100):
            await pods.set_namespaces(["a"])
        await pods.wait_for_cache_sync(timeout_seconds=1)
        apiserver.faults.release()


async def test_two_hundred_namespaces_are_listed_a_few_at_a_time(apiserver: APIServer) -> None:
    names = [f"n{number}" for number in range(200)]
    for name in names:
        put(apiserver, f"{name}/x", f"{name}/y")
    tasks_before = len(asyncio.all_tasks())

    async with following(apiserver, *names, options=None, synced=False) as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        await pods.wait_for_cache_sync(timeout_seconds=60)
        await until(lambda: len(notes.mirror) == 400)
        assert len(pods.lister.list()) == 400
        assert len(asyncio.all_tasks()) - tasks_before < 6 * len(names)
        peak = server_behind(pods.cluster).request_budget.statistics().peak_listing
        assert 4 < peak <= 32  # all are small
        await pods.set_namespaces(names[:3])
        await until(lambda: len(notes.mirror) == 6)
        assert notes.faults == []


async def test_a_resync_repeats_the_delivered_objects(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")
    forbid(apiserver, "b")
    heard: list[str] = []

    async with following(apiserver, "a", "b", synced=False) as pods:
        pods.add_event_handler(
            on_update=lambda _old, new: heard.append(new.key), resync_period_seconds=0.02
        )
        await until(lambda: heard)
        assert set(heard) == {"a/x"}


async def test_a_stream_of_many_late_objects_does_not_overflow(apiserver: APIServer) -> None:
    for number in range(20):
        put(apiserver, f"b/p{number}")

    async with (
        following(apiserver, "a") as pods,
        pods.events(max_events=2) as events,
        pods.events(initial=False) as later,
    ):
        await pods.set_namespaces(["a", "b"])
        await pods.wait_for_cache_sync(timeout_seconds=100)
        found = [await anext(events) for _ in range(20)]
        assert all(isinstance(one, Added) and one.is_in_initial_list for one in found)
        put(apiserver, "b/new")
        event = await anext(later)
        assert event.key == "b/new"


async def test_the_shared_decoded_objects_are_those_of_all_namespaces(apiserver: APIServer) -> None:
    put(apiserver, "a/x", "b/x")
    detector = pyinformer.MutationDetector(mode="debug")
    async with following(
        apiserver, "a", "b", sharing="decoded", mutation_detector=detector
    ) as pods:
        found = [one["metadata"] for one in pods.lister.decoded.list()]
        assert len(found) == 2
        await pods.set_namespaces(["b"])
        assert len(pods.lister.decoded.list()) == 1


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_every_kind_of_queue_handles_added_and_removed_namespaces(
    apiserver: APIServer, queue: str
) -> None:
    put(apiserver, "a/x", "b/x")
    async with following(apiserver, "a", "b", queue=queue) as pods:
        notes = Notes()
        pods.add_event_handler(notes)
        await pods.set_namespaces(["b"])
        put(apiserver, "b/y")
        await until(lambda: sorted(notes.mirror) == ["b/x", "b/y"])
        assert notes.faults == []
