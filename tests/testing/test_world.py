"""World: reconciles with the real library, without waiting."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.controller import Controller, Result
from pyinformer.controller.conventions import EventRecorder, finalizer, set_controller_reference
from pyinformer.controller.sources import Request
from pyinformer.errors import (
    CacheNotSyncedError,
    ConflictError,
    ForbiddenError,
    InvalidArgumentError,
    LifecycleError,
    NotFoundError,
    TerminalError,
    TooManyRequestsError,
)
from pyinformer.objects import Added, Deleted, Updated, View
from pyinformer.testing import World
from pyinformer.testing.apiserver.handler import ObjectTestAPI
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.cache.informer import SharedInformerFactory
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject, KubeObject


def _database(name: str = "a", *, replicas: int = 1, **metadata: Any) -> JSONObject:
    return {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "metadata": {"name": name, "namespace": "default"} | metadata,
        "spec": {"replicas": replicas},
    }


def _pod(name: str, *, namespace: str = "default", **labels: str) -> JSONObject:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}}


def _config_map(name: str = "a") -> JSONObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class _Operator:
    """A user's operator: one config map for every database, by its number of replicas."""

    def __init__(self, cluster: Cluster, factory: SharedInformerFactory) -> None:
        self.cluster = cluster
        self.databases = factory.informer("acme.io/v1", "databases")
        self.maps = factory.informer("v1", "configmaps")
        self.controller = Controller("databases", self.reconcile, self.databases)
        self.controller.owns(self.maps)

    async def reconcile(self, request: Request, obj: KubeObject | None) -> Result | None:
        """Make the config map what it should be."""
        if obj is None:
            return None
        wanted = {**_config_map(obj.key.name), "data": {"n": str(obj.at("spec.replicas", int))}}
        present = self.maps.lister.get(request.key)
        if present is None:
            await self.cluster.create(set_controller_reference(obj, wanted))
        else:
            await self.cluster.patch(present, {**present.to_dict(), "data": wanted["data"]})
        return Result(requeue_after_seconds=60.0)


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database, `default/a`."""
    with World([_database()]) as world:
        yield world


@pytest.fixture
def operator(world: World) -> _Operator:
    """The operator on that World, created as in production."""
    return _Operator(world.cluster, world.factory)


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should Unmarshal the schemaless object with int64 to"
)
@pytest.mark.parametrize("number", [0, 2**53 + 1, -(2**63), 2**63 - 1, 1.5, -1e-7, 1e300])
def test_a_number_of_a_field_without_a_type_keeps_its_kind_and_value(
    world: World, number: float
) -> None:
    world.create({**_database("numbers"), "spec": {"free": number}})

    async def found() -> object:
        return (await world.cluster.get("acme.io/v1", "databases", "default/numbers")).to_dict()

    stored = world.run(found)
    assert isinstance(stored, dict)
    kept = stored["spec"]["free"]
    assert (type(kept), kept) == (type(number), number)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: Reconciler / should call the Reconciler",
    "controller-runtime pkg/reconcile: should Get the object and call the ObjectReconciler",
)
def test_a_reconcile_runs_and_returns_its_outcome(world: World, operator: _Operator) -> None:
    outcome = world.reconcile(operator.controller, "default/a")

    assert outcome.error is None
    assert outcome.result == Result(requeue_after_seconds=60.0)
    assert outcome.after_seconds == 60.0
    stored = world.get("v1", "configmaps", "a")
    assert stored["data"] == {"n": "1"}
    assert stored["metadata"]["ownerReferences"][0]["name"] == "a"


def test_a_key_of_the_wrong_scope_is_refused(world: World, operator: _Operator) -> None:
    """With None for an object that exists, a test would check nothing."""
    with pytest.raises(InvalidArgumentError, match=r"databases\.acme\.io are in namespaces"):
        world.reconcile(operator.controller, "a")


def test_writes_are_recorded_as_they_were_sent(world: World, operator: _Operator) -> None:
    world.reconcile(operator.controller, "default/a")
    world.patch("acme.io/v1", "databases", "a", {"spec": {"replicas": 3}})
    world.reconcile(operator.controller, Request("default/a"))

    created, patched = world.writes
    assert (created.verb, created.api_version, created.plural) == ("create", "v1", "configmaps")
    assert (created.key, created.status, created.is_refused) == ("default/a", 201, False)
    assert created.body["data"] == {"n": "1"}
    assert patched.verb == "patch"
    assert patched.body["data"] == {"n": "3"}
    assert world.get("v1", "configmaps", "a")["data"] == {"n": "3"}
    world.clear_writes()
    assert world.writes == ()


def test_the_second_reconcile_sees_what_the_first_has_written(
    world: World, operator: _Operator
) -> None:
    world.reconcile(operator.controller, "default/a")
    world.clear_writes()

    world.reconcile(operator.controller, "default/a")

    assert world.writes == ()
    assert operator.maps.lister.keys() == ["default/a"]


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: errors when trying to server-side apply an object"
)
def test_an_apply_without_a_field_manager_names_the_argument_of_the_world(world: World) -> None:
    async def apply() -> None:
        with pytest.raises(InvalidArgumentError, match=r" or World\(field_manager=\.\.\.\);"):
            await world.cluster.apply(_config_map("b"))

    world.run(apply)


def test_an_apply_removes_an_item_that_another_client_has_edited(world: World) -> None:
    def service(*ports: int) -> JSONObject:
        listed = [{"port": port, "name": f"p{port}"} for port in ports]
        metadata = {"name": "a", "namespace": "default"}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": listed},
        }

    world.run(lambda: world.cluster.apply(service(80, 81), field_manager="me"))
    edited = world.get("v1", "services", "a")
    edited["spec"]["ports"][1]["targetPort"] = 8080
    world.update(edited)
    left = world.run(lambda: world.cluster.apply(service(80), field_manager="me"))

    assert [port["port"] for port in left.at("spec.ports", list)] == [80]


@pytest.mark.covers("controller-runtime pkg/client/fake: should be able to Get")
def test_the_verbs_are_those_of_the_cluster(world: World) -> None:
    async def write() -> None:
        cluster = world.cluster
        named = {"generateName": "m-", "namespace": "default"}
        stored = await cluster.create({**_config_map(), "metadata": named})
        await cluster.replace({**stored.to_dict(), "data": {"x": "1"}})
        await cluster.apply({**_config_map("b"), "data": {"x": "2"}}, field_manager="me")
        database = await cluster.get("acme.io/v1", "databases", "default/a")
        await cluster.status(database, {"phase": "Ready"})
        await cluster.delete(stored)

    world.run(write)

    assert [write.verb for write in world.writes] == [
        "create",
        "replace",
        "apply",
        "patch",
        "delete",
    ]
    generated = world.writes[0].key
    assert generated.startswith("default/m-")
    assert world.writes[4].key == generated
    assert (world.writes[3].subresource, world.writes[3].key) == ("status", "default/a")
    assert world.writes[2].query["fieldManager"] == "me"
    assert world.get("acme.io/v1", "databases", "a")["status"] == {"phase": "Ready"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ValueError("no"), "error", id="any"),
        pytest.param(TerminalError("never"), "terminal", id="terminal"),
    ],
)
def test_an_exception_is_in_the_outcome(world: World, error: Exception, kind: str) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        raise error

    databases = world.factory.informer("acme.io/v1", "databases")
    outcome = world.reconcile(Controller("d", reconcile, databases), "default/a")

    assert outcome.error is error
    assert outcome.kind == kind


def test_a_plain_function_reconciles_too(world: World) -> None:
    seen: list[str] = []

    def reconcile(request: Request, obj: KubeObject | None) -> None:
        seen.append(f"{request} {obj is not None} {threading.current_thread().name}")

    databases = world.factory.informer("acme.io/v1", "databases")
    controller = Controller("d", reconcile, databases)

    assert world.reconcile(controller, "default/a").error is None
    assert world.reconcile(controller, "default/b").error is None
    assert [each.split()[:2] for each in seen] == [["default/a", "True"], ["default/b", "False"]]


def test_each_of_several_statuses_in_one_reconcile_is_stored_whole(world: World) -> None:
    """Each is written to the object that the reconcile began with."""
    stored: list[JSONObject] = []

    async def reconcile(_request: Request, obj: KubeObject | None) -> None:
        assert obj is not None
        was = {"phase": "Ready", "generation": len(stored)}
        for whole in (was, {**was, "phase": "Updating"}, {"phase": "Ready", "generation": 7}):
            written = await world.cluster.status(obj, whole)
            stored.append(written.to_dict()["status"])

    databases = world.factory.informer("acme.io/v1", "databases")
    controller = Controller("d", reconcile, databases)
    for _ in range(2):
        assert world.reconcile(controller, "default/a").error is None

    assert [(one["phase"], one["generation"]) for one in stored] == [
        *(("Ready", 0), ("Updating", 0), ("Ready", 7)),
        *(("Ready", 3), ("Updating", 3), ("Ready", 7)),
    ]


def test_a_change_requests_its_owner_with_a_reason(world: World, operator: _Operator) -> None:
    world.reconcile(operator.controller, "default/a")
    world.enqueued_by(operator.controller)

    world.delete("v1", "configmaps", "a")

    (request,) = world.enqueued_by(operator.controller)
    assert request == Request("default/a")
    (reason,) = request.reasons
    assert (reason.event, reason.key) == ("deleted", "default/a")
    assert world.enqueued_by(operator.controller) == [], "each event is reported once"


def test_writes_of_a_reconcile_enqueue_as_those_of_others_do(
    world: World, operator: _Operator
) -> None:
    world.reconcile(operator.controller, "default/a")

    (request,) = world.enqueued_by(operator.controller)

    assert [reason.event for reason in request.reasons] == ["added"]


def test_objects_that_existed_before_cause_no_requests(world: World, operator: _Operator) -> None:
    assert world.enqueued_by(operator.controller) == []

    world.create(_database("b"))
    world.update(_database("a", replicas=2))

    assert world.enqueued_by(operator.controller) == [Request("default/b"), Request("default/a")]


def test_each_controller_is_notified_by_itself(world: World, operator: _Operator) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        pass

    other = Controller("other", reconcile, operator.databases)
    world.create(_database("b"))

    assert world.enqueued_by(operator.controller) == [Request("default/b")]
    assert world.enqueued_by(other) == [Request("default/b")]


def test_a_simulated_event_enqueues_without_changing_objects(
    world: World, operator: _Operator
) -> None:
    owned = set_controller_reference(world.get("acme.io/v1", "databases", "a"), _config_map("x"))
    obj = world.kube_object(owned)

    for event in (Added(obj), Updated(obj, obj), Deleted(obj)):
        assert world.enqueued_by(operator.controller, event) == [Request("default/a")]
    assert world.enqueued_by(operator.controller, Added(world.kube_object(_config_map()))) == []
    with pytest.raises(NotFoundError):
        world.get("v1", "configmaps", "x")


class _PodView(View):
    """The fields that the mapping below reads."""

    spec: _Spec


class _Spec(View):
    node_name: str = ""


def test_a_simulated_event_passes_the_informers_selector_and_projection() -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        pass

    with World([_database()]) as world:
        databases = world.factory.informer("acme.io/v1", "databases")
        pods = world.factory.informer(
            "v1", "pods", namespaces="shop", label_selector="app=web", model=_PodView
        )
        controller = Controller("d", reconcile, databases)
        controller.watches(pods, lambda pod: [f"default/{pod.view.spec.node_name}"])

        def asked(old: JSONObject | None, new: JSONObject | None) -> list[str]:
            before = None if old is None else world.kube_object(old)
            after = None if new is None else world.kube_object(new)
            event: Any
            if after is None:
                event = Deleted(before) if before else None
            else:
                event = Added(after) if before is None else Updated(before, after)
            return [
                f"{request} {request.reasons[0].event}"
                for request in world.enqueued_by(controller, event)
            ]

        web, other = _pod("p", namespace="shop", app="web"), _pod("p", namespace="shop", app="x")
        assert asked(None, web) == ["default/n1 added"]
        assert asked(None, other) == []
        assert asked(None, _pod("p", app="web")) == [], "another namespace"
        assert asked(other, web) == ["default/n1 added"]
        assert asked(web, other) == ["default/n1 deleted"]
        assert asked(web, None) == ["default/n1 deleted"]
        assert asked(other, None) == []
        assert asked(other, other) == []


def test_a_simulated_event_that_no_informer_could_deliver_is_refused(
    world: World, operator: _Operator
) -> None:
    with pytest.raises(InvalidArgumentError, match="no informer of controller databases"):
        world.enqueued_by(operator.controller, Added(world.kube_object(_pod("p"))))


def test_stale_caches_get_nothing_until_the_end_of_the_block(
    world: World, operator: _Operator
) -> None:
    with world.stale_caches():
        world.patch("acme.io/v1", "databases", "a", {"spec": {"replicas": 7}})
        assert world.enqueued_by(operator.controller) == []
        world.reconcile(operator.controller, "default/a")
        assert world.writes[0].body["data"] == {"n": "1"}, "the cache is behind"

    assert world.enqueued_by(operator.controller) == [Request("default/a")]
    world.reconcile(operator.controller, "default/a")
    assert world.get("v1", "configmaps", "a")["data"] == {"n": "7"}


@pytest.mark.covers("controller-runtime pkg/client: TestConsistentFakeClient")
def test_own_writes_are_read_even_from_stale_caches(world: World, operator: _Operator) -> None:
    with world.stale_caches():
        world.reconcile(operator.controller, "default/a")
        outcome = world.reconcile(operator.controller, "default/a")

        assert outcome.error is None
        assert [write.verb for write in world.writes] == ["create"]


def test_an_injected_conflict_occurs_as_often_as_configured(
    world: World, operator: _Operator
) -> None:
    world.reconcile(operator.controller, "default/a")
    world.conflict_on("configmaps", "default/a", times=2)
    world.clear_writes()

    kinds = []
    for replicas in (2, 3, 4):
        world.patch("acme.io/v1", "databases", "a", {"spec": {"replicas": replicas}})
        outcome = world.reconcile(operator.controller, "default/a")
        kinds.append(type(outcome.error))

    assert kinds == [ConflictError, ConflictError, type(None)]
    assert [write.is_refused for write in world.writes] == [True, True, False]


def test_an_injected_conflict_applies_to_a_create(world: World, operator: _Operator) -> None:
    world.conflict_on("configmaps", "default/a", verb="create")

    assert isinstance(world.reconcile(operator.controller, "default/a").error, ConflictError)
    assert world.reconcile(operator.controller, "default/a").error is None


@pytest.mark.parametrize(
    ("plural", "key"), [("configmaps", "default/other"), ("secrets", "default/a")]
)
def test_an_injected_conflict_of_another_object_does_not_apply(
    world: World, operator: _Operator, plural: str, key: str
) -> None:
    world.conflict_on(plural, key, verb="create", times=None)

    assert world.reconcile(operator.controller, "default/a").error is None


def test_only_the_configured_verbs_fail(world: World) -> None:
    async def write() -> None:
        applied = {**_config_map(), "data": {"x": "1"}}
        stored = await world.cluster.apply(applied, field_manager="me")
        await world.cluster.patch(stored, {**stored.to_dict(), "data": {"x": "2"}})

    world.conflict_on("configmaps", verb="patch", times=None)
    with pytest.raises(ConflictError):
        world.run(write)
    assert [(each.verb, each.is_refused) for each in world.writes] == [
        ("apply", False),
        ("patch", True),
    ]
    world.stop_failing()
    world.conflict_on(verb="apply")
    with pytest.raises(ConflictError):
        world.run(write)
    with pytest.raises(InvalidArgumentError, match="'update' is not one of get, apply, create"):
        world.conflict_on(verb="update")


def test_any_refusal_can_be_injected_and_ended(world: World, operator: _Operator) -> None:
    world.fail_on("configmaps", verb="create", status=403, times=None)
    for _ in range(3):
        outcome = world.reconcile(operator.controller, "default/a")
        assert isinstance(outcome.error, ForbiddenError)

    world.stop_failing()

    assert world.reconcile(operator.controller, "default/a").error is None


def test_an_injected_refusal_that_could_never_apply_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgumentError, match="does not serve 'databasez'"):
        world.conflict_on("databasez")
    with pytest.raises(InvalidArgumentError, match="are in namespaces: give namespace/name"):
        world.conflict_on("configmaps", "a")
    with pytest.raises(InvalidArgumentError, match="are cluster-scoped: give the name alone"):
        world.conflict_on("nodes", "default/a")
    with pytest.raises(InvalidArgumentError, match="must be from 400 to 599, got 200"):
        world.fail_on(status=200)
    world.conflict_on("databases.acme.io")


@pytest.mark.timeout(10)
def test_retry_after_is_not_waited_for(world: World, operator: _Operator) -> None:
    world.fail_on("configmaps", status=429, retry_after_seconds=30)

    outcome = world.reconcile(operator.controller, "default/a")

    assert isinstance(outcome.error, TooManyRequestsError)
    assert outcome.error.retry_after_seconds == 30
    assert world.reconcile(operator.controller, "default/a").error is None


def test_finalizers_and_events_work_as_in_production() -> None:
    cleaned: list[str] = []
    with World([_database()]) as world:
        databases = world.factory.informer("acme.io/v1", "databases")
        recorder = EventRecorder(world.cluster, "db")

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            async with finalizer(world.cluster, obj, "acme.io/x") as held:
                if held.phase == "deleting" and obj is not None:
                    cleaned.append(str(request))
                    recorder.event(obj, "Cleaned")

        controller = Controller("d", reconcile, databases)
        world.run(recorder.start)
        world.reconcile(controller, "default/a")
        world.delete("acme.io/v1", "databases", "a")
        world.reconcile(controller, "default/a")
        world.run(recorder.aclose)

        assert cleaned == ["default/a"]
        assert world.list("acme.io/v1", "databases") == []
        (event,) = world.list("events.k8s.io/v1", "events")
        assert event["reason"] == "Cleaned"


def test_objects_of_worlds_beside_each_other_are_not_equal() -> None:
    """Each cluster gives uids of its own, and those of a run are those of the next run."""

    def uids() -> list[str]:
        with (
            World([_pod("a")]) as one,
            World([_pod("a")], beside=one) as other,
            World([_pod("a")], beside=one) as third,
        ):
            worlds = (one, other, third)
            found: list[Any] = [world.get("v1", "pods", "a")["metadata"] for world in worlds]
            return [metadata["uid"] for metadata in found]

    assert len({*uids()}) == 3
    assert uids() == uids()


def test_two_worlds_beside_each_other_serve_one_controller() -> None:
    copied: list[str] = []
    with (
        World([_config_map("x")], name="business") as business,
        World(name="ingress", beside=business) as ingress,
    ):
        source = business.factory.informer("v1", "configmaps")
        target = ingress.factory.informer("v1", "secrets")

        async def reconcile(request: Request, obj: KubeObject | None) -> None:
            copied.append(f"{request} {obj is not None} {target.lister.get(request.key)}")
            metadata = {"name": request.name, "namespace": "default"}
            await ingress.cluster.create(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            )

        controller = Controller("sync", reconcile, source)
        controller.watches(target, lambda obj: Request(obj.key, "business"))

        outcome = business.reconcile(controller, Request("default/x", "business"))

        assert outcome.error is None
        assert copied == ["business:default/x True None"]
        assert [write.plural for write in ingress.writes] == ["secrets"]
        assert business.writes == ()
        assert ingress.enqueued_by(controller) == [Request("default/x", "business")]


def test_a_world_that_is_not_linked_is_named_at_once(world: World) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        pass

    with World([_database()], name="other") as other:
        informers = [each.factory.informer("acme.io/v1", "databases") for each in (world, other)]
        controller = Controller("d", reconcile, informers)

        with pytest.raises(InvalidArgumentError, match=r"beside=first"):
            world.reconcile(controller, "default/a")


def test_a_value_that_is_not_an_event_of_an_object_is_refused(
    world: World, operator: _Operator
) -> None:
    body: Any = _database()
    wrongs: list[Any] = [Added(body), world.kube_object(body), Updated(body, body)]
    for wrong in wrongs:
        with pytest.raises(InvalidArgumentError, match=r"write Added\(world.kube_object"):
            world.enqueued_by(operator.controller, wrong)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_base_exception_reaches_the_test_and_closes_the_world(error: BaseException) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        raise error

    with World([_database()]) as world:
        databases = world.factory.informer("acme.io/v1", "databases")
        controller = Controller("d", reconcile, databases)

        with pytest.raises(type(error)) as raised:
            world.reconcile(controller, "default/a")

        assert raised.value is error
        with pytest.raises(LifecycleError, match="the World is closed"):
            world.reconcile(controller, "default/a")
    assert _threads() == 0


@pytest.mark.parametrize("objects", [_database(), "x", ["x"]])
def test_other_values_than_a_list_of_objects_are_refused(objects: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="objects: must be a list of objects"):
        World(objects)


def test_threads_may_come_at_once(world: World, operator: _Operator) -> None:
    ready = threading.Barrier(8)

    def reconcile() -> object:
        ready.wait()
        return world.reconcile(operator.controller, "default/a").error

    with ThreadPoolExecutor(8) as pool:
        errors = [each.result() for each in [pool.submit(reconcile) for _ in range(8)]]

    assert _threads() == 1
    assert sum(error is None for error in errors) >= 1


def test_a_resource_that_is_not_served_is_named_at_once(world: World) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        pass

    wrong = world.factory.informer("acme.io/v1", "databasen")

    with pytest.raises(InvalidArgumentError, match="does not serve 'databasen'"):
        world.reconcile(Controller("d", reconcile, wrong), "default/a")


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Policy", "policies"), ("Gateway", "gateways"), ("Mesh", "meshes"), ("Box", "boxes")],
)
def test_the_plural_of_an_unknown_kind_is_guessed(kind: str, plural: str) -> None:
    with World([{"apiVersion": "acme.io/v1", "kind": kind, "metadata": {"name": "a"}}]) as world:
        assert world.get("acme.io/v1", plural, "a")["kind"] == kind


async def test_a_world_works_inside_of_a_running_loop(world: World, operator: _Operator) -> None:
    outcome = world.reconcile(operator.controller, "default/a")

    assert outcome.error is None
    assert asyncio.get_running_loop().is_running()


def test_a_world_cannot_wait_for_itself(world: World) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        world.create(_pod("p"))

    databases = world.factory.informer("acme.io/v1", "databases")
    outcome = world.reconcile(Controller("d", reconcile, databases), "default/a")

    assert isinstance(outcome.error, LifecycleError)
    assert "await the methods of its cluster" in str(outcome.error)


def test_informers_may_be_asked_for_at_any_time(world: World, operator: _Operator) -> None:
    world.reconcile(operator.controller, "default/a")
    pods = world.factory.informer("v1", "pods")

    world.create(_pod("p"))

    assert pods.lister.keys() == ["default/p"]


def test_a_started_controller_works_in_a_world(world: World, operator: _Operator) -> None:
    done = threading.Event()
    operator.databases.add_event_handler(on_add=lambda _: done.set())

    async def begin() -> None:
        await operator.controller.start()

    world.run(begin)
    assert done.wait(100)
    world.run(operator.controller.aclose)

    with pytest.raises(LifecycleError):
        world.reconcile(operator.controller, "default/a")


def test_settle_waits_until_the_caches_are_current(world: World) -> None:
    pods = world.factory.informer("v1", "pods")

    async def create() -> tuple[list[str], list[str]]:
        ObjectTestAPI.create(world, _pod("p"))  # without waiting, as a server would
        before = pods.lister.keys()
        await world._loop_thread.settle()
        return before, pods.lister.keys()

    assert world.run(create) == ([], ["default/p"])


def test_handlers_were_called_when_a_change_returns(world: World) -> None:
    heard: list[str] = []
    pods = world.factory.informer("v1", "pods")
    pods.add_event_handler(on_add=lambda pod: heard.append(str(pod.key)))

    world.create(_pod("p"))

    assert heard == ["default/p"]


def test_a_world_uses_no_network(
    world: World, operator: _Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket is used")

    for name in ("connect", "connect_ex", "bind", "listen"):
        monkeypatch.setattr(socket.socket, name, refuse)

    assert world.reconcile(operator.controller, "default/a").error is None


def test_a_test_takes_less_than_50_milliseconds() -> None:
    """Of CPU time, and the fastest of nine, so that other programs on the machine do not count."""
    limit_seconds = 0.05 if sys.gettrace() is None else 0.15  # coverage traces each line
    took: list[float] = []
    for _ in range(9):
        began_at = time.process_time()
        with World([_database()]) as world:
            operator = _Operator(world.cluster, world.factory)
            world.reconcile(operator.controller, "default/a")
            world.delete("v1", "configmaps", "a")
            assert world.enqueued_by(operator.controller) == [Request("default/a")]
        took.append(time.process_time() - began_at)

    assert min(took) < limit_seconds


def test_closing_ends_its_thread_and_a_second_time_does_nothing(
    world: World, operator: _Operator
) -> None:
    world.reconcile(operator.controller, "default/a")
    assert _threads() == 1

    world.close()
    world.close()

    assert _threads() == 0
    with pytest.raises(LifecycleError, match="the World is closed"):
        world.reconcile(operator.controller, "default/a")


def test_a_world_that_is_forgotten_ends_its_thread() -> None:
    world = World([_database()])
    operator = _Operator(world.cluster, world.factory)
    world.reconcile(operator.controller, "default/a")
    forgotten = weakref.ref(world)

    del world
    gc.collect()

    assert forgotten() is None
    assert _threads() == 0


def test_a_world_that_was_never_used_starts_no_thread() -> None:
    with World([_database()]) as world:
        world.create(_pod("p"))
        world.delete("v1", "pods", "p")

        assert _threads() == 0
    assert repr(world).startswith("<World at resource version")


def _threads() -> int:
    return sum(thread.name == "pyinformer world" for thread in threading.enumerate())


_USER_OPTIONS = """
[pytest]
asyncio_mode = {mode}
asyncio_default_fixture_loop_scope = function
filterwarnings = error
markers = anyio
"""

_USER_TESTS = """
import asyncio
import pytest
import pyinformer
from pyinformer.testing import World
from pyinformer.testing.apiserver.handler import ObjectTestAPI
from tests.waiting import pause

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}

