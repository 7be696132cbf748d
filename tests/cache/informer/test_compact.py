"""Informers with `memory="compact"`: in everything but memory they are as the others are."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

import pyinformer
from benchmarks.data.pods import PodGenerator
from pyinformer.cache.audit import MutationDetector
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import CompactObject, View
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, listed, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.cache.informer import Memory, QueueKind, SharedInformer
    from pyinformer.objects import JSONObject, KubeObject
    from pyinformer.testing import APIServer

_MANY = 150  # a dictionary is trained after 128
_PODS = PodGenerator(_MANY)


class SpecView(View):
    """One field of the spec."""

    node_name: str = ""


class PodView(View):
    """A projection."""

    spec: SpecView = SpecView()


def big_pod(number: int, **labels: str) -> JSONObject:
    """Return a pod of several kilobytes to create."""
    body: JSONObject = json.loads(_PODS.pod(number, resource_version=1))
    meta = {"name": f"p{number}", "namespace": "default", "labels": labels}
    return {**body, "metadata": {**meta, "annotations": body["metadata"]["annotations"]}}


def state_of(informer: SharedInformer[Any]) -> dict[str, tuple[bytes, Any, Any]]:
    """Return everything that an informer has of each object."""
    return {
        obj.key: (obj.raw, obj.metadata, obj.view)
        for obj in informer.lister.list(allow_unsynced=True)
    }


def is_packed(obj: KubeObject[Any]) -> bool:
    """Return whether a record's body is compressed."""
    body: bytes = pyinformer.KubeObject.__dict__["raw"].__get__(obj)
    return body.startswith(b"\x28\xb5\x2f\xfd")


@asynccontextmanager
async def both(
    server: APIServer, *, queue: QueueKind = "direct"
) -> AsyncIterator[tuple[SharedInformer[PodView], SharedInformer[PodView]]]:
    """Run an informer that compresses and one that does not, synced, with the same indexes."""

    def made(cluster: pyinformer.Cluster, memory: Memory) -> SharedInformer[PodView]:
        informer = pyinformer.SharedInformer(
            cluster, "v1", "pods", model=PodView, memory=memory, queue=queue, options=HURRIED
        )
        informer.add_index("node", "spec.nodeName")
        informer.add_index("policy", "spec.restartPolicy")  # in no view: out of the body
        return informer

    async with (
        cluster_of(server) as cluster,
        made(cluster, "compact") as packed,
        made(cluster, "strip_managed_fields") as usual,
    ):
        for informer in (packed, usual):
            await informer.wait_for_cache_sync(timeout_seconds=100)
        yield packed, usual


async def agreed(server: APIServer, *informers: SharedInformer[Any]) -> None:
    """Wait until the informers have what the server has, and compare all they know of it."""
    for informer in informers:
        await until(lambda: versions_of(informer) == listed(server), what=informer)  # noqa: B023
    first, second = informers
    assert state_of(first) == state_of(second)
    for name in ("node", "policy", "namespace"):
        values = set(first.lister.index_values(name))
        assert values == set(second.lister.index_values(name))
        for value in values:
            found = {obj.key for obj in first.lister.by_index(name, value)}
            assert found == {obj.key for obj in second.lister.by_index(name, value)}


