"""Timers: functions at an interval, and objects that are reconciled at one, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.controller import ControllerOptions
from pyinformer.controller.sources import Request
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    ModelMismatchError,
    TerminalError,
)
from pyinformer.operator import Operator
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.limiters import doubling
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from pyinformer.blocking import BlockingCluster
    from pyinformer.objects import JSONObject, KubeObject


def config_map(name: str, **data: Any) -> JSONObject:
    """Return a ConfigMap."""
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time with two ConfigMaps."""
    with World([config_map("a"), config_map("b")], virtual_time=True) as world:
        yield world


class Tick:
    """A timer's function that notes its calls."""

    def __init__(self, *errors: BaseException, takes_seconds: float = 0.0) -> None:
        self.began: list[float] = []
        self._errors = list(errors)
        self._takes_seconds = takes_seconds

    async def __call__(self, cluster: Cluster) -> None:
        """Take its time, and fail as long as there are errors."""
        self.began.append(round(now(), 1))
        await pause(self._takes_seconds)
        if self._errors:
            raise self._errors.pop(0)

    @property
    def after_first(self) -> list[float]:
        """How long after the first call each began."""
        return [round(one - self.began[0], 1) for one in self.began]


def run(
    world: World, app: Operator, seconds: float, then: Any = None
) -> pyinformer.controller.Controller[None]:
    """Run an operator for some time; return its last controller."""

    async def scenario() -> Any:
        async with app.running(world.cluster) as operator:
            await pause(seconds)
            if then is not None:
                await then()
            assert operator.health.ready()
        return operator.controllers[-1]

    found: pyinformer.controller.Controller[None] = world.run(scenario)
    return found


def operator(tick: Tick, period_seconds: float = 60, **options: Any) -> Operator:
    """Return an operator of a timer and no reconcile."""
    app = Operator("test")
    app.every(period_seconds, name="tick", options=ControllerOptions(**options))(tick)
    return app


def test_a_function_is_called_at_the_start_and_at_each_beat(world: World) -> None:
    tick = Tick(takes_seconds=2)
    controller = run(world, operator(tick), 200)
    assert tick.after_first == [0, 60, 120, 180]
    assert controller.status().outcomes["success"] == 4


@pytest.mark.parametrize("period_seconds", [0.1, 0.3, 0.7, 1.1, 3.3])
def test_no_beat_of_a_period_with_a_fraction_comes_twice(
    world: World, period_seconds: float
) -> None:
    """The time of a beat is rounded, so that a timer can fire a rounding before it."""
    tick = Tick()
    run(world, operator(tick, period_seconds), 100.5 * period_seconds)
    assert len(tick.began) == 101


def test_beats_that_pass_during_a_call_are_skipped(world: World) -> None:
    tick = Tick(takes_seconds=150)
    run(world, operator(tick), 400)
    assert tick.after_first == [0, 180, 360]


def test_an_error_is_retried_with_backoff_and_moves_no_beat(world: World) -> None:
    tick = Tick(OSError(), OSError())
    controller = run(world, operator(tick, rate_limiter=doubling(4.0)), 70)
    assert tick.after_first == [0, 4, 12, 60]
    assert controller.status().outcomes["error"] == 2


def test_after_an_error_the_next_call_is_at_the_next_beat_at_the_latest(world: World) -> None:
    tick = Tick(OSError(), TerminalError("not now"))
    run(world, operator(tick, rate_limiter=doubling(900.0)), 130)
    assert tick.after_first == [0, 60, 120]


def test_a_call_beyond_its_deadline_is_retried(world: World) -> None:
    tick = Tick(takes_seconds=20)
    controller = run(world, operator(tick, reconcile_timeout_seconds=10.0), 15)
    assert tick.after_first == [0, 10]
    assert controller.status().outcomes["timeout"] >= 1


@pytest.mark.parametrize("period_seconds", [60, 7])
def test_after_a_deadline_the_next_call_is_at_the_next_beat_at_the_latest(
    world: World, period_seconds: float
) -> None:
    tick = Tick(takes_seconds=20)
    options = {"reconcile_timeout_seconds": 10.0, "rate_limiter": doubling(900.0)}
    controller = run(world, operator(tick, period_seconds, **options), 125)
    step = 60 if period_seconds == 60 else 14  # a beat that passes during a call is skipped
    assert tick.after_first == [*range(0, 126, step)]
    assert controller.status().outcomes["timeout"] >= len(tick.began) - 1


def test_an_object_whose_reconcile_exceeds_its_deadline_keeps_its_beats(world: World) -> None:
    app, began = Operator("test"), list[float]()
    options = ControllerOptions(reconcile_timeout_seconds=10.0, rate_limiter=doubling(900.0))

    @app.reconcile("v1", "configmaps", every_seconds=100, options=options, workers=2)
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        if request.name == "a":
            began.append(now())
        await pause(20)

    run(world, app, 350)
    assert {round(after - before) for before, after in pairwise(began[1:])} == {100}


