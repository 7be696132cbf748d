"""Controllers of further clusters, engaged and disengaged while their group runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import (
    Controller,
    ControllerGroup,
    Request,
    SharedInformer,
    SharedInformerFactory,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.operator import Health
from tests.controller.running import Calls, Said, options
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from pyinformer.controller import EngagedClusterStatus, EngagedState

pytestmark = pytest.mark.virtual_time


class Stalls:
    """A reconcile that waits for a cluster that does not answer, until that answers again."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.running = 0
        self.ended = list[str]()

    async def __call__(self, request: Request, obj: object) -> None:
        """Wait.

        Cancellation:
            Ends the wait.
        """
        self.running += 1
        try:
            await self.answers.wait()
        finally:
            self.running -= 1
        self.ended.append(str(request))


def controller(name: str, reconcile: Any, source: Said | None = None, **changes: Any) -> Any:
    """Make a controller of four workers whose events come from the test."""
    made = Controller(name, reconcile, workers=4, options=options(**changes))
    made.add_source(Said() if source is None else source)
    return made


def one(group: ControllerGroup, name: str) -> EngagedClusterStatus:
    """Return the state of one engaged cluster."""
    return next(found for found in group.status().engaged if found.name == name)


def states(group: ControllerGroup) -> dict[str, EngagedState]:
    """Return the state of each engaged cluster."""
    return {found.name: found.state for found in group.status().engaged}


async def test_a_cluster_that_stalls_with_all_workers_delays_no_other() -> None:
    stalls, calls = Stalls(), Calls()
    far, near = Said("far"), Said("near")
    async with ControllerGroup() as group:
        group.engage(controller("sync", stalls, far), "far")
        group.engage(controller("sync", calls, near), "near")
        await elapse(1.0)
        assert states(group) == {"far": "working", "near": "working"}
        for number in range(20):
            far.say(f"default/{number}")
        await elapse(1.0)
        assert stalls.running == 4
        for number in range(20):
            near.say(f"default/{number}")
        await elapse(0.0)
        assert len(calls.seen) == 20
        stalls.answers.set()
        await elapse(1.0)
        assert len(stalls.ended) == 20


async def test_what_is_engaged_before_the_group_starts_begins_with_it() -> None:
    source, calls = Said(), Calls()
    group = ControllerGroup()
    group.engage(controller("sync", calls, source), "east")
    group.engage(controller("sync", Calls(), Said(has_synced=False)), "west")
    await elapse(1.0)
    assert states(group) == {"east": "starting", "west": "starting"}
    assert source.enqueue is None
    async with group:
        await elapse(1.0)
        assert states(group) == {"east": "working", "west": "starting"}
        source.say("default/a")
        await elapse(1.0)
        assert len(calls.seen) == 1
    assert source.was_detached


async def test_what_is_disengaged_before_the_group_starts_never_begins() -> None:
    source = Said()
    group = ControllerGroup()
    group.engage(controller("sync", Calls(), source), "east")
    await group.disengage("east")
    async with group:
        await elapse(1.0)
        assert source.enqueue is None
        assert group.status().engaged == ()


async def test_a_cluster_that_does_not_sync_ends_nothing_and_starts_when_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dead, good = Said("dead", has_synced=False), Said("good")
    calls = Calls()
    async with ControllerGroup() as group:
        health = Health(group)
        late = controller("sync", calls, dead, sync_timeout_seconds=3.0)
        group.engage(late, "dead")
        group.engage(controller("sync", Calls(), good), "good")
        await elapse(50.0)
        assert states(group) == {"dead": "starting", "good": "working"}
        assert health.ready().is_ok
        assert not health.ready().notes
        await elapse(20.0)
        assert health.ready().is_ok
        assert [note for note in health.ready().notes if "cluster dead (sync): starting" in note]
        late.enqueue("default/a")
        dead.synced.set()
        await elapse(1.0)
        assert states(group) == {"dead": "working", "good": "working"}
        assert calls.times == [70.0]
        assert not health.ready().notes


async def test_a_disengaged_cluster_drains_is_cancelled_and_can_be_engaged_again() -> None:
    stalls, source, calls = Stalls(), Said(), Calls()
    limits = {"drain_timeout_seconds": 2.0, "grace_seconds": 3.0}
    async with ControllerGroup(controller("own", Calls())) as group:
        group.engage(controller("sync", stalls, source, **limits), "east")
        await elapse(1.0)
        for number in range(6):
            source.say(f"default/{number}")
        await elapse(1.0)
        ending = asyncio.create_task(group.disengage("east"))
        await elapse(1.0)
        assert states(group) == {"east": "ending"}
        with pytest.raises(InvalidArgumentError, match=r"'east' is engaged: .*disengage\('east'\)"):
            group.engage(controller("sync", calls), "east")
        await ending
        assert asyncio.get_running_loop().time() == 4.0
        assert (stalls.running, stalls.ended) == (0, [])
        assert source.was_detached
        assert not source.is_running
        assert group.status().engaged == ()
        again = Said()
        group.engage(controller("sync", calls, again), "east")
        await elapse(1.0)
        again.say("default/a")
        await elapse(1.0)
        assert len(calls.seen) == 1
        assert [found.name for found in group.status().controllers] == ["own"]