def versions_of(informer: SharedInformer[Any]) -> dict[str, tuple[str, str]]:
    """Return what an informer has: key to uid and resource version."""
    return {
        obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in informer.lister.list()
    }


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_a_compact_informer_holds_what_a_stripped_one_holds(
    apiserver: APIServer, queue: QueueKind
) -> None:
    """Through a first list, additions, updates, deletions, recreations and another list."""
    for number in range(_MANY):
        apiserver.create(big_pod(number))
    async with both(apiserver, queue=queue) as (packed, usual):
        notes, mirrors = Notes(), Notes()
        packed.add_event_handler(cast("Any", notes))
        usual.add_event_handler(cast("Any", mirrors))
        await agreed(apiserver, packed, usual)
        assert sum(map(is_packed, packed.lister.list())) == _MANY

        for number in range(0, _MANY, 7):
            apiserver.update({**big_pod(number, round="2"), "status": {"phase": "Running"}})
        for number in range(0, _MANY, 11):
            apiserver.delete("v1", "pods", f"p{number}")
        apiserver.create(big_pod(0, round="3"))
        apiserver.create(pod("small"))
        await agreed(apiserver, packed, usual)

        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.delete("v1", "pods", "p1")
        apiserver.update(big_pod(2, round="4"))
        apiserver.compact()  # so that only a list can show it
        apiserver.accept_again()
        await agreed(apiserver, packed, usual)
        await until(lambda: notes.mirror == mirrors.mirror == listed(apiserver))
        assert notes.faults == []


async def test_bodies_are_read_as_ever_by_all_that_reads_them(apiserver: APIServer) -> None:
    """Own writes, shared dicts with their detector, audits and explanations."""
    for number in range(_MANY):
        apiserver.create(big_pod(number))
    detector = MutationDetector("debug")
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformer(
            cluster,
            "v1",
            "pods",
            memory="compact",
            sharing="decoded",
            mutation_detector=detector,
            options=HURRIED,
        ) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        before = informer.lister["default/p5"]
        edited = before.to_dict()
        edited["spec"]["activeDeadlineSeconds"] = 9
        written = await cluster.patch(before, edited)
        shown = informer.lister["default/p5"]
        assert shown.at("spec.activeDeadlineSeconds") == 9
        paths = {str(change) for change in pyinformer.diff(before, shown)}
        assert "spec.activeDeadlineSeconds" in paths
        await informer.wait_until(written.metadata.resource_version, timeout_seconds=100)
        assert isinstance(informer.lister["default/p5"], CompactObject)
        assert informer.lister["default/p5"].same_content(shown)

        shared: Any = informer.lister.decoded["default/p6"]
        assert shared["spec"]["nodeName"] == informer.lister["default/p6"].at("spec.nodeName")
        shared["spec"]["nodeName"] = "mine"
        (found,) = detector.verify_nowait()
        assert [str(path) for path in found.paths] == ["spec.nodeName: changed (str)"]

        report = await informer.audit()
        assert report.is_consistent
        assert "It is cached at" in str(informer.explain("default/p7"))


async def test_a_collection_too_small_to_learn_from_is_read_as_any_other(
    apiserver: APIServer,
) -> None:
    async with both(apiserver) as (packed, usual):
        await agreed(apiserver, packed, usual)  # with nothing at all
        for number in range(3):
            apiserver.create(big_pod(number))
        await agreed(apiserver, packed, usual)
        apiserver.delete("v1", "pods", "p1")
        apiserver.update(big_pod(2, round="2"))
        await agreed(apiserver, packed, usual)


@pytest.mark.parametrize("held", [1, _MANY - 30, _MANY])
async def test_closing_amid_the_first_objects_leaves_nothing_behind(
    apiserver: APIServer, held: int
) -> None:
    """Cancelled while it learns: neither a task nor a thread is left."""
    for number in range(held):
        apiserver.create(big_pod(number))
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    async with cluster_of(apiserver) as cluster:
        informer = pyinformer.SharedInformer(
            cluster, "v1", "pods", memory="compact", options=HURRIED
        )
        running = asyncio.create_task(informer.run())
        await until(lambda: informer.is_running)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert asyncio.all_tasks() == tasks
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= threads


async def test_without_a_compressor_compact_is_refused_where_it_is_asked_for(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        with pytest.raises(InvalidArgumentError, match=r"pyinformer\[compact\]") as raised:
            factory.informer("v1", "pods", memory="compact")
        assert raised.value.argument == "memory"
        assert factory.informers == ()
        factory.informer("v1", "pods")
