"""Waiting for a key of the cache: what counts as a change, what comes out, and that it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.cache.informer import SharedInformer, core_of
from pyinformer.errors import (
    CacheSyncTimeoutError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotCachedError,
    StaleCacheError,
    WaitTimeoutError,
)
from pyinformer.objects import KubeObject
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, informer_of, pod
from tests.waiting import settle, until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer


def is_gone(obj: KubeObject[Any] | None) -> bool:
    """Wait for a deletion."""
    return obj is None


def labelled(value: str) -> Any:
    """Wait for a label."""
    return lambda obj: obj is not None and obj.metadata.labels.get("step") == value


async def test_a_state_that_holds_already_is_returned_at_once(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        found = await informer.wait_for("default/a", bool, timeout_seconds=0)
        assert found is informer.lister["default/a"]
        assert await informer.wait_for("default/b", is_gone, timeout_seconds=0) is None


@pytest.mark.covers("client-go tools/watch: TestUntil")
async def test_each_state_is_shown_even_if_the_next_has_followed_in_the_same_turn(
    apiserver: APIServer,
) -> None:
    obj = apiserver.create(pod("a", step="0"))
    async with informer_of(apiserver) as informer:
        waiting = asyncio.create_task(informer.wait_for("default/a", labelled("1")))
        await settle()
        for step in ("1", "2", "3"):
            obj["metadata"]["labels"]["step"] = step
            obj = apiserver.update(obj)
        found = await waiting
        assert found is not None
        assert found.metadata.labels["step"] == "1"


async def test_the_state_of_the_first_list_is_shown_if_the_next_has_come_with_it(
    apiserver: APIServer,
) -> None:
    first = apiserver.create(pod("a", step="1"))
    second = apiserver.update(pod("a", step="2"))
    end = {
        "resourceVersion": first["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    bookmark = {"apiVersion": "v1", "kind": "Pod", "metadata": end}
    together = b"".join(
        msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
        for kind, obj in (("ADDED", first), ("BOOKMARK", bookmark), ("MODIFIED", second))
    )
    apiserver.faults.add(Fault(verb="watch", body=together, times=1))
    async with cluster_of(apiserver) as cluster, SharedInformer(cluster, "v1", "pods") as informer:
        found = await informer.wait_for("default/a", labelled("1"), timeout_seconds=100)
        assert found is not None


async def test_a_predicate_may_add_a_handler_when_the_cache_syncs(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    heard: list[object] = []
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods", options=HURRIED)

        def is_there(obj: KubeObject[Any] | None) -> bool:
            if not informer.status().handlers:
                informer.add_event_handler(heard.append)
            return obj is not None

        async with informer:
            await informer.wait_for("default/a", is_there, timeout_seconds=100)
            await until(lambda: len(heard) == 1)
            assert informer.crash is None


async def test_a_deletion_can_be_waited_for(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        waiting = asyncio.create_task(informer.wait_for("default/a", is_gone))
        await settle()
        assert not waiting.done()
        apiserver.delete("v1", "pods", "a")
        assert await waiting is None


async def test_an_own_write_counts_as_soon_as_the_lister_shows_it(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        apiserver.faults.add(Fault(verb="watch", hang=True))
        apiserver.end_watches()
        await until(lambda: apiserver.faults.held)
        cluster = informer.cluster
        made = asyncio.create_task(informer.wait_for("default/b", bool, timeout_seconds=100))
        gone = asyncio.create_task(informer.wait_for("default/a", is_gone, timeout_seconds=100))
        await settle()
        written = await cluster.create(pod("b"))
        await cluster.delete("v1", "pods", "default/a", grace_period_seconds=0)

        assert await made == written
        assert await gone is None
        assert informer.observed_resource_version < written.metadata.resource_version
        apiserver.faults.release()


@pytest.mark.covers("client-go tools/watch: TestUntilTimeout")
async def test_an_exception_of_the_predicate_is_raised_and_affects_no_other(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:

        def wrong(obj: KubeObject[Any] | None) -> bool:
            raise KeyError(str(obj and obj.metadata.labels.get("step")))

        with pytest.raises(KeyError, match="None"):
            await informer.wait_for("default/a", wrong)

        def picky(obj: KubeObject[Any] | None) -> bool:
            return obj is not None and bool({"b": True}[obj.key.name])

        waiting = asyncio.create_task(informer.wait_for("default/c", picky))
        other = asyncio.create_task(informer.wait_for("default/c", bool))
        await settle()
        apiserver.create(pod("c"))
        with pytest.raises(KeyError, match="c"):
            await waiting
        assert await other is not None
        assert informer.crash is None


@pytest.mark.covers("client-go tools/watch: TestUntilTimeout")
async def test_a_wait_that_times_out_shows_the_cached_object(apiserver: APIServer) -> None:
    made = apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        with pytest.raises(WaitTimeoutError, match="it exists at") as raised:
            await informer.wait_for("default/a", is_gone, timeout_seconds=0.01)
        error = raised.value
        assert isinstance(error, TimeoutError)
        assert (error.exists, error.state) == (True, "watching")
        assert error.resource_version == made["metadata"]["resourceVersion"]
        with pytest.raises(WaitTimeoutError, match="it does not exist"):
            await informer.wait_for("default/b", bool, timeout_seconds=0)


@pytest.mark.covers("client-go tools/watch: TestUntilWithSync")
async def test_the_first_sync_is_waited_for_within_the_same_time(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster, SharedInformer(cluster, "v1", "pods") as informer:
        asked: list[object] = []
        with pytest.raises(WaitTimeoutError, match="has not synced") as raised:
            await informer.wait_for("default/b", asked.append, timeout_seconds=0)
        assert raised.value.exists is None
        assert asked == []  # what is not there yet is not taken for absent
        waiting = asyncio.create_task(informer.wait_for("default/a", bool, timeout_seconds=100))
        gone = asyncio.create_task(informer.wait_for("default/b", is_gone, timeout_seconds=100))
        await until(lambda: any(one.verb == "watch" for one in apiserver.requests))
        assert not waiting.done()
        apiserver.faults.release()
        assert await waiting is not None
        assert await gone is None


@pytest.mark.covers("client-go tools/watch: TestUntilWithSync")
async def test_a_first_sync_that_will_not_come_ends_the_wait_at_once(apiserver: APIServer) -> None:
    """Be it known when the wait begins, or found out meanwhile."""
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "acme.io/v1", "gadgets", absent="require") as informer,
        asyncio.timeout(100),
    ):
        for _ in range(2):
            with pytest.raises(CacheSyncTimeoutError, match="install its definition"):
                await informer.wait_for("default/a", is_gone, timeout_seconds=3600)
            assert core_of(informer).introspection.reflector_state()[0] == "absent"


NO_VERSIONS = (
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"abc"},"items":['
    b'{"metadata":{"name":"a","namespace":"bad","uid":"u","resourceVersion":"abc"}}]}'
)


async def test_a_wait_outlives_a_namespace_that_will_not_sync(apiserver: APIServer) -> None:
    apiserver.watch_list = False
    apiserver.faults.add(
        Fault(resource="pods", namespace="bad", verb="list", body=NO_VERSIONS, times=None)
    )
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(
            cluster, "v1", "pods", namespaces=["good", "bad"], options=HURRIED
        ) as informer,
        asyncio.timeout(100),
    ):
        good = asyncio.create_task(informer.wait_for("good/a", bool, timeout_seconds=3600))
        with pytest.raises(CacheSyncTimeoutError, match=r"pods.v1 in bad: failed"):
            await informer.wait_for("bad/a", bool, timeout_seconds=3600)
        apiserver.create(pod("a", namespace="good"))
        assert await good is not None


async def test_closing_releases_all_waiters_for_a_key(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        waiting = asyncio.create_task(informer.wait_for("default/a", bool))
        await settle()
    with pytest.raises(LifecycleError, match="closed"):
        await waiting
    with pytest.raises(LifecycleError):
        await informer.wait_for("default/a", bool)


async def test_a_cancelled_wait_leaves_nothing_behind(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        asked: list[object] = []
        waiting = asyncio.create_task(informer.wait_for("default/a", asked.append))
        other = asyncio.create_task(informer.wait_for("default/a", bool))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        apiserver.create(pod("a"))
        assert await other is not None
        assert asked == [None]


async def test_an_invalid_wait_is_refused(apiserver: APIServer) -> None:
    async def never(obj: KubeObject[Any] | None) -> bool:
        return obj is None

    def returns_coroutine(obj: KubeObject[Any] | None) -> object:
        return never(obj)

    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces="default") as informer,
    ):
        wait_for: Any = informer.wait_for
        with pytest.raises(NotCachedError, match="other"):
            await wait_for("other/a", bool)
        with pytest.raises(InvalidTypeError, match="key"):
            await wait_for(b"default/a", bool)
        for asynchronous in (never, returns_coroutine):
            with pytest.raises(InvalidTypeError, match="asynchronous"):
                await wait_for("default/a", asynchronous)
        with pytest.raises(InvalidTypeError):
            await wait_for("default/a", lambda: True)
        with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
            await wait_for("default/a", bool, timeout_seconds=-1)


async def test_an_informer_that_was_not_started_has_nothing_to_wait_for(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        with pytest.raises(LifecycleError, match="start it first"):
            await SharedInformer(cluster, "v1", "pods").wait_for("default/a", bool)


async def test_a_lister_reads_only_what_was_proven_lately(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as informer:
        assert "default/a" in informer.lister.fresh(max_age_seconds=60)
        impossible = informer.lister.fresh(max_age_seconds=0)
        with pytest.raises(StaleCacheError, match="its reader allows 0 s") as raised:
            await asyncio.to_thread(impossible.list)
        assert raised.value.max_age_seconds == 0
        assert raised.value.age_seconds is not None
        assert len(informer.lister.fresh(max_age_seconds=0).list(allow_unsynced=True)) == 1
        with pytest.raises(InvalidArgumentError, match="max_age_seconds"):
            informer.lister.fresh(max_age_seconds=-1)


async def test_a_namespace_is_waited_for_as_long_as_it_is_followed(apiserver: APIServer) -> None:
    for namespace in ("one", "two"):
        apiserver.create(pod("a", namespace=namespace))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces=["one"]) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        with pytest.raises(NotCachedError, match="two"):
            await informer.wait_for("two/a", bool)
        await informer.set_namespaces(["one", "two"])
        assert await informer.wait_for("two/a", bool, timeout_seconds=100) is not None
        assert "two/a" in informer.lister.fresh(max_age_seconds=60)
        gone = asyncio.create_task(informer.wait_for("two/a", labelled("never")))
        await settle()
        await informer.set_namespaces(["one"])
        with pytest.raises(NotCachedError, match="two"):
            await gone


async def test_a_fresh_lister_reads_what_the_informer_reads_by_then(apiserver: APIServer) -> None:
    for namespace in ("one", "two"):
        apiserver.create(pod("a", namespace=namespace))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", namespaces=["one"]) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        fresh = informer.lister.fresh(max_age_seconds=60)
        assert fresh.keys() == ["one/a"]
        await informer.set_namespaces(["two"])
        await informer.wait_for("two/a", bool, timeout_seconds=100)
        assert fresh.keys() == ["two/a"]
        assert [obj.key for obj in fresh.namespace("two").list()] == ["two/a"]


class Broken:
    """A receiver of ours with a bug."""

    def put_nowait(self, event: object) -> None:
        """Fail."""
        raise ZeroDivisionError("a bug of ours")

    def preload_nowait(self, objects: object) -> None:
        """Take what exists."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


async def test_an_internal_crash_is_raised_in_every_wait(apiserver: APIServer) -> None:
    with pytest.raises(InternalError):
        async with informer_of(apiserver) as informer:
            waiting = asyncio.create_task(informer.wait_for("default/a", bool))
            await settle()
            core_of(informer).attach_receiver(Broken())
            apiserver.create(pod("boom"))
            with pytest.raises(InternalError, match="ZeroDivisionError"):
                await waiting