async def test_the_end_of_the_group_drains_engaged_clusters_together_with_the_others() -> None:
    ended = list[str]()

    async def reconcile(request: Request, obj: object) -> None:
        await elapse(5.0)
        ended.append(request.key)

    own, far = Said(), Said()
    async with ControllerGroup(controller("own", reconcile, own)) as group:
        group.engage(controller("far", reconcile, far), "far")
        await elapse(1.0)
        own.say("default/own")
        far.say("default/far")
        await elapse(1.0)
    assert sorted(ended) == ["default/far", "default/own"]
    assert asyncio.get_running_loop().time() == 6.0
    assert far.was_detached
    with pytest.raises(LifecycleError, match="it has ended; make a new one"):
        group.engage(controller("late", Calls()), "late")


async def test_the_end_of_the_group_ends_a_cluster_that_never_started() -> None:
    async with ControllerGroup() as group:
        group.engage(controller("sync", Calls(), Said(has_synced=False)), "dead")
        await elapse(1.0)
    assert asyncio.get_running_loop().time() == 1.0
    assert [found.name for found in group.status().engaged] == ["dead"]


async def test_a_cluster_is_disengaged_before_its_task_has_begun() -> None:
    source = Said()
    async with ControllerGroup() as group:
        group.engage(controller("sync", Calls(), source), "east")
        await group.disengage("east")
        await elapse(1.0)
        assert group.status().engaged == ()
        assert source.enqueue is None


async def test_a_reconcile_may_disengage_its_own_cluster() -> None:
    source = Said()
    async with ControllerGroup() as group:

        async def reconcile(request: Request, obj: object) -> None:
            await group.disengage("east")
            gone.set()

        gone = asyncio.Event()
        group.engage(controller("sync", reconcile, source), "east")
        await elapse(1.0)
        source.say("default/a")
        await elapse(1.0)
        assert gone.is_set()
        assert group.status().engaged == ()


async def test_a_cache_that_is_closed_before_it_has_synced_ends_its_cluster_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, calls = Said(), Calls()
    async with pyinformer.connect(server="http://127.0.0.1:9", name="dead") as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with ControllerGroup() as group:
            group.engage(controller("sync", calls, source), "east")
            group.engage(Controller("maps", Calls(), maps), "dead")
            await elapse(5.0)
            assert "configmaps.v1: " in one(group, "dead").reason
            with caplog.at_level(logging.ERROR):
                await maps.aclose()
                await elapse(1.0)
            assert one(group, "dead").state == "failed"
            assert "was closed before it had synced" in one(group, "dead").reason
            assert "cluster dead: its controllers have ended" in caplog.text
            assert any("cluster dead" in note for note in Health(group).ready().notes)
            source.say("default/a")
            await elapse(1.0)
            assert len(calls.seen) == 1
            with pytest.raises(LifecycleError, match="is closed"):
                maps.lister.list()
            await group.disengage("dead")
            assert states(group) == {"east": "working"}


