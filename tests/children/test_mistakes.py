"""A mistake in a function, or a refusal, deletes nothing that is wanted; the status shows it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import warnings
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

import pyinformer
from pyinformer.children import Children
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InvalidTypeError,
    LifecycleError,
    ModelMismatchError,
    TerminalError,
)
from pyinformer.testing import Fault, World
from tests.children.desired import (
    DATABASE,
    OWNED,
    Database,
    DatabaseStatus,
    Desired,
    config_map,
    stateful_set,
)
from tests.children.test_cleanup import ready
from tests.children.test_sets import KEY, Run, names, owner
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pyinformer import Request
    from pyinformer.objects import JSONObject
    from pyinformer.testing import InterceptedRequest


_READY = {"type": "Ready", "status": "True"}


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database, in virtual time."""
    with World([DATABASE], virtual_time=True) as world:
        yield world


def calling(world: World, function: Callable[[Children], Awaitable[object]]) -> Run:
    """Return an operator that calls this, once it has applied `a` and `b`."""
    desired, calls = Desired(), [_applies_both, function]

    async def reconcile(request: Request, database: Any, children: Children) -> Any:
        return await (calls.pop(0) if len(calls) > 1 else function)(children)

    desired.reconcile = reconcile  # type: ignore[method-assign]
    run = Run(world, desired)
    run.ok()
    return run


async def _applies_both(children: Children) -> object:
    await children.apply([config_map("a"), config_map("b")])
    return children.status(DatabaseStatus(ready_replicas=1))


def events(world: World) -> list[tuple[str, str]]:
    """Return type and reason of the recorded events, in order."""
    found = world.list("events.k8s.io/v1", "events")
    return sorted((one["type"], one["reason"]) for one in found)


def follow(world: World, desired: Desired) -> None:
    """Run the operator for ten seconds."""
    app = desired.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            await pause(10)

    world.run(scenario)


async def _forgets_to_apply(children: Children) -> None:
    await children.apply([config_map("a")])
    children.apply([config_map("b")])  # type: ignore[unused-coroutine]


async def _forgets_to_wait(children: Children) -> object:
    await children.apply([config_map("a")])
    children.ready()  # type: ignore[unused-coroutine]
    return children.status(DatabaseStatus(ready_replicas=7))


async def _applies_in_a_task(children: Children) -> None:
    await children.apply([config_map("a")])
    asyncio.create_task(children.apply([config_map("b")]))  # type: ignore[unused-awaitable]  # noqa: RUF006


async def _waits_after_it_forgot(children: Children) -> None:
    await children.apply([stateful_set("db")])
    children.apply([config_map("a")], stage="second")  # type: ignore[unused-coroutine]
    await children.ready()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "method"),
    [
        (_forgets_to_apply, "apply"),
        (_forgets_to_wait, "ready"),
        (_applies_in_a_task, "apply"),
        (_waits_after_it_forgot, "apply"),
    ],
)
def test_a_call_without_await_is_an_error_and_deletes_nothing(
    world: World, function: Callable[[Children], Awaitable[object]], method: str
) -> None:
    run = calling(world, function)
    before = owner(world)["status"]

    outcome = run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of Python, about the same mistake
        gc.collect()

    assert isinstance(outcome.error, LifecycleError)
    assert f"write `await children.{method}(...)`" in str(outcome.error)
    assert {"a", "b"} <= names(world)
    assert owner(world)["status"] == before


def test_calls_side_by_side_that_have_ended_are_all_applied(world: World) -> None:
    async def function(children: Children) -> None:
        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                group.start_soon(children.apply, [config_map(name)])

    calling(world, function).ok()
    assert names(world) == {"a", "b", "c"}


