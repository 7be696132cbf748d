"""What controllers write besides their work: owners, finalizers, events and conditions.

Each server has validations of its own; what the helpers make passes those of both.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.errors import NotFoundError
from tests.integration.objects import CONFIG_MAPS, NODES, PODS, unique
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

OURS = "suite.example.com/ours"
THEIRS = "suite.example.com/theirs"


def _events(server: Server, namespace: str) -> list[JSONObject]:
    return server.api.list("events.k8s.io/v1", "events", namespace)


@pytest.mark.covers(
    "controller-runtime pkg/internal/recorder: deprecated recorder / should publish events",
    "kube-runtime src: event_recorder_attaches_events",
)
async def test_events_and_their_series_are_accepted(server: Server) -> None:
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.controller.EventRecorder(cluster, "suite.example.com/recorder") as recorder,
    ):
        pod = await cluster.create(PODS.make("a"), namespace=namespace)
        other = await cluster.create(CONFIG_MAPS.make("b"), namespace=namespace)
        for number in range(3):
            recorder.event(
                pod, "Suite", f"time {number}: " + "x" * 2000, type="Warning", related=other
            )
        recorder.event(other, "R" * 200, action="A" * 200)
        await until(lambda: recorder.statistics().waiting == 0)
        await recorder.aclose()

        assert recorder.statistics().failed == 0
        found = {event["regarding"]["kind"]: event for event in _events(server, namespace)}
        assert sorted(found) == ["ConfigMap", "Pod"]
        assert found["Pod"]["series"]["count"] == 3
        assert len(found["Pod"]["note"]) == 1024
        assert found["Pod"]["related"]["name"] == "b"
        assert len(found["ConfigMap"]["reason"]) == 128


@pytest.mark.covers("kube-runtime src: event_recorder_attaches_events")
async def test_a_second_event_is_a_patch_of_the_first(server: Server) -> None:
    namespace = server.namespace()
    async with (
        server.connect() as cluster,
        pyinformer.controller.EventRecorder(cluster, "recorder") as recorder,
    ):
        pod = await cluster.create(PODS.make("a"), namespace=namespace)
        recorder.event(pod, "Suite")
        await until(lambda: recorder.statistics().written == 1)
        recorder.event(pod, "Suite")
        await until(lambda: recorder.statistics().written == 2)

        (event,) = _events(server, namespace)
        assert event["series"]["count"] == 2


@pytest.mark.covers("client-go tools/events: TestEventf")
async def test_events_with_long_texts_and_odd_names_are_accepted(server: Server) -> None:
    namespace = server.namespace()
    text = "\u00e4\U0001f642" * 1000
    role: JSONObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "system:a..b.:c", "namespace": namespace},
    }
    async with (
        server.connect() as cluster,
        pyinformer.controller.EventRecorder(cluster, "recorder", instance=text) as recorder,
    ):
        recorder.event(role, f"R{text}", f"x{text}\udcff", action=text)
        await until(lambda: recorder.statistics().written == 1, what=recorder.statistics)

        (event,) = _events(server, namespace)
        assert event["note"].startswith("x\u00e4\U0001f642")
        assert event["regarding"]["name"] == "system:a..b.:c"


@pytest.mark.covers("kube-runtime src: event_recorder_attaches_events")
async def test_events_about_cluster_scoped_objects_are_accepted(server: Server) -> None:
    async with (
        server.connect() as cluster,
        pyinformer.controller.EventRecorder(cluster, "recorder") as recorder,
    ):
        node = await cluster.create(NODES.make(unique("node")))
        recorder.event(node, "Suite")
        await recorder.aclose()

        assert recorder.statistics().written == 1
        await cluster.delete(node)


async def test_a_finalizer_is_added_and_removed_beside_another_one(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        made = CONFIG_MAPS.make("a")
        made["metadata"]["finalizers"] = [THEIRS]
        stale = await cluster.create(made, namespace=namespace)
        key = str(stale.key)
        await cluster.patch(stale, {**stale.to_dict(), "data": {"x": "y"}})

        async with pyinformer.controller.finalizer(cluster, stale, OURS) as held:
            assert held.phase == "active"
        await cluster.delete(stale)
        deleted = await cluster.get("v1", "configmaps", key)
        assert deleted.metadata.finalizers == (THEIRS, OURS)

        async with pyinformer.controller.finalizer(cluster, deleted, OURS) as held:
            assert held.phase == "deleting"
        left = await cluster.get("v1", "configmaps", key)
        assert left.metadata.finalizers == (THEIRS,)

        async with pyinformer.controller.finalizer(cluster, left, THEIRS) as held:
            assert held.phase == "deleting"
        with pytest.raises(NotFoundError):
            await cluster.get("v1", "configmaps", key)


async def test_a_finalizer_is_not_added_to_what_is_being_deleted(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        made = CONFIG_MAPS.make("a")
        made["metadata"]["finalizers"] = [THEIRS]
        stale = await cluster.create(made, namespace=namespace)
        await cluster.delete(stale)

        async with pyinformer.controller.finalizer(cluster, stale, OURS) as held:
            assert held.phase == "gone"

        left = await cluster.get("v1", "configmaps", str(stale.key))
        async with pyinformer.controller.finalizer(cluster, left, THEIRS):
            pass


async def test_concurrent_finalizers_of_one_object_are_all_kept(server: Server) -> None:
    namespace = server.namespace()
    names = [f"suite.example.com/f{number}" for number in range(4)]
    async with server.connect() as cluster:
        obj = await cluster.create(CONFIG_MAPS.make("a"), namespace=namespace)

        async def hold(name: str) -> None:
            async with pyinformer.controller.finalizer(cluster, obj, name) as held:
                assert held.phase == "active"

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(hold(name))
        held = await cluster.get("v1", "configmaps", str(obj.key))
        assert sorted(held.metadata.finalizers) == names

        await cluster.delete(held)
        deleted = await cluster.get("v1", "configmaps", str(obj.key))

        async def release(name: str) -> None:
            async with pyinformer.controller.finalizer(cluster, deleted, name) as held:
                assert held.phase == "deleting"

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(release(name))
        with pytest.raises(NotFoundError):
            await cluster.get("v1", "configmaps", str(obj.key))


async def test_owner_references_are_accepted_by_the_server(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        owner = await cluster.create(CONFIG_MAPS.make("owner"), namespace=namespace)
        second = await cluster.create(CONFIG_MAPS.make("second"), namespace=namespace)
        wanted = CONFIG_MAPS.make("owned", namespace)
        pyinformer.controller.set_controller_reference(owner, wanted)
        pyinformer.controller.set_owner_reference(second, wanted)

        owned = await cluster.create(wanted)

        assert owned.metadata.controller is not None
        assert owned.metadata.controller.uid == owner.metadata.uid
        assert [each.name for each in owned.metadata.owner_references] == ["owner", "second"]


async def test_conditions_are_taken_and_written_once(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        pod = await cluster.create(PODS.make("a"), namespace=namespace)

        async def set_ready() -> str:
            current = await cluster.get("v1", "pods", str(pod.key))
            conditions = pyinformer.controller.set_condition(
                current.at("status.conditions", default=None),
                "suite.example.com/Ready",
                status=True,
                reason="AllUp",
                message="all is well",
            )
            status = {**current.at("status", default={}), "conditions": conditions}
            return (await cluster.status(current, status)).metadata.resource_version

        first = await set_ready()

        assert await set_ready() == first
        stored = await cluster.get("v1", "pods", str(pod.key))
        assert pyinformer.controller.is_condition_true(
            stored.at("status.conditions"), "suite.example.com/Ready"
        )