def check():
    world = World([POD])
    seen = []
    async def reconcile(request, obj):
        await asyncio.sleep(0)
        seen.append(obj.key)
    controller = pyinformer.Controller("pods", reconcile, world.factory.informer("v1", "pods"))
    assert world.reconcile(controller, "default/a").error is None
    assert seen == ["default/a"]

def test_plain():
    check()

@pytest.mark.asyncio
async def test_asyncio():
    check()

@pytest.mark.anyio
async def test_anyio():
    check()

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize(
    ("mode", "anyio"),
    [
        pytest.param("auto", False, id="auto"),
        pytest.param("strict", True, id="strict-beside-anyio"),
    ],
)
def test_it_works_beside_every_plugin(tmp_path: Path, mode: str, anyio: bool) -> None:
    ignored = [] if anyio else ["-p", "no:anyio", "--deselect", "test_it.py::test_anyio"]
    (tmp_path / "pytest.ini").write_text(_USER_OPTIONS.format(mode=mode))
    (tmp_path / "test_it.py").write_text(_USER_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ignored, "."]

    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    passed = 3 if anyio else 2
    assert f"{passed} passed" in result.stdout, result.stdout + result.stderr


def test_a_world_uses_the_real_library(world: World) -> None:
    assert isinstance(world.cluster, pyinformer.Cluster)
    assert isinstance(world.factory, pyinformer.SharedInformerFactory)