@pytest.mark.parametrize("by", ["anyio", "task"])
def test_a_call_that_was_cancelled_has_ended_and_deletes_nothing(world: World, by: str) -> None:
    async def function(children: Children) -> None:
        if by == "anyio":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await children.apply([config_map("c")])
            return
        task = asyncio.create_task(children.apply([config_map("c")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run = calling(world, function)
    outcome = run()
    assert outcome.error is None
    assert {"a", "b"} <= names(world)


def test_a_call_that_was_cancelled_before_it_ran_deletes_nothing(world: World) -> None:
    async def function(children: Children) -> None:
        await children.apply([config_map("a")])
        task = asyncio.create_task(children.apply([config_map("b")]))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    calling(world, function).ok()
    assert names(world) == {"a", "b"}


def test_a_wait_ends_a_group_whose_other_tasks_have_not_run(world: World) -> None:
    async def function(children: Children) -> None:
        await children.apply([stateful_set("db")])
        async with asyncio.TaskGroup() as group:
            group.create_task(children.apply([config_map("a"), config_map("b")], stage="later"))
            await children.ready()

    outcome = calling(world, function).ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for.startswith("StatefulSet shop/db: ")
    assert names(world) == {"a", "b"}


def test_a_refused_child_is_not_ready_while_others_are_applied(world: World) -> None:
    async def function(children: Children) -> None:
        with suppress(APIStatusError):
            await children.apply([config_map("refused")])
        async with anyio.create_task_group() as group:
            group.start_soon(children.apply, [config_map("other")])
            await children.ready()

    run = calling(world, function)
    world.fail_on("configmaps", "shop/refused", verb="apply", status=403, times=None)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for.startswith("ConfigMap shop/refused: ")


def test_stages_that_are_applied_side_by_side_mark_their_owner_in_turn(world: World) -> None:
    namespace: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    stages = [config_map("c")], [config_map("d", "other")], [stateful_set("db")], [namespace]

    async def function(children: Children) -> None:
        async with anyio.create_task_group() as group:
            for number, objects in enumerate(stages):
                apply = partial(children.apply, objects, stage=f"stage-{number}")
                group.start_soon(apply)

    calling(world, function).ok()
    assert names(world) == {"c", "d"}
    assert "new" in names(world, "namespaces")
    (kinds,) = (
        text
        for name, text in owner(world)["metadata"]["annotations"].items()
        if name.startswith("children.pyinformer.dev/")
    )
    assert kinds == "ConfigMap,Namespace,StatefulSet.apps;other"


def test_a_call_after_the_function_has_returned_is_refused(world: World) -> None:
    kept: list[Children] = []

    async def function(children: Children) -> None:
        kept.append(children)
        await children.apply([config_map("a"), config_map("b")])

    calling(world, function).ok()

    async def late() -> None:
        with pytest.raises(LifecycleError, match="after the function had returned"):
            await kept[0].apply([config_map("c")])

    world.run(late)
    assert names(world) == {"a", "b"}


def test_ready_is_true_for_those_who_ask(world: World) -> None:
    async def function(children: Children) -> None:
        await children.apply([config_map("a"), config_map("b")])
        if not await children.ready():
            return
        await children.apply([config_map("c")], stage="second")

    calling(world, function).ok()
    assert names(world) == {"a", "b", "c"}


@pytest.mark.parametrize("returned", [{"ready": 1}, DatabaseStatus(ready_replicas=9), True])
def test_a_function_that_returns_something_else_writes_no_status(
    world: World, returned: object
) -> None:
    async def function(children: Children) -> object:
        await children.apply([config_map("a")])
        return returned

    run = calling(world, function)
    before = owner(world)["status"]
    outcome = run()
    assert isinstance(outcome.error, InvalidTypeError)
    assert "it must be None or a Result" in str(outcome.error)
    assert (owner(world)["status"], names(world)) == (before, {"a", "b"})


def test_what_existed_before_and_becomes_a_child_is_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(config_map("mine", "shop", precious="1"))
    desired = Desired()
    desired.stages = {"": [config_map("mine"), config_map("new")]}
    with caplog.at_level(logging.WARNING, "pyinformer.children"):
        follow(world, desired)
    (said,) = [one.getMessage() for one in caplog.records if "existed before" in one.getMessage()]
    assert said.startswith("shop/orders: ConfigMap shop/mine existed before, and is a child now")
    assert events(world) == [("Normal", "Ready"), ("Warning", "TakenOver")]


def test_a_new_object_whose_child_is_refused_gets_an_event(world: World) -> None:
    world.fail_on("configmaps", verb="apply", status=403, times=None)
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    follow(world, desired)
    assert ready(world)[:2] == ("False", "ChildRefused")
    assert events(world) == [("Warning", "ChildRefused")]


def test_a_child_that_may_not_be_deleted_is_in_the_status_and_the_others_go(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a"), config_map("b"), config_map("c")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("c")]}
    world.fail_on("configmaps", "shop/b", verb="delete", status=403, times=None)

    outcome = run()

    assert isinstance(outcome.error, APIStatusError)
    assert names(world) == {"b", "c"}
    status, reason, message = ready(world)
    assert (status, reason) == ("False", "ChildRefused")
    assert message.startswith("ConfigMap shop/b could not be deleted: ")
    world.stop_failing()
    run.ok()
    assert (names(world), ready(world)[0]) == ({"c"}, "True")


@pytest.mark.parametrize("is_going", [False, True])
def test_a_right_that_children_of_an_earlier_version_need_is_named(
    world: World, is_going: bool
) -> None:
    """A version that owns a kind no longer has no cache of it, and lists it once more."""
    desired = Desired()
    desired.stages = {"": [config_map("a")], "data": [stateful_set("db")]}
    earlier = Run(world, desired)
    later = Run(world, desired, owns=[("apps/v1", "statefulsets")])
    earlier.ok()
    desired.stages = {"data": [stateful_set("db")]}
    if is_going:
        world.delete("acme.io/v1", "databases", "orders", namespace="shop")

    def refuse(record: InterceptedRequest) -> Fault | None:
        is_meant = (record.resource, record.verb) == ("configmaps", "list")
        return Fault(status=403) if is_meant else None

    with world.intercept(refuse):
        error = later().error

    assert isinstance(error, ForbiddenError)
    cure = 'keep Operator(..., writes=[("v1", "configmaps", "list", "delete")])'
    assert error.hint.endswith(cure)
    status, reason, message = ready(world)
    assert (status, reason) == ("False", "BeingDeleted" if is_going else "ChildRefused")
    assert message.endswith(cure)
    for _ in "stages":
        later.ok()
        world.collect_garbage()
    assert names(world) == set()


def test_an_owner_that_waits_for_a_refused_deletion_says_so(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")], "second": [config_map("b"), config_map("c")]}
    run = Run(world, desired)
    run.ok()
    world.fail_on("configmaps", "shop/b", verb="delete", status=403, times=None)
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")

    outcome = run()

    assert isinstance(outcome.error, APIStatusError)
    world.collect_garbage()
    assert names(world) == {"a", "b"}
    assert ready(world)[:2] == ("False", "BeingDeleted")
    assert ready(world)[2].startswith("ConfigMap shop/b could not be deleted: ")


def test_a_reason_that_is_not_a_text_is_the_name_of_its_error(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    desired.error = TerminalError(7)  # type: ignore[arg-type]
    Run(world, desired)()
    assert ready(world) == ("False", "GivenUp", "TerminalError")


@pytest.mark.parametrize("is_in_a_group", [False, True])
def test_an_object_that_is_given_up_is_not_ready(world: World, is_in_a_group: bool) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    error = TerminalError("no such host")
    desired.error = ExceptionGroup("of a task group", [error]) if is_in_a_group else error
    follow(world, desired)
    assert ready(world) == ("False", "GivenUp", "no such host")
    assert events(world) == [("Warning", "GivenUp")]


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_error_with_another_text_each_time_does_not_defeat_the_backoff(
    world: World, is_refused: bool
) -> None:
    """As those of clouds and webhooks, which have the number of their request."""
    desired, texts = Desired(), list[str]()

    def text() -> str:
        texts.append(f"no such host: {len(texts)}")
        return texts[-1]

    def refuse(record: InterceptedRequest) -> Fault | None:
        if "configmaps" not in record.resource or record.verb not in {"apply", "patch"}:
            return None
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": text()}
        return Fault(status=403, body=json.dumps(status).encode())

    async def reconcile(request: Request, database: Any, children: Children) -> None:
        if is_refused:
            await children.apply([config_map("a")])
        raise TerminalError(text())

    desired.reconcile = reconcile  # type: ignore[method-assign]
    app = desired.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            for image in ("example.com/db:1", "example.com/db:2"):
                await pause(60)
                found = await world.cluster.get("acme.io/v1", "databases", KEY)
                (condition,) = found.to_dict()["status"]["conditions"]
                assert condition["message"].endswith(texts[-1])
                await world.cluster.patch(found, {**found.to_dict(), "spec": {"image": image}})

    with world.intercept(refuse):
        world.run(scenario)
    # The backoff has 14 calls in a minute; what is given up is called for a spec, and for a reason.
    assert len(texts) < (40 if is_refused else 6)


def test_conditions_of_other_clients_do_not_stand_in_the_way(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    app = desired.operator()

    async def scenario() -> None:
        async with app.running(world.cluster, health_port=None):
            foreign = {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for conditions in ([], [foreign], "none", [7], [{"type": "Ready"}], None):
                await pause(10)
                before = desired.calls
                found = await world.cluster.get("acme.io/v1", "databases", KEY)
                patch = {**found.to_dict(), "status": {"conditions": conditions}}
                await world.cluster.patch(found, patch, subresource="status")
                await pause(10)
                assert desired.calls > before or conditions not in ([], [foreign], None)

    world.run(scenario)
    assert not [one for one in caplog.records if one.name == "pyinformer.controller.sources"]


def test_an_object_that_does_not_fit_the_model_is_not_ready(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    run = Run(world, desired)
    run.ok()
    patch: JSONObject = {"spec": {"image": 7}}
    world.patch("acme.io/v1", "databases", "orders", patch, namespace="shop")

    outcome = run()

    assert isinstance(outcome.error, ModelMismatchError)
    status, reason, message = ready(world)
    assert (status, reason) == ("False", "Unreadable")
    assert "spec.image" in message
    assert names(world) == {"a"}
    patch = {"spec": {"image": "example.com/db:2"}}
    world.patch("acme.io/v1", "databases", "orders", patch, namespace="shop")
    run.ok()
    assert ready(world)[0] == "True"


@pytest.mark.parametrize("reason", [[], {}])
def test_a_reason_that_is_not_a_text_is_what_does_not_fit(
    world: World, reason: object, caplog: pytest.LogCaptureFixture
) -> None:
    """As another client may write it: the log says what to correct, and blames no predicate."""
    condition = {"type": "Ready", "status": "False", "reason": reason}
    patch: JSONObject = {"status": {"conditions": [condition]}}
    world.patch("acme.io/v1", "databases", "orders", patch, namespace="shop")

    async def scenario() -> None:
        async with Desired().operator().running(world.cluster, health_port=None):
            await pause(10)
            found = await world.cluster.get("acme.io/v1", "databases", KEY)
            await world.cluster.patch(found, {**found.to_dict(), "spec": {"image": "db:2"}})
            await pause(10)

    world.run(scenario)
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert errors
    assert all("conditions[0].reason`; not retried until" in text for text in errors)


async def _by_another_name(request: Request, database: Any, kids: Children) -> None: ...


async def _in_another_place(kids: Children, request: Request, database: Any) -> None: ...


async def _a_cluster(request: Request, database: Any, children: pyinformer.Cluster) -> None: ...


async def _of_kopf(spec: Any, name: str, namespace: str, **_: object) -> None: ...


async def _with_classes(request: Request, database: Any, kids: object) -> None: ...


_with_classes.__annotations__["kids"] = Children  # as in a module without the future import


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_by_another_name, "gets Children if its third argument is called `children`; `kids`"),
        (_in_another_place, "gets Children if its third argument is called `children`; `kids`"),
        (_with_classes, "gets Children if its third argument is called `children`; `kids`"),
        (_a_cluster, "call it `cluster` for the cluster"),
        (_of_kopf, r"is called as reconcile\(request, object, cluster\), by position, so .*`spec`"),
    ],
)
def test_arguments_that_would_be_something_else_are_refused(function: Any, words: str) -> None:
    app = pyinformer.Operator("shop")
    with pytest.raises(InvalidTypeError, match=words):
        app.reconcile("acme.io/v1", "databases", model=Database, owns=OWNED)(function)


def test_a_model_that_is_called_children_is_not_a_set_of_them() -> None:
    class Children(msgspec.Struct):
        """Of a school."""

    async def of_school(request: Request, school: Any, cluster: pyinformer.Cluster) -> None: ...

    of_school.__annotations__["school"] = Children  # as in a module without the future import
    app = pyinformer.Operator("school")
    app.reconcile("acme.io/v1", "schools", model=Children)(of_school)


def test_a_decorator_may_add_arguments_to_a_function_with_children(world: World) -> None:
    async def applies(request: Request, database: Any, children: Children, data: str) -> None:
        await children.apply([config_map("a", data=data)])

    @wraps(applies)
    async def with_data(request: Request, database: Any, children: Children) -> None:
        await applies(request, database, children, "added")

    desired = Desired()
    desired.reconcile = with_data  # type: ignore[method-assign]
    Run(world, desired).ok()
    assert world.get("v1", "configmaps", "a", namespace="shop")["data"] == {"data": "added"}
