"""The marks of sets: two functions, copies, owners with forged marks, and kubectl's orphans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer.errors import InvalidArgumentError, RetryAfter
from pyinformer.testing import APIServer, FaultProxy, World
from tests.children.desired import (
    DATABASE,
    OWNED,
    READY_STATUS,
    Database,
    Desired,
    config_map,
    stateful_set,
)
from tests.children.test_sets import KEY, Run, names, owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer import Request
    from pyinformer.children import Children
    from pyinformer.objects import JSONObject

_MOST_REQUESTS = 12
_PLACES = "children.pyinformer.dev/db-operator.databases"


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database."""
    with World([DATABASE]) as world:
        yield world


def secret(name: str) -> JSONObject:
    """Return a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def verbs(world: World) -> list[tuple[str, str, str]]:
    """Return what was written."""
    return [(one.verb, one.plural, one.key) for one in world.writes]


def test_two_functions_of_one_owner_do_not_undo_each_others_marks(world: World) -> None:
    first, second = Desired(), Desired()
    first.stages, second.stages = {"": [config_map("a")]}, {"": [secret("b")]}
    app = pyinformer.Operator("db-operator")
    for name, desired, kinds in (("one", first, OWNED[:1]), ("two", second, OWNED[1:2])):
        app.reconcile("acme.io/v1", "databases", name=name, owns=kinds)(desired.reconcile)
    controllers = app.controllers(world.cluster, world.factory)
    for _ in range(2):
        for each in controllers:
            assert world.reconcile(each, KEY).error is None
    annotations = owner(world)["metadata"]["annotations"]
    assert annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Secret"
    world.clear_writes()
    for each in controllers:
        assert world.reconcile(each, KEY).error is None
    assert verbs(world) == []


def test_two_functions_cannot_write_one_ready_condition() -> None:
    """They would set it back to each other's, with a write and an event each time."""
    app = Desired().operator()
    terms: dict[str, Any] = {"model": Database, "owns": OWNED, "name": "two"}
    with pytest.raises(InvalidArgumentError, match="condition Ready"):
        app.reconcile("acme.io/v1", "databases", **terms)(Desired().reconcile)
    app.reconcile("acme.io/v1", "databases", label_selector="a=b", **terms)(Desired().reconcile)


@pytest.mark.parametrize("namespace", ["shop", "monitoring"])
def test_a_copy_of_a_child_is_not_a_child(world: World, namespace: str) -> None:
    """As after `kubectl get -o yaml | sed | kubectl apply`: with all labels and references."""
    desired = Desired()
    desired.stages = {"": [config_map("original", namespace), config_map("other")]}
    run = Run(world, desired)
    run.ok()
    found = world.get("v1", "configmaps", "original", namespace=namespace)["metadata"]
    kept = {key: found[key] for key in ("labels", "annotations", "ownerReferences") if key in found}
    world.create(
        {**config_map("copy"), "metadata": {**kept, "name": "copy", "namespace": namespace}}
    )
    run.ok()
    assert run.verbs() == []
    desired.stages = {"": [config_map("other")]}
    run.ok()
    assert names(world) == {"copy", "other"}


def test_two_tasks_of_a_function_apply_at_once(world: World) -> None:
    """The marks of one of them were lost."""

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(children.apply, [config_map("a", "one")])
            tasks.start_soon(children.apply, [config_map("b", "two")])

    app = pyinformer.Operator("db-operator")
    app.reconcile("acme.io/v1", "databases", owns=OWNED)(reconcile)
    (controller,) = app.controllers(world.cluster, world.factory)
    assert world.reconcile(controller, KEY).error is None
    marks = owner(world)["metadata"]["annotations"][_PLACES]
    assert marks == "ConfigMap;one,two"
    world.clear_writes()
    assert world.reconcile(controller, KEY).error is None
    assert verbs(world) == []


def test_a_child_that_others_took_over_meanwhile_stays(world: World) -> None:
    """The cache still shows the marks that another client has removed."""
    desired = Desired()
    desired.stages = {"": [config_map("taken"), config_map("other")]}
    run = Run(world, desired)
    run.ok()
    run.ok()
    labels = world.get("v1", "configmaps", "taken", namespace="shop")["metadata"]["labels"]
    desired.stages = {"": [config_map("other")]}
    with world.stale_caches():
        metadata = {"labels": dict.fromkeys(labels), "ownerReferences": None}
        world.patch("v1", "configmaps", "taken", {"metadata": metadata}, namespace="shop")
        assert isinstance(run().error, RetryAfter)
    run.ok()
    assert names(world) == {"taken", "other"}


