"""What an informer follows, and in which form: scopes, selectors, loads, queues, views, memory."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from tests.integration.following import follow
from tests.integration.history import Versions, content
from tests.integration.objects import (
    CONFIG_MAPS,
    NODES,
    PLANET,
    PODS,
    SECRETS,
    WIDGET,
    changed,
    pod_on,
)
from tests.integration.servers import WIDGETS
from tests.integration.workload import SELECTED, Writer, together
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.apimachinery import JSONObject
    from pyinformer.informer._scope import QueueKind
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


def unique(word: str) -> str:
    return f"{word}-{secrets.token_hex(4)}"


async def test_another_namespace_is_not_seen(server: Server) -> None:
    ours, theirs = server.namespace(), server.namespace()
    for namespace in (ours, theirs):
        server.api.create(CONFIG_MAPS.make("before", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=ours)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        for namespace in (theirs, ours):
            server.api.create(CONFIG_MAPS.make("after", namespace))
        await one.settle(server)
        assert one.names() == ["after", "before"]
        assert {event.key.partition("/")[0] for event in one.history.events} == {ours}
        with pytest.raises(pyinformer.NotCachedError):
            one.informer.lister.namespace(theirs).list()


async def test_all_namespaces_are_followed_by_one_selector(server: Server) -> None:
    namespaces = [server.namespace() for _ in range(3)]
    suite = unique("label")
    for namespace in namespaces:
        server.api.create(CONFIG_MAPS.make("ours", namespace, labels={"suite": suite}))
        server.api.create(CONFIG_MAPS.make("not-ours", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", label_selector=f"suite={suite}")
        await factory.start()
        truth = await one.settle(server)
        assert sorted(truth) == sorted(f"{namespace}/ours" for namespace in namespaces)


async def test_labels_that_change_move_objects_in_and_out(server: Server) -> None:
    """Entering is an addition, leaving a deletion that says the object may still exist."""
    namespace = server.namespace()
    out = server.api.create(CONFIG_MAPS.make("flips", namespace, labels={"tier": "out"}))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(
            factory, "v1", "configmaps", namespaces=namespace, label_selector="tier in (in, inner)"
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        obj = out
        for number, tier in enumerate(("in", "inner", "out", "in")):
            obj = server.api.update(changed(obj, number, tier=tier))
        server.api.delete("v1", "configmaps", "flips", namespace)

        await until(lambda: len(one.history.events) == 5, what=one.history.events)
        kinds = [type(event) for event in one.history.events]
        assert kinds == [Added, Updated, Deleted, Added, Deleted]
        left, gone = (event for event in one.history.events if isinstance(event, Deleted))
        assert left.may_still_exist
        assert left.last_known.metadata.uid == gone.last_known.metadata.uid
        await one.settle(server)


async def test_names_select_by_field(server: Server) -> None:
    namespace = server.namespace()
    for name in ("wanted", "other"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(
            factory, "v1", "configmaps", namespaces=namespace, field_selector="metadata.name=wanted"
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        server.api.delete("v1", "configmaps", "wanted", namespace)
        server.api.delete("v1", "configmaps", "other", namespace)
        server.api.create(CONFIG_MAPS.make("wanted", namespace))
        await one.settle(server)
        assert one.names() == ["wanted"]
        assert [type(event) for event in one.history.events] == [Added, Deleted, Added]


async def test_nodes_select_pods_by_field(server: Server) -> None:
    namespace, node = server.namespace(), unique("node")
    server.api.create(pod_on(node, "here", namespace))
    server.api.create(pod_on(unique("node"), "there", namespace))
    server.api.create(PODS.make("pending", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "pods", field_selector=f"spec.nodeName={node}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        server.api.create(pod_on(node, "here-too", namespace))
        await one.settle(server)
        assert one.names() == ["here", "here-too"]


async def test_cluster_scoped_objects_have_names_for_keys(server: Server) -> None:
    suite = unique("label")
    names = [unique("node") for _ in range(3)]
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "nodes", label_selector=f"suite={suite}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        made = [server.api.create(NODES.make(name, labels={"suite": suite})) for name in names]
        server.api.update(changed(made[0], 1))
        server.api.delete("v1", "nodes", names[1])
        await one.settle(server)
        assert sorted(one.informer.lister.keys()) == sorted([names[0], names[2]])
        assert one.informer.lister[names[0]].key.namespace == ""


async def test_namespaces_themselves_are_followed(server: Server) -> None:
    """The defaults of a real server (default, kube-system) are there too."""
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "namespaces")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        name = server.namespace()
        await until(lambda: name in one.informer.lister, what=name)
        assert {"default", "kube-system"} <= set(one.names())
        await one.settle(server)


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watch-list", "paged-list"])
async def test_custom_resources_of_both_scopes(server: Server, use_watch_list: bool) -> None:
    """Their lists have sorted keys: the items stand before the list's resource version."""
    server.serve_widgets()
    namespace, suite = server.namespace(), unique("label")
    options = pyinformer.ReflectorOptions(use_watch_list=use_watch_list, page_size=3)
    widgets = [
        server.api.create(WIDGET.make(f"w{n}", namespace, labels={"suite": suite}))
        for n in range(8)
    ]
    planet = server.api.create(PLANET.make(unique("planet"), labels={"suite": suite}))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        namespaced = follow(factory, WIDGETS, "widgets", namespaces=namespace)
        cluster_scoped = follow(factory, WIDGETS, "planets", label_selector=f"suite={suite}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        server.api.update(changed(widgets[0], 1))
        server.api.delete(WIDGETS, "widgets", "w1", namespace)
        server.api.update(changed(planet, 1))
        assert len(await namespaced.settle(server)) == 7
        assert len(await cluster_scoped.settle(server)) == 1
        assert namespaced.informer.lister[f"{namespace}/w2"].gvk.kind == "Widget"


@pytest.mark.parametrize("use_watch_list", [True, False], ids=["watch-list", "paged-list"])
async def test_both_list_shapes_give_the_same_objects_as_watches(
    server: Server, use_watch_list: bool
) -> None:
    """What came in a list, in a watch-list, or as an event cannot be told apart."""
    server.serve_widgets()
    namespace = server.namespace()
    options = pyinformer.ReflectorOptions(use_watch_list=use_watch_list)
    kinds = (CONFIG_MAPS, SECRETS, PODS, WIDGET)
    for kind in kinds:
        server.api.create(kind.make("listed", namespace))
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        followed = [
            follow(factory, kind.api_version, kind.plural, namespaces=namespace, memory="raw")
            for kind in kinds
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        for kind, one in zip(kinds, followed, strict=True):
            server.api.create(kind.make("watched", namespace))
            await one.settle(server)
            for obj in one.informer.lister.list():
                stored = server.api.get(kind.api_version, kind.plural, obj.metadata.name, namespace)
                assert obj.to_dict() == stored
                assert (obj.gvk.kind, obj.gvk.api_version) == (kind.kind, kind.api_version)


@pytest.mark.parametrize("page_size", [7, 1000, 0], ids=["small", "large", "none"])
async def test_pages_together_are_the_whole(server: Server, page_size: int) -> None:
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions)
    await asyncio.to_thread(writer.fill, 60)
    options = pyinformer.ReflectorOptions(use_watch_list=False, page_size=page_size)
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await asyncio.to_thread(writer.churn, creates=20, others=20)
        await one.settle(server, versions=versions)
        assert one.loads == 1


async def test_a_server_without_watch_lists_is_listed_and_not_asked_again(
    other_server: Server,
) -> None:
    server, namespace = other_server, other_server.namespace()
    versions = Versions()
    writer = Writer(server, SECRETS, namespace, versions)
    await asyncio.to_thread(writer.fill, 30)
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        assert cluster.watch_list_memory.may_try(asyncio.get_running_loop().time())
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        assert not cluster.watch_list_memory.may_try(asyncio.get_running_loop().time())
        await asyncio.to_thread(writer.churn, creates=20, others=20)
        await one.settle(server, versions=versions)
        assert one.informer.status().reflector.last_error is None


async def test_a_server_with_watch_lists_is_asked_for_one(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        assert cluster.watch_list_memory.may_try(asyncio.get_running_loop().time())
        assert one.loads == 1
        assert one.names() == []


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
async def test_every_queue_follows_the_same_storm(server: Server, queue: QueueKind) -> None:
    server.serve_widgets()
    namespace = server.namespace()
    versions = Versions()
    writers = [Writer(server, kind, namespace, versions) for kind in (CONFIG_MAPS, WIDGET)]
    await together(partial(writer.fill, 40) for writer in writers)
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        followed = [
            follow(
                factory,
                kind.api_version,
                kind.plural,
                namespaces=namespace,
                label_selector=selector,
                queue=queue,
            )
            for kind in (CONFIG_MAPS, WIDGET)
            for selector in (None, SELECTED)
        ]
        await factory.start()
        await together(partial(writer.churn, creates=40, others=120) for writer in writers)
        for one in followed:
            await one.settle(server, versions=versions)


async def test_views_indexes_and_listers_read_what_is_there(server: Server) -> None:
    namespace, node = server.namespace(), unique("node")
    for n in range(6):
        name, app = f"p{n}", "web" if n % 2 else "db"
        server.api.create(pod_on(node if n < 4 else unique("node"), name, namespace, app=app))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods", namespaces=namespace, projection=PodView)
        pods.add_index("node", "spec.nodeName")
        pods.add_index("app", lambda pod: [pod.metadata.labels.get("app", "")])
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
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
        with pytest.raises(pyinformer.ObjectNotFoundError):
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
        await factory.wait_for_cache_sync(timeout_seconds=10)
        assert raw.lister[f"{namespace}/one"].to_dict() == stored
        assert stripped.lister[f"{namespace}/one"].to_dict() == content(stored)


async def test_transforms_change_what_is_kept_and_not_who_it_is(server: Server) -> None:
    namespace = server.namespace()

    def transform(obj: JSONObject) -> JSONObject:
        if obj["metadata"]["name"] == "bad":
            message = "not this one"
            raise ValueError(message)
        obj["metadata"]["name"] = "somebody-else"
        obj["data"] = {"kept": "nothing"}
        return obj

    for name in ("listed", "bad"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace, transform=transform)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        server.api.create(CONFIG_MAPS.make("watched", namespace))
        lister = informer.lister
        await until(lambda: len(lister.list()) == 3)
        for name in ("listed", "watched"):
            assert lister[f"{namespace}/{name}"].at("data") == {"kept": "nothing"}
        bad = lister[f"{namespace}/bad"]
        assert bad.at("data") == CONFIG_MAPS.body["data"]
        assert "not this one" in bad.problem


class Listener:
    """Three handlers: a coroutine, a plain function, and one with a thread of its own."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_add(self, obj: pyinformer.KubeObject[Any]) -> None:
        self.heard.append(f"add {obj.metadata.name}")

    def on_update(self, old: pyinformer.KubeObject[Any], new: pyinformer.KubeObject[Any]) -> None:
        self.heard.append(f"update {old.metadata.name} {new.at('metadata.annotations', dict)}")

    def on_delete(self, obj: pyinformer.KubeObject[Any]) -> None:
        self.heard.append(f"delete {obj.metadata.name}")


async def test_handlers_that_come_late_and_go_early(server: Server) -> None:
    namespace = server.namespace()
    one = server.api.create(CONFIG_MAPS.make("one", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=10)
        listener = Listener()
        heard = listener.heard
        late = informer.add_event_handler(
            on_add=listener.on_add,
            on_update=listener.on_update,
            on_delete=pyinformer.in_thread(listener.on_delete),
        )
        await late.wait_synced(timeout_seconds=10)
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
        await factory.wait_for_cache_sync(timeout_seconds=10)
        heard: list[str] = []
        async with informer.events() as events, asyncio.timeout(10):
            async for event in events:
                heard.append(f"{type(event).__name__} {event.key.partition('/')[2]}")
                if len(heard) == 1:
                    server.api.create(CONFIG_MAPS.make("two", namespace))
                    server.api.delete("v1", "configmaps", "one", namespace)
                if len(heard) == 3:
                    break
        assert heard == ["Added one", "Added two", "Deleted one"]


async def test_a_definition_that_comes_late_is_followed_when_it_comes(server: Server) -> None:
    """An unknown resource is 404, and asked for again."""
    plural = f"late{secrets.token_hex(4)}s"
    namespace = server.namespace()
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("late.example.com/v1", plural, namespaces=namespace)
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError, match="404"):
            await factory.wait_for_cache_sync(timeout_seconds=0.5)
        await asyncio.to_thread(
            server.api.register, "late.example.com/v1", plural.capitalize(), plural
        )
        await asyncio.to_thread(
            server.api.create,
            {
                "apiVersion": "late.example.com/v1",
                "kind": plural.capitalize(),
                "metadata": {"name": "one", "namespace": namespace},
            },
        )
        await factory.wait_for_cache_sync(timeout_seconds=40)
        await until(lambda: f"{namespace}/one" in informer.lister)