def _held(**metadata: Any) -> JSONObject:
    since = "2026-01-02T03:04:05Z"
    named = {"name": "a", "namespace": "default", "deletionTimestamp": since, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}


def test_an_object_with_a_deletion_timestamp_is_being_deleted_and_ends_with_its_finalizer() -> None:
    with World([_held(finalizers=["example.com/clean"])]) as world:
        found = world.get("v1", "configmaps", "a")["metadata"]
        assert found["deletionTimestamp"] == "2026-01-02T03:04:05Z"
        assert found["deletionGracePeriodSeconds"] == 0

        world.patch("v1", "configmaps", "a", {"metadata": {"finalizers": None}})

        assert world.list("v1", "configmaps") == []


def test_an_object_with_a_deletion_timestamp_and_nothing_that_holds_it_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'a' has a deletionTimestamp and no"):
        World([_held()])


def test_a_pod_is_being_deleted_during_its_grace_period() -> None:
    body = {**_held(deletionGracePeriodSeconds=30), "kind": "Pod"}
    with World([body]) as world:
        found = world.get("v1", "pods", "a")["metadata"]
    assert found["deletionTimestamp"] == "2026-01-02T03:04:05Z"
    assert found["deletionGracePeriodSeconds"] == 30


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "4711"}])
def test_the_uid_and_the_age_of_an_object_are_those_that_a_test_gives(
    version: dict[str, str],
) -> None:
    """A test needs old objects, and the uid of an owner beforehand; what kubectl prints has all."""
    born = "2020-01-02T03:04:05Z"
    meta = {"name": "owner", "namespace": "default", "uid": "u-1", "creationTimestamp": born}
    with World([{**_pod("owner"), "metadata": {**meta, **version}}]) as world:
        made = world.create({**_pod("new"), "metadata": {"name": "new", "uid": "u-2"}})

        async def read() -> KubeObject:
            return await world.cluster.get("v1", "pods", "default/owner")

        kept = world.run(read).metadata

    assert (kept.uid, kept.creation_timestamp) == ("u-1", born)
    assert made["metadata"]["uid"] == "u-2"
    assert made["metadata"]["creationTimestamp"] > born