def test_marks_that_came_while_the_owner_was_deleted_are_followed(world: World) -> None:
    """The cache's owner has no marks, and the second program has no cache of the children."""
    desired = Desired()
    desired.stages = {"": [config_map("here"), config_map("there", "monitoring")]}
    run, blind = Run(world, desired), Run(world, desired, owns=OWNED[1:])
    run.ok()
    run.ok()
    marks = owner(world)["metadata"]["annotations"][_PLACES]
    forget = {"metadata": {"annotations": {_PLACES: None}}}
    world.patch("acme.io/v1", "databases", "orders", forget, namespace="shop")
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    with world.stale_caches():
        late = {"metadata": {"annotations": {_PLACES: marks}}}
        world.patch("acme.io/v1", "databases", "orders", late, namespace="shop")
        assert isinstance(blind().error, RetryAfter)
    for _ in range(2):
        blind.ok()
        world.collect_garbage()
    assert names(world, "databases", "acme.io/v1") == set()
    assert "there" not in names(world)


async def test_marks_that_a_tenant_forged_cost_a_bounded_number_of_requests(tmp_path: Path) -> None:
    """Each kind and each spelling of it was looked up, and each namespace listed."""
    kinds = [*(f"Kind{number}.example.com" for number in range(500)), "Secret", "secrets", "SECRET"]
    places = (f"team-{number}" for number in range(2_000))
    forged = {_PLACES: f"{','.join(kinds)};{','.join(places)}"}
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    app = desired.operator(model=None, owns=OWNED[:1])
    with APIServer(tls=True) as server, FaultProxy(server, reads_requests=True) as proxy:
        server.register("acme.io/v1", "Database", "databases")
        metadata = {**DATABASE["metadata"], "annotations": forged}
        server.create({**DATABASE, "metadata": metadata})
        kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
        async with pyinformer.connect(kubeconfig=kubeconfig) as cluster:
            factory = pyinformer.SharedInformerFactory(cluster)
            (controller,) = app.controllers(cluster, factory)
            async with factory:
                await factory.start()
                await factory.wait_for_cache_sync(timeout_seconds=30)
                before = len(proxy.requests)
                outcome = await controller.reconcile_once(KEY)
                assert outcome.error is None
                assert len(proxy.requests) - before < _MOST_REQUESTS
        found = server.get("acme.io/v1", "databases", "orders", "shop")["metadata"]
        assert found["annotations"][_PLACES] == "ConfigMap"


def test_children_of_an_owner_that_is_deleted_as_orphans_stay(world: World) -> None:
    """What `kubectl delete --cascade=orphan` asks for."""
    desired = Desired()
    desired.stages = {"network": [config_map("net")], "data": [config_map("db")]}
    run = Run(world, desired)
    run.ok()
    finalizers = [*owner(world)["metadata"]["finalizers"], "orphan"]
    patch = {"metadata": {"finalizers": finalizers}}
    world.patch("acme.io/v1", "databases", "orders", patch, namespace="shop")
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    assert run.verbs() == [("patch", "databases", "shop/orders")]
    assert owner(world)["metadata"]["finalizers"] == ["orphan"]
    assert names(world) == {"net", "db"}


@pytest.mark.parametrize("step", ["ready", "apply"])
def test_a_function_that_catches_everything_deletes_nothing(world: World, step: str) -> None:
    fails = False

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        try:
            bad = [config_map("Not_A_Name")] if fails else []
            await children.apply([*bad, stateful_set("db")] if step == "apply" else [])
            if step == "ready":
                await children.apply([stateful_set("db")])
                await children.ready()
        except Exception:
            return
        await children.apply([config_map("later")], stage="later")

    app = pyinformer.Operator("db-operator")
    app.reconcile("acme.io/v1", "databases", model=Database, owns=OWNED)(reconcile)
    (controller,) = app.controllers(world.cluster, world.factory)
    world.reconcile(controller, KEY)
    ready: JSONObject = {"status": READY_STATUS}
    world.patch("apps/v1", "statefulsets", "db", ready, namespace="shop")
    world.reconcile(controller, KEY)
    assert names(world) == {"later"}
    fails = True
    ready = {"status": {**READY_STATUS, "readyReplicas": 0, "availableReplicas": 0}}
    world.patch("apps/v1", "statefulsets", "db", ready, namespace="shop")
    outcome = world.reconcile(controller, KEY)
    assert outcome.error is None
    assert names(world) == {"later"}
    (condition,) = owner(world)["status"]["conditions"]
    reason = "WaitingForChildren" if step == "ready" else "ChildRefused"
    assert (condition["status"], condition["reason"]) == ("False", reason)


def test_each_wait_has_a_deadline_of_its_own() -> None:
    """The first stage's time was taken from the second's."""
    desired = Desired()
    desired.stages = {"one": [stateful_set("db")], "two": [stateful_set("web")]}
    desired.waits, desired.timeout_seconds = True, 60

    with World([DATABASE], virtual_time=True) as world:
        run = Run(world, desired)
        run.ok()
        world.elapse(50)
        world.patch("apps/v1", "statefulsets", "db", {"status": READY_STATUS}, namespace="shop")
        outcome = run.ok()
        assert outcome.result is not None
        assert outcome.result.requeue_after_seconds == pytest.approx(60)