def test_a_call_that_ends_as_if_it_were_cancelled_moves_no_beat(world: World) -> None:
    class Cancelled(Tick):
        async def __call__(self, cluster: Cluster) -> None:
            """Raise what awaiting a cancelled task raises."""
            await super().__call__(cluster)
            raise asyncio.CancelledError

    tick = Cancelled()
    run(world, operator(tick, rate_limiter=doubling(900.0)), 130)
    assert tick.after_first == [0, 60, 120]


def test_a_plain_function_gets_the_blocking_cluster(world: World) -> None:
    app = Operator("test")

    @app.every(60)
    def sweep(cluster: BlockingCluster) -> None:
        cluster.delete("v1", "configmaps", "default/a")

    controller = run(world, app, 10)
    assert controller.name == "sweep"
    assert controller.status().last_error is None
    assert [one["metadata"]["name"] for one in world.list("v1", "configmaps")] == ["b"]


def test_only_the_timers_of_the_leader_run(world: World) -> None:
    def replica(identity: str) -> tuple[Tick, Any]:
        election = pyinformer.LeaderElection(identity=identity)
        app, tick = Operator("test", leader_election=election), Tick()
        app.every(10, name="tick")(tick)
        cluster = Cluster(
            world.cluster.config,
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=Line(world.cluster.connection),
        )
        return tick, app.running(cluster)

    async def scenario() -> None:
        (first, one), (second, two) = replica("one"), replica("two")
        await one.start()
        await until(lambda: first.began)
        async with two:
            await pause(35)
            assert len(first.began) == 4
            assert second.began == []
            await one.aclose()
            await until(lambda: second.began)
            count = len(first.began)
            await pause(25)
            assert len(first.began) == count
            assert second.after_first == [0, 10, 20]

    world.run(scenario)


def test_each_object_is_reconciled_at_its_interval_as_long_as_it_exists(world: World) -> None:
    app, seen = Operator("test"), list[tuple[str, bool, float]]()

    @app.reconcile("v1", "configmaps", every_seconds=100)
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        seen.append((request.name, obj is None, now()))

    def times(name: str) -> list[float]:
        return [at for one, _, at in seen if one == name]

    async def change() -> None:
        seen.clear()
        await world.cluster.delete("v1", "configmaps", "default/a")
        await world.cluster.create(config_map("c"))
        await pause(300)

    run(world, app, 350, change)
    assert [is_gone for name, is_gone, _ in seen if name == "a"] == [True]
    for name in ("b", "c"):
        beats = times(name)[-3:]
        assert len({round(one % 100, 1) for one in beats}) == 1
        assert [round(one - beats[0]) for one in beats] == [0, 100, 200]
    assert len(times("b")) == 3


def test_a_beat_and_an_event_never_reconcile_one_object_at_once(world: World) -> None:
    app = Operator("test")
    running, most = Counter[str](), Counter[str]()

    @app.reconcile("v1", "configmaps", every_seconds=10, workers=4)
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        running[request.key] += 1
        most[request.key] = max(most[request.key], running[request.key])
        await pause(25)
        running[request.key] -= 1

    async def change() -> None:
        for number in range(5):
            await world.cluster.apply(config_map("a", n=str(number)), field_manager="test")
            await pause(7)

    run(world, app, 60, change)
    assert most == {"default/a": 1, "default/b": 1}


def beats_of(world: World) -> dict[str, float]:
    """Run an operator of ConfigMaps for two periods of 100 s; return when each beats in them."""
    app, seen = Operator("test"), dict[str, float]()

    @app.reconcile("v1", "configmaps", every_seconds=100, workers=8)
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        seen[request.name] = now() % 100

    run(world, app, 210)
    return seen


def test_beats_of_objects_are_spread_over_the_period() -> None:
    objects = [config_map(f"database-{number}") for number in range(2_000)]
    with World(objects, virtual_time=True) as world:
        counts = Counter(int(beat / 5) for beat in beats_of(world).values())
    assert sorted(counts) == list(range(20))
    assert max(counts.values()) < 150


def test_the_beats_of_an_object_are_the_same_after_a_restart(world: World) -> None:
    """Another process has them at the same times, whatever the seed of its hashes."""
    beats = beats_of(world)
    assert beats == pytest.approx({"a": 43.7, "b": 96.4}, abs=0.1)
    world.elapse(33)
    assert beats_of(world) == pytest.approx(beats, abs=0.1)


class Spec(msgspec.Struct):
    size: int


class Sized(msgspec.Struct):
    data: Spec


def test_an_unreadable_object_has_beats_if_there_is_a_hook_for_it(world: World) -> None:
    app, hooked, failed = Operator("test"), list[str](), list[str]()

    async def on_unreadable(
        request: Request, obj: KubeObject, cluster: Cluster, error: ModelMismatchError
    ) -> None:
        hooked.append(request.name)

    @app.reconcile("v1", "configmaps", model=Sized, every_seconds=10, name="without-hook")
    @app.reconcile("v1", "configmaps", model=Sized, every_seconds=10, on_unreadable=on_unreadable)
    async def reconcile(request: Request, sized: Sized | None, cluster: Cluster) -> None:
        failed.append(request.name)

    controller = run(world, app, 45)
    assert set(Counter(hooked).values()) <= {5, 6}, "the first call, and four or five beats"
    assert failed == []
    assert controller.status().outcomes["terminal"] == 2, "an event alone can mend them"