def test_caches_are_read_after_a_sync_that_needs_nothing_else() -> None:
    with World([_pod("a")]) as world:
        pods = world.factory.informer("v1", "pods")
        pods.add_index("node", "spec.nodeName")
        with pytest.raises(CacheNotSyncedError):
            pods.lister.list()
        world.sync()
        world.sync()  # a second call does nothing
        assert [one.key for one in pods.lister.list()] == ["default/a"]
        world.factory.informer("acme.io/v1", "nones")
        with pytest.raises(InvalidArgumentError, match="nones"):
            world.sync()


@pytest.mark.parametrize("virtual_time", [False, True])
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_sync_waits_for_handlers_that_wait(*, virtual_time: bool, in_thread: bool) -> None:
    ended: list[str] = []
    passed = threading.Event()

    def work(obj: KubeObject) -> None:
        """Take a while in a thread."""
        passed.wait(0.02)
        ended.append(obj.metadata.name)

    async def wait(obj: KubeObject) -> None:
        """Take a while on the loop."""
        await pause(3600 if virtual_time else 0.02)
        ended.append(obj.metadata.name)

    with World([_pod("a")], virtual_time=virtual_time) as world:
        pods = world.factory.informer("v1", "pods")
        pods.add_event_handler(on_add=pyinformer.in_thread(work) if in_thread else wait)
        world.sync()
        assert ended == ["a"]
        world.create(_pod("b"))
        world.create(_pod("c"))
        world.sync()
        assert ended == ["a", "b", "c"]


def test_a_handler_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyinformer.testing.world._world_thread._SETTLE_SECONDS", 0.3)

    async def stuck(_: KubeObject) -> None:
        """Never end."""
        await asyncio.Event().wait()

    with World([_pod("a")]) as world:
        world.factory.informer("v1", "pods").add_event_handler(on_add=stuck, name="stuck")
        with pytest.raises(TimeoutError, match="a handler is still called: stuck"):
            world.sync()
