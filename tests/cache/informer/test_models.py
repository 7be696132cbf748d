"""An informer with a model: objects whose `view` it is in listers, handlers, events and indexes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import msgspec
import pytest
from kubernetes_asyncio.client import V1Pod

import pyinformer
from pyinformer import Added, Deleted, Updated
from pyinformer.errors import (
    InformerConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    ModelMismatchError,
)
from pyinformer.testing import World
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Event, KubeObject, SharedInformer, SharedInformerFactory
    from pyinformer.testing import APIServer


@dataclasses.dataclass(frozen=True)
class Meta:
    """Counts how often each version is decoded."""

    name: str
    resourceVersion: str  # noqa: N815 - as in JSON
    decoded: ClassVar[Counter[str]] = Counter()

    def __post_init__(self) -> None:
        self.decoded[self.resourceVersion] += 1


@dataclasses.dataclass(frozen=True)
class Spec:
    """What is read of a pod; a misfit has a number in its place."""

    nodeName: str  # noqa: N815 - as in JSON


@dataclasses.dataclass(frozen=True)
class Pod:
    """The model of most of these tests."""

    metadata: Meta
    spec: Spec


class Name(msgspec.Struct, frozen=True):
    """A part of another model."""

    name: str


class Named(msgspec.Struct, frozen=True):
    """Another model of the same resource."""

    metadata: Name


class View(pyinformer.View):
    """A view of it."""


@asynccontextmanager
async def running(apiserver: APIServer) -> AsyncIterator[SharedInformerFactory]:
    """Run a factory on the embedded server."""
    Meta.decoded.clear()
    async with (
        cluster_of(apiserver) as cluster,
        pyinformer.SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        await factory.start()
        yield factory


async def pods_of(factory: SharedInformerFactory) -> SharedInformer[Pod]:
    """Return an informer with the model that has synced."""
    pods = factory.informer("v1", "pods", model=Pod)
    await pods.wait_for_cache_sync(timeout_seconds=100)
    return pods


def moved(server: APIServer, name: str, node: object) -> None:
    """Move a pod to another node."""
    server.update({**server.get("v1", "pods", name), "spec": {"nodeName": node}})


class Calls:
    """A handler object that notes its calls with the nodes of the models."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def on_add(self, obj: KubeObject[Pod]) -> None:
        """Note an addition."""
        self.heard.append(("add", obj.view.spec.nodeName))

    async def on_update(self, old: KubeObject[Pod], new: KubeObject[Pod]) -> None:
        """Note a change."""
        await asyncio.sleep(0)
        self.heard.append(("update", old.view.spec.nodeName, new.view.spec.nodeName))

    def on_delete(self, obj: KubeObject[Pod]) -> None:
        """Note a deletion."""
        self.heard.append(("delete", obj.view.spec.nodeName))


def node_of(pod: KubeObject[Pod]) -> str:
    """Return where a pod runs: an index function."""
    return pod.view.spec.nodeName


@pytest.mark.covers(
    "client-go tools/cache: TestTypedSharedIndexInformerAddTypedEventHandler",
    "client-go tools/cache: TestTypedResourceEventHandlerFuncs",
    "client-go tools/cache: TestTypedIndexer",
)
async def test_all_readers_of_a_version_get_one_model_which_is_decoded_once(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = factory.informer("v1", "pods", model=Pod)
        pods.add_index("node", node_of)
        first, second = Calls(), Calls()
        events: list[Event[Pod]] = []
        pods.add_event_handler(first)
        pods.add_event_handler(
            on_add=second.on_add, on_update=second.on_update, on_delete=second.on_delete
        )
        pods.add_event_handler(events.append)
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 1)
        shown = pods.lister["default/a"]
        assert pods.lister.by_index("node", "n1") == [shown]

        moved(apiserver, "a", "n2")
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 2)
        apiserver.delete("v1", "pods", "a")
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 3)
        assert (
            first.heard == second.heard == [("add", "n1"), ("update", "n1", "n2"), ("delete", "n2")]
        )
        match events:
            case [Added(added), Updated(old, new), Deleted(last)]:
                assert added.view is old.view is shown.view
                assert new.view.spec.nodeName == last.view.spec.nodeName == "n2"
            case _:
                raise AssertionError(events)
        assert max(Meta.decoded.values()) == 1


