"""Hooks and policies in the test servers, beside what they share with the real one."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

import pyinformer
from pyinformer.admission import Denied, Review
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
)
from pyinformer.policies import MutatingPolicy, Mutation, Policy, Rule
from pyinformer.testing import World
from tests.cache.informer.clusters import cluster_of
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import Request
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_PLACE: Final = ("v1", "configmaps")
_POLICIES: Final = ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
_KEY: Final = "default/a"


def _map(name: str = "a", **data: str) -> JSONObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _app() -> pyinformer.Operator:
    app = pyinformer.Operator("checked")

    @app.default(*_PLACE)
    def fill(obj: JSONObject, review: Review) -> None:
        obj.setdefault("data", {}).setdefault("by", "a default")

    @app.validate(*_PLACE, operations=["create", "update", "delete"])
    async def check(obj: pyinformer.KubeObject, review: Review) -> None:
        if obj.at("data.bad", str, default=""):
            raise Denied("no bad ones", status=403)

    return app


def _no_latest() -> Policy:
    rule = Rule("object.data.all(k, object.data[k] != 'latest')", "pin it", reason="Forbidden")
    return Policy("no-latest.acme.io", on=[_PLACE], rules=[rule])


def test_a_world_asks_hooks_about_what_other_clients_write() -> None:
    with World() as world:
        world.use_hooks(_app())
        assert world.create(_map(x="1"))["data"] == {"x": "1", "by": "a default"}
        with pytest.raises(ForbiddenError, match="no bad ones"):
            world.patch(*_PLACE, "a", {"data": {"bad": "1"}})
        with pytest.raises(ForbiddenError, match="no bad ones"):
            world.update({**world.get(*_PLACE, "a"), "data": {"bad": "1"}})
        assert world.get(*_PLACE, "a")["data"] == {"x": "1", "by": "a default"}
        world.delete(*_PLACE, "a")


def test_a_world_asks_hooks_about_what_a_reconcile_writes() -> None:
    app = _app()

    @app.reconcile(*_PLACE)
    async def reconcile(
        request: Request, obj: pyinformer.KubeObject | None, cluster: pyinformer.Cluster
    ) -> None:
        await cluster.create(_map("b", bad="1"))

    with World([_map()]) as world:
        world.use_hooks(app)
        (controller,) = app.controllers(world.cluster, world.factory)
        outcome = world.reconcile(controller, _KEY)
        assert isinstance(outcome.error, ForbiddenError)
        assert "no bad ones" in str(outcome.error)


def test_a_hook_in_a_world_reads_its_caches() -> None:
    app = pyinformer.Operator("unique")
    with World([_map(host="x")]) as world:
        known = world.factory.informer(*_PLACE)

        @app.validate(*_PLACE)
        def check(obj: pyinformer.KubeObject, review: Review) -> None:
            hosts = [one.at("data.host", str, default="") for one in known.lister.list()]
            if obj.at("data.host", str) in hosts:
                raise Denied("it is taken")

        world.use_hooks(app)
        with pytest.raises(APIStatusError, match="it is taken"):
            world.create(_map("b", host="x"))
        world.create(_map("b", host="y"))


def test_policies_are_in_force_in_a_world_as_soon_as_they_exist() -> None:
    with World() as world:
        world.create(_map(image="latest"))
        for one in _no_latest().to_dicts():
            world.create(one)
        with pytest.raises(ForbiddenError, match="denied request: pin it"):
            world.create(_map("b", image="latest"))
        world.delete(
            "admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "no-latest.acme.io"
        )
        world.create(_map("b", image="latest"))


async def test_hooks_run_in_the_loop_that_has_asked_for_them(apiserver: APIServer) -> None:
    app, threads = _app(), list[int]()

    @app.validate(*_PLACE, name="thread")
    async def check(_obj: object, review: Review) -> None:
        threads.append(threading.get_ident())

    apiserver.use_hooks(app)
    async with cluster_of(apiserver) as cluster:
        made = await cluster.create(_map(x="1"))
    assert made.at("data.by", str) == "a default"
    assert threads == [threading.get_ident()]
    # What the test itself writes there is a part of its set-up.
    assert "by" not in apiserver.create(_map("b", bad="1"))["data"]


async def test_hooks_of_a_loop_that_has_ended_fail_the_write(apiserver: APIServer) -> None:
    async def use() -> None:
        apiserver.use_hooks(_app())

    await asyncio.to_thread(asyncio.run, use())
    async with cluster_of(apiserver) as cluster:
        with pytest.raises(APIStatusError, match="the event loop of the hooks is closed"):
            await cluster.create(_map())


def test_hooks_without_a_loop_run_in_that_of_the_server(apiserver: APIServer) -> None:
    apiserver.use_hooks(_app())

    async def write() -> pyinformer.KubeObject:
        async with cluster_of(apiserver) as cluster:
            return await cluster.create(_map())

    assert asyncio.run(write()).at("data.by", str) == "a default"


@pytest.mark.parametrize("cancels", ["anyio", "task"])
async def test_a_write_whose_hook_waits_can_be_cancelled(
    apiserver: APIServer, cancels: str
) -> None:
    app, asked = pyinformer.Operator("slow"), anyio.Event()

    @app.validate(*_PLACE)
    async def check(_obj: object, review: Review) -> None:
        asked.set()
        await anyio.sleep_forever()

    apiserver.use_hooks(app)
    async with cluster_of(apiserver) as cluster:
        if cancels == "task":
            task = asyncio.create_task(cluster.create(_map()))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(cluster.create, _map())
                await asked.wait()
                group.cancel_scope.cancel()
    await until(lambda: not apiserver.list(*_PLACE))


async def test_a_hook_that_is_asked_about_an_object_that_changes_is_asked_again(
    apiserver: APIServer,
) -> None:
    app, seen = pyinformer.Operator("racing"), list[Any]()

    @app.validate(*_PLACE)
    async def check(obj: pyinformer.KubeObject, review: Review) -> None:
        seen.append(obj.to_dict()["data"])
        if len(seen) == 1:
            apiserver.patch(*_PLACE, "a", {"data": {"other": "1"}})

    apiserver.create(_map(x="1"))
    apiserver.use_hooks(app)
    async with cluster_of(apiserver) as cluster:
        await cluster.apply(_map(y="2"), field_manager="one")
    assert seen == [{"x": "1", "y": "2"}, {"x": "1", "y": "2", "other": "1"}]
    assert apiserver.get(*_PLACE, "a")["data"] == seen[-1]


async def test_what_only_a_real_server_can_do_is_refused(apiserver: APIServer) -> None:
    changes = MutatingPolicy(
        "owner.acme.io",
        on=[("v1", "services")],
        mutations=[Mutation('Object{metadata: Object.metadata{labels: {"by": "policy"}}}')],
    )
    sized = Rule("quantity(object.data.size).isLessThan(quantity('1Gi'))", "too large")
    policies = (changes, Policy("size.acme.io", on=[_PLACE], rules=[sized]))
    for policy in policies:
        for one in policy.to_dicts():
            apiserver.create(one)
    service: JSONObject = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    }
    refused = ((service, "MutatingAdmissionPolicy 'owner.acme.io'"), (_map(), "isLessThan"))
    async with cluster_of(apiserver) as cluster:
        for body, why in refused:
            with pytest.raises(APIStatusError, match=why) as raised:
                await cluster.create(body)
            assert raised.value.status == 501
            assert "test it on a real API server" in raised.value.message


async def test_a_service_cannot_be_reached(apiserver: APIServer) -> None:
    app = pyinformer.Operator("db", webhooks=pyinformer.Webhooks(service="acme/db"))
    app.validate(*_PLACE)(lambda _obj, _review: None)
    for one in app.webhook_configurations():
        apiserver.create(one)
    async with cluster_of(apiserver) as cluster:
        with pytest.raises(APIStatusError, match='service "db" cannot be reached'):
            await cluster.create(_map())
        # Unless its operator is here.
        apiserver.use_hooks(app)
        await cluster.create(_map())


def test_arguments_are_checked(apiserver: APIServer) -> None:
    with pytest.raises(InvalidTypeError, match="app: must be an Operator, got str"):
        apiserver.use_hooks("app")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="app: must have a hook"):
        apiserver.use_hooks(pyinformer.Operator("none"))


async def test_a_collection_of_any_size_is_deleted_beside_a_hook(apiserver: APIServer) -> None:
    app, asked = pyinformer.Operator("many"), list[str]()

    @app.validate(*_PLACE, operations=["delete"])
    def check(obj: pyinformer.KubeObject, review: Review) -> None:
        asked.append(obj.metadata.name)

    for number in range(60):
        apiserver.create(_map(f"m{number:02}"))
    apiserver.use_hooks(app)
    async with cluster_of(apiserver) as cluster:
        await cluster.request("DELETE", "/api/v1/namespaces/default/configmaps")
    assert asked == [f"m{number:02}" for number in range(60)]
    assert not apiserver.list(*_PLACE)


@pytest.mark.parametrize("kind", ["Namespace", "Pod", "Job", "Service", "Secret"])
def test_a_name_is_generated_beside_a_hook(kind: str) -> None:
    version = "batch/v1" if kind == "Job" else "v1"
    body = {"apiVersion": version, "kind": kind, "metadata": {"generateName": "g-"}, "spec": {}}
    with World() as world:
        world.use_hooks(_app())
        assert world.create(body)["metadata"]["name"].startswith("g-")
