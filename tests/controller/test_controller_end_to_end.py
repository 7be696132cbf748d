"""Controllers fed by a server over real HTTP: from a change to a reconcile, and to the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import (
    Added,
    CacheSyncTimeoutError,
    Controller,
    ControllerGroup,
    ControllerOptions,
    KubeObject,
    Request,
    SharedInformer,
    SharedInformerFactory,
    View,
)
from pyinformer.cache.informer import core_of
from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer import Cluster, Reconcile
    from pyinformer.objects import JSONObject

pytestmark = pytest.mark.every_loop


class PodView(View):
    """What these controllers look at."""

    class Spec(View):
        """Where a pod runs."""

        node_name: str = ""

    spec: Spec = Spec()


def config_map(name: str, **data: str) -> JSONObject:
    """Return a ConfigMap to create."""
    metadata: JSONObject = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def owned_pod(name: str, by: str) -> JSONObject:
    """Return a pod that a ConfigMap controls."""
    made = pod(name)
    reference: JSONObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": by,
        "uid": f"uid-{by}",
        "controller": True,
    }
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    metadata["ownerReferences"] = [reference]
    return made


class Seen:
    """A reconcile that notes what it was given."""

    def __init__(self) -> None:
        self.objects: list[tuple[str, object]] = []
        self.reasons: list[str] = []

    async def __call__(self, request: Request, obj: KubeObject | None) -> None:
        """Note it.

        Cancellation:
            Never waits.
        """
        data = None if obj is None else obj.at("data.v", str, default="")
        self.objects.append((str(request), data))
        self.reasons += [f"{reason.event} {reason.key}" for reason in request.reasons]


async def test_every_change_of_the_primary_is_reconciled_with_its_cached_state(
    apiserver: APIServer,
) -> None:
    apiserver.create(config_map("a", v="1"))
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with Controller("maps", seen, maps) as controller:
            await until(lambda: ("default/a", "1") in seen.objects)
            apiserver.update(config_map("a", v="2"))
            await until(lambda: ("default/a", "2") in seen.objects)
            apiserver.delete("v1", "configmaps", "a", namespace="default")
            await until(lambda: ("default/a", None) in seen.objects)
            assert controller.has_synced
            assert seen.reasons == [
                "initial default/a",
                "updated default/a",
                "deleted default/a",
            ]


async def test_only_owners_that_exist_are_requested(
    apiserver: APIServer,
) -> None:
    """A tenant can name owners that do not exist, and other ones at each update."""
    apiserver.create(config_map("app"))
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods")
        controller = Controller("maps", seen, SharedInformer(cluster, "v1", "configmaps"))
        source = controller.owns(pods, controller_only=False)
        async with controller:
            await until(lambda: seen.objects)
            named = owned_pod("x", "app")
            (owner,) = named["metadata"]["ownerReferences"]
            absent = [{**owner, "name": f"absent-{n}", "controller": False} for n in range(1_000)]
            named["metadata"]["ownerReferences"] = [{**owner, "controller": False}, *absent]
            apiserver.create(named)
            await until(lambda: "added default/x" in seen.reasons)
            assert source.requests_for(Added(pods.lister["default/x"])) == [Request("default/app")]
            assert {key for key, _ in seen.objects} == {"default/app"}
            apiserver.create(config_map("absent-7"))
            await until(lambda: "default/absent-7" in {key for key, _ in seen.objects})
            assert [one.key for one in source.owned_by("default/absent-7")] == ["default/x"]


@pytest.mark.covers(
    "controller-runtime pkg/controller: controller / should reconcile",
    "controller-runtime pkg/handler: should enqueue a Request with the Owner of the object in",
)
@pytest.mark.parametrize("discovery", ["allowed", "forbidden"])
async def test_changes_of_owned_and_watched_objects_request_their_owner(
    apiserver: APIServer, discovery: str
) -> None:
    apiserver.create(config_map("app"))
    if discovery == "forbidden":
        forbidden = Fault(match=lambda sent: sent.path == "/api/v1", status=403, times=None)
        apiserver.faults.add(forbidden)
    seen = Seen()
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        maps = factory.informer("v1", "configmaps")
        pods = factory.informer("v1", "pods", model=PodView)
        controller = Controller("maps", seen, maps)
        owned = controller.owns(pods)
        controller.watches(pods, lambda one: [f"default/on-{one.view.spec.node_name}"])
        async with ControllerGroup(controller, factories=[factory]):
            await until(lambda: seen.objects)
            apiserver.create(owned_pod("x", "app"))
            await until(lambda: seen.reasons.count("added default/x") == 2)
            assert {key for key, _ in seen.objects} == {"default/app", "default/on-n0"}
            assert [one.key for one in owned.owned_by("default/app")] == ["default/x"]
            event = Added(pods.lister["default/x"])
            found = controller.requests_for(pods, event)
            assert found == [Request("default/app"), Request("default/on-n0")]
            other = factory.informer("v1", "services")
            with pytest.raises(InvalidArgumentError, match="no source of controller maps reads"):
                controller.requests_for(other, event)
        assert maps.is_closed


async def test_timers_reconcile_every_primary_object(apiserver: APIServer) -> None:
    apiserver.create(config_map("a"))
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        controller = Controller("maps", seen, SharedInformer(cluster, "v1", "configmaps"))
        controller.every(0.05)
        controller.every(0.05, ["default/fixed"])
        async with controller:
            await until(lambda: seen.objects.count(("default/a", "")) > 2)
            await until(lambda: ("default/fixed", None) in seen.objects)


async def test_a_reconcile_that_deletes_its_own_object_is_not_retried(apiserver: APIServer) -> None:
    apiserver.create(config_map("a"))
    seen = list[object]()

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        seen.append(obj)
        if obj is not None:
            apiserver.delete("v1", "configmaps", request.name, namespace=request.namespace)

    async with (
        cluster_of(apiserver) as cluster,
        Controller("maps", reconcile, SharedInformer(cluster, "v1", "configmaps")) as controller,
    ):
        await until(lambda: None in seen)
        assert controller.status().outcomes["error"] == 0


async def test_closing_ends_only_the_informers_that_the_controller_started(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        shared = factory.informer("v1", "configmaps")
        await factory.start()
        of_factory = list(core_of(shared).crash_observers)
        alone = SharedInformer(cluster, "v1", "pods")
        controller = Controller("maps", Seen(), shared)
        controller.watches(alone, lambda one: one.key)
        async with controller:
            assert alone.is_running
            assert list(core_of(shared).crash_observers) != of_factory
        assert shared.is_running
        assert (
            list(core_of(shared).crash_observers) == of_factory
        )  # what is closed is not kept by what lives on
        assert alone.is_closed


async def test_two_controllers_share_an_informer_until_the_group_ends(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        first, second = Seen(), Seen()
        group = ControllerGroup(Controller("a", first, maps), Controller("b", second, maps))
        async with group:
            apiserver.create(config_map("x"))
            await until(lambda: first.objects and second.objects)
        assert maps.is_closed


async def test_requests_are_served_by_their_own_cluster() -> None:
    with APIServer() as east, APIServer() as west:
        east.create(config_map("a", v="east"))
        west.create(config_map("a", v="west"))
        seen = Seen()
        async with (
            pyinformer.connect(server=east.url, name="east") as one,
            pyinformer.connect(server=west.url, name="west") as two,
        ):
            informers = [SharedInformer(each, "v1", "configmaps") for each in (one, two)]
            controller = Controller("maps", seen, informers)
            with pytest.raises(InvalidArgumentError, match="there are several clusters"):
                controller.enqueue("default/a")
            with pytest.raises(InvalidArgumentError, match="without a primary"):
                async with cluster_of(east) as third:
                    controller.owns(SharedInformer(third, "v1", "pods"))
            with pytest.raises(InvalidArgumentError, match="of cluster 'north'"):
                controller.enqueue(Request("default/a", "north"))
            controller.watches(informers[0], lambda _: Request("default/a", "north"))
            async with controller:
                await until(lambda: len(seen.objects) == 2)
                await until(lambda: controller.status().outcomes["terminal"] == 1)
    assert sorted(seen.objects, key=str) == [("east:default/a", "east"), ("west:default/a", "west")]


async def test_a_key_without_a_cluster_belongs_to_the_only_cluster(apiserver: APIServer) -> None:
    apiserver.create(config_map("a"))
    seen = Seen()
    async with pyinformer.connect(server=apiserver.url, name="prod") as cluster:
        controller = Controller("maps", seen, SharedInformer(cluster, "v1", "configmaps"))
        controller.every(0.05, "default/a")
        controller.enqueue("default/a", reason="me")
        async with controller:
            await until(lambda: "timer " in seen.reasons)
    assert controller.status().outcomes["terminal"] == 0
    assert {key for key, _ in seen.objects} == {"prod:default/a"}


@pytest.mark.parametrize(
    ("plural", "wrong", "words"),
    [
        ("configmaps", "a", "'a' lacks a namespace, unlike 'default/a'"),
        ("namespaces", "x/default", "'x/default' has a namespace, unlike '"),
    ],
)
async def test_a_key_of_the_wrong_scope_is_named_once(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture, plural: str, wrong: str, words: str
) -> None:
    apiserver.create(config_map("a"))
    seen = Seen()
    async with (
        cluster_of(apiserver) as cluster,
        Controller("c", seen, SharedInformer(cluster, "v1", plural)) as controller,
    ):
        await until(lambda: seen.objects)
        for _ in range(2):
            controller.enqueue(wrong)
            await until(lambda: (wrong, None) in seen.objects)
            seen.objects.clear()
    assert caplog.text.count(words) == 1


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param({"namespaces": "one"}, id="namespace"),
        pytest.param({"label_selector": "mine=yes"}, id="labels"),
        pytest.param({"field_selector": "metadata.name=mine"}, id="fields"),
    ],
)
async def test_an_owner_that_is_not_watched_never_appears_deleted(
    apiserver: APIServer, selection: dict[str, str]
) -> None:
    """The reconcile would clean up an object in the namespace or shard of another operator."""
    apiserver.ensure_namespace("one")
    apiserver.ensure_namespace("two")

    def made(name: str, namespace: str, mine: str) -> None:
        labels = {"mine": mine}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        apiserver.create(config_map(name) | {"metadata": metadata})
        pod = owned_pod(name, name)
        pod["metadata"] |= {"namespace": namespace}
        apiserver.create(pod)

    made("theirs", "two", "no")
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps", **selection)  # type: ignore[arg-type]
        controller = Controller("maps", seen, maps)
        pods = SharedInformer(cluster, "v1", "pods")
        source = controller.owns(pods)
        async with controller:
            made("mine", "one", "yes")
            await until(lambda: seen.reasons.count("added one/mine") == 2)
            theirs = Added(pods.lister["two/theirs"])
            assert source.requests_for(theirs) == []
            if "namespaces" in selection:
                controller.enqueue("two/theirs")
                await until(lambda: controller.status().outcomes["terminal"] == 1)
    assert {key for key, _ in seen.objects} == {"one/mine"}


async def test_a_cluster_that_is_down_delays_no_controller_of_another(
    apiserver: APIServer,
) -> None:
    with APIServer() as dead:
        dead.faults.add(Fault(hang=True, times=None))
        apiserver.create(config_map("a"))
        seen, never = Seen(), Seen()
        options = ControllerOptions(sync_timeout_seconds=2.0)
        async with cluster_of(apiserver) as one, cluster_of(dead) as other:
            works = Controller("works", seen, SharedInformer(one, "v1", "configmaps"))
            waits = Controller(
                "waits", never, SharedInformer(other, "v1", "configmaps"), options=options
            )
            group = ControllerGroup(waits, works)
            starting = asyncio.create_task(group.start())
            await until(lambda: seen.objects)
            apiserver.create(config_map("b"))
            await until(lambda: len(seen.objects) == 2)
            assert not starting.done()
            with pytest.raises(CacheSyncTimeoutError, match="configmaps"):
                await starting
        assert never.objects == []


async def test_informers_of_several_selectors_are_one_primary(apiserver: APIServer) -> None:
    for colour in ("red", "blue"):
        metadata = {"name": colour, "namespace": "default", "labels": {"is": colour}}
        apiserver.create(config_map(colour, v=colour) | {"metadata": metadata})
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        primary = [
            SharedInformer(cluster, "v1", "configmaps", label_selector=f"is={colour}")
            for colour in ("red", "blue")
        ]
        async with Controller("maps", seen, primary):
            await until(lambda: len(seen.objects) == 2)
    assert sorted(map(str, seen.objects)) == [
        "('default/blue', 'blue')",
        "('default/red', 'red')",
    ]


async def test_informers_of_several_namespaces_are_one_primary(apiserver: APIServer) -> None:
    for namespace in ("one", "two"):
        apiserver.ensure_namespace(namespace)
        made = config_map("a", v=namespace)
        apiserver.create(made | {"metadata": {"name": "a", "namespace": namespace}})
    seen = Seen()
    async with cluster_of(apiserver) as cluster:
        primary = [
            SharedInformer(cluster, "v1", "configmaps", namespaces=name) for name in ("one", "two")
        ]
        async with Controller("maps", seen, primary) as controller:
            await until(lambda: set(seen.objects) == {("one/a", "one"), ("two/a", "two")})
            controller.enqueue("three/a")
            await until(lambda: controller.status().outcomes["terminal"] == 1)


@pytest.mark.covers(
    "controller-runtime pkg/source: Kind / should return an error if syncing fails",
    "controller-runtime pkg/internal/controller: should return an error if there is an error",
)
async def test_a_server_that_never_answers_fails_the_start_with_a_reason(
    apiserver: APIServer,
) -> None:
    apiserver.faults.add(Fault(resource="configmaps", status=503, times=None))
    settings = ControllerOptions(sync_timeout_seconds=0.2)
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps", options=HURRIED)
        controller = Controller("maps", Seen(), maps, options=settings)
        with pytest.raises(CacheSyncTimeoutError, match=r"configmaps.*503"):
            await controller.start()
        assert maps.is_closed
        assert not controller.is_running


async def test_the_initial_list_comes_after_real_events(apiserver: APIServer) -> None:
    for number in range(20):
        apiserver.create(config_map(f"old-{number:02}"))
    order = list[str]()
    gate = asyncio.Event()

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        order.append(request.name)
        if len(order) == 1:
            await gate.wait()

    async with (
        cluster_of(apiserver) as cluster,
        Controller("maps", reconcile, SharedInformer(cluster, "v1", "configmaps")) as controller,
    ):
        await until(lambda: order)
        apiserver.create(config_map("new"))
        await until(lambda: dict(controller.status().queue.depth_by_priority).get(0) == 1)
        gate.set()
        await until(lambda: len(order) == 21)
    assert order[1] == "new"


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return an error if there is an error (2)"
)
async def test_owners_of_an_unknown_kind_end_the_start_with_a_reason(apiserver: APIServer) -> None:
    forbidden = Fault(match=lambda sent: sent.path == "/api/v1", status=403, times=None)
    apiserver.faults.add(forbidden)
    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        options = ControllerOptions(sync_timeout_seconds=5)  # of which the lists are to use little
        controller = Controller("maps", Seen(), maps, options=options)
        owned = controller.owns(SharedInformer(cluster, "v1", "pods"))
        with pytest.raises(CacheSyncTimeoutError, match=r"owner is not known yet: .*403"):
            await controller.start()
    assert owned.owner is None
    assert repr(controller) == "<Controller maps>"
    assert repr(ControllerGroup(controller)) == "<ControllerGroup of 1 controllers>"


async def test_the_kind_of_owner_is_learned_before_there_is_anything_to_index(
    apiserver: APIServer,
) -> None:
    apiserver.create(config_map("app"))
    lists = Fault(resource="pods", hang=True, times=None)
    apiserver.faults.add(lists)
    async with cluster_of(apiserver) as cluster:
        pods = SharedInformer(cluster, "v1", "pods")
        controller = Controller("maps", Seen(), SharedInformer(cluster, "v1", "configmaps"))
        owned = controller.owns(pods)
        starting = asyncio.create_task(controller.start())
        await until(lambda: owned.owner)
        assert not pods.has_synced
        apiserver.faults.clear()
        apiserver.faults.release()
        await starting
        await controller.aclose()


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"status": 503}, id="503"),
        pytest.param({"refuse": True}, id="refused"),
        pytest.param({"status": 404}, id="of-a-server-behind"),
        pytest.param({"status": 403}, id="403"),
        pytest.param({"body": b"<html>maintenance</html>"}, id="a-page"),
    ],
)
async def test_discovery_of_owners_is_retried_after_an_error(
    apiserver: APIServer, trouble: dict[str, Any]
) -> None:
    troubled = Fault(match=lambda sent: sent.path == "/api/v1", times=None, **trouble)
    apiserver.faults.add(troubled)
    async with cluster_of(apiserver) as cluster:
        maps, pods = (SharedInformer(cluster, "v1", name) for name in ("configmaps", "pods"))
        controller = Controller("maps", Seen(), maps)
        owned = controller.owns(pods)
        starting = asyncio.create_task(controller.start())
        await until(lambda: maps.has_synced and pods.has_synced)
        assert owned.owner is None
        apiserver.faults.clear()
        await starting
        assert str(owned.owner) == "ConfigMap"
        await controller.aclose()


async def test_owners_of_unknown_kind_end_the_start_with_a_reason(
    apiserver: APIServer,
) -> None:
    troubled = Fault(match=lambda sent: sent.path == "/api/v1", times=None, status=503)
    apiserver.faults.add(troubled)
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "configmaps") as maps,
        SharedInformer(cluster, "v1", "pods") as pods,
    ):
        for informer in (maps, pods):
            await informer.wait_for_cache_sync(timeout_seconds=100)
        options = ControllerOptions(sync_timeout_seconds=0.5)
        controller = Controller("maps", Seen(), maps, options=options)
        controller.owns(pods)
        with pytest.raises(CacheSyncTimeoutError, match="its kind of owner is not known yet"):
            await controller.start()


async def test_a_cache_that_crashes_ends_the_controller(
    apiserver: APIServer,
) -> None:
    class Broken:
        def put_nowait(self, event: object) -> None:
            raise ZeroDivisionError

        def preload_nowait(self, objects: object) -> None: ...

        def on_initial_list_complete(self) -> None: ...

        def on_missed_state(self, was: object, now: object) -> None: ...

    async with cluster_of(apiserver) as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        core_of(maps).attach_receiver(Broken())
        controller = Controller("maps", Seen(), maps)
        with pytest.raises(InternalError, match="crashed"):
            async with controller:
                apiserver.create(config_map("a"))
                async with asyncio.timeout(100):
                    await controller.wait_ended()
        assert not controller.is_running


def _replaced_by_a_thread(cluster: Cluster, loop: asyncio.AbstractEventLoop) -> Reconcile[None]:
    def reconcile(request: Request, obj: KubeObject | None) -> None:
        assert obj is not None
        asyncio.run_coroutine_threadsafe(cluster.replace(obj), loop).result(10)

    return reconcile


def _replaced_on_the_loop(cluster: Cluster, _: asyncio.AbstractEventLoop) -> Reconcile[None]:
    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        assert obj is not None
        async with asyncio.TaskGroup() as group:  # a task of its own is still this reconcile's
            group.create_task(cluster.replace(obj))

    return reconcile


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_replaced_on_the_loop, id="on-the-loop"),
        pytest.param(_replaced_by_a_thread, id="in-a-thread"),
    ],
)
async def test_noop_writes_are_counted_per_controller_and_key(
    apiserver: APIServer,
    make: Callable[[Cluster, asyncio.AbstractEventLoop], Reconcile[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number in range(25):
        apiserver.create(config_map(f"a{number}"))
    async with cluster_of(apiserver) as cluster:
        reconcile = make(cluster, asyncio.get_running_loop())
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with Controller("storm", reconcile, maps, workers=2) as controller:
            await until(lambda: controller.status().noop_writes.noops == 25)
            found = controller.status().noop_writes
            assert (found.is_storm, found.noop_ratio, found.writes) == (True, 1.0, 25)
            assert {count for _, count in found.top} == {1}
            before = await cluster.get("v1", "configmaps", "default/a1")
            await cluster.replace(before)
            assert cluster.write_statistics().unchanged_by == {"storm": 25, "": 1}
    assert sum("changed nothing" in one.message for one in caplog.records) == 1