async def test_requests_with_one_model_share_an_informer_and_others_are_a_conflict(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = await pods_of(factory)
        assert factory.informer("v1", "pods", model=Pod) is pods
        for model in (None, Named, View):
            with pytest.raises(InformerConflictError, match="exists with another model"):
                factory.informer("v1", "pods", model=model)
        assert pods.lister["default/a"].as_type(Named) == Named(Name("a"))  # in its place


async def test_an_own_write_is_read_at_once_as_a_model(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        written = await pods.cluster.create(pod("a", node="n1"))
        assert pods.lister["default/a"].view.spec.nodeName == "n1"
        version = written.metadata.resource_version
        await pods.wait_until(version, key="default/a", timeout_seconds=100)
        assert pods.lister["default/a"].view.metadata.resourceVersion == version


async def test_a_misfit_fails_the_handlers_that_read_it_and_no_others(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = await pods_of(factory)
        calls, unreadable, keys = Calls(), list[str](), list[str]()

        def handle(event: Event[Pod]) -> None:
            keys.append(event.key)
            try:
                _ = (event.new if isinstance(event, Updated) else pods.lister[event.key]).view
            except ModelMismatchError as error:
                unreadable.append(error.path)

        pods.add_event_handler(calls, name="failing")
        pods.add_event_handler(handle)
        await until(lambda: calls.heard == [("add", "n1")])
        moved(apiserver, "a", 5)
        await until(lambda: unreadable == ["spec.nodeName"])
        with pytest.raises(
            ModelMismatchError, match=r"Pod 'default/a': does not fit Pod.*nodeName"
        ):
            _ = pods.lister["default/a"].view
        moved(apiserver, "a", "n2")  # fits again, but the state before does not
        moved(apiserver, "a", "n3")
        await until(lambda: calls.heard[1:] == [("update", "n2", "n3")])
        await until(lambda: len(keys) == 4)
        (failing,) = (one for one in pods.status().handlers if one.name == "failing")
        assert failing.failed == 2
        assert "ModelMismatchError" in str(failing.last_error)


@pytest.mark.covers("client-go tools/cache: TestTypedIndexer")
async def test_a_misfit_is_in_no_bucket_of_a_function(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        pods.add_index("node", node_of)
        pods.add_index("name", "metadata.name")
        async with pods.events() as events:
            apiserver.create(pod("bad", node=5))  # type: ignore[arg-type]  # the misfit
            apiserver.create(pod("good", node="n1"))
            assert [(await anext(events)).key for _ in range(2)] == ["default/bad", "default/good"]
        assert pods.lister.index_values("node") == ["n1"]
        assert [one.key for one in pods.lister.by_index("name", "bad")] == ["default/bad"]


async def test_a_wait_gets_models_and_raises_what_a_misfit_raises(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        waiting = asyncio.create_task(
            pods.wait_for(
                "default/a",
                lambda pod: pod is not None and pod.view.spec.nodeName == "n2",
                timeout_seconds=100,
            )
        )
        await settle()
        apiserver.create(pod("a", node="n1"))
        await until(lambda: "default/a" in pods.lister)
        moved(apiserver, "a", "n2")
        assert await waiting is pods.lister["default/a"]
        apiserver.create(pod("bad", node=5))  # type: ignore[arg-type]  # the misfit
        with pytest.raises(ModelMismatchError):
            await pods.wait_for(
                "default/bad",
                lambda pod: pod is not None and bool(pod.view),
                timeout_seconds=100,
            )


async def test_models_of_clients_are_copied_for_each_reader(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = factory.informer("v1", "pods", model=V1Pod)
        await pods.wait_for_cache_sync(timeout_seconds=100)
        obj = pods.lister["default/a"]
        obj.view.spec.node_name = "changed"
        assert obj.view.spec.node_name == "n1"


class Thing:
    """Not a model."""


async def test_a_model_that_cannot_work_is_refused_and_nothing_is_made(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        with pytest.raises(InvalidArgumentError, match="another `memory`"):
            factory.informer("v1", "pods", model=Pod, memory="metadata")
        with pytest.raises(InvalidTypeError, match="an object cannot be decoded into Thing: use a"):
            factory.informer("v1", "pods", model=Thing)
        with pytest.raises(InvalidTypeError, match="model"):
            factory.informer("v1", "pods", model="Pod")  # type: ignore[arg-type]  # refused
        assert factory.informers == ()


def test_models_of_an_informer_without_a_server() -> None:
    with World([pod("a", node="n1")]) as world:
        pods, calls = world.factory.informer("v1", "pods", model=Pod), list[str]()
        pods.add_event_handler(on_add=lambda pod: calls.append(pod.view.spec.nodeName))
        pods.add_index("node", node_of)
        world.sync()
        assert calls == ["n1"]
        world.create(pod("b", node="n2"))
        assert calls == ["n1", "n2"]
        assert [one.key for one in pods.lister.by_index("node", "n2")] == ["default/b"]