def _mismatch() -> ModelMismatchError:
    """Return an error as the view of another object raises it."""
    return ModelMismatchError("a job", "is of another type", key="default/other", path="spec.n")


ODD_ERRORS = [
    pytest.param(_mismatch(), id="another object does not fit its model"),
    pytest.param(ExceptionGroup("reads", [_mismatch()]), id="in a group"),
    pytest.param(BaseException("a panic"), id="no Exception"),
    pytest.param(BaseExceptionGroup("calls", [BaseException("a panic")]), id="a group of it"),
    pytest.param(GeneratorExit(), id="GeneratorExit"),
]
"""Errors of the function, none of which means that its own object has to change."""


@pytest.mark.parametrize("error", ODD_ERRORS)
def test_no_error_of_a_timer_ends_its_beats(world: World, error: BaseException) -> None:
    tick = Tick(error)
    run(world, operator(tick, rate_limiter=doubling(900.0)), 130)
    assert tick.after_first == [0, 60, 120]


@pytest.mark.parametrize("error", ODD_ERRORS)
@pytest.mark.parametrize("of_hook", [False, True])
def test_no_error_about_another_object_ends_the_beats_of_one(
    world: World, error: BaseException, *, of_hook: bool
) -> None:
    app, began = Operator("test"), list[float]()
    options = ControllerOptions(rate_limiter=doubling(900.0))

    async def call(request: Request, obj: object, cluster: Cluster, *_: object) -> None:
        if request.name == "a":
            began.append(now())
            raise error

    app.reconcile(
        "v1",
        "configmaps",
        model=Sized if of_hook else None,  # no object fits it
        on_unreadable=call if of_hook else None,
        every_seconds=100,
        options=options,
    )(call)
    run(world, app, 350)
    assert len(began) >= 4, "the first call, and three beats"


def test_the_reason_of_a_beat_is_shown(world: World) -> None:
    app, reasons = Operator("test"), list[str]()

    @app.reconcile("v1", "configmaps", every_seconds=10, label_selector=None, name="maps")
    async def reconcile(request: Request, obj: KubeObject | None, cluster: Cluster) -> None:
        if request.name == "a":
            reasons.append("; ".join(map(str, request.reasons)))

    run(world, app, 12)
    assert reasons[1:] == ["every 10 s timer"]


def test_a_timer_that_fails_names_each_reason_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run(world, operator(Tick(*[ValueError()] * 8), 10), 45)

    shown = [line.partition("; reasons: ")[2] for line in caplog.messages if " failed: " in line]
    assert len(shown) == 8
    assert set(shown) == {"every 10 s timer", "every 10 s timer; reconcile retry"}


@pytest.mark.parametrize("period", [0, -1, float("nan"), float("inf")])
def test_an_invalid_period_is_refused(period: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^period_seconds"):
        Operator("test").every(period)
    with pytest.raises(InvalidArgumentError, match=r"^every_seconds"):
        Operator("test").reconcile("v1", "pods", every_seconds=period)


def test_two_periods_for_objects_are_refused() -> None:
    options = ControllerOptions(resync_period_seconds=60)
    with pytest.raises(InvalidArgumentError, match=r"resync_period_seconds.*remove one"):
        Operator("test").reconcile("v1", "pods", every_seconds=60, options=options)


def test_a_timer_that_cannot_be_called_or_named_is_refused() -> None:
    app = Operator("test")
    with pytest.raises(InvalidTypeError, match=r"every\(cluster\)"):
        app.every(60)(lambda: None)  # type: ignore[type-var,misc,arg-type]
    with pytest.raises(InvalidArgumentError, match="give name="):
        app.every(60)(Tick())
    with pytest.raises(InvalidArgumentError, match="give name="):
        app.every(60, name="a/b")(Tick())
    app.every(60, name="tick")(Tick())
    with pytest.raises(InvalidArgumentError, match="'tick' is registered already"):
        app.every(60, name="tick")(Tick())
    with pytest.raises(InvalidArgumentError, match="'tick' is registered already"):
        app.reconcile("v1", "pods", name="tick")(lambda request, obj, cluster: None)


def test_a_timer_is_declared_before_the_operator_runs(world: World) -> None:
    app = operator(Tick())

    async def late() -> None:
        with pytest.raises(LifecycleError, match="declare timers"):
            app.every(60, name="late")(Tick())

    run(world, app, 1, late)


def test_a_world_calls_a_timer_by_its_name(world: World) -> None:
    tick = Tick()
    (controller,) = operator(tick).controllers(world.cluster, world.factory)
    assert world.reconcile(controller, "tick").error is None
    assert len(tick.began) == 1


def test_the_rights_of_an_operator_of_timers_are_those_that_it_declares() -> None:
    app = Operator("test", writes=[("v1", "configmaps", "delete")])
    app.every(60, name="tick")(Tick())
    assert "configmaps" in app.required_rbac()
