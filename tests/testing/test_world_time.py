"""A World with virtual time: timers fire at exactly their second, and no test waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pyinformer.cache.informer import in_thread
from pyinformer.controller import Controller, ControllerOptions, Result
from pyinformer.controller.sources import Request
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.objects import JSONObject, KubeObject
from pyinformer.testing import World
from tests.limiters import doubling
from tests.soak import in_soak

_DAYS = in_soak(3, otherwise=1)
MAP: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


async def _wait_for_a_timer(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one config map, `default/a`."""
    with World([MAP], virtual_time=True) as world:
        yield world


class _Program:
    """A controller that records when it is called."""

    def __init__(self, world: World, options: ControllerOptions | None = None) -> None:
        self.called_at: list[float] = []
        self.answers: Iterator[Result | Exception | None] = iter(())
        self.maps = world.factory.informer("v1", "configmaps", namespaces="default")
        self.controller = Controller("maps", self.reconcile, self.maps, options=options)

    async def reconcile(self, _request: Request, _obj: KubeObject | None) -> Result | None:
        """Record the time, and return the next answer."""
        self.called_at.append(asyncio.get_running_loop().time())
        answer = next(self.answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_requeue_occurs_at_its_second(world: World) -> None:
    program = _Program(world)
    program.answers = iter([Result(requeue_after_seconds=3600.0)] * 3)
    world.run(program.controller.start)
    began_at = world.now_seconds
    world.elapse(0)

    world.elapse(3599)
    assert program.called_at == [began_at]
    world.elapse(1)
    assert program.called_at == [began_at, began_at + 3600]

    world.elapse(24 * 3600)
    assert program.called_at == [began_at + n * 3600 for n in range(4)]


def test_backoff_grows_to_its_maximum(world: World) -> None:
    options = ControllerOptions(rate_limiter=doubling(1.0, 8.0))
    program = _Program(world, options)
    program.answers = iter([RuntimeError("again")] * 6)
    world.run(program.controller.start)

    world.elapse(600)

    first = program.called_at[0]
    waits = [0, 1, 3, 7, 15, 23, 31]
    assert [at - first for at in program.called_at] == pytest.approx(waits)


def test_a_resync_repeats_everything_to_handlers(world: World) -> None:
    maps = world.factory.informer("v1", "configmaps", namespaces="default")
    heard_at: list[float] = []
    maps.add_event_handler(
        on_update=lambda _old, _new: heard_at.append(world.now_seconds),
        resync_period_seconds=600.0,
    )
    world.run(maps.start)

    world.elapse(2000)

    assert len(heard_at) == 3
    assert heard_at[1] - heard_at[0] == pytest.approx(600, rel=0.2)


def test_a_reconcile_that_hangs_meets_its_deadline(world: World) -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        await asyncio.Event().wait()

    options = ControllerOptions(reconcile_timeout_seconds=300.0)
    maps = world.factory.informer("v1", "configmaps")
    controller = Controller("maps", reconcile, maps, options=options)

    outcome = world.reconcile(controller, "default/a")

    assert isinstance(outcome.error, TimeoutError)
    assert world.now_seconds == 300.0


def test_time_does_not_advance_between_calls_and_during_writes(world: World) -> None:
    program = _Program(world)
    program.answers = iter([Result(requeue_after_seconds=1.0)])
    world.run(program.controller.start)
    world.elapse(0.5)
    now = world.now_seconds

    world.create({**MAP, "metadata": {"name": "b"}})
    world.patch("v1", "configmaps", "a", {"data": {"n": "1"}})

    assert world.now_seconds == now
    world.elapse(0.5)


@pytest.mark.soak
def test_watches_come_and_go_for_days_and_nothing_is_lost(world: World) -> None:
    program = _Program(world)
    world.run(program.controller.start)
    world.elapse(_DAYS * 24 * 3600)

    world.create({**MAP, "metadata": {"name": "b"}})
    world.elapse(0)

    assert sorted(program.maps.lister.keys()) == ["default/a", "default/b"]
    assert len(program.called_at) == 2
    assert program.called_at[-1] == pytest.approx(_DAYS * 24 * 3600, abs=10)


@pytest.mark.parametrize("by", ["in_thread", "to_thread"])
def test_time_does_not_advance_while_a_thread_works(world: World, by: str) -> None:
    release = threading.Event()

    def work(*_: object) -> None:
        threading.Timer(0.05, release.set).start()
        assert release.wait(100)

    async def to_thread(_request: Request, _obj: KubeObject | None) -> None:
        await asyncio.to_thread(work)

    function = in_thread(work) if by == "in_thread" else to_thread
    maps = world.factory.informer("v1", "configmaps")
    options = ControllerOptions(reconcile_timeout_seconds=1.0)
    controller = Controller("maps", function, maps, options=options)

    outcome = world.reconcile(controller, "default/a")

    assert outcome.error is None
    assert world.now_seconds < 1.0


@pytest.mark.parametrize("by", ["in_thread", "to_thread"])
def test_work_of_a_thread_that_is_due_when_the_time_is_over_is_waited_for(
    world: World, by: str
) -> None:
    calls: list[float] = []

    def work(*_: object) -> Result:
        release = threading.Event()
        threading.Timer(0.05, release.set).start()
        assert release.wait(100)
        calls.append(world.now_seconds)
        return Result(requeue_after_seconds=3600.0)

    async def to_thread(_request: Request, _obj: KubeObject | None) -> Result:
        return await asyncio.to_thread(work)

    function = in_thread(work) if by == "in_thread" else to_thread
    controller = Controller("maps", function, world.factory.informer("v1", "configmaps"))
    world.run(controller.start)
    world.elapse(0)
    began_at = calls[0]
    world.elapse(7200)

    assert [at - began_at for at in calls] == [0.0, 3600.0, 7200.0]


@pytest.mark.parametrize("by", ["in_thread", "to_thread"])
def test_an_object_changes_while_a_thread_reconciles_it(world: World, by: str) -> None:
    seen: list[str] = []
    started, may_end = threading.Event(), threading.Event()

    def work(_request: Request, obj: KubeObject | None) -> None:
        seen.append("" if obj is None else obj.metadata.labels.get("step", "first"))
        started.set()
        assert may_end.wait(100)

    async def to_thread(request: Request, obj: KubeObject | None) -> None:
        await asyncio.to_thread(work, request, obj)

    function = in_thread(work) if by == "in_thread" else to_thread
    controller = Controller("maps", function, world.factory.informer("v1", "configmaps"))
    world.run(controller.start)
    assert started.wait(100)
    world.patch("v1", "configmaps", "a", {"metadata": {"labels": {"step": "second"}}})
    assert seen == ["first"]
    may_end.set()
    world.elapse(1)
    assert seen == ["first", "second"]


@pytest.mark.slow
def test_time_that_a_thread_holds_for_ever_is_a_timeout(world: World) -> None:
    """It takes the 30 s: how long a thread may work is not the test's to say."""
    may_end = threading.Event()

    async def keep(_request: Request, _obj: KubeObject | None) -> None:
        await asyncio.to_thread(may_end.wait, 100)

    informer = world.factory.informer("v1", "configmaps")
    world.run(Controller("maps", keep, informer).start)
    try:
        with pytest.raises(TimeoutError, match="thread"):
            world.elapse(60)
    finally:
        may_end.set()
    world.elapse(60)
    assert world.now_seconds >= 60


def test_closing_does_not_wait_for_sleeping_reconciles() -> None:
    async def reconcile(_request: Request, _obj: KubeObject | None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await _wait_for_a_timer(3600.0)

    with World([MAP], virtual_time=True) as world:
        maps = world.factory.informer("v1", "configmaps")
        world.run(Controller("maps", reconcile, maps).start)
        world.elapse(10)


def test_worlds_beside_each_other_share_their_time(world: World) -> None:
    other = World(name="other", beside=world)
    world.elapse(5)
    assert other.now_seconds == world.now_seconds == 5.0
    other.close()


def test_real_time_cannot_be_advanced() -> None:
    with World() as world:
        with pytest.raises(LifecycleError, match="virtual_time=True"):
            world.elapse(1)
        with pytest.raises(InvalidArgumentError, match="real time"):
            World(beside=world, virtual_time=True)


def test_time_cannot_be_moved_back(world: World) -> None:
    with pytest.raises(InvalidArgumentError):
        world.elapse(-1)
