"""A typed informer: models in listers, handlers, events, waits and indexes of one cache."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
import pytest
from kubernetes_asyncio.client import V1Pod

import pyinformer
from pyinformer.apimachinery import Added, Deleted, Event, Updated
from pyinformer.cache import TypedEvent, TypedInformer
from pyinformer.errors import (
    InformerConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    ModelMismatchError,
    WaitTimeoutError,
)
from pyinformer.testing import synced_informer
from tests.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import SharedInformerFactory
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
    """What a projection would show."""


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


async def pods_of(factory: SharedInformerFactory) -> TypedInformer[Pod]:
    """Return a typed informer that has synced."""
    pods = factory.informer("v1", "pods", model=Pod)
    await pods.wait_for_cache_sync(timeout_seconds=100)
    return pods


def moved(server: APIServer, name: str, node: object) -> None:
    """Move a pod to another node."""
    server.update({**server.get("v1", "pods", name), "spec": {"nodeName": node}})


class Calls:
    """A handler object that notes its calls with models."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def on_add(self, obj: Pod) -> None:
        """Note an addition."""
        self.heard.append(("add", obj.spec.nodeName))

    async def on_update(self, old: Pod, new: Pod) -> None:
        """Note a change."""
        await asyncio.sleep(0)
        self.heard.append(("update", old.spec.nodeName, new.spec.nodeName))

    def on_delete(self, obj: Pod) -> None:
        """Note a deletion."""
        self.heard.append(("delete", obj.spec.nodeName))


async def test_all_readers_of_a_version_get_one_model_which_is_decoded_once(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = factory.informer("v1", "pods", model=Pod)
        pods.add_index("node", lambda pod: pod.spec.nodeName)
        first, second = Calls(), Calls()
        events: list[TypedEvent[Pod]] = []
        pods.add_event_handler(first)
        pods.add_event_handler(
            on_add=second.on_add, on_update=second.on_update, on_delete=second.on_delete
        )
        pods.add_event_handler(events.append)
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 1)
        assert pods.lister["default/a"] is events[0].object is pods.lister.by_index("node", "n1")[0]

        moved(apiserver, "a", "n2")
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 2)
        assert events[1].old is events[0].object
        assert pods.lister.list() == pods.lister.by_index("node", "n2") == [events[1].object]

        apiserver.delete("v1", "pods", "a")
        await until(lambda: len(first.heard) == len(second.heard) == len(events) == 3)
        assert (
            first.heard == second.heard == [("add", "n1"), ("update", "n1", "n2"), ("delete", "n2")]
        )
        assert [type(one.event) for one in events] == [Added, Updated, Deleted]
        assert [(one.key, one.object.spec.nodeName) for one in events] == [
            ("default/a", "n1"),
            ("default/a", "n2"),
            ("default/a", "n2"),
        ]
        assert max(Meta.decoded.values()) == 1


