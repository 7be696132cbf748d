"""Stages: `ready()` ends a call until its children are ready; the status says what it waits for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import APIStatusError
from pyinformer.controller.sources import generation_changed
from pyinformer.errors import ChildrenNotReadyError, InvalidArgumentError
from pyinformer.operator import Owns
from pyinformer.readiness import Readiness
from pyinformer.testing import World
from tests.children.desired import (
    DATABASE,
    OWNED,
    READY_STATUS,
    Desired,
    config_map,
    stateful_set,
)
from tests.children.test_sets import KEY, Run, names, owner
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer import Request, Result
    from pyinformer.children import Children
    from pyinformer.objects import JSONObject


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database, in virtual time."""
    with World([DATABASE], virtual_time=True) as world:
        yield world


@pytest.fixture
def staged() -> Desired:
    """A StatefulSet, then a ConfigMap."""
    desired = Desired()
    desired.stages = {"data": [stateful_set("db")], "access": [config_map("url")]}
    desired.waits = True
    return desired


def condition(world: World) -> tuple[str, str, str]:
    """Return the Ready condition: its status, reason and message."""
    (found,) = owner(world)["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


def become_ready(world: World) -> None:
    """Do the work of the StatefulSet's controller."""
    world.patch("apps/v1", "statefulsets", "db", {"status": READY_STATUS}, namespace="shop")


def test_a_stage_waits_for_the_one_before_and_a_childs_event_wakes_it(
    world: World, staged: Desired
) -> None:
    run = Run(world, staged)
    outcome = run.ok()
    assert (outcome.kind, outcome.failures) == ("success", 0)
    assert outcome.result is not None
    assert outcome.result.requeue_after_seconds is None  # nothing polls
    assert outcome.result.waiting_for.startswith("StatefulSet shop/db: ")
    assert names(world) == set()
    assert condition(world)[:2] == ("False", "WaitingForChildren")
    become_ready(world)
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}
    run.ok()
    assert names(world) == {"url"}
    assert condition(world) == ("True", "ChildrenReady", "")


def test_the_status_says_who_waits_for_what_and_for_how_long(world: World, staged: Desired) -> None:
    app = staged.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None) as operator:
            (controller,) = operator.controllers
            await pause(40)
            status = controller.status()
            (found,) = status.waiting_keys
            assert (status.waiting, found.request, round(found.seconds)) == (1, KEY, 40)
            assert "StatefulSet shop/db" in found.waiting_for
            assert "1 waits, longest: shop/orders for 40 s (StatefulSet shop/db: " in status.line()
            explained = operator.health.pages()["/explain"]({"key": KEY})
            assert "databases waits for 40 s: StatefulSet shop/db: " in str(explained)
            found_set = await world.cluster.get("apps/v1", "statefulsets", "shop/db")
            await world.cluster.status(found_set, READY_STATUS)
            await pause(5)
            assert controller.status().waiting == 0

    world.run(scenario)


def test_a_deadline_becomes_a_condition_and_the_wait_continues(
    world: World, staged: Desired
) -> None:
    staged.timeout_seconds = 60

    async def wait() -> None:
        await pause(61)

    run = Run(world, staged)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.requeue_after_seconds == pytest.approx(60)
    world.run(wait)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.requeue_after_seconds is None
    assert condition(world)[:2] == ("False", "DeadlineExceeded")
    become_ready(world)
    run.ok()
    assert condition(world)[0] == "True"


def test_a_predicate_does_not_keep_a_wait_from_its_end(world: World, staged: Desired) -> None:
    """It drops changes of the status, which a wait needs; without one they stay dropped."""
    owns = [Owns(*kind, predicate=generation_changed) for kind in OWNED]
    run = Run(world, staged, owns=owns)
    run.ok()
    assert world.enqueued_by(run.controller)
    become_ready(world)
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}
    run.ok()
    assert names(world) == {"url"}
    world.enqueued_by(run.controller)
    status = {"status": {**READY_STATUS, "collisionCount": 1}}
    world.patch("apps/v1", "statefulsets", "db", status, namespace="shop")
    assert not world.enqueued_by(run.controller)


def test_a_child_that_has_failed_is_a_condition_of_its_own(world: World) -> None:
    desired = Desired()
    job = {
        "apiVersion": "acme.io/v1",
        "kind": "Job",
        "metadata": {"name": "init"},
        "spec": {},
    }
    world.create({**job, "metadata": {"name": "other", "namespace": "shop"}})
    desired.stages, desired.waits = {"": [job]}, True
    run = Run(world, desired, owns=[("acme.io/v1", "jobs")])
    run.ok()
    failed = {"conditions": [{"type": "Stalled", "status": "True", "message": "no image"}]}
    world.patch("acme.io/v1", "jobs", "init", {"status": failed}, namespace="shop")
    run.ok()
    assert condition(world)[:2] == ("False", "ChildFailed")
    assert "no image" in condition(world)[2]


