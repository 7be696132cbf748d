"""The status of an owner: written once for each call, with conditions that move on a change."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer import APIStatusError
from pyinformer.children import Condition, Status
from pyinformer.testing import World
from tests.children.desired import DATABASE, READY_STATUS, Desired, config_map, stateful_set
from tests.children.test_sets import KEY, Run, owner
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer import Request, Result
    from pyinformer.children import Children
    from pyinformer.controller import Outcome
    from pyinformer.objects import JSONObject


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database, in virtual time."""
    with World([DATABASE], virtual_time=True) as world:
        yield world


class _Bare(msgspec.Struct):
    ready: int = 0


class _Conditioned(Status, frozen=True):
    phase: str = ""


def _returning(status: Any, *objects: JSONObject) -> Desired:
    """Return a function that applies children and returns a status."""

    async def reconcile(request: Request, database: Any, children: Children) -> Result | None:
        await children.apply(objects)
        return children.status(status)

    desired = Desired()
    desired.reconcile = reconcile  # type: ignore[method-assign]
    return desired


def status_writes(world: World, run: Run) -> int:
    """Reconcile once, and return how often the status was written."""
    world.clear_writes()
    run.ok()
    return sum(one.subresource == "status" for one in world.writes)


def test_one_write_for_a_call_and_none_if_nothing_is_new(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    run = Run(world, desired)
    assert status_writes(world, run) == 1
    assert owner(world)["status"]["observedGeneration"] == 1
    assert owner(world)["status"]["readyReplicas"] == 1
    assert status_writes(world, run) == 0


def test_a_transition_time_moves_only_with_the_status(world: World) -> None:
    desired = Desired()
    desired.stages, desired.waits = {"": [stateful_set("db")]}, True
    run = Run(world, desired)

    def condition() -> JSONObject:
        (found,) = owner(world)["status"]["conditions"]
        return dict(found)

    async def later() -> None:
        await pause(5)

    run.ok()
    first = condition()
    world.run(later)
    world.patch(
        "apps/v1", "statefulsets", "db", {"status": {"observedGeneration": 1}}, namespace="shop"
    )
    run.ok()
    second = condition()
    assert second["message"] != first["message"]
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    world.patch("acme.io/v1", "databases", "orders", {"spec": {"image": "b"}}, namespace="shop")
    world.patch("apps/v1", "statefulsets", "db", {"status": READY_STATUS}, namespace="shop")
    run.ok()
    assert condition()["status"] == "True"
    assert condition()["observedGeneration"] == 2


def test_conditions_of_others_stay(world: World) -> None:
    theirs = {"type": "Audited", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    run = Run(world, desired)
    run.ok()
    mine = owner(world)["status"]["conditions"]
    patch = {"status": {"conditions": [*mine, theirs]}}
    world.patch("acme.io/v1", "databases", "orders", patch, namespace="shop")
    run.ok()
    assert {one["type"] for one in owner(world)["status"]["conditions"]} == {"Ready", "Audited"}


def test_conditions_that_the_function_returns_are_merged(world: World) -> None:
    backup = Condition("BackedUp", "True", "2026-01-01T00:00:00Z", "Nightly")
    run = Run(world, _returning(_Conditioned(conditions=[backup], phase="up")))
    run.ok()
    found = {one["type"]: one["status"] for one in owner(world)["status"]["conditions"]}
    assert found == {"BackedUp": "True", "Ready": "True"}
    assert owner(world)["status"]["phase"] == "up"


def test_a_ready_condition_of_the_function_stands(world: World) -> None:
    ready = Condition("Ready", "False", "2026-01-01T00:00:00Z", "QuotaExceeded", "of the tenant")
    run = Run(world, _returning(_Conditioned(conditions=[ready])))
    run.ok()
    assert run.verbs() == [], "the second call finds what the first has written"
    (found,) = owner(world)["status"]["conditions"]
    assert (found["status"], found["reason"]) == ("False", "QuotaExceeded")
    assert world.list("events.k8s.io/v1", "events") == []


def test_a_ready_condition_with_a_reason_of_ours_is_no_other_one_at_each_call(
    world: World,
) -> None:
    """Else each of the two is news of the other, whose event calls the function at once."""
    ready = Condition("Ready", "False", "2026-01-01T00:00:00Z", "GivenUp", "of the tenant")
    run = Run(world, _returning(_Conditioned(conditions=[ready]), config_map("a")))
    run.ok()
    assert run.verbs() == []
    assert run.verbs() == []
    (found,) = owner(world)["status"]["conditions"]
    assert (found["status"], found["reason"]) == ("True", "ChildrenReady")


def test_a_ready_condition_that_the_function_passes_on_is_that_of_its_children(
    world: World,
) -> None:
    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> Result | None:
        await children.apply([stateful_set("db")])
        return children.status(database.status)

    desired.reconcile = reconcile  # type: ignore[method-assign]
    run = Run(world, desired)
    run.ok()
    world.patch("apps/v1", "statefulsets", "db", {"status": READY_STATUS}, namespace="shop")
    run.ok()
    (found,) = owner(world)["status"]["conditions"]
    assert found["reason"] == "ChildrenReady"


def test_a_status_without_conditions_gets_no_event_at_each_call(world: World) -> None:
    class Plain(msgspec.Struct):
        status: _Bare = msgspec.field(default_factory=_Bare)

    desired = Desired()

    async def reconcile(request: Request, database: Any, children: Children) -> Result | None:
        with suppress(APIStatusError):
            await children.apply([config_map("a")])
        return children.status(_Bare(ready=3), requeue_after_seconds=5)

    desired.reconcile = reconcile  # type: ignore[method-assign]
    app = desired.operator(model=Plain)
    world.fail_on("configmaps", verb="apply", status=403, times=None)

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            await pause(60)

    world.run(scenario)
    assert world.list("events.k8s.io/v1", "events") == []


def test_a_status_without_conditions_gets_none(world: World) -> None:
    class Plain(msgspec.Struct):
        status: _Bare = msgspec.field(default_factory=_Bare)

    desired = _returning(_Bare(ready=3), config_map("a"))
    run = Run(world, desired, model=Plain)
    run.ok()
    assert owner(world)["status"] == {"ready": 3}


def test_events_are_recorded_at_transitions_alone(world: World) -> None:
    desired = Desired()
    desired.stages, desired.waits = {"": [stateful_set("db")]}, True
    app = desired.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            for status in (
                READY_STATUS,
                {**READY_STATUS, "readyReplicas": 0, "availableReplicas": 0},
            ):
                await pause(5)
                patch = {"status": status}
                found = await world.cluster.get("apps/v1", "statefulsets", "shop/db")
                body = found.to_dict()
                await world.cluster.status(found, {**(body.get("status") or {}), **patch["status"]})
            await pause(20)

    world.run(scenario)
    events = [(one["type"], one["reason"]) for one in world.list("events.k8s.io/v1", "events")]
    assert sorted(events) == [("Normal", "Ready"), ("Warning", "WaitingForChildren")]


def test_the_status_says_ready_only_of_children_that_are(world: World) -> None:
    """Also of the last stage, for which nothing waits."""
    desired = Desired()
    desired.stages = {"": [stateful_set("db")]}
    run = Run(world, desired)
    outcome: Outcome = run.ok()
    assert outcome.result is not None
    (found,) = owner(world)["status"]["conditions"]
    assert (found["status"], found["reason"]) == ("False", "ChildrenNotReady")
    world.patch("apps/v1", "statefulsets", "db", {"status": READY_STATUS}, namespace="shop")
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}
    run.ok()
    (found,) = owner(world)["status"]["conditions"]
    assert found["status"] == "True"
