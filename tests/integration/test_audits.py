"""Audits on both servers: a lost event is named and repaired, and nothing else is ever found."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from tests.integration.following import Followed, follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS, SECRETS, WIDGET, changed
from tests.integration.workload import SELECTED, Writer, together
from tests.lossy import lossy_cluster
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.client.transport import ListWatch
    from tests.integration.objects import Kind
    from tests.integration.servers import Server

PAGED = pyinformer.cache.ReflectorOptions(page_size=7)
OBJECTS = 20


async def is_followed(one: Followed) -> None:
    """Wait until the watch runs."""
    await one.informer.wait_for_cache_sync(timeout_seconds=100)
    await until(lambda: one.informer.state == "watching")


@pytest.mark.parametrize("kind", [CONFIG_MAPS, WIDGET], ids=["built-in", "custom"])
@pytest.mark.parametrize(
    ("event_type", "found_as"),
    [("ADDED", "missing"), ("MODIFIED", "stale"), ("DELETED", "phantom")],
)
async def test_a_lost_event_is_named_and_repaired(
    server: Server, kind: Kind, event_type: str, found_as: str
) -> None:
    server.serve_widgets()
    namespace = server.namespace()
    made = [server.api.create(kind.make(f"o{n:02}", namespace)) for n in range(OBJECTS)]
    async with (
        lossy_cluster(server.config()) as (cluster, lossy),
        pyinformer.SharedInformerFactory(cluster, options=PAGED) as factory,
    ):
        one = follow(factory, kind.api_version, kind.plural, namespaces=namespace)
        await factory.start()
        await is_followed(one)
        victim = "new" if event_type == "ADDED" else "o07"
        loss = lossy.lose(event_type, victim)
        if event_type == "ADDED":
            server.api.create(kind.make(victim, namespace))
        elif event_type == "MODIFIED":
            server.api.update(changed(made[7], 1))
        else:
            server.api.delete(kind.api_version, kind.plural, victim, namespace)
        server.api.create(kind.make("behind", namespace))
        await asyncio.wait_for(loss.happened.wait(), 10)
        await until(lambda: f"{namespace}/behind" in one.history.mirror)

        report = await one.informer.audit(timeout_seconds=100)

        assert report.verdict == "inconsistent", report
        assert report.mismatches == 1
        assert getattr(report, found_as).keys == (f"{namespace}/{victim}",)
        assert report.repair == "demanded"
        await one.settle(server)
        assert (await one.informer.audit(timeout_seconds=100)).is_consistent


async def test_audits_amid_writes_find_nothing(server: Server) -> None:
    """Ten audits each of three kinds, one of them selected, while all of them are written."""
    server.serve_widgets()
    namespace = server.namespace()
    versions = Versions()
    kinds = (CONFIG_MAPS, SECRETS, WIDGET)
    writers = [Writer(server, kind, namespace, versions) for kind in kinds]
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=PAGED) as factory,
    ):
        followed = [follow(factory, k.api_version, k.plural, namespaces=namespace) for k in kinds]
        followed.append(
            follow(factory, "v1", "configmaps", namespaces=namespace, label_selector=SELECTED)
        )
        await factory.start()
        for one in followed:
            await is_followed(one)
        works = [partial(writer.churn, creates=30, others=120) for writer in writers]
        writing = asyncio.create_task(together(works))
        reports = []
        for _ in range(10):
            for one in followed:
                reports.append(await one.informer.audit(timeout_seconds=100))  # noqa: PERF401
        await writing
        for one in followed:
            await one.settle(server, versions=versions)
            assert one.loads == 1

    assert [str(report) for report in reports if not report.is_consistent] == []


async def test_metadata_lists_of_both_servers_say_the_same(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("a", namespace))
    async with server.connect() as cluster:
        gvr = pyinformer.GroupVersionResource.of("v1", "configmaps")
        source = cluster.list_watch(gvr, namespace=namespace)
        whole, only = await _listed(source), await _listed(source, metadata_only=True)

    assert (only["kind"], only["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    items = {item["metadata"]["name"]: item for item in whole["items"]}
    for item in only["items"]:
        assert item["metadata"] == items[item["metadata"]["name"]]["metadata"]
        assert {name: item[name] for name in item if name != "metadata"} == {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
        }
    assert only["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]


async def _listed(source: ListWatch, *, metadata_only: bool = False) -> Any:
    chunks: list[bytes] = []
    async with source.list(metadata_only=metadata_only) as body:
        while chunk := await body.read():
            chunks.append(chunk)
    return json.loads(b"".join(chunks))


async def test_audits_while_events_expire_together_find_nothing(other_server: Server) -> None:
    """Deletions that share a resource version are never half a difference."""
    server, namespace = other_server, other_server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=PAGED) as factory,
    ):
        one = follow(factory, "v1", "events", namespaces=namespace)
        await factory.start()
        await is_followed(one)
        for number in range(12):
            reference = {"kind": "Pod", "name": "none", "namespace": namespace}
            metadata = {"name": f"e{number}", "namespace": namespace}
            event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata}
            await asyncio.to_thread(
                server.api.create, {**event, "involvedObject": reference, "type": "Normal"}
            )
        await until(lambda: len(one.history.events) >= 12)
        reports = []
        async with asyncio.timeout(100):
            while one.history.mirror:
                reports.append(await one.informer.audit(timeout_seconds=100))
        await one.settle(server)
        assert one.loads == 1

    assert reports
    assert [str(report) for report in reports if report.verdict == "inconsistent"] == []
