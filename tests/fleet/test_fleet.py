"""A fleet keeps the clusters of names open and engaged, and no cluster waits for another one.

Nothing is asked of the clusters here: what fails, hangs or breaks is what the pool opens for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

import pyinformer
from pyinformer import ClusterPool, Controller, ControllerGroup, Fleet, SharedInformer
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from tests.controller.running import Calls, Said, options
from tests.virtual_time import VirtualTimeLoop, elapse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer import Cluster
    from pyinformer.fleet import FleetClusterState, FleetClusterStatus

pytestmark = pytest.mark.virtual_time


def connect(name: str) -> Any:
    """Connect to a server that is never asked anything."""
    return pyinformer.connect(server="http://127.0.0.1:9", name=name)


class Tenants:
    """What the pool opens: a controller for each cluster, whose events come from the test."""

    def __init__(self) -> None:
        self.opened: dict[str, int] = defaultdict(int)
        self.open: set[str] = set()
        self.fails: dict[str, BaseException] = {}
        self.hangs: set[str] = set()
        self.breaks: dict[str, asyncio.Event] = {}
        self.sources: dict[str, Said] = {}
        self.calls: dict[str, Calls] = defaultdict(Calls)
        self.limits: dict[str, float] = {}
        self.reconcile: Callable[..., Any] | None = None

    @asynccontextmanager
    async def __call__(self, cluster: Cluster) -> AsyncIterator[Controller[None]]:
        name = cluster.name
        self.opened[name] += 1
        if name in self.fails:
            raise self.fails[name]
        if name in self.hangs:
            await asyncio.Event().wait()
        self.sources[name] = Said()
        self.breaks[name] = asyncio.Event()
        reconcile = self.reconcile or self.calls[name]
        made = Controller("sync", reconcile, options=options(**self.limits))
        made.add_source(self.sources[name])
        self.open.add(name)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._break, name)
                yield made
                group.cancel_scope.cancel()
        finally:
            self.open.discard(name)

    async def _break(self, name: str) -> None:
        await self.breaks[name].wait()
        raise RuntimeError(f"the factory of {name} broke")


class Program:
    """A pool, a group and a fleet."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.tenants = Tenants()
        self.pool: ClusterPool[Controller[None]] = ClusterPool(self.tenants, connect=connect)
        self.group = ControllerGroup()
        self.fleet = Fleet(self.pool, self.group, names, **settings)

    async def __aenter__(self) -> Self:
        await self.pool.start()
        await self.group.start()
        await self.fleet.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fleet.aclose()
        await self.group.aclose()
        await self.pool.aclose()

    @property
    def states(self) -> dict[str, FleetClusterState]:
        """The state of each cluster."""
        return {one.name: one.state for one in self.fleet.status().clusters}

    def status(self, name: str) -> FleetClusterStatus:
        """Return the state of one cluster."""
        return next(one for one in self.fleet.status().clusters if one.name == name)

    async def reconciles(self, name: str) -> bool:
        """Return whether an event of a cluster is reconciled."""
        before = len(self.tenants.calls[name].seen)
        self.tenants.sources[name].say("default/a")
        await elapse(0.0)
        return len(self.tenants.calls[name].seen) == before + 1


async def test_names_come_and_go_while_it_runs() -> None:
    async with Program("a", "b") as program:
        await elapse(1.0)
        assert program.states == {"a": "working", "b": "working"}
        assert await program.reconciles("a")
        kept = program.tenants.sources["b"]
        program.fleet.set_names(["b", "c"])
        await elapse(1.0)
        assert program.states == {"b": "working", "c": "working"}
        assert program.tenants.open == {"b", "c"}
        assert [one.name for one in program.group.status().engaged] == ["b", "c"]
        assert program.tenants.sources["b"] is kept
        assert await program.reconciles("c")
        program.fleet.set_names(["a"])
        await elapse(1.0)
        assert program.states == {"a": "working"}
        assert await program.reconciles("a")
        assert [one.name for one in program.pool.status()] == ["a"]
    assert not program.tenants.open


async def test_a_cluster_that_is_down_is_tried_again_without_a_caller() -> None:
    async with Program("down", "good", "hangs") as program:
        program.tenants.fails["down"] = OSError("connection refused")
        program.tenants.hangs.add("hangs")
        await elapse(1.0)
        assert await program.reconciles("good")
        await elapse(300.0)
        assert program.states["good"] == "working"
        down = program.status("down")
        assert down.state == "failed"
        assert "connection refused" in down.reason
        assert down.retry_after_seconds is not None
        assert "tried again in" in down.line()
        assert 5 <= program.tenants.opened["down"] <= 40
        assert program.tenants.opened["good"] == 1
        assert program.status("hangs").reason
        program.tenants.fails.clear()
        program.tenants.hangs.clear()
        await elapse(60.0)
        assert program.states["down"] == "working"
        assert await program.reconciles("down")
        await elapse(900.0)
        assert program.states["hangs"] == "working"