async def test_an_informer_that_the_engagement_started_is_closed_with_it() -> None:
    async with pyinformer.connect(server="http://127.0.0.1:9", name="dead") as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        async with ControllerGroup() as group:
            group.engage(Controller("maps", Calls(), maps), "dead")
            await elapse(5.0)
            assert maps.is_running
            await group.disengage("dead")
            assert maps.is_closed
            with pytest.raises(LifecycleError, match="is closed"):
                maps.lister.get("default/a")


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_a_cancelled_disengage_still_ends_the_cluster(how: str) -> None:
    stalls, source = Stalls(), Said()
    limits = {"drain_timeout_seconds": 2.0, "grace_seconds": 3.0}
    async with ControllerGroup() as group:
        group.engage(controller("sync", stalls, source, **limits), "east")
        await elapse(1.0)
        source.say("default/a")
        await elapse(1.0)
        if how == "scope":
            with anyio.move_on_after(0.5) as scope:
                await group.disengage("east")
                await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
        else:
            task = asyncio.create_task(group.disengage("east"))
            await elapse(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.get_running_loop().time() == 4.0
        assert stalls.running == 0
        assert group.status().engaged == ()


async def test_what_has_left_a_reconcile_behind_is_not_engaged_again() -> None:
    ends, source, running = asyncio.Event(), Said(), list[str]()

    async def stubborn(request: Request, obj: object) -> None:
        running.append(request.key)
        while not ends.is_set():
            with suppress(asyncio.CancelledError):
                await ends.wait()
        running.remove(request.key)

    limits = {"drain_timeout_seconds": 1.0, "grace_seconds": 1.0}
    async with ControllerGroup() as group:
        group.engage(controller("sync", stubborn, source, **limits), "east")
        await elapse(1.0)
        source.say("default/a")
        await elapse(1.0)
        await group.disengage("east")
        assert running == ["default/a"]
        assert one(group, "east").state == "ending"
        assert "ignoring cancellation: worker" in one(group, "east").reason
        assert len(group.status().abandoned) == 1
        with pytest.raises(InvalidArgumentError, match="'east' is still engaged: "):
            group.engage(controller("sync", Calls()), "east")
        ends.set()
        await elapse(1.0)
        assert group.status().engaged == ()
        assert group.status().abandoned == ()
        group.engage(controller("sync", Calls()), "east")
        await elapse(1.0)
        assert states(group) == {"east": "working"}


async def test_an_informer_of_the_hub_has_to_run_and_outlives_the_clusters_that_read_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:9", name="hub") as cluster:
        maps = SharedInformer(cluster, "v1", "configmaps")
        engines = list[Any]()

        def reader(name: str) -> Any:
            made = controller(name, Calls())
            made.watches(maps, lambda obj: obj.key)
            engines.append(weakref.ref(made.engine))
            return made

        async with ControllerGroup() as group:
            group.engage(reader("sync"), "east")
            await elapse(1.0)
            assert one(group, "east").state == "failed"
            assert "is of cluster 'hub', and not running: start it before" in caplog.text
            await group.disengage("east")
            await maps.start()
            group.engage(reader("sync"), "t0")
            for number in range(1, 200):  # there is always one that reads it
                group.engage(reader("sync"), f"t{number}")
                await elapse(0.0)
                await group.disengage(f"t{number - 1}")
            assert maps.is_running
            gc.collect()
            assert sum(engine() is not None for engine in engines) < 10
        assert maps.is_running
        await maps.aclose()


async def test_a_reconcile_that_drains_at_the_end_has_the_factories_of_the_group() -> None:
    found, source = list[bool](), Said()

    async def reconcile(request: Request, obj: object) -> None:
        await elapse(3.0)
        found.append(maps.is_running)

    async with pyinformer.connect(server="http://127.0.0.1:9", name="hub") as cluster:
        factory = SharedInformerFactory(cluster)
        maps = factory.informer("v1", "configmaps")
        async with ControllerGroup(factories=[factory]) as group:
            group.engage(controller("far", reconcile, source), "far")
            await elapse(1.0)
            source.say("default/a")
            await elapse(1.0)
        assert found == [True]
        assert maps.is_closed


async def test_what_cannot_be_engaged_is_refused() -> None:
    async with ControllerGroup() as group:
        wrong: Any = ["not a controller"]
        with pytest.raises(InvalidTypeError, match="must be Controllers, got str"):
            group.engage(wrong, "east")
        with pytest.raises(InvalidArgumentError, match="must not be empty"):
            group.engage([], "east")
        nameless: Any = 3
        with pytest.raises(InvalidTypeError, match="must be a text, got int"):
            group.engage(controller("sync", Calls()), nameless)
        with pytest.raises(InvalidArgumentError, match="two are named 'sync'"):
            group.engage([controller("sync", Calls()), controller("sync", Calls())], "east")
        busy = controller("busy", Calls())
        async with busy:
            with pytest.raises(LifecycleError, match="busy was started before"):
                group.engage(busy, "east")
        async with pyinformer.connect(server="http://127.0.0.1:9", name="west") as cluster:
            maps = SharedInformer(cluster, "v1", "configmaps")
            with pytest.raises(InvalidArgumentError, match=r"must be 'west', .* got 'east'"):
                group.engage(Controller("maps", Calls(), maps), "east")
        await group.disengage("unknown")
        assert group.status().engaged == ()


async def test_two_controllers_of_one_cluster_are_engaged_together() -> None:
    one_source, other_source, calls = Said(), Said(), Calls()
    async with ControllerGroup() as group:
        both = [controller("a", calls, one_source), controller("b", calls, other_source)]
        group.engage(both, "east")
        await elapse(1.0)
        one_source.say("default/x")
        other_source.say("default/x")
        await elapse(1.0)
        assert len(calls.seen) == 2
        assert [found.name for found in one(group, "east").controllers] == ["a", "b"]
        await group.disengage("east")
        assert one_source.was_detached
        assert other_source.was_detached


async def test_a_request_for_a_cluster_of_no_primary_is_refused() -> None:
    async with pyinformer.connect(server="http://127.0.0.1:9", name="east") as cluster:
        maps = Controller("maps", Calls(), SharedInformer(cluster, "v1", "configmaps"))
        with pytest.raises(InvalidArgumentError, match=r"is of cluster 'west', .* are 'east'"):
            maps.enqueue(Request("default/a", "west"))
        with pytest.raises(InvalidArgumentError, match="is of cluster ''"):
            await maps.reconcile_once(Request("default/a"))
        maps.enqueue(Request("default/a", "east"))
        maps.enqueue("default/b")
        assert maps.status().queue.depth == 2