@pytest.mark.covers(
    "client-go tools/cache: TestTypedSharedIndexInformerAddTypedEventHandler",
    "client-go tools/cache: TestTypedResourceEventHandlerFuncs",
    "client-go tools/cache: TestTypedIndexer",
)
async def test_models_and_objects_share_one_watch_and_one_cache(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = await pods_of(factory)
        plain = factory.informer("v1", "pods")
        named = factory.informer("v1", "pods", model=Named)
        again = factory.informer("v1", "pods", model=Pod)

        assert factory.informers == (plain,)
        assert pods.informer is plain is named.informer
        assert named.lister["default/a"].metadata.name == "a"
        assert pods.lister["default/a"] is again.lister["default/a"]
        assert pods.lister.of(plain.lister["default/a"]) is pods.lister["default/a"]
        assert pods.lister.objects is plain.lister
        assert (pods.model, pods.name, pods.has_synced) == (Pod, "pods.v1", True)
        assert repr(pods) == "<TypedInformer of pods.v1 as Pod>"
        assert "default/a" in pods.lister
        assert pods.lister.staleness == ""
        assert pods.lister.private_because == ""
        assert pods.lister.model is Pod
        fresh = pods.lister.fresh(max_age_seconds=1000)
        assert fresh["default/a"] is pods.lister["default/a"]


async def test_an_own_write_is_read_at_once_as_a_model(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        written = await pods.informer.cluster.create(pod("a", node="n1"))
        model = pods.lister["default/a"]
        assert model.spec.nodeName == "n1"
        version = written.metadata.resource_version
        await pods.informer.wait_until(version, key="default/a", timeout_seconds=100)
        assert pods.lister["default/a"] is model
        assert Meta.decoded == {version: 1}


async def test_a_misfit_calls_no_handler_but_its_hook(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = await pods_of(factory)
        calls, without, unreadable = Calls(), Calls(), list[tuple[Event, str]]()

        def hook(event: Event, error: ModelMismatchError) -> None:
            unreadable.append((event, error.path))

        pods.add_event_handler(calls, on_unreadable=hook)
        failing = pods.add_event_handler(without, name="failing")
        await until(lambda: calls.heard == without.heard == [("add", "n1")])
        moved(apiserver, "a", 5)
        await until(lambda: len(unreadable) == 1)
        with pytest.raises(
            ModelMismatchError, match=r"Pod 'default/a': does not fit Pod.*nodeName"
        ):
            pods.lister.get("default/a")
        moved(apiserver, "a", "n2")  # fits again
        await until(lambda: calls.heard[1:] == without.heard[1:] == [("add", "n2")])
        moved(apiserver, "a", 6)
        apiserver.delete("v1", "pods", "a")
        await until(lambda: len(unreadable) == 3)
        assert [type(event) for event, _ in unreadable] == [Updated, Updated, Deleted]
        assert {path for _, path in unreadable} == {"spec.nodeName"}
        status = {one.name: one for one in pods.informer.status().handlers}
        await until(lambda: _failed(pods, "failing") == 3)
        assert "ModelMismatchError" in str(status[failing.name].last_error)
        assert len(calls.heard) == len(without.heard) == 2


def _failed(pods: TypedInformer[Pod], name: str) -> int:
    return next(one.failed for one in pods.informer.status().handlers if one.name == name)


@pytest.mark.covers("client-go tools/cache: TestTypedIndexer")
async def test_a_misfit_is_in_no_bucket_and_an_error_of_its_own_event(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        pods.add_index("node", lambda pod: pod.spec.nodeName)
        pods.add_index("name", "metadata.name")
        async with pods.events() as events:
            apiserver.create(pod("bad", node=5))  # type: ignore[arg-type]  # the misfit
            apiserver.create(pod("good", node="n1"))
            bad, good = await anext(events), await anext(events)
        with pytest.raises(ModelMismatchError):
            _ = bad.object
        assert bad.old is None
        assert repr(bad) == "<TypedEvent Added default/bad>"
        assert good.object is pods.lister["default/good"]
        assert pods.lister.objects.index_values("node") == ["n1"]
        assert sorted(pods.lister.objects.index_values("name")) == ["bad", "good"]
        assert pods.lister.by_index("name", "bad") == []
        assert [error.key for error in pods.lister.mismatches()] == ["default/bad"]


async def test_a_wait_gets_models_and_ends_with_the_one_that_was_accepted(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        waiting = asyncio.create_task(
            pods.wait_for(
                "default/a",
                lambda pod: pod is not None and pod.spec.nodeName == "n2",
                timeout_seconds=100,
            )
        )
        await settle()
        apiserver.create(pod("a", node="n1"))
        await until(lambda: "default/a" in pods.lister)
        moved(apiserver, "a", "n2")
        assert await waiting is pods.lister["default/a"]

        apiserver.delete("v1", "pods", "a")
        assert (
            await pods.wait_for("default/a", lambda pod: pod is None, timeout_seconds=100) is None
        )
        apiserver.create(pod("bad", node=5))  # type: ignore[arg-type]  # the misfit
        with pytest.raises(ModelMismatchError):
            await pods.wait_for("default/bad", lambda pod: pod is not None, timeout_seconds=100)


async def test_a_cancelled_wait_leaves_the_informer_as_it_was(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        waiting = asyncio.create_task(
            pods.wait_for("default/a", lambda pod: pod is not None, timeout_seconds=100)
        )
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        apiserver.create(pod("a", node="n1"))
        with pytest.raises(WaitTimeoutError):
            await pods.wait_for("default/b", bool, timeout_seconds=0)
        found = await pods.wait_for("default/a", bool, timeout_seconds=100)
        assert found is not None
        assert found.spec.nodeName == "n1"


async def _true(_: Pod | None) -> bool:
    return True


async def test_a_predicate_that_cannot_be_called_is_refused_by_its_name(
    apiserver: APIServer,
) -> None:
    async with running(apiserver) as factory:
        pods = await pods_of(factory)
        with pytest.raises(InvalidTypeError, match=r"_true.*asynchronous"):
            await pods.wait_for("default/a", _true)
        with pytest.raises(InvalidTypeError, match="predicate"):
            await pods.wait_for("default/a", lambda: True)  # type: ignore[arg-type,misc]  # refused
        with pytest.raises(InvalidTypeError, match="predicate"):
            await pods.wait_for("default/a", "text")  # type: ignore[arg-type]  # refused


async def test_models_of_clients_are_copied_for_each_reader(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        pods = factory.informer("v1", "pods", model=V1Pod)
        await pods.wait_for_cache_sync(timeout_seconds=100)
        first, second = pods.lister["default/a"], pods.lister["default/a"]
        first.spec.node_name = "changed"
        assert second.spec.node_name == pods.lister["default/a"].spec.node_name == "n1"
        assert first is not second
        assert "V1Pod is a V1Pod, which is not frozen" in pods.lister.private_because


class Thing:
    """Not a model."""


async def test_arguments_that_cannot_work_name_what_to_do_instead(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        with pytest.raises(InvalidArgumentError, match="another `memory`"):
            factory.informer("v1", "pods", model=Pod, memory="metadata")
        with pytest.raises(InvalidTypeError, match="an object cannot be decoded into Thing: use a"):
            factory.informer("v1", "pods", model=Thing)
        assert factory.informers == ()  # nothing was made

        factory.informer("v1", "pods", model=View)
        with pytest.raises(InformerConflictError, match="another model"):
            factory.informer("v1", "pods", model=Pod)
        metadata = factory.informer("v1", "nodes", memory="metadata")
        with pytest.raises(InvalidArgumentError, match="another `memory`"):
            TypedInformer(metadata, Pod)

        nodes = factory.informer("v1", "configmaps", model=Pod)
        with pytest.raises(
            InvalidTypeError, match="as the `informer` of <TypedInformer of configmaps"
        ):
            pyinformer.Controller("c", _reconcile, cast("Any", nodes))
        with pytest.raises(InvalidArgumentError, match="on_unreadable: is for on_add"):
            nodes.add_event_handler(lambda event: None, on_unreadable=lambda event, error: None)
        with pytest.raises(InvalidTypeError, match="on_unreadable"):
            nodes.add_event_handler(
                on_add=print,
                on_unreadable=lambda event: None,  # type: ignore[arg-type,misc]  # refused
            )
        with pytest.raises(InvalidTypeError, match="on_add"):
            nodes.add_event_handler(on_add=lambda: None)  # type: ignore[arg-type,misc]  # refused
        await nodes.informer.aclose()
        with pytest.raises(LifecycleError, match="closed"):
            TypedInformer(nodes.informer, Named)


async def _reconcile(request: pyinformer.Request, obj: pyinformer.KubeObject | None) -> None:
    """Do nothing."""


async def test_a_view_and_models_of_one_informer_can_be_had_together(apiserver: APIServer) -> None:
    async with running(apiserver) as factory:
        apiserver.create(pod("a", node="n1"))
        viewed = factory.informer("v1", "pods", model=View, memory="compact")
        await viewed.wait_for_cache_sync(timeout_seconds=100)
        assert TypedInformer(viewed, Named).lister["default/a"] == Named(Name("a"))


def test_models_of_an_informer_without_a_server() -> None:
    informer = synced_informer("v1", "pods", [pod("a", node="n1")])
    pods, calls = TypedInformer(informer, Pod), list[str]()
    pods.add_event_handler(on_add=lambda pod: calls.append(pod.spec.nodeName))
    pods.add_index("node", lambda pod: pod.spec.nodeName)
    informer.apply(pod("b", node="n2"))
    assert calls == ["n1", "n2"]
    assert pods.lister.by_index("node", "n2") == [pods.lister["default/b"]]
    informer.apply(pod("b", node="n3"))
    assert pods.lister["default/b"].spec.nodeName == "n3"
