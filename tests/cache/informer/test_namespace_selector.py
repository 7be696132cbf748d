"""Namespaces chosen by their labels: those that come, go and change are followed accordingly."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Deleted, SharedInformer, SharedInformerFactory
from pyinformer.cache.informer import core_of
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import (
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    InternalError,
    InvalidArgumentError,
    NotCachedError,
    StaleCacheError,
)
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.testing import APIServer

pytestmark = pytest.mark.every_loop


def name_space(server: APIServer, name: str, **labels: str) -> None:
    """Make a Namespace with labels, and a pod in it."""
    meta = {"name": name, "labels": dict(labels)}
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    server.create(pod("x", namespace=name))


def label(server: APIServer, name: str, **labels: str) -> None:
    """Give a Namespace other labels."""
    obj = server.get("v1", "namespaces", name)
    obj["metadata"]["labels"] = dict(labels)
    server.update(obj)


@asynccontextmanager
async def following(
    server: APIServer, selector: Any = "team=web", **options: Any
) -> AsyncIterator[tuple[SharedInformer[None], Notes]]:
    """Run an informer of pods in the namespaces that a selector chooses."""
    async with cluster_of(server) as cluster:
        pods: SharedInformer[None] = SharedInformer(
            cluster, "v1", "pods", namespace_selector=selector, options=HURRIED, **options
        )
        notes = Notes()
        pods.add_event_handler(notes)
        async with pods:
            yield pods, notes


def keys(informer: SharedInformer[Any]) -> list[str]:
    """Return what the cache holds."""
    return sorted(informer.lister.keys(allow_unsynced=True))


async def test_the_namespaces_with_the_label_are_followed(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="web")
    name_space(apiserver, "b", team="db")

    async with following(apiserver) as (pods, notes):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert pods.namespaces == {"a"}
        assert keys(pods) == ["a/x"]
        assert pods.name == "pods.v1 in namespaces with labels team=web"
        with pytest.raises(NotCachedError):
            pods.lister.namespace("b").list()
        await until(lambda: notes.heard == ["add a/x"])


async def test_namespaces_that_come_go_and_change_labels_are_followed(
    apiserver: APIServer,
) -> None:
    name_space(apiserver, "a", team="web")
    name_space(apiserver, "b", team="db")

    async with following(apiserver) as (pods, notes):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        label(apiserver, "b", team="web")
        await until(lambda: keys(pods) == ["a/x", "b/x"])
        name_space(apiserver, "c", team="web")
        await until(lambda: keys(pods) == ["a/x", "b/x", "c/x"])
        label(apiserver, "a", team="db")
        await until(lambda: keys(pods) == ["b/x", "c/x"])
        apiserver.delete("v1", "pods", "x", "c")
        apiserver.delete("v1", "namespaces", "c")
        await until(lambda: pods.namespaces == {"b"})
        name_space(apiserver, "c", team="web")
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: keys(pods) == ["b/x", "c/x"])
        await until(lambda: sorted(notes.mirror) == ["b/x", "c/x"])
        assert notes.faults == []


async def test_reads_raise_before_the_namespaces_are_known(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="web")
    apiserver.faults.add(Fault(resource="namespaces", status=403, times=None))

    async with following(apiserver) as (pods, _):
        await until(lambda: pods.state is ReflectorState.FORBIDDEN)
        for read in (pods.lister.list, pods.lister.namespace("a").list):
            with pytest.raises(CacheNotSyncedError, match="forbidden"):
                read()
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await pods.wait_for_cache_sync(timeout_seconds=0.05)
        (line,) = raised.value.pending
        assert line.startswith("namespaces.v1: forbidden")
        assert "namespaces.v1: forbidden" in pods.staleness
        assert "namespaces.v1: forbidden" in pods.status().line()
        report = await pods.audit(timeout_seconds=100)
        assert report.verdict == "inconclusive"
        assert "namespaces are not known: forbidden" in report.reason
        assert not pods.has_seen("1")
        with pytest.raises(StaleCacheError, match="forbidden"):
            await pods.wait_until("1", timeout_seconds=0.05)
        waiting = asyncio.create_task(pods.wait_until("1", key="a/x", timeout_seconds=100))

        apiserver.faults.clear()
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert keys(pods) == ["a/x"]
        await waiting


async def test_a_wait_before_the_namespaces_are_known_waits_for_them(
    apiserver: APIServer,
) -> None:
    name_space(apiserver, "a", team="web")
    apiserver.faults.add(Fault(resource="namespaces", hang=True))

    async with following(apiserver) as (pods, _):
        notes = Notes()
        told = pods.add_event_handler(notes)
        found = asyncio.create_task(pods.wait_for("a/x", bool, timeout_seconds=100))
        synced = asyncio.create_task(pods.wait_for_cache_sync(timeout_seconds=100))
        seen = asyncio.create_task(pods.wait_until("1", key="a/x", timeout_seconds=100))
        await until(lambda: apiserver.faults.held)
        apiserver.faults.release()
        await told.wait_synced(timeout_seconds=100)

        assert notes.heard == ["add a/x"]
        await asyncio.gather(found, synced, seen)
        assert keys(pods) == ["a/x"]


async def test_chosen_namespaces_stay_while_their_watch_is_disconnected(
    apiserver: APIServer,
) -> None:
    name_space(apiserver, "a", team="web")

    async with following(apiserver) as (pods, _):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        apiserver.faults.add(Fault(resource="namespaces", status=403, times=None))
        apiserver.drop_connections()
        status = pods.status
        await until(lambda: (one := status().selection) and one.state is ReflectorState.FORBIDDEN)
        apiserver.create(pod("y", namespace="a"))
        await until(lambda: keys(pods) == ["a/x", "a/y"])
        assert pods.has_synced


async def test_a_crash_of_the_informer_of_namespaces_ends_the_informer(
    apiserver: APIServer,
) -> None:
    name_space(apiserver, "a", team="web")

    with pytest.raises(InternalError, match="a bug"):
        async with following(apiserver) as (pods, _):
            await pods.wait_for_cache_sync(timeout_seconds=100)
            namespaces = core_of(pods).namespaces
            assert namespaces is not None
            namespaces.lifecycle.break_nowait(RuntimeError("a bug"))
            await until(lambda: pods.crash)
            assert not pods.is_running
            assert keys(pods) == ["a/x"]


async def test_a_selector_without_a_match_is_empty_and_synced(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="db")

    async with following(apiserver) as (pods, _):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert pods.lister.list() == []
        assert pods.namespaces == frozenset()
        assert pods.state is ReflectorState.WATCHING


async def test_only_the_metadata_of_namespaces_is_requested(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="web")

    async with following(apiserver, {"team": "web"}) as (pods, _):
        await pods.wait_for_cache_sync(timeout_seconds=100)
    asked = [one for one in apiserver.requests if one.resource == "namespaces"]
    asked = [one for one in asked if one.verb == "watch"]
    assert asked
    assert all("PartialObjectMetadata" in one.accept for one in asked)


async def test_a_deletion_says_whether_the_namespace_is_gone(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="web")
    name_space(apiserver, "b", team="web")

    async with following(apiserver) as (pods, notes):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await notes.until_heard("add a/x", "add b/x")
        label(apiserver, "a", team="db")
        await notes.until_heard("delete a/x")
        assert not core_of(pods).caches.is_gone("a")
        apiserver.faults.add(Fault(resource="pods", verb="watch", namespace="b", hang=True))
        apiserver.drop_connections()
        apiserver.delete("v1", "pods", "x", "b")
        apiserver.delete("v1", "namespaces", "b")
        await notes.until_heard("delete b/x")
        assert core_of(pods).caches.is_gone("b")
        told = {event.key: event for event in notes.events if isinstance(event, Deleted)}
        assert told["a/x"].may_still_exist
        assert not told["b/x"].may_still_exist
    assert notes.faults == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespaces": ["a"]}, "cannot be combined with `namespaces`"),
        ({"namespace_selector": ""}, "namespace_selector: must not be empty"),
        ({"namespace_selector": "a in (b"}, "cannot parse"),
    ],
)
async def test_an_invalid_selector_is_refused(
    apiserver: APIServer, options: Any, words: str
) -> None:
    given = {"namespace_selector": "team=web", **options}
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        with pytest.raises(InvalidArgumentError) as raised:
            factory.informer("v1", "pods", **given)
        assert words in str(raised.value)


async def test_a_factory_shares_the_informer_of_one_selector(apiserver: APIServer) -> None:
    name_space(apiserver, "a", team="web")

    async with cluster_of(apiserver) as cluster:
        async with SharedInformerFactory(cluster, options=HURRIED) as factory:
            pods = factory.informer("v1", "pods", namespace_selector="team=web")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            assert keys(pods) == ["a/x"]
            assert factory.informer("v1", "pods", namespace_selector={"team": "web"}) is pods
            assert factory.informer("v1", "pods", namespace_selector="team") is not pods
        assert pods.state is ReflectorState.STOPPED
        running = [task.get_name() for task in asyncio.all_tasks() if "informer" in task.get_name()]
        assert running == []


async def test_closing_in_the_middle_of_a_change_ends_everything(apiserver: APIServer) -> None:
    for number in range(5):
        name_space(apiserver, f"n{number}", team="web")

    async with following(apiserver) as (pods, notes):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        for number in range(5):
            label(apiserver, f"n{number}", team="db")
        await until(lambda: pods.namespaces != {f"n{number}" for number in range(5)})
    assert notes.faults == []
