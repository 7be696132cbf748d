"""Daemons: one task for each object, from its appearance to its deletion, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest

import pyinformer
from pyinformer.client.cluster import Cluster
from pyinformer.controller import ControllerOptions, generation_changed
from pyinformer.controller.sources import Request
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    ModelMismatchError,
    TerminalError,
)
from pyinformer.operator import (
    Operator,
    Versions,
    custom_resource,
    custom_resource_definition,
)
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import APIServer, World
from tests.limiters import doubling
from tests.telemetry.metrics.reading import collected
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from pyinformer.controller import ControllerStatus
    from pyinformer.objects import JSONObject, KubeObject
    from pyinformer.operator import OperatorRun

_KIND = ("acme.io/v1", "databases")
_FINALIZER = "acme.io/daemon"


class Spec(msgspec.Struct):
    """What is wanted of a database."""

    size: int


@custom_resource(*_KIND)
class Database(msgspec.Struct):
    """A database."""

    spec: Spec


def database(name: str, size: int = 1) -> JSONObject:
    """Return a database."""
    metadata = {"namespace": "default", "name": name}
    return {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "metadata": metadata,
        "spec": {"size": size},
    }


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time with two databases."""
    with World([database("a"), database("b")], virtual_time=True) as world:
        yield world


class Log:
    """What daemons have done; no two of one object may run at once."""

    def __init__(self, clean_up_seconds: float = 0.0) -> None:
        self.running: set[str] = set()
        self.started: list[tuple[str, float]] = []
        self.ended: list[tuple[str, float]] = []
        self.given: list[tuple[str, int]] = []
        self.clean_up_seconds = clean_up_seconds
        self.is_stubborn = False
        self.may_end = asyncio.Event()

    async def __call__(self, request: Request, versions: Versions[Any], cluster: Cluster) -> None:
        """Follow the versions of an object."""
        assert request.name not in self.running
        self.running.add(request.name)
        self.started.append((request.name, now()))
        try:
            async for version in versions:
                self.given.append((request.name, size_of(version)))
        finally:
            await pause(self.clean_up_seconds)
            while self.is_stubborn and not self.may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await self.may_end.wait()
            self.running.remove(request.name)
            self.ended.append((request.name, now()))

    def starts(self, name: str) -> list[float]:
        """When the daemons of an object began."""
        return [at for one, at in self.started if one == name]

    def ends(self, name: str) -> list[float]:
        """When the daemons of an object ended."""
        return [at for one, at in self.ended if one == name]


def size_of(version: Any) -> int:
    """Return the size of a model or an object."""
    if isinstance(version, Database):
        return version.spec.size
    found: int = version.to_dict()["spec"]["size"]
    return found


def operator(function: Any, *, of: Operator | None = None, **terms: Any) -> Operator:
    """Return an operator of a daemon."""
    app = of or Operator("test", metrics=MetricsRegistry())
    app.daemon(*_KIND, name="watch", **terms)(function)
    return app


def run(
    world: World, app: Operator, then: Callable[[OperatorRun], Coroutine[None, None, None]]
) -> None:
    """Run a scenario in a running operator."""

    async def scenario() -> None:
        async with app.running(world.cluster) as running:
            await then(running)

    world.run(scenario)


def status(running: OperatorRun) -> ControllerStatus:
    """Return the status of the daemon's controller."""
    return running.controllers[0].status()


async def resize(world: World, name: str, size: int) -> None:
    """Give a database another size."""
    await world.cluster.apply(database(name, size), field_manager="test", force=True)


def test_each_object_has_a_daemon_from_its_appearance_to_its_deletion(world: World) -> None:
    log = Log(clean_up_seconds=2.0)

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        await world.cluster.create(database("c", 7))
        await until(lambda: ("c", 7) in log.given)
        await world.cluster.delete(*_KIND, "default/a")
        await until(lambda: log.running == {"b", "c"})
        found = status(running).daemons
        assert found is not None
        assert (found.running, found.stopping, found.ignoring) == (2, 0, ())
        assert "2 daemons run" in running.health.overview()

    run(world, operator(log), scenario)
    assert log.running == set()
    assert sorted(name for name, _ in log.ended) == ["a", "b", "c"]


