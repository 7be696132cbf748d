"""Reads after own writes, over real HTTP, while the watch says nothing.

The server's watches stall after the first list, so the cache stays as it was: what a read shows is
the overlay's, until the script lets the watch continue.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import pytest

import pyinformer
from pyinformer.cache.informer import SharedInformer, core_of
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.errors import LifecycleError, StaleCacheError
from pyinformer.objects import Updated
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, Hurry, Notes, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import Event, JSONValue
    from pyinformer.testing import APIServer

_LIST_FIRST = ReflectorOptions(rng=Hurry(), use_watch_list=False)
_KINDS = ["direct", "real_fifo", "delta_fifo"]


class Spec(pyinformer.View):
    """Where a pod is."""

    node_name: str = ""


class PodView(pyinformer.View):
    """What a test projects."""

    spec: Spec = Spec()


@asynccontextmanager
async def stalled(
    server: APIServer, cluster: Cluster, **options: Any
) -> AsyncIterator[SharedInformer[Any]]:
    """Run an informer whose watch stalls."""
    server.faults.add(Fault(verb="watch", stall_after_bytes=0))
    async with SharedInformer(cluster, "v1", "pods", options=_LIST_FIRST, **options) as pods:
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: server.faults.held)
        yield pods


async def arrives(pods: SharedInformer[Any], version: str | None, **arguments: Any) -> None:
    """Wait until a write is in the cache, with more patience than the five seconds by default."""
    await pods.wait_until(version, timeout_seconds=100, **arguments)


@contextmanager
def at_once(server: APIServer) -> Iterator[None]:
    """Fail if what is awaited here asks the server, as every wait does after a second."""
    before = len(server.requests)
    with anyio.fail_after(100):
        yield
    assert not server.requests[before:]


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/writebarrier: TestKeyWriteBarrierSealWithoutInFligh"
)
@pytest.mark.parametrize("queue", _KINDS)
async def test_a_write_is_read_at_once_while_the_watch_is_stalled(
    apiserver: APIServer, queue: str
) -> None:
    apiserver.create(pod("a", tier="t1"))
    apiserver.create(pod("b", tier="t1"))
    async with (
        cluster_of(apiserver) as cluster,
        stalled(apiserver, cluster, queue=queue) as pods,
    ):
        notes = Notes()
        pods.add_event_handler(notes)
        pods.add_index("tier", "metadata.labels.tier")
        await notes.until_heard("add default/a", "add default/b")
        body = pods.lister["default/a"].to_dict()
        body["metadata"]["labels"]["tier"] = "t2"
        updated = await cluster.replace(body)
        created = await cluster.create(pod("c", tier="t2"))
        await cluster.delete(pods.lister["default/b"], grace_period_seconds=0)

        assert pods.lister["default/a"] == updated
        assert pods.lister["default/c"] == created
        assert "default/b" not in pods.lister
        assert sorted(pods.lister.keys()) == ["default/a", "default/c"]
        assert sorted(o.key for o in pods.lister.by_index("tier", "t2")) == [
            "default/a",
            "default/c",
        ]
        assert pods.lister.index_values("tier") == ["t2"]
        assert pods.status().objects == 2  # the cache itself is as it was
        own_writes = pods.status().own_writes
        assert own_writes is not None
        assert own_writes.entries == 3
        assert notes.heard == ["add default/a", "add default/b"]

        apiserver.faults.release()
        await arrives(pods, apiserver.resource_version)
        await notes.until_heard("update default/a", "delete default/b", "add default/c")
        assert not core_of(pods).caches.all[0].freshness.overlay.entries
        assert notes.faults == []
        assert sorted(pods.lister.keys()) == ["default/a", "default/c"]


async def test_an_own_write_has_the_informers_view_and_transform(apiserver: APIServer) -> None:
    def mark(obj: Any) -> Any:
        obj["spec"]["nodeName"] = obj["spec"]["nodeName"].upper()
        return obj

    async with (
        cluster_of(apiserver) as cluster,
        stalled(apiserver, cluster, model=PodView, transform=mark) as pods,
    ):
        await cluster.create(pod("a", node="n1"))
        assert pods.lister["default/a"].view.spec.node_name == "N1"
        assert "managedFields" not in pods.lister["default/a"].to_dict()["metadata"]


async def test_writes_outside_of_the_scope_never_enter(apiserver: APIServer) -> None:
    apiserver.ensure_namespace("other")
    async with (
        cluster_of(apiserver) as cluster,
        stalled(
            apiserver,
            cluster,
            namespaces="default",
            label_selector="app=web",
            field_selector="spec.nodeName=n1",
        ) as pods,
    ):
        await cluster.create(pod("a", app="db"))
        await cluster.create(pod("b", node="n2", app="web"))
        await cluster.create(pod("c", namespace="other", node="n1", app="web"))
        assert not core_of(pods).caches.all[0].freshness.overlay.entries
        web = await cluster.create(pod("d", node="n1", app="web"))
        assert pods.lister.list() == [web]
        body = web.to_dict()
        body["metadata"]["labels"] = {"app": "db"}
        await cluster.replace(body)
        assert pods.lister.list() == []


async def test_an_object_held_by_finalizers_is_not_hidden(apiserver: APIServer) -> None:
    held = pod("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(held)
        assert await cluster.delete(created, grace_period_seconds=0) is not None
        kept = pods.lister["default/a"]
        assert kept.metadata.deletion_timestamp is not None
        body = kept.to_dict()
        del body["metadata"]["finalizers"]
        await cluster.replace(body)
        assert "default/a" not in pods.lister
        again = await cluster.create(pod("a"))
        assert pods.lister["default/a"] == again


async def test_a_list_ends_own_writes_that_the_watch_skipped(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(pod("ghost"))
        apiserver.delete("v1", "pods", "ghost")
        apiserver.restart(keep_history=False)
        apiserver.create(pod("alive"))
        await until(lambda: "default/alive" in pods.lister)
        assert created.key not in pods.lister
        assert not core_of(pods).caches.all[0].freshness.overlay.entries


async def test_a_new_epoch_forgets_what_was_written_before(apiserver: APIServer) -> None:
    saved = apiserver.save()
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        apiserver.faults.release()
        for number in range(5):
            await cluster.create(pod(f"p{number}"))
        await arrives(pods, apiserver.resource_version)
        apiserver.faults.add(Fault(verb="watch", stall_after_bytes=0))
        apiserver.drop_connections()
        await until(lambda: apiserver.faults.held)
        lost = await cluster.create(pod("lost"))
        assert lost.key in pods.lister
        failures: list[BaseException] = []

        async def wait() -> None:
            try:
                await pods.wait_until("999999999", timeout_seconds=100)
            except StaleCacheError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await until(lambda: core_of(pods).caches.all[0].freshness.barrier.waiters)
            apiserver.restore(saved)
            apiserver.faults.clear()
            apiserver.faults.add(Fault(verb="watch", times=1, status=410))
            apiserver.drop_connections()
            await until(lambda: pods.status().reflector.guard.epoch)
        assert "epoch" in str(failures[0])
        assert lost.key not in pods.lister


@pytest.mark.parametrize("queue", _KINDS)
async def test_events_of_a_new_epoch_are_not_mixed_with_earlier_own_writes(
    apiserver: APIServer, queue: str
) -> None:
    for number in range(3):
        apiserver.create(pod(f"p{number}"))
    saved = apiserver.save()
    for number in range(3):
        apiserver.patch("v1", "pods", f"p{number}", {"metadata": {"labels": {"epoch": "old"}}})
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster, queue=queue) as pods:
        lost = await cluster.create(pod("lost"))
        reader = Reader(pods, lost.key)
        core_of(pods).attach_receiver(reader)
        apiserver.restore(saved)
        apiserver.faults.clear()
        apiserver.faults.add(Fault(verb="watch", times=1, status=410))
        apiserver.drop_connections()
        await until(lambda: len(reader.found) == 3)
        assert reader.found == [False] * 3
        core_of(pods).detach_receiver(reader)


class Reader:
    """A receiver that reads a key with every update that it gets."""

    def __init__(self, pods: SharedInformer[Any], key: str) -> None:
        self._pods = pods
        self._key = key
        self.found: list[bool] = []

    def put_nowait(self, event: Event[Any]) -> None:
        """Look whether the key is found in any way."""
        if isinstance(event, Updated):
            lister = self._pods.lister
            keys = [obj.key for obj in lister.list()]
            self.found.append(self._key in keys or self._key in lister)

    def preload_nowait(self, objects: object) -> None:
        """Do nothing."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


