"""In which form objects are had: views, indexes, listers, memory modes, handlers, streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from tests.integration.following import follow
from tests.integration.history import content
from tests.integration.objects import CONFIG_MAPS, changed, pod_on, unique
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server


class PodSpec(pyinformer.View):
    """Where a pod is."""

    node_name: str = ""


class PodStatus(pyinformer.View):
    """How it is."""

    phase: str = ""


class PodView(pyinformer.View):
    """What a scheduler reads of a pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


async def test_views_indexes_and_listers_read_the_cache(server: Server) -> None:
    namespace, node = server.namespace(), unique("node")
    for n in range(6):
        name, app = f"p{n}", "web" if n % 2 else "db"
        server.api.create(pod_on(node if n < 4 else unique("node"), name, namespace, app=app))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=namespace, model=PodView)
        pods.add_index("node", "spec.nodeName")
        pods.add_index("app", lambda pod: [pod.metadata.labels.get("app", "")])
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        lister = pods.lister

        assert len(lister.list()) == 6
        assert sorted(pod.metadata.name for pod in lister.by_index("node", node)) == [
            "p0",
            "p1",
            "p2",
            "p3",
        ]
        assert sorted(pod.metadata.name for pod in lister.by_index("app", "web")) == [
            "p1",
            "p3",
            "p5",
        ]
        assert lister[f"{namespace}/p0"].view.spec.node_name == node
        assert lister[f"{namespace}/p0"].view.status.phase == "Pending"
        assert lister[f"{namespace}/p0"].at("spec.containers", list)[0]["name"] == "main"
        web = lister.namespace(namespace).list(label_selector="app=web")
        assert sorted(pod.metadata.name for pod in web) == ["p1", "p3", "p5"]
        assert lister.get(f"{namespace}/none") is None
        with pytest.raises(pyinformer.errors.ObjectNotFoundError):
            lister[f"{namespace}/none"]

        server.api.delete("v1", "pods", "p1", namespace)
        await until(lambda: len(lister.by_index("node", node)) == 3)
        assert [pod.metadata.name for pod in lister.by_index("app", "web")] == ["p3", "p5"]


async def test_memory_modes_keep_or_leave_out_managed_fields(server: Server) -> None:
    namespace = server.namespace()
    made = server.api.create(CONFIG_MAPS.make("one", namespace))
    made["metadata"]["managedFields"] = made["metadata"].get("managedFields") or [
        {"manager": "suite", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    ]
    made["data"]["managedFields"] = "not the server's"
    stored = server.api.update(made)
    assert stored["metadata"]["managedFields"]
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        raw = factory.informer("v1", "configmaps", namespaces=namespace, memory="raw")
        stripped = factory.informer("v1", "configmaps", namespaces=namespace, private=True)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert raw.lister[f"{namespace}/one"].to_dict() == stored
        assert stripped.lister[f"{namespace}/one"].to_dict() == content(stored)


async def test_transforms_change_the_content_and_not_the_identity(server: Server) -> None:
    namespace = server.namespace()

    def transform(obj: JSONObject) -> JSONObject:
        if obj["metadata"]["name"] == "bad":
            message = "not this one"
            raise ValueError(message)
        obj["metadata"]["name"] = "another-name"
        obj["data"] = {"kept": "nothing"}
        return obj

    for name in ("listed", "bad"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace, transform=transform)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        server.api.create(CONFIG_MAPS.make("watched", namespace))
        lister = informer.lister
        await until(lambda: len(lister.list()) == 3)
        for name in ("listed", "watched"):
            assert lister[f"{namespace}/{name}"].at("data") == {"kept": "nothing"}
        bad = lister[f"{namespace}/bad"]
        assert bad.at("data") == CONFIG_MAPS.body["data"]
        assert "transform failed: ValueError at" in bad.problem
        assert "not this one" not in bad.problem


class Listener:
    """Three handlers: a coroutine, a plain function, and one with a thread of its own."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_add(self, obj: pyinformer.KubeObject[Any]) -> None:
        """Note who appeared."""
        self.heard.append(f"add {obj.metadata.name}")

    def on_update(self, old: pyinformer.KubeObject[Any], new: pyinformer.KubeObject[Any]) -> None:
        """Note who changed, and into what."""
        self.heard.append(f"update {old.metadata.name} {new.at('metadata.annotations', dict)}")

    def on_delete(self, obj: pyinformer.KubeObject[Any]) -> None:
        """Note who disappeared."""
        self.heard.append(f"delete {obj.metadata.name}")


async def test_handlers_that_come_late_and_go_early(server: Server) -> None:
    namespace = server.namespace()
    one = server.api.create(CONFIG_MAPS.make("one", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        listener = Listener()
        heard = listener.heard
        late = informer.add_event_handler(
            on_add=listener.on_add,
            on_update=listener.on_update,
            on_delete=pyinformer.in_thread(listener.on_delete),
        )
        await late.wait_synced(timeout_seconds=100)
        assert heard == ["add one"]
        server.api.update(changed(one, 1))
        server.api.create(CONFIG_MAPS.make("two", namespace))
        server.api.delete("v1", "configmaps", "one", namespace)
        update = "update one {'suite.example.com/n': '1'}"
        expected = ["add one", update, "add two", "delete one"]
        await until(lambda: heard == expected, what=heard)

        await late.remove()
        witness = follow(factory, "v1", "configmaps", namespaces=namespace)
        server.api.delete("v1", "configmaps", "two", namespace)
        await witness.settle(server)
        assert heard == expected


async def test_a_stream_of_events_begins_with_what_is_there(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        heard: list[str] = []
        async with informer.events() as events, asyncio.timeout(100):
            async for event in events:
                heard.append(f"{type(event).__name__} {event.key.partition('/')[2]}")
                if len(heard) == 1:
                    server.api.create(CONFIG_MAPS.make("two", namespace))
                    server.api.delete("v1", "configmaps", "one", namespace)
                if len(heard) == 3:
                    break
        assert heard == ["Added one", "Added two", "Deleted one"]
