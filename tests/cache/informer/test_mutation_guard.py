"""Shared decoded objects: one dict for all readers, and what happens to those who change it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import pytest

import pyinformer
from pyinformer.cache.audit import CacheMutation, MutationDetector
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory, core_of
from pyinformer.errors import (
    CacheMutatedError,
    CacheNotSyncedError,
    InformerConflictError,
    InvalidArgumentError,
    ObjectNotFoundError,
)
from pyinformer.objects import Added, Event, KubeObject
from tests.cache.informer.clusters import cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pyinformer.cache.audit import MutationMode
    from pyinformer.testing import APIServer

_SOON = 0.02


@asynccontextmanager
async def sharing(
    server: APIServer,
    mode: MutationMode = "off",
    *,
    period_seconds: float = _SOON,
) -> AsyncIterator[SharedInformer[None]]:
    """Run an informer that shares, synced, with a detector of this mode."""
    detector = MutationDetector(
        mode, period_seconds=period_seconds, budget_seconds=period_seconds / 4
    )
    async with (
        cluster_of(server) as cluster,
        SharedInformer(
            cluster,
            "v1",
            "pods",
            sharing="decoded",
            mutation_detector=detector,
        ) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        yield informer


def change(shared: Mapping[str, Any], value: object = 1) -> None:
    """Do what no reader may."""
    cast("dict[str, Any]", shared)["metadata"]["x"] = value


@pytest.mark.covers("controller-runtime pkg/cache: should deep copy the object")
async def test_all_readers_share_one_dict_until_the_object_is_replaced(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a", app="web"))
    apiserver.create(pod("b"))
    async with sharing(apiserver) as pods:
        pods.add_index("node", "spec.nodeName")
        shared = pods.lister.decoded
        obj = pods.lister["default/a"]
        first = shared["default/a"]

        assert first == obj.to_dict()
        assert first is shared.get("default/a")
        assert first is shared.of(obj)
        assert first is shared.list(namespace="default", label_selector="app=web")[0]
        assert any(first is one for one in shared.by_index("node", "n0"))
        assert len(shared.list()) == 2
        assert "default/a" in shared
        assert shared.get("default/none") is None
        with pytest.raises(ObjectNotFoundError):
            _ = shared["default/none"]

        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"app": "db"}}})
        await until(lambda: shared["default/a"]["metadata"]["labels"]["app"] == "db")
        assert first["metadata"]["labels"]["app"] == "web"
        assert shared.of(obj) is not shared.of(obj)  # replaced: decoded for each by itself


async def test_only_objects_that_are_read_are_kept_decoded_while_they_are_cached(
    apiserver: APIServer,
) -> None:
    for name in "abc":
        apiserver.create(pod(name))
    async with sharing(apiserver) as pods:
        kept = core_of(pods).mutation_guard.decoded
        assert kept is not None
        assert len(kept) == 0
        _ = pods.lister.decoded["default/a"], pods.lister.decoded["default/b"]
        assert len(kept) == 2
        apiserver.delete("v1", "pods", "a")
        await until(lambda: "default/a" not in pods.lister)
        assert len(kept) == 1


async def test_threads_that_read_at_once_get_one_dict(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug") as pods:
        start, got = threading.Barrier(4), list[object]()

        def read() -> None:
            start.wait()
            got.append(pods.lister.decoded["default/a"])

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(one is got[0] for one in got)


async def test_an_unsynced_cache_raises_with_shared_objects_too(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", sharing="decoded")
        with pytest.raises(CacheNotSyncedError):
            pods.lister.decoded.list()
        assert pods.lister.decoded.list(allow_unsynced=True) == []
        await pods.aclose()


async def test_callers_of_a_shared_informer_must_agree_on_sharing(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        first = factory.informer("v1", "pods", sharing="decoded")
        assert factory.informer("v1", "pods", sharing="decoded") is first
        assert first.mutation_detector is factory.mutation_detector
        with pytest.raises(InformerConflictError, match="sharing"):
            factory.informer("v1", "pods")
        with pytest.raises(InvalidArgumentError, match="private, decoded"):
            factory.informer("v1", "services", sharing=cast("Any", "all"))


@pytest.mark.covers("client-go tools/cache: TestMutationDetector")
async def test_sample_mode_finds_heals_and_counts_a_mutation(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "sample") as pods:
        pods.add_event_handler(lambda _: None, name="culprit")
        before = pods.lister["default/a"].raw
        change(pods.lister.decoded["default/a"])
        await until(lambda: pods.mutation_detector.recent)

        (mutation,) = pods.mutation_detector.recent
        assert (mutation.key, mutation.handlers) == ("default/a", ("culprit",))
        assert [str(path) for path in mutation.paths] == ["metadata.x: absent became int"]
        assert "x" not in pods.lister.decoded["default/a"]["metadata"]
        assert pods.lister["default/a"].raw is before
        assert core_of(pods).mutation_guard.mutations == 1
        assert caplog.text.count("was changed in place") == 1


async def test_a_relist_checks_everything_for_mutations(apiserver: APIServer) -> None:
    """The period is an hour: only the relist and its hurry can find it."""
    apiserver.create(pod("a"))
    found = anyio.Event()
    detector = MutationDetector("sample", on_mutation=lambda _: found.set())
    async with sharing(apiserver) as pods:
        lists = [object()]
        sharing_of = core_of(pods).mutation_guard
        decoded = pods.lister.decoded["default/a"]
        change(decoded)
        detector._period_seconds = _SOON
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: detector.run(sharing_of, relists=lambda: lists[-1]))
            lists.append(object())
            with anyio.fail_after(100):
                await found.wait()
            group.cancel_scope.cancel()


@pytest.mark.covers("client-go tools/cache: TestMutationDetector")
async def test_a_check_on_demand_covers_everything(apiserver: APIServer) -> None:
    for number in range(30):
        apiserver.create(pod(f"p{number}"))
    async with sharing(apiserver, "sample", period_seconds=600.0) as pods:
        await asyncio.sleep(0)
        for shared in pods.lister.decoded.list():
            change(shared)
        found = await pods.mutation_detector.verify()

        assert len({mutation.key for mutation in found}) == 30
        assert await pods.mutation_detector.verify() == ()


async def test_an_object_that_cannot_be_decoded_hides_no_other(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    value = b'{"a":' * 10_500 + b"1" + b"}" * 10_500
    async with sharing(apiserver) as pods:
        apiserver.advance_resource_version()
        meta = b'"name":"deep","namespace":"default","uid":"u","resourceVersion":"%s"'
        meta %= apiserver.resource_version.encode()
        body = b'{"kind":"Pod","apiVersion":"v1","metadata":{%s},"spec":%s}' % (meta, value)
        apiserver.emit_raw("v1", "pods", b'{"type":"ADDED","object":%s}\n' % body)
        await until(lambda: pods.lister.get("default/deep"))

        assert [one["metadata"]["name"] for one in pods.lister.decoded.list()] == ["a"]
        assert pods.lister["default/deep"].problem
        with pytest.raises(pyinformer.errors.InvalidObjectError, match="nested too deeply"):
            pods.lister.decoded.get("default/deep")


async def test_a_plain_handler_gets_the_error_of_its_own_mutation(apiserver: APIServer) -> None:
    """What H1 does fails H1, by name and line; H2, the lister and the bytes know nothing of it."""
    seen: list[bool] = []

    async with sharing(apiserver, "debug") as pods:

        def h1(event: Event[None]) -> None:
            change(pods.lister.decoded.of(cast("Added[None]", event).object))

        def h2(event: Event[None]) -> None:
            shared = pods.lister.decoded.of(cast("Added[None]", event).object)
            seen.append("x" in shared["metadata"])

        pods.add_event_handler(h1, name="H1")
        pods.add_event_handler(h2, name="H2")
        apiserver.create(pod("a"))
        await until(lambda: len(seen) == 1)
        first, second = pods.status().handlers

        assert (first.failed, first.delivered, second.failed) == (1, 0, 0)
        assert first.last_error is not None
        assert first.last_error.startswith("CacheMutatedError")
        assert seen == [False]
        (mutation,) = pods.mutation_detector.recent
        assert mutation.handlers == ("H1",)
        assert [site.rpartition(":")[0] for site in mutation.call_sites] == [__file__]


async def test_an_async_handler_gets_the_error_at_its_next_await(apiserver: APIServer) -> None:
    errors: list[CacheMutatedError] = []
    ended = anyio.Event()

    async with sharing(apiserver, "debug") as pods:

        async def handler(event: Event[None]) -> None:
            shared = pods.lister.decoded.of(cast("Added[None]", event).object)
            await asyncio.sleep(0)
            change(shared)
            try:
                await asyncio.Event().wait()
            except CacheMutatedError as error:
                errors.append(error)
            await asyncio.sleep(0)  # it may continue
            ended.set()

        pods.add_event_handler(handler, name="careless")
        apiserver.create(pod("a"))
        with anyio.fail_after(100):
            await ended.wait()
        await until(lambda: pods.status().handlers[0].delivered == 1)

        assert errors[0].key == "default/a"
        assert errors[0].paths == ("metadata.x: absent became int",)
        assert "careless" in errors[0].readers


async def test_a_handler_in_a_thread_gets_the_error_when_its_call_ends(
    apiserver: APIServer,
) -> None:
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:

        def blocking(event: Event[None]) -> None:
            change(pods.lister.decoded.of(cast("Added[None]", event).object))

        pods.add_event_handler(pyinformer.in_thread(blocking), name="threaded")
        apiserver.create(pod("a"))
        await until(lambda: pods.status().handlers[0].failed == 1)

        assert pods.mutation_detector.recent[0].handlers == ("threaded",)


async def test_a_handler_that_only_reads_is_called_normally(apiserver: APIServer) -> None:
    async with sharing(apiserver, "debug") as pods:

        async def handler(event: Event[None]) -> None:
            shared = pods.lister.decoded.of(cast("Added[None]", event).object)
            await anyio.lowlevel.checkpoint()
            with anyio.move_on_after(0.001):
                await anyio.sleep_forever()
            assert shared["metadata"]["name"] == "a"

        pods.add_event_handler(handler)
        apiserver.create(pod("a"))
        await until(lambda: pods.status().handlers[0].delivered == 1)
        assert pods.status().handlers[0].failed == 0


async def test_a_guarded_handler_is_cancelled_once_and_may_clean_up(apiserver: APIServer) -> None:
    steps: list[str] = []
    async with sharing(apiserver, "debug") as pods:

        async def handler(event: Event[None]) -> None:
            del event
            try:
                steps.append("begun")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                steps.append("cleaned up")

        pods.add_event_handler(handler)
        apiserver.create(pod("a"))
        await until(lambda: steps)
    assert steps == ["begun", "cleaned up"]


async def test_outside_of_handlers_the_next_await_of_the_informer_raises(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        change(pods.lister.decoded["default/a"])
        with pytest.raises(CacheMutatedError, match=r"metadata\.x"):
            await pods.wait_for_cache_sync()
        change(pods.lister.decoded["default/a"], 2)
        with pytest.raises(CacheMutatedError):
            await pods.wait_until("1", key="default/a")
        await pods.wait_for_cache_sync()  # each is raised once


async def test_the_read_after_a_mutation_raises_and_the_next_is_unmodified(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        change(pods.lister.decoded["default/a"])
        with pytest.raises(CacheMutatedError):
            _ = pods.lister.decoded["default/a"]
        assert pods.lister.decoded["default/a"] == pods.lister["default/a"].to_dict()


async def test_a_mutation_that_another_thread_finds_first_is_reported_to_its_reader_too(
    apiserver: APIServer,
) -> None:
    heard: list[str] = []

    def hear(_: CacheMutation) -> None:
        try:
            core_of(pods).mutation_guard.check_nowait()
        except CacheMutatedError as error:
            heard.append(error.key)

    def in_another_thread(mutation: CacheMutation) -> None:
        thread = threading.Thread(target=hear, args=(mutation,))
        thread.start()
        thread.join()

    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        pods.mutation_detector.ledger.listeners.append(in_another_thread)
        change(pods.lister.decoded["default/a"])
        with pytest.raises(CacheMutatedError):
            _ = pods.lister.decoded["default/a"]
    assert heard == ["default/a"]


async def test_unreported_mutations_are_bounded(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        for value in range(1_000):
            change(pods.lister.decoded["default/a"], value)
            pods.mutation_detector.verify_nowait()
        assert pods.mutation_detector.statistics().mutations == 1_000
        assert len(core_of(pods).mutation_guard._unreported) <= 100


async def test_a_stream_raises_at_the_step_after_the_mutation(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    apiserver.create(pod("b"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods, pods.events() as events:
        with pytest.raises(CacheMutatedError):
            async for event in events:
                change(pods.lister.decoded.of(cast("Added[None]", event).object))


async def test_a_mutation_is_found_though_its_object_was_replaced(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        change(pods.lister.decoded["default/a"])
        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"app": "db"}}})
        await until(lambda: pods.mutation_detector.recent)
        with pytest.raises(CacheMutatedError):
            await pods.wait_for_cache_sync()


async def test_closing_the_informer_checks_for_mutations(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug", period_seconds=600.0) as pods:
        await asyncio.sleep(0)
        change(pods.lister.decoded["default/a"])
    assert [mutation.key for mutation in pods.mutation_detector.recent] == ["default/a"]


async def test_mode_off_checks_nothing(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "off") as pods:
        change(pods.lister.decoded["default/a"])
        await pods.wait_for_cache_sync()
        assert await pods.mutation_detector.verify() == ()
        assert pods.lister.decoded["default/a"]["metadata"]["x"] == 1  # as the mode promises


async def test_an_index_function_whose_answer_changes_is_named_and_put_right(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    owners = {"default/a": "red"}
    found = list[CacheMutation]()
    detector = MutationDetector("sample", period_seconds=_SOON, on_mutation=found.append)

    def team(obj: KubeObject[None]) -> str:
        return owners[obj.key]

    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, mutation_detector=detector) as factory,
    ):
        pods = factory.informer("v1", "pods")
        pods.add_index("team", team)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        owners["default/a"] = "blue"
        await until(lambda: found)

        assert [obj.key for obj in pods.lister.by_index("team", "blue")] == ["default/a"]
        assert pods.lister.by_index("team", "red") == []
        assert found[0].what == "what index function team returns"


async def test_without_sharing_nothing_is_wrapped_and_nothing_is_swept(
    apiserver: APIServer,
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods") as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert pods.mutation_detector.statistics().checked == 0
        assert await pods.mutation_detector.verify() == ()


async def test_an_own_write_is_shared_before_its_event_arrives(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with sharing(apiserver, "debug") as pods:
        body = pods.lister["default/a"].to_dict()
        body["metadata"]["labels"] = {"mine": "1"}
        await pods.cluster.replace(body)

        first = pods.lister.decoded["default/a"]
        assert first["metadata"]["labels"] == {"mine": "1"}
        assert pods.lister.decoded["default/a"] == pods.lister["default/a"].to_dict()