async def test_no_writes_are_observed_after_the_end(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        async with stalled(apiserver, cluster) as pods:
            assert pods.cluster is cluster
        await cluster.create(pod("late"))
        assert pods.lister.list(allow_unsynced=True) == []


async def test_a_response_that_the_informer_cannot_keep_fails_no_write(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        stalled(apiserver, cluster, transform=lambda body: body) as pods,
    ):
        created = await cluster.create(pod("a"))
        core_of(pods).own_writes.wrote(created, b'{"kind": "Status"}')
        core_of(pods).own_writes.wrote(created, b"")
        assert len([r for r in caplog.records if "response" in r.message]) == 1
        assert core_of(pods).own_writes.unreadable == 2


@pytest.mark.parametrize("order", ["per_object", "opaque"])
async def test_where_versions_do_not_compare_the_position_proves_no_write(
    apiserver: APIServer, order: Literal["per_object", "opaque"]
) -> None:
    """The write has a version between those that other objects have, and its event is late."""
    for name in ("a", "b"):
        apiserver.create(pod(name))
    async with cluster_of(apiserver) as cluster:
        options = replace(_LIST_FIRST, order=order)
        async with SharedInformer(cluster, "v1", "pods", options=options) as pods:
            await pods.wait_for_cache_sync(timeout_seconds=100)
            body = pods.lister["default/a"].to_dict()
            metadata = cast("dict[str, JSONValue]", body["metadata"])
            metadata["resourceVersion"] = pods.lister["default/b"].metadata.resource_version
            metadata["labels"] = {"written": "here"}
            for number in range(3):
                apiserver.patch("v1", "pods", "b", {"metadata": {"labels": {"n": str(number)}}})
            await arrives(pods, apiserver.resource_version, key="default/b")
            cluster.record_write("v1", "pods", body)
            version = str(metadata["resourceVersion"])

            assert pods.lister["default/a"].metadata.labels == {"written": "here"}
            assert not pods.has_seen(version, key="default/a")
            with pytest.raises(StaleCacheError):
                await pods.wait_until(version, key="default/a", timeout_seconds=0)
            with pytest.raises(StaleCacheError, match="pass the key"):
                await pods.wait_until("1")


async def test_wait_until_ends_with_the_event(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(pod("a"))
        version = created.metadata.resource_version
        assert not pods.has_seen(version, key=created.key)
        async with anyio.create_task_group() as group:
            group.start_soon(arrives, pods, version)
            await until(lambda: core_of(pods).caches.all[0].freshness.barrier.waiters)
            apiserver.faults.release()
        assert pods.has_seen(version)
        assert created.key in core_of(pods).caches.cache


async def test_wait_until_returns_at_once_after_a_write_that_changed_nothing(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        same = await cluster.replace(pods.lister["default/a"].to_dict())
        with at_once(apiserver):
            await pods.wait_until(same.metadata.resource_version, key="default/a")


@pytest.mark.parametrize("by_key", [True, False])
async def test_wait_until_is_released_by_a_live_read_of_an_unselected_object(
    apiserver: APIServer, by_key: bool
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        stalled(apiserver, cluster, label_selector="app=web") as pods,
    ):
        outside = await cluster.create(pod("a", app="db"))
        version = outside.metadata.resource_version
        await pods.wait_until(version, key=outside.key if by_key else None, timeout_seconds=100)
        looks = [r for r in apiserver.requests if r.verb == "list"][1:]
        assert len(looks) == 1
        assert not pods.has_seen(version)  # the position knows nothing of it


async def test_wait_until_is_not_released_by_a_live_read_while_the_cache_is_behind(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        inside = await cluster.create(pod("a"))
        with pytest.raises(StaleCacheError) as caught:
            await pods.wait_until(inside.metadata.resource_version, timeout_seconds=1.5)
        error = caught.value
        assert inside.metadata.resource_version in error.wanted
        assert inside.key in error.wanted
        assert error.position == pods.status().position
        assert error.state == "watching"
        assert error.waited_seconds > 1.4
        assert not core_of(pods).caches.all[0].freshness.barrier.waiters


async def test_wait_until_for_another_namespace_returns_at_once(apiserver: APIServer) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        stalled(apiserver, cluster, namespaces="default") as pods,
    ):
        with at_once(apiserver):
            await pods.wait_until("999999", key="other/a")
        apiserver.ensure_namespace("other")
        own = await cluster.create(pod("a", namespace="other"))
        with at_once(apiserver):
            await pods.wait_until(own.metadata.resource_version)  # its key is remembered
            assert pods.has_seen(own.metadata.resource_version)


async def test_wait_until_reports_why_a_live_read_failed(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(pod("a"))
        apiserver.faults.add(Fault(verb="list", status=403, times=None))
        with pytest.raises(StaleCacheError, match="403"):
            await pods.wait_until(created.metadata.resource_version, timeout_seconds=1.5)


async def test_wait_until_ignores_an_answer_that_is_not_a_list(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(pod("a"))
        apiserver.faults.add(Fault(verb="list", body=b"[]", times=None))
        with pytest.raises(StaleCacheError, match="is not a JSON object"):
            await pods.wait_until(created.metadata.resource_version, timeout_seconds=1.5)


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/writebarrier: TestKeyWriteBarrierSealWithoutInFligh"
)
async def test_many_waiters_are_released_one_by_one(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        waiters = core_of(pods).caches.all[0].freshness.barrier.waiters
        wait_until = partial(pods.wait_until, timeout_seconds=100)
        async with anyio.create_task_group() as group:
            for number in range(50):
                created = await cluster.create(pod(f"p{number}"))
                group.start_soon(wait_until, created.metadata.resource_version)
            group.start_soon(wait_until, "999999999")
            await until(lambda: len(waiters) == 51)
            apiserver.faults.release()
            await until(lambda: len(waiters) == 1)
            group.cancel_scope.cancel()


async def test_wait_until_a_deletion_is_in_the_cache(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        doomed = pods.lister["default/a"]
        uid = doomed.metadata.uid
        await cluster.delete(doomed, grace_period_seconds=0)
        assert not pods.has_seen(None, key="default/a", uid=uid)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: arrives(pods, None, key="default/a", uid=uid))
            await until(lambda: core_of(pods).caches.all[0].freshness.barrier.waiters)
            apiserver.faults.release()
        assert "default/a" not in core_of(pods).caches.cache


async def test_a_deletion_of_what_the_cache_has_not_seen_is_waited_for(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        created = await cluster.create(pod("a"))
        key, uid = created.key, created.metadata.uid
        assert not pods.has_seen(None, key=key, uid=uid)
        await cluster.delete(created, grace_period_seconds=0)
        assert not pods.has_seen(None, key=key, uid=uid)
        apiserver.faults.release()
        await arrives(pods, None, key=key, uid=uid)


async def test_a_deletion_that_the_cache_has_passed_is_not_waited_for(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    async with cluster_of(apiserver) as cluster:
        seen = [await cluster.get("v1", "pods", f"default/{name}") for name in "ab"]
        for name in "ab":
            apiserver.delete("v1", "pods", name)
        async with stalled(apiserver, cluster) as pods:
            for obj in seen:
                assert await cluster.delete(obj) is None  # it is not there any more
                with at_once(apiserver):
                    await pods.wait_until(None, key=obj.key, uid=obj.metadata.uid)
            assert not core_of(pods).caches.all[0].freshness.overlay.entries


async def test_a_deletion_by_name_of_an_unknown_object_is_proven_by_a_live_read(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        unseen = apiserver.create(pod("a"))
        assert await cluster.delete("v1", "pods", "default/a", grace_period_seconds=0) is None
        uid = unseen["metadata"]["uid"]
        assert not pods.has_seen(None, key="default/a", uid=uid)
        await pods.wait_until(None, key="default/a", uid=uid, timeout_seconds=100)


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/writebarrier: TestKeyWriteBarrierSealWithoutInFligh"
)
async def test_a_cancelled_wait_leaves_nothing_behind(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        waiters = core_of(pods).caches.all[0].freshness.barrier.waiters
        async with anyio.create_task_group() as group:
            group.start_soon(arrives, pods, "999999999")
            await until(lambda: waiters)
            group.cancel_scope.cancel()
        assert not waiters
        apiserver.faults.release()
        apiserver.create(pod("a"))
        await arrives(pods, apiserver.resource_version)


async def test_closing_releases_all_waiters_for_a_write(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        ended: list[BaseException] = []

        async def wait() -> None:
            try:
                await pods.wait_until("999999999", timeout_seconds=100)
            except LifecycleError as error:
                ended.append(error)

        async with stalled(apiserver, cluster) as pods, anyio.create_task_group() as group:
            group.start_soon(wait)
            await until(lambda: core_of(pods).caches.all[0].freshness.barrier.waiters)
            await pods.aclose()
        assert len(ended) == 1
        with pytest.raises(LifecycleError):
            await pods.wait_until("1")


async def test_waiting_for_an_informer_that_does_not_run_is_refused(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", options=HURRIED)
        with pytest.raises(LifecycleError):
            await pods.wait_until("1")


@pytest.mark.parametrize(
    ("version", "arguments"),
    [("", {}), (None, {}), (None, {"key": "a"}), ("1", {"timeout_seconds": float("nan")})],
)
async def test_a_wait_for_nothing_is_refused(
    apiserver: APIServer, version: str | None, arguments: dict[str, Any]
) -> None:
    async with cluster_of(apiserver) as cluster, stalled(apiserver, cluster) as pods:
        with pytest.raises(pyinformer.errors.InvalidArgumentError):
            await pods.wait_until(version, **arguments)


@pytest.mark.parametrize("queue", _KINDS)
async def test_a_deletion_ends_a_write_whose_own_event_was_lost(
    apiserver: APIServer, queue: Literal["direct", "real_fifo", "delta_fifo"]
) -> None:
    """The cache does not know the object that goes, and readers see it by the write alone."""
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", options=_LIST_FIRST, queue=queue) as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        apiserver.faults.add(Fault(verb="watch", edit="drop-event"))
        apiserver.end_watches()
        await until(lambda: apiserver.faults.struck)
        created = await cluster.create(pod("a"))
        assert pods.lister["default/a"] == created
        apiserver.delete("v1", "pods", "a", "default")
        await until(lambda: "default/a" not in pods.lister)