def test_a_daemon_gets_the_newest_version_and_none_twice(world: World) -> None:
    log, go_on = list[int](), asyncio.Event()

    async def watch(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        async for version in versions:
            if request.name == "a":
                log.append(version.spec.size)
                await go_on.wait()

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: log == [1])
        for size in (2, 3, 4):
            await resize(world, "a", size)
            await pause(1)
        go_on.set()
        await pause(5)
        assert log == [1, 4]
        running.controllers[0].enqueue("default/a")
        await pause(5)
        assert log == [1, 4]

    run(world, operator(watch, model=Database), scenario)


def test_a_daemon_can_act_at_an_interval_and_at_each_version(world: World) -> None:
    log = list[tuple[float, int]]()

    async def poll(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        if request.name == "b":
            return
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await anext(versions)
            log.append((round(now() - log[0][0] if log else now()), versions.newest.spec.size))

    async def scenario(_: OperatorRun) -> None:
        await pause(25)
        await resize(world, "a", 5)
        await pause(11)
        assert log[1:] == [(10, 1), (20, 1), (25, 5), (35, 5)]

    run(world, operator(poll, model=Database), scenario)


def test_a_cancelled_wait_takes_no_version(world: World) -> None:
    log = list[int]()

    async def watch(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        if request.name == "b":
            return
        await anext(versions)
        waiting = [asyncio.ensure_future(anext(versions)) for _ in range(2)]
        await pause(1)
        waiting[0].cancel()
        await resize(world, "a", 2)
        log.append((await waiting[1]).spec.size)
        with anyio.move_on_after(1):
            await anext(versions)
        await resize(world, "a", 3)
        log.append((await anext(versions)).spec.size)

    async def scenario(_: OperatorRun) -> None:
        await until(lambda: log == [2, 3])

    run(world, operator(watch, model=Database), scenario)


def test_a_finalizer_is_there_before_the_daemon_and_falls_when_it_has_ended(world: World) -> None:
    log, seen = Log(clean_up_seconds=4.0), list[bool]()

    async def watch(request: Request, versions: Versions[KubeObject], cluster: Cluster) -> None:
        found = await cluster.get(*_KIND, request.key)
        seen.append(_FINALIZER in found.metadata.finalizers)
        await log(request, versions, cluster)

    async def scenario(_: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        assert seen == [True, True]
        deleted_at = now()
        await world.cluster.delete(*_KIND, "default/a")
        await pause(3)
        assert "a" in [one["metadata"]["name"] for one in await listed(world)]
        await until(lambda: log.running == {"b"})
        await pause(1)
        assert [one["metadata"]["name"] for one in await listed(world)] == ["b"]
        assert 3.9 < log.ends("a")[0] - deleted_at < 5

    run(world, operator(watch, finalizer=_FINALIZER), scenario)
    (left,) = world.list(*_KIND)
    assert left["metadata"]["finalizers"] == [_FINALIZER]  # the next process has its daemon


async def listed(world: World) -> list[JSONObject]:
    """Return the databases."""
    return [one.to_dict() async for one in world.cluster.list(*_KIND)]


def test_the_finalizer_of_an_object_that_was_deleted_before_the_start_falls() -> None:
    log, deleted = Log(), database("a")
    deleted["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [_FINALIZER, "acme.io/another"],
    }

    async def scenario(_: OperatorRun) -> None:
        await pause(1)
        assert log.started == []

    with World([deleted], virtual_time=True) as world:
        run(world, operator(log, finalizer=_FINALIZER), scenario)
        (left,) = world.list(*_KIND)
    assert left["metadata"]["finalizers"] == ["acme.io/another"]


def test_of_an_object_that_is_created_again_the_old_daemon_ends_first(world: World) -> None:
    log = Log(clean_up_seconds=4.0)

    async def scenario(_: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        await world.cluster.delete(*_KIND, "default/a")
        await world.cluster.create(database("a", 9))
        await until(lambda: ("a", 9) in log.given)
        assert log.starts("a")[1] >= log.ends("a")[0]

    run(world, operator(log), scenario)


class Failing:
    """A daemon of `a` that fails as often as there are errors, after some time each."""

    def __init__(self, *errors: BaseException, after_seconds: float = 0.0) -> None:
        self.errors = list(errors)
        self.after_seconds = after_seconds
        self.began: list[float] = []

    async def __call__(self, request: Request, versions: Versions[Any], cluster: Cluster) -> None:
        """Fail, or wait for versions."""
        if request.name == "a":
            self.began.append(now())
            await pause(self.after_seconds)
            if self.errors:
                raise self.errors.pop(0)
        async for _ in versions:
            pass

    @property
    def after_first(self) -> list[int]:
        """How long after the first start each began."""
        return [round(one - self.began[0]) for one in self.began]


def test_a_daemon_that_raises_is_logged_and_started_again_with_backoff(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Failing(OSError(), OSError(), OSError())

    async def scenario(running: OperatorRun) -> None:
        await pause(5)
        (failing,) = status(running).failing_keys
        assert (failing.request, failing.error) == ("default/a", "OSError")
        await pause(30)
        assert daemon.after_first == [0, 4, 12, 28]
        found = status(running)
        assert found.outcomes["error"] == 3
        assert found.daemons is not None
        assert found.daemons.running == 2
        assert found.failing == 1  # it may fail again
        await pause(120)
        assert status(running).failing == 0

    run(world, operator(daemon, options=ControllerOptions(rate_limiter=doubling(4.0))), scenario)
    lines = [line for line in caplog.messages if "default/a failed" in line]
    assert len(lines) == 3
    assert "OSError" in lines[0]
    assert "test_daemons.py" in lines[0]


def test_a_change_that_the_failing_daemon_makes_does_not_defeat_the_backoff(world: World) -> None:
    began = list[float]()

    async def watch(request: Request, versions: Versions[KubeObject], cluster: Cluster) -> None:
        if request.name == "a":
            began.append(now())
            await cluster.status(versions.newest, {"starts": len(began)})
            raise OSError

    async def scenario(_: OperatorRun) -> None:
        await pause(30)
        assert [round(one - began[0]) for one in began] == [0, 4, 12, 28]

    run(world, operator(watch, options=ControllerOptions(rate_limiter=doubling(4.0))), scenario)


def test_another_generation_starts_a_failed_daemon_at_once(world: World) -> None:
    daemon = Failing(OSError(), TerminalError("wrong size"))

    async def scenario(_: OperatorRun) -> None:
        for size in (2, 3):
            await pause(20)
            await resize(world, "a", size)
        await pause(20)
        assert daemon.after_first == [0, 20, 40]

    run(world, operator(daemon, options=ControllerOptions(rate_limiter=doubling(900.0))), scenario)


def test_after_a_terminal_error_a_daemon_waits_for_another_generation(world: World) -> None:
    daemon = Failing(TerminalError("wrong size"))

    async def scenario(running: OperatorRun) -> None:
        await pause(50)
        running.controllers[0].enqueue("default/a")
        await pause(50)
        assert len(daemon.began) == 1
        await resize(world, "a", 2)
        await pause(1)
        assert len(daemon.began) == 2

    run(world, operator(daemon), scenario)


def test_the_backoff_begins_again_when_a_daemon_has_run_for_long(world: World) -> None:
    daemon = Failing(*(OSError() for _ in range(3)), after_seconds=200.0)

    async def scenario(_: OperatorRun) -> None:
        await pause(700)
        assert daemon.after_first == [0, 204, 408, 612]

    run(world, operator(daemon, options=ControllerOptions(rate_limiter=doubling(4.0))), scenario)


def test_a_daemon_that_returns_is_started_again_at_the_next_generation(world: World) -> None:
    log = list[int]()

    async def watch(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        if request.name == "a":
            log.append(versions.newest.spec.size)
            await pause(10)

    async def scenario(running: OperatorRun) -> None:
        await pause(20)
        found = await world.cluster.get(*_KIND, "default/a")
        await world.cluster.status(found, {"ready": True})
        await pause(20)
        assert log == [1]
        await resize(world, "a", 2)
        await pause(1)
        assert log == [1, 2]
        await resize(world, "a", 3)  # of which the daemon does not know when it returns
        await pause(20)
        assert log == [1, 2, 3]
        await world.cluster.delete(*_KIND, "default/a")
        await world.cluster.create(database("a", 4))
        await pause(20)
        assert log == [1, 2, 3, 4]

    run(world, operator(watch, model=Database), scenario)


def test_a_daemon_that_ignores_its_cancellation_is_named_and_holds_up_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    log.is_stubborn = True
    options = ControllerOptions(grace_seconds=3.0)

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        await world.cluster.delete(*_KIND, "default/a")
        await world.cluster.create(database("a", 2))
        await pause(10)
        found = status(running).daemons
        assert found is not None
        assert (found.running, found.ignoring_total, found.ignoring) == (1, 1, ("default/a",))
        assert "daemons ignoring cancellation: default/a" in running.health.overview()
        assert any("default/a" in note for note in running.health.ready().notes)
        assert running.health.ready()
        names = [f"c{number}" for number in range(20)]
        for name in names:
            await world.cluster.create(database(name))
        await until(lambda: log.running == {"a", "b", *names})
        assert len(log.starts("a")) == 1
        log.may_end.set()
        await until(lambda: ("a", 2) in log.given)
        found = status(running).daemons
        assert found is not None
        assert found.ignoring == ()

    run(world, operator(log, options=options), scenario)
    (line,) = [one for one in caplog.messages if "has ignored its cancellation for 3.0 s" in one]
    assert "default/a" in line
    assert "CancelledError" in line


def test_the_end_does_not_wait_for_a_daemon_that_ignores_its_cancellation(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    log.is_stubborn = True
    app = operator(log, options=ControllerOptions(grace_seconds=3.0))

    async def scenario() -> None:
        running = app.running(world.cluster)
        await running.start()
        await until(lambda: log.running == {"a", "b"})
        began_at = now()
        await running.aclose()
        assert 3 <= now() - began_at < 5
        log.may_end.set()
        await until(lambda: not log.running)

    world.run(scenario)
    left = [one for one in caplog.messages if "did not end within 3.0 s" in one]
    assert len(left) == 2


def test_no_more_daemons_run_than_the_limit_and_the_others_wait(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()

    async def scenario(running: OperatorRun) -> None:
        for name in ("c", "d", "e"):
            await world.cluster.create(database(name))
        await pause(1)
        assert log.running == {"a", "b"}
        found = status(running).daemons
        assert found is not None
        assert (found.running, found.waiting, found.limit) == (2, 3, 2)
        await world.cluster.delete(*_KIND, "default/c")  # while it waits
        await pause(1)
        await world.cluster.delete(*_KIND, "default/a")
        await until(lambda: log.running == {"b", "d"})
        await world.cluster.delete(*_KIND, "default/b")
        await until(lambda: log.running == {"d", "e"})

    run(world, operator(log, limit=2), scenario)
    lines = [one for one in caplog.messages if "as many as limit= allows" in one]
    assert len(lines) == 1


def test_a_predicate_drops_versions_and_no_deletion(world: World) -> None:
    log = Log()

    async def scenario(_: OperatorRun) -> None:
        await until(lambda: log.given == [("a", 1), ("b", 1)])
        found = await world.cluster.get(*_KIND, "default/a")
        await world.cluster.status(found, {"ready": True})
        await pause(5)
        assert len(log.given) == 2
        await resize(world, "a", 2)
        await until(lambda: log.given[2:] == [("a", 2)])
        await world.cluster.delete(*_KIND, "default/a")
        await until(lambda: log.running == {"b"})

    run(world, operator(log, predicate=generation_changed, finalizer=_FINALIZER), scenario)
    assert [one["metadata"]["name"] for one in world.list(*_KIND)] == ["b"]


def test_a_predicate_that_passes_nothing_else_passes_the_deletion_of_an_object_with_a_finalizer(
    world: World,
) -> None:
    log = Log()

    async def scenario(_: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        await world.cluster.delete(*_KIND, "default/a")
        await until(lambda: log.running == {"b"})

    def appears(old: KubeObject | None, new: KubeObject | None) -> bool:
        return old is None

    run(world, operator(log, predicate=appears, finalizer=_FINALIZER), scenario)
    assert [one["metadata"]["name"] for one in world.list(*_KIND)] == ["b"]


def test_a_version_that_does_not_fit_the_model_fails_and_is_skipped(world: World) -> None:
    log = Log()

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: log.given == [("a", 1), ("b", 1)])
        wrong = database("a") | {"spec": {"size": "large"}}
        await world.cluster.apply(wrong, field_manager="test", force=True)
        await world.cluster.create(wrong | {"metadata": {"name": "c", "namespace": "default"}})
        await pause(5)
        assert log.running == {"a", "b"}
        assert status(running).outcomes["terminal"] == 2
        assert str(status(running).last_error).startswith(ModelMismatchError.__name__)
        await resize(world, "a", 3)
        await until(lambda: log.given[2:] == [("a", 3)])

    run(world, operator(log, model=Database, finalizer=_FINALIZER), scenario)
    found = {one["metadata"]["name"]: one["metadata"] for one in world.list(*_KIND)}
    assert "finalizers" not in found["c"]  # nothing would remove it


def test_the_object_of_a_model_is_found_as_long_as_it_is_the_newest_given(world: World) -> None:
    app = Operator("test")
    known = list[str]()
    given = list[Database]()

    @app.daemon(*_KIND, model=Database)
    async def watch(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        async for version in versions:
            if request.name == "a":
                given.append(version)
                known.append(app.object_of(version).metadata.name)
                with pytest.raises(InvalidArgumentError):
                    app.object_of(Database(Spec(1)))

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: known == ["a"])
        await resize(world, "a", 2)
        await until(lambda: known == ["a", "a"])
        with pytest.raises(InvalidArgumentError):
            app.object_of(given[0])
        assert running.controllers[0].name == "watch"

    run(world, app, scenario)
    with pytest.raises(InvalidArgumentError):
        app.object_of(given[1])


async def test_a_daemon_owns_the_fields_that_it_writes_as_its_operator() -> None:
    written = asyncio.Event()

    async def watch(request: Request, versions: Versions[Database], cluster: Cluster) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": request.name, "namespace": "default"},
            "data": {"a": "b"},
        }
        await cluster.apply(body)
        written.set()

    with APIServer() as api:
        api.create(custom_resource_definition(Database))
        api.create(database("a"))
        async with (
            pyinformer.connect(server=api.url) as cluster,
            operator(watch).running(cluster),
        ):
            await written.wait()
        found = api.get("v1", "configmaps", "a", "default")
    assert [one["manager"] for one in found["metadata"]["managedFields"]] == ["test"]


def test_a_daemon_registered_while_the_operator_runs_starts(world: World) -> None:
    log, app = Log(), Operator("test")
    app.reconcile("v1", "configmaps")(_reconcile)

    async def scenario(_: OperatorRun) -> None:
        operator(log, of=app)
        await app.wait_started("watch")
        await until(lambda: log.running == {"a", "b"})

    run(world, app, scenario)
    assert log.running == set()


async def _reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
    """Do nothing."""


def test_the_end_right_after_the_start_leaves_nothing(world: World) -> None:
    log, app = Log(), operator(Log())
    app = operator(log)

    async def scenario() -> None:
        running = app.running(world.cluster)
        await running.start()
        await running.aclose()
        assert log.running == set()

    world.run(scenario)


def test_a_daemon_that_is_cancelled_from_outside_is_started_again(world: World) -> None:
    log = Log()

    async def scenario(running: OperatorRun) -> None:
        await until(lambda: log.running == {"a", "b"})
        (task,) = (one for one in asyncio.all_tasks() if "daemon of default/a" in one.get_name())
        task.cancel()
        await until(lambda: len(log.starts("a")) == 2)
        assert status(running).outcomes["error"] == 1

    run(world, operator(log, options=ControllerOptions(rate_limiter=doubling(1.0))), scenario)


def test_an_error_of_a_clean_up_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def watch(request: Request, versions: Versions[Any], cluster: Cluster) -> None:
        try:
            async for _ in versions:
                pass
        finally:
            raise OSError

    async def scenario(running: OperatorRun) -> None:
        await pause(1)
        await world.cluster.delete(*_KIND, "default/a")
        await pause(1)
        assert status(running).outcomes["error"] == 0

    run(world, operator(watch), scenario)
    lines = [one for one in caplog.messages if "failed when it was cancelled: OSError" in one]
    assert "default/a" in lines[0]
    assert caplog.records[-1].levelno <= logging.ERROR


def test_the_numbers_of_daemons_are_metrics(world: World) -> None:
    metrics = MetricsRegistry()
    log = Log()
    app = operator(log, of=Operator("test", metrics=metrics), limit=1)

    async def scenario(_: OperatorRun) -> None:
        await pause(1)
        label = 'operator_daemons{controller="watch",state='
        assert collected(metrics, "operator_daemons") == {
            f'{label}"running"}}': 1,
            f'{label}"stopping"}}': 0,
            f'{label}"ignoring_cancellation"}}': 0,
            f'{label}"waiting"}}': 1,
        }

    run(world, app, scenario)


def test_a_daemon_that_waits_takes_little_memory(world: World) -> None:
    running, number = set[str](), 300

    async def watch(request: Request, versions: Versions[Any], cluster: Cluster) -> None:
        running.add(request.name)
        async for _ in versions:
            pass

    async def scenario() -> int:
        limited = operator(watch, limit=number + 2).running(world.cluster)
        for each in range(number):
            await world.cluster.create(database(f"c{each}"))
        gc.collect()
        tracemalloc.start()
        await limited.start()
        await until(lambda: len(running) == number + 2)
        await pause(1)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await limited.aclose()
        return taken

    with_the_cache: int = world.run(scenario)
    assert with_the_cache / number < 15_000


def test_a_controller_that_does_not_run_starts_no_daemon(world: World) -> None:
    log = Log()
    (controller,) = operator(log).controllers(world.cluster, world.factory)
    outcome = world.reconcile(controller, "default/a")
    assert isinstance(outcome.error, LifecycleError)
    assert log.started == []


def test_the_rights_of_a_finalizer_are_printed() -> None:
    text = operator(Log(), finalizer=_FINALIZER).required_rbac()
    assert "- databases\n  verbs:\n  - get\n  - list\n  - patch\n  - watch" in text
    assert (
        "patch"
        not in operator(Log()).required_rbac().split("databases/status")[0].split("databases")[1]
    )


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        pytest.param({"limit": 0}, InvalidArgumentError, id="no-limit"),
        pytest.param({"finalizer": "no finalizer"}, InvalidArgumentError, id="finalizer"),
        pytest.param({"name": ""}, InvalidArgumentError, id="name"),
        pytest.param({"model": int}, InvalidTypeError, id="model"),
        pytest.param({"predicate": lambda: True}, InvalidTypeError, id="predicate"),
    ],
)
def test_invalid_terms_are_refused(terms: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Operator("test").daemon(*_KIND, **terms)(Log())


def test_a_plain_function_is_refused_with_the_cure() -> None:
    def plain(request: Request, versions: Versions[Any], cluster: Cluster) -> None: ...

    function: Any = plain
    with pytest.raises(InvalidTypeError, match=r"asyncio\.to_thread"):
        Operator("test").daemon(*_KIND)(function)


def test_a_function_with_other_arguments_is_refused() -> None:
    async def watch(request: Request) -> None: ...

    function: Any = watch
    with pytest.raises(InvalidTypeError, match=r"daemon\(request, versions, cluster\)"):
        Operator("test").daemon(*_KIND)(function)