async def test_a_cluster_that_breaks_is_engaged_again_with_new_controllers() -> None:
    async with Program("a", "b") as program:
        await elapse(1.0)
        before = program.tenants.sources["a"]
        program.tenants.breaks["a"].set()
        await elapse(0.5)
        assert before.was_detached
        assert program.states["b"] == "working"
        await elapse(10.0)
        assert program.states == {"a": "working", "b": "working"}
        assert program.tenants.sources["a"] is not before
        assert await program.reconciles("a")


async def test_a_cluster_that_breaks_again_and_again_is_opened_less_and_less_often() -> None:
    async with Program("a", "b") as program:
        for _ in range(600):
            await elapse(0.1)
            if "a" in program.tenants.open:
                program.tenants.breaks["a"].set()
        assert 4 <= program.tenants.opened["a"] <= 20
        assert program.states["b"] == "working"
        (found,) = [one for one in program.fleet.status().clusters if one.name == "a"]
        assert found.reason == "it broke, or was evicted" or found.state == "working"


@pytest.mark.parametrize("error", [BaseException("x"), asyncio.CancelledError()])
async def test_whatever_a_function_raises_concerns_its_cluster_alone(error: BaseException) -> None:
    tenants = Tenants()

    def controllers(made: Controller[None]) -> Controller[None]:
        if "bad" in tenants.open:
            tenants.open.discard("bad")
            raise error
        return made

    async with (
        ClusterPool(tenants, connect=connect) as pool,
        ControllerGroup() as group,
        Fleet(pool, group, ["good"], controllers=controllers) as fleet,
    ):
        await elapse(1.0)
        fleet.set_names(["good", "bad"])
        await elapse(100.0)
        states = {one.name: one.state for one in fleet.status().clusters}
        assert states == {"good": "working", "bad": "failed"}
        assert tenants.opened["good"] == 1
        assert tenants.opened["bad"] < 20
        assert fleet.status().failure == ""


async def test_a_group_that_ends_first_ends_the_use_of_its_clusters() -> None:
    async with Program("a") as program:
        await elapse(1.0)
        await program.group.aclose()
        await elapse(10.0)
        assert program.tenants.opened["a"] == 1
        assert program.status("a").reason == "the group has ended"


