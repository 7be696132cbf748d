"""Which objects an informer follows: namespaces, selectors, both scopes, what comes late."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import Added, Deleted, Updated
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS, NODES, PODS, changed, pod_on, unique
from tests.waiting import until

if TYPE_CHECKING:
    from tests.integration.servers import Server


@pytest.mark.covers(
    "client-go dynamic/dynamicinformer: TestFilteredDynamicSharedInformerFactory",
    "controller-runtime pkg/client: with structured objects / should fetch collection of",
    "controller-runtime pkg/cache: should support filtering by labels in a single namespace",
)
async def test_another_namespace_is_not_seen(server: Server) -> None:
    ours, theirs = server.namespace(), server.namespace()
    for namespace in (ours, theirs):
        server.api.create(CONFIG_MAPS.make("before", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=ours)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        for namespace in (theirs, ours):
            server.api.create(CONFIG_MAPS.make("after", namespace))
        await one.settle(server)
        assert one.names() == ["after", "before"]
        assert {event.key.partition("/")[0] for event in one.history.events} == {ours}
        with pytest.raises(pyinformer.errors.NotCachedError):
            one.informer.lister.namespace(theirs).list()


@pytest.mark.covers(
    "controller-runtime pkg/cache: should support filtering by labels in a single namespace"
)
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


@pytest.mark.covers(
    "client-go dynamic/dynamicinformer: TestFilteredDynamicSharedInformerFactory",
    "controller-runtime pkg/cache: Cache test / as a Reader / and cache with selectors",
)
async def test_labels_that_change_move_objects_in_and_out(server: Server) -> None:
    """Entering is an addition, leaving a deletion that says the object may still exist."""
    namespace = server.namespace()
    out = server.api.create(CONFIG_MAPS.make("flips", namespace, labels={"tier": "out"}))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(
            factory, "v1", "configmaps", namespaces=namespace, label_selector="tier in (in, inner)"
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
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


@pytest.mark.covers(
    "controller-runtime pkg/cache: Cache test / as a Reader / and cache with selectors"
)
async def test_names_select_by_field(server: Server) -> None:
    namespace = server.namespace()
    for name in ("wanted", "other"):
        server.api.create(CONFIG_MAPS.make(name, namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(
            factory, "v1", "configmaps", namespaces=namespace, field_selector="metadata.name=wanted"
        )
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
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
        await factory.wait_for_cache_sync(timeout_seconds=100)
        server.api.create(pod_on(node, "here-too", namespace))
        await one.settle(server)
        assert one.names() == ["here", "here-too"]


@pytest.mark.covers(
    "controller-runtime pkg/cache: should return an error if getting object in unwatched",
    "controller-runtime pkg/cache: test multinamespaced cache for cluster scoped resources",
    "kube-runtime src: should_allow_getting_namespaced_object_by_namespaced_ref",
)
async def test_cluster_scoped_objects_have_names_for_keys(server: Server) -> None:
    suite = unique("label")
    names = [unique("node") for _ in range(3)]
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "nodes", label_selector=f"suite={suite}")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
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
        await factory.wait_for_cache_sync(timeout_seconds=100)
        name = server.namespace()
        await until(lambda: name in one.informer.lister, what=name)
        assert {"default", "kube-system"} <= set(one.names())
        await one.settle(server)


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
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: f"{namespace}/one" in informer.lister)


async def test_a_namespace_created_later_is_empty_until_then(server: Server) -> None:
    namespace = unique("late")
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert one.names() == []
        server.api.ensure_namespace(namespace)
        server.api.create(CONFIG_MAPS.make("one", namespace))
        await one.settle(server)
        assert one.names() == ["one"]


@pytest.mark.covers(
    "controller-runtime pkg/cache: test multinamespaced cache for cluster scoped resources"
)
async def test_forty_informers_share_one_connection_to_a_cluster(server: Server) -> None:
    """Each namespace has an informer of its own, as in an operator of many tenants."""
    namespaces = [server.namespace() for _ in range(40)]
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        followed = [
            follow(factory, "v1", "configmaps", namespaces=namespace) for namespace in namespaces
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        for number, namespace in enumerate(namespaces):
            server.api.create(CONFIG_MAPS.make(f"number-{number}", namespace))
        for number, one in enumerate(followed):
            await one.settle(server)
            assert one.names() == [f"number-{number}"]


@pytest.mark.parametrize(
    ("api_version", "plural"), [("v1", "nodes"), ("suite.example.com/v1", "planets")]
)
async def test_a_namespace_of_a_kind_without_namespaces_is_named_as_the_mistake(
    server: Server, api_version: str, plural: str, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(server.serve_widgets)
    namespace = server.namespace()
    async with server.connect() as cluster:
        async with pyinformer.SharedInformer(
            cluster, api_version, plural, namespaces=namespace
        ) as informer:
            with pytest.raises(pyinformer.errors.CacheSyncTimeoutError) as caught:
                await informer.wait_for_cache_sync(timeout_seconds=3600)
        assert "is cluster-scoped, but is followed in a namespace" in str(caught.value)
        with pytest.raises(pyinformer.NotFoundError, match="cluster-scoped: leave out namespace="):
            [one async for one in cluster.list(api_version, plural, namespace=namespace)]
        with pytest.raises(pyinformer.NotFoundError, match="cluster-scoped: write 'x' instead of"):
            await cluster.get(api_version, plural, f"{namespace}/x")
    (line,) = (one for one in caplog.messages if plural in one)
    assert "cannot be followed in a namespace: leave out namespaces=" in line
