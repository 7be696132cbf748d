"""One source of each kind, fed by a server over real HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.controller.sources import (
    OwnedSource,
    OwnerKind,
    PrimarySource,
    SourceOptions,
    TimerSource,
    WatchedSource,
    labels_changed,
    matches,
)
from pyinformer.errors import LifecycleError
from pyinformer.objects import View
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.controller.sources.feeding import Noted
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.controller.sources import Source
    from pyinformer.objects import JSONObject, KubeObject
    from pyinformer.testing import APIServer


class NodeView(View):
    """Where a pod runs, as a text."""

    class Spec(View):
        """The condition in a pod's status."""

        node_name: str = ""

    spec: Spec = Spec()


def _config_map(name: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def _owned(name: str, by: str) -> JSONObject:
    found = pod(name)
    reference: JSONObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": by,
        "uid": f"uid-{by}",
        "controller": True,
    }
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    metadata["ownerReferences"] = [reference]
    return found


@asynccontextmanager
async def _running(*sources: Source) -> AsyncIterator[Noted]:
    noted = Noted()
    tasks = []
    for source in sources:
        source.attach(noted)
        tasks.append(asyncio.create_task(source.run()))
    try:
        for source in sources:
            await asyncio.wait_for(source.wait_synced(), 10)
        yield noted
    finally:
        for source, task in zip(sources, tasks, strict=True):
            source.detach()
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.covers(
    "controller-runtime pkg/source: for a Deployment resource / should provide Deployment",
    "controller-runtime pkg/source: for a Pod resource / should provide a Pod CreateEvent",
)
async def test_each_source_requests_objects_of_a_server(apiserver: APIServer) -> None:
    apiserver.create(_config_map("a"))
    apiserver.create(_owned("of-a", "a"))
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(cluster_of(apiserver))
        maps = pyinformer.SharedInformer(cluster, "v1", "configmaps", options=HURRIED)
        pods = pyinformer.SharedInformer(cluster, "v1", "pods", options=HURRIED, model=NodeView)

        def of_node(obj: KubeObject[NodeView]) -> str:
            return obj.view.spec.node_name

        def is_scheduled(obj: KubeObject[NodeView]) -> bool:
            return bool(obj.view.spec.node_name)

        kind = await cluster.discovery.resource(maps.scope.resource)
        primary = PrimarySource(maps)
        owned = OwnedSource(pods)
        owned.set_owner(OwnerKind(kind.resource.group, kind.kind, kind.namespaced))
        watched = WatchedSource(pods, of_node, predicate=labels_changed | matches(is_scheduled))
        timer = TimerSource(0.05, "default/timed")
        for informer in (maps, pods):
            await stack.enter_async_context(informer)
        async with _running(primary, owned, watched) as noted:
            assert set(noted.lines[:3]) == {"default/a initial -100", "n0 initial -100"}
            assert [obj.key for obj in owned.owned_by("default/a")] == ["default/of-a"]

            apiserver.create(_config_map("b"))
            await until(lambda: "default/b added 0" in noted.lines)
            apiserver.create(_owned("of-b", "b"))
            await until(lambda: noted.lines.count("default/b added 0") == 2)
            apiserver.delete("v1", "pods", "of-a")
            await until(lambda: {"default/a deleted 0", "n0 deleted 0"} <= set(noted.lines))
            assert owned.owned_by("default/a") == []
        assert "owned pods.v1" in {reason.source for reason in noted.reasons}
        async with _running(timer) as noted:
            await until(lambda: "default/timed timer 0" in noted.lines)


async def test_a_source_that_joins_late_and_resyncs_gets_all_that_is_there(
    apiserver: APIServer,
) -> None:
    for name in ("a", "b"):
        apiserver.create(_config_map(name))
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "configmaps", options=HURRIED) as maps,
    ):
        await maps.wait_for_cache_sync(timeout_seconds=100)
        options = SourceOptions(resync_period_seconds=0.1)
        async with _running(PrimarySource(maps, options=options)) as noted:
            assert set(noted.lines) >= {"default/a initial -100", "default/b initial -100"}
            await until(lambda: noted.lines.count("default/b resync -100") >= 2)

        before = len(noted.lines)
        apiserver.create(_config_map("c"))
        await until(lambda: maps.lister.get("default/c") is not None)
        assert len(noted.lines) == before, "it was detached"


async def test_a_closed_informer_takes_no_source(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        maps = pyinformer.SharedInformer(cluster, "v1", "configmaps")
        await maps.aclose()
        source = PrimarySource(maps)

        with pytest.raises(LifecycleError, match="closed"):
            source.attach(Noted())
        source.detach()