def test_a_program_that_ends_in_the_turn_in_which_a_cluster_begins_returns() -> None:
    async def main() -> None:
        async with Program("a", "b") as program:
            await elapse(1.0)
            program.fleet.set_names(["a", "b", "c", "d"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def test_an_evicted_cluster_is_opened_again() -> None:
    async with Program("a") as program:
        await elapse(1.0)
        before = program.tenants.sources["a"]
        await program.pool.evict("a")
        await elapse(10.0)
        assert before.was_detached
        assert program.tenants.opened["a"] == 2
        assert program.states == {"a": "working"}
        assert await program.reconciles("a")


async def test_a_name_that_returns_while_its_cluster_is_closed_is_opened_again() -> None:
    async def reconcile(request: pyinformer.Request, obj: object) -> None:
        await elapse(3.0)

    async with Program("a") as program:
        program.tenants.reconcile = reconcile
        await elapse(1.0)
        program.tenants.sources["a"].say("default/x")
        await elapse(1.0)
        program.fleet.set_names([])
        await elapse(1.0)
        assert program.states == {"a": "ending"}
        program.fleet.set_names(["a"])
        await elapse(0.5)
        assert program.states == {"a": "ending"}
        await elapse(2.0)
        assert program.states == {"a": "working"}
        assert program.tenants.opened["a"] == 2


async def test_controllers_that_cannot_be_engaged_concern_their_cluster_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tenants = Tenants()

    def controllers(made: Controller[None]) -> Controller[None]:
        if faults:
            raise ZeroDivisionError
        return made

    faults = [1]
    async with (
        ClusterPool(tenants, connect=connect) as pool,
        ControllerGroup() as group,
        Fleet(pool, group, ["a"], controllers=controllers) as fleet,
    ):
        with caplog.at_level(logging.WARNING):
            await elapse(5.0)
        assert "cluster a cannot be used: ZeroDivisionError" in caplog.text
        (status,) = fleet.status().clusters
        assert status.state == "failed"
        assert status.reason.startswith("ZeroDivisionError at ")
        faults.clear()
        await elapse(60.0)
        (status,) = fleet.status().clusters
        assert (status.state, status.reason) == ("working", "")


async def test_what_the_pool_opens_has_to_be_a_controller_unless_another_function_finds_it() -> (
    None
):
    @asynccontextmanager
    async def text(cluster: Cluster) -> AsyncIterator[str]:
        yield cluster.name

    async with (
        ClusterPool(text, connect=connect) as pool,
        ControllerGroup() as group,
        Fleet(pool, group, ["a"]) as fleet,
        Fleet(pool, None, ["b"]) as reading,
    ):
        await elapse(1.0)
        (status,) = fleet.status().clusters
        assert "controllers: is needed: the pool opens no Controller, but str" in status.reason
        (status,) = reading.status().clusters
        assert status.state == "working"
        assert await pool.get("b", timeout_seconds=0) == "b"


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_a_cancelled_close_still_closes_everything(how: str) -> None:
    async def reconcile(request: pyinformer.Request, obj: object) -> None:
        await asyncio.Event().wait()

    async with Program("a", "b") as program:
        program.tenants.reconcile = reconcile
        program.tenants.limits = {"drain_timeout_seconds": 2.0, "grace_seconds": 1.0}
        await elapse(1.0)
        for source in program.tenants.sources.values():
            source.say("default/x")
        await elapse(1.0)
        if how == "scope":
            with anyio.move_on_after(0.5):
                await program.fleet.aclose()
        else:
            task = asyncio.create_task(program.fleet.aclose())
            await elapse(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.get_running_loop().time() == 4.0
        assert not program.tenants.open
        assert program.group.status().engaged == ()
        with pytest.raises(LifecycleError, match="the fleet is closed"):
            program.fleet.set_names(["a"])


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_a_cancelled_wait_for_the_end_of_a_cluster_changes_nothing(how: str) -> None:
    async with Program("a") as program:
        await elapse(1.0)
        for wait in (program.pool.wait_closed, program.group.wait_disengaged):
            if how == "scope":
                with anyio.move_on_after(1.0) as scope:
                    await wait("a")
                assert scope.cancelled_caught
            else:
                task = asyncio.create_task(wait("a"))
                await elapse(1.0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await wait("unknown")
        assert program.states == {"a": "working"}


async def test_a_pool_that_is_closed_too_early_is_named(caplog: pytest.LogCaptureFixture) -> None:
    program = Program("a")
    async with program:
        await elapse(1.0)
        await program.pool.aclose()
        await elapse(1.0)
        assert program.states == {"a": "failed"}
        assert "the cluster pool is closed" in program.status("a").reason
        assert "cluster a is not used any more" in caplog.text


async def test_bad_arguments_are_refused() -> None:
    pool: ClusterPool[Any] = ClusterPool(Tenants(), connect=connect)
    group = ControllerGroup()
    wrong: Any
    for wrong, words in (("a", "not the text 'a'"), ([3], "must be texts, got int"), (3, "names")):
        with pytest.raises(InvalidTypeError, match=words):
            Fleet(pool, group, wrong)
    with pytest.raises(InvalidArgumentError, match="must not be empty"):
        Fleet(pool, group, [""])
    with pytest.raises(InvalidArgumentError, match="address: needs an informer"):
        Fleet(pool, group, ["a"], address=str)
    with pytest.raises(InvalidArgumentError, match=r'must be Buckets\(by="cluster"\)'):
        Fleet(pool, group, ["a"], sharding=pyinformer.Buckets(), name="x")
    by_cluster = pyinformer.Buckets(by="cluster")
    with pytest.raises(InvalidArgumentError, match="name: is missing"):
        Fleet(pool, group, ["a"], sharding=by_cluster)
    with pytest.raises(InvalidArgumentError, match="cluster: is missing"):
        Fleet(pool, group, ["a"], sharding=by_cluster, name="x")
    with pytest.raises(InvalidTypeError, match="pool"):
        wrong = group
        Fleet(wrong, group, ["a"])
    with pytest.raises(InvalidTypeError, match="group"):
        wrong = pool
        Fleet(pool, wrong, ["a"])
    async with connect("hub") as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        fleet = Fleet(pool, group, maps)
        with pytest.raises(LifecycleError, match="is not running: start it first"):
            await fleet.start()
        with pytest.raises(InvalidArgumentError, match="those of an informer's objects"):
            fleet.set_names(["a"])
