"""The page on event streams: its programs run, and do what it says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.cache.informer.clusters import informer_of, pod
from tests.docs.pages import module_of
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

PAGE = "docs/howto/event-streams.md"  # its blocks of "python"


async def test_the_stream_of_the_page_yields_what_exists_and_what_changes(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a"))
    async with informer_of(apiserver) as pods:
        telling = asyncio.create_task(module_of(PAGE).first_events(pods, 3))
        made = apiserver.create(pod("b"))
        apiserver.update({**made, "metadata": {**made["metadata"], "labels": {"x": "y"}}})
        told = await telling
    assert [line.split()[:2] for line in told] == [
        ["+", "default/a"],
        ["+", "default/b"],
        ["~", "default/b:"],
    ]


async def test_the_mirror_of_the_page_ends_with_the_right_picture(apiserver: APIServer) -> None:
    apiserver.create({**pod("a"), "status": {"phase": "Pending"}})
    phases: dict[str, object] = {}
    async with informer_of(apiserver) as pods:
        stop = asyncio.Event()
        mirroring = asyncio.create_task(module_of(PAGE).mirror(pods, phases, stop))
        await until(lambda: phases == {"default/a": "Pending"})
        apiserver.create({**pod("b"), "status": {"phase": "Running"}})
        await until(lambda: phases.get("default/b") == "Running")
        stop.set()
        apiserver.delete("v1", "pods", "a")
        await mirroring
    assert phases == {"default/b": "Running"}


async def test_the_wait_of_the_page_sees_a_pod_run_and_go(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as pods:
        doing = asyncio.create_task(module_of(PAGE).start_and_stop(pods, pods.cluster, pod("a")))
        await until(lambda: "default/a" in pods.lister)
        made = apiserver.get("v1", "pods", "a")
        apiserver.update({**made, "status": {"phase": "Running"}})
        assert await doing == "default/a"
        assert "default/a" not in pods.lister


async def test_the_fresh_read_of_the_page_decides_by_proven_freshness(apiserver: APIServer) -> None:
    for name in ("a", "b"):
        apiserver.create(pod(name, node="n1"))
    async with informer_of(apiserver) as pods:
        pods.add_index("node", "spec.nodeName")
        assert module_of(PAGE).may_evict(pods, "n1")
        assert not module_of(PAGE).may_evict(pods, "n2")


async def test_the_page_follows_what_has_a_node(apiserver: APIServer) -> None:
    added: list[str] = []
    deleted: list[str] = []
    apiserver.create(pod("bound"))
    waiting = pod("waiting")
    del waiting["spec"]["nodeName"]
    apiserver.create(waiting)
    async with informer_of(apiserver) as pods:
        module_of(PAGE).follow_scheduled(pods, added, deleted)
        await until(lambda: added == ["default/bound"])
        apiserver.patch("v1", "pods", "waiting", {"spec": {"nodeName": "n1"}})
        await until(lambda: added == ["default/bound", "default/waiting"])
        apiserver.delete("v1", "pods", "bound")
        await until(lambda: deleted == ["default/bound"])