def test_a_stage_that_shrinks_while_it_waits_waits_for_what_is_left(
    world: World, staged: Desired
) -> None:
    """What has left it is deleted when the call succeeds, and not before."""
    staged.stages["data"] = [stateful_set("db"), stateful_set("never")]
    run = Run(world, staged)
    run.ok()
    become_ready(world)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for.startswith("StatefulSet shop/never: ")
    staged.stages["data"] = [stateful_set("db")]
    run.ok()
    assert names(world) == {"url"}
    assert names(world, "statefulsets", "apps/v1") == {"db"}


def test_a_stage_waits_for_a_refused_child_whose_error_was_caught(world: World) -> None:
    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> Result | None:
        with suppress(APIStatusError):
            await children.apply([config_map("first")], stage="config")
        await children.ready()
        await children.apply([config_map("later")], stage="web")
        return children.status({})

    desired.reconcile = reconcile  # type: ignore[method-assign]
    run = Run(world, desired)
    world.fail_on("configmaps", status=403)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for
    assert names(world) == set()


def test_a_refused_child_whose_error_was_caught_is_applied_again(world: World) -> None:
    """No event comes of a child that does not exist."""
    app = pyinformer.Operator("db-operator")
    ready = []

    @app.reconcile("acme.io/v1", "databases", owns=OWNED)
    async def reconcile(request: Request, database: Any, children: Children) -> None:
        with suppress(APIStatusError):
            await children.apply([config_map("first")])
        await children.ready(timeout_seconds=3600)
        ready.append(request.key)

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            await pause(60)

    world.fail_on("configmaps", status=403, times=3)
    world.run(scenario)
    assert names(world) == {"first"}
    assert ready


def test_a_stage_whose_apply_was_cut_off_is_waited_for(world: World) -> None:
    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await children.apply([config_map("first")])
        await children.ready()

    desired.reconcile = reconcile  # type: ignore[method-assign]
    outcome = Run(world, desired).ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for
    assert outcome.after_seconds


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_wait_inside_a_task_group_is_not_a_failure(world: World, tasks: int) -> None:
    """Each task has a stage of its own, and waits for it."""
    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        async def stage(name: str) -> None:
            await children.apply([stateful_set(name)], stage=name)
            await children.ready(timeout_seconds=60)

        async with anyio.create_task_group() as group:
            for number in range(tasks):
                group.start_soon(stage, f"db-{number}")

    desired.reconcile = reconcile  # type: ignore[method-assign]
    outcome = Run(world, desired).ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for.startswith("StatefulSet shop/db-0: ")
    assert condition(world)[:2] == ("False", "WaitingForChildren")


def test_an_error_beside_a_wait_in_a_task_group_is_a_failure(world: World) -> None:
    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        async def fail() -> None:
            raise KeyError

        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await children.apply([stateful_set("db")])
            await children.ready()

    desired.reconcile = reconcile  # type: ignore[method-assign]
    assert Run(world, desired)().error is not None


def test_a_deadline_that_is_exceeded_is_one_event(world: World, staged: Desired) -> None:
    staged.timeout_seconds = 60
    app = staged.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            await pause(200)

    world.run(scenario)
    events = [(one["type"], one["reason"]) for one in world.list("events.k8s.io/v1", "events")]
    assert events == [("Warning", "DeadlineExceeded")]


def test_rules_of_ones_own_decide_for_their_kind(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a", phase="loading")]}

    async def reconcile(request: Request, database: Any, children: Children) -> Result:
        await children.apply(desired.stages[""])
        await children.ready(rules={("", "ConfigMap"): _loaded})
        return children.status({})

    desired.reconcile = reconcile  # type: ignore[method-assign]
    run = Run(world, desired)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for == "ConfigMap shop/a: loads"
    desired.stages = {"": [config_map("a", phase="loaded")]}
    assert run.ok().result == children_result()


def children_result() -> Any:
    """Return what a function without a wish returns."""
    from pyinformer import Result

    return Result()


def _loaded(body: JSONObject) -> Readiness:
    if body["data"]["phase"] == "loaded":
        return Readiness("Ready", "is loaded")
    return Readiness("InProgress", "loads")


def test_a_cache_of_metadata_cannot_say_whether_a_child_is_ready(world: World) -> None:
    desired = Desired()
    desired.stages, desired.waits = {"": [stateful_set("db")]}, True
    run = Run(world, desired, owns=[Owns("apps/v1", "statefulsets", memory="metadata")])
    run.ok()
    error = run().error
    assert isinstance(error, InvalidArgumentError)
    assert "memory='metadata'" in str(error)


def test_secrets_of_a_cache_of_metadata_are_ready(world: World) -> None:
    desired = Desired()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    desired.stages, desired.waits = {"": [{**secret, "stringData": {"a": "b"}}]}, True
    run = Run(world, desired, owns=[Owns("v1", "secrets", memory="metadata")])
    run.ok()
    assert run.ok().result == children_result()
    assert run.verbs() == []


def test_the_error_names_the_first_child_and_how_many_more() -> None:
    error = ChildrenNotReadyError(["Pod a/b: is not scheduled", "Pod a/c: too"], stage="data")
    assert str(error) == "Pod a/b: is not scheduled, and 1 more"
    assert (error.stage, error.has_failed, error.timeout_seconds) == ("data", False, None)
