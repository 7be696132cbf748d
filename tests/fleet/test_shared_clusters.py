"""Replicas of a program that split its clusters: each cluster has one of them at a time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import (
    ClusterPool,
    Controller,
    ControllerGroup,
    Fleet,
    KubeObject,
    Request,
    SharedInformerFactory,
)
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import FencedError
from pyinformer.operator import Health
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.sharding import SharingStatus

_TENANTS = [f"t{number}" for number in range(8)]
_OPTIONS = pyinformer.ControllerOptions(drain_timeout_seconds=5.0, grace_seconds=1.0)


@pytest.fixture
def worlds() -> Iterator[dict[str, World]]:
    """A management cluster, and eight tenants with a config map each, in virtual time."""
    with ExitStack() as stack:
        hub = stack.enter_context(World(virtual_time=True))
        found = {"": hub}
        for name in _TENANTS:
            tenant = stack.enter_context(World([_map("a")], name=name, beside=hub))
            found[name] = tenant
        yield found


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class _Replica:
    """One replica, with lines of its own to all clusters."""

    def __init__(self, worlds: dict[str, World], identity: str) -> None:
        self.lines = {name: Line(world.cluster.connection) for name, world in worlds.items()}
        self.clusters = {
            name: _cluster(worlds[name], name, line) for name, line in self.lines.items()
        }
        self.opened: list[str] = []
        self.open: set[str] = set()
        self.reconciled: list[tuple[float, str]] = []
        self.running: list[str] = []
        self.refused: list[str] = []
        self.go_on: asyncio.Event | None = None
        self.pool = ClusterPool(self._open, connect=self._connect)
        self.group = ControllerGroup()
        self.fleet = Fleet(
            self.pool,
            self.group,
            _TENANTS,
            sharding=pyinformer.Buckets(by="cluster", identity=identity, drain_seconds=3.0),
            name="gateway",
            cluster=self.clusters[""],
        )
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def _connect(self, name: str) -> AsyncIterator[Cluster]:
        yield self.clusters[name]

    @asynccontextmanager
    async def _open(self, cluster: Cluster) -> AsyncIterator[Controller[None]]:
        self.opened.append(cluster.name)
        self.open.add(cluster.name)
        async with SharedInformerFactory(cluster) as factory:
            maps = factory.informer("v1", "configmaps")
            yield Controller("maps", self._reconcile, maps, options=_OPTIONS)
        self.open.discard(cluster.name)

    async def _reconcile(self, request: Request, obj: KubeObject[None] | None) -> None:
        self.reconciled.append((now(), request.cluster))
        if self.go_on is not None:
            self.running.append(request.cluster)
            try:
                await self.go_on.wait()
            finally:
                self.running.remove(request.cluster)
        if obj is None:
            return
        data = obj.to_dict()["data"]
        if data.get("mark") == data.get("at"):
            return
        try:
            changed = {**obj.to_dict(), "data": {**data, "mark": data["at"]}}
            await self.clusters[request.cluster].patch(obj, changed)
        except FencedError:
            self.refused.append(request.cluster)
            raise

    async def start(self) -> None:
        """Begin to share."""
        for one in (self.pool, self.group, self.fleet):
            await self._stack.enter_async_context(one)

    async def aclose(self) -> None:
        """Give the share up, and end."""
        await self._stack.aclose()

    def crash(self) -> None:
        """Let no request through any more."""
        for line in self.lines.values():
            line.is_down = True

    @property
    def sharing(self) -> SharingStatus:
        """Its state among the replicas."""
        found = self.fleet.status().sharing
        assert found is not None
        return found

    @property
    def working(self) -> set[str]:
        """The clusters that it uses."""
        return {one.name for one in self.fleet.status().clusters if one.state == "working"}

    def called(self, since_at: float = 0.0) -> set[str]:
        """The clusters for which it was called."""
        return {name for at, name in self.reconciled if at >= since_at}


def _cluster(world: World, name: str, line: Line) -> Cluster:
    options = WriteOptions(writes_per_second=None, retry_limit=0)
    return Cluster(world.cluster.config, name=name, write_options=options, connection=line)


async def _start(*replicas: _Replica) -> None:
    """Start replicas, and wait until they have split the clusters."""
    for one in replicas:
        await one.start()
    least = 128 // len(replicas)

    def is_split() -> bool:
        shares = [one.working for one in replicas]
        total = sum(map(len, shares))
        return total == len(_TENANTS) and all(one.sharing.open >= least for one in replicas)

    await until(is_split)


async def _change(worlds: dict[str, World], at: str) -> float:
    """Change the config map of each tenant."""
    began_at = now()
    for name in _TENANTS:
        changed = _map("a", at=at)
        await worlds[name].cluster.apply(changed, field_manager="test", force=True)
    return began_at


async def _marked(worlds: dict[str, World], at: str) -> set[str]:
    found = set()
    for name in _TENANTS:
        obj = await worlds[name].cluster.get("v1", "configmaps", "default/a")
        if obj.to_dict()["data"].get("mark") == at:
            found.add(name)
    return found


def test_each_cluster_has_one_replica_which_opens_no_others(worlds: dict[str, World]) -> None:
    async def scenario() -> None:
        one, two, three = (_Replica(worlds, name) for name in ("one", "two", "three"))
        await _start(one, two, three)
        began_at = await _change(worlds, "1")
        await pause(1)
        shares = [each.called(began_at) for each in (one, two, three)]
        assert sorted(name for share in shares for name in share) == _TENANTS
        assert [each.open for each in (one, two, three)] == shares
        assert await _marked(worlds, "1") == set(_TENANTS)
        for each in (one, two, three):
            health = Health(each.group, each.fleet)
            assert health.ready().is_ok
            assert each.fleet.status().known == len(_TENANTS)
        for each in (one, two, three):
            await each.aclose()
            assert not each.open

    worlds[""].run(scenario)


def test_a_replica_that_leaves_drains_and_the_other_has_its_clusters(
    worlds: dict[str, World],
) -> None:
    async def scenario() -> None:
        one, two = _Replica(worlds, "one"), _Replica(worlds, "two")
        await _start(one, two)
        two.go_on = asyncio.Event()
        moved = two.working
        assert moved
        await _change(worlds, "1")
        await pause(1)
        assert set(two.running) == moved
        leaving = asyncio.create_task(two.aclose())
        await pause(1)
        assert not one.called(now() - 1) & moved  # their reconciles run still
        two.go_on.set()
        left_at = now()
        await until(lambda: one.working == set(_TENANTS))
        assert now() - left_at < 3
        await leaving
        assert not two.refused
        assert await _marked(worlds, "1") == set(_TENANTS)
        began_at = await _change(worlds, "2")
        await pause(1)
        assert one.called(began_at) == set(_TENANTS)
        await one.aclose()

    worlds[""].run(scenario)


def test_the_clusters_of_a_replica_that_crashed_go_to_the_others(worlds: dict[str, World]) -> None:
    async def scenario() -> None:
        one, two = _Replica(worlds, "one"), _Replica(worlds, "two")
        await _start(one, two)
        two.go_on = asyncio.Event()
        mine = two.working
        await _change(worlds, "1")
        await pause(1)
        crashed_at = now()
        two.lines[""].is_down = True  # it still reaches the tenants
        await until(lambda: one.working == set(_TENANTS))
        assert now() - crashed_at < 17
        await until(lambda: await_marks(one, mine))
        two.go_on.set()
        await until(lambda: not two.open)
        assert not two.running
        assert await _marked(worlds, "1") == set(_TENANTS)
        # Cut off from the Leases, it writes nothing, and has ended with all clusters.
        assert two.working == set()
        ending = asyncio.create_task(two.aclose())
        await one.aclose()
        await ending

    def await_marks(one: _Replica, mine: set[str]) -> bool:
        return mine <= one.called()

    worlds[""].run(scenario)


def test_no_write_is_sent_for_a_cluster_whose_bucket_is_lost(worlds: dict[str, World]) -> None:
    """The reconcile ignores its cancellation, and writes when another replica has the cluster."""

    async def scenario() -> None:
        one, two = _Replica(worlds, "one"), _Replica(worlds, "two")
        go_on = asyncio.Event()
        await _start(one, two)
        mine = min(two.working)

        async def stubborn(request: Request, obj: KubeObject[None] | None) -> None:
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue
            assert obj is not None
            try:
                await two.clusters[request.cluster].patch(
                    obj, {**obj.to_dict(), "data": {"x": "late"}}
                )
            except FencedError:
                two.refused.append(request.cluster)

        two._reconcile = stubborn  # type: ignore[method-assign]
        await two.pool.evict(mine)
        await until(lambda: mine in two.working)
        await pause(1)
        two.lines[""].is_down = True
        await until(lambda: mine in one.working)
        go_on.set()
        await until(lambda: two.refused == [mine])
        obj = await worlds[mine].cluster.get("v1", "configmaps", "default/a")
        assert "x" not in obj.to_dict().get("data", {})
        ending = asyncio.create_task(two.aclose())
        await one.aclose()
        await ending

    worlds[""].run(scenario)


def test_a_tenant_that_is_away_is_a_note_and_makes_no_replica_unready(
    worlds: dict[str, World],
) -> None:
    async def scenario() -> None:
        one = _Replica(worlds, "one")
        await one.start()
        await until(lambda: len(one.working) == len(_TENANTS))
        health = Health(one.group, one.fleet)
        assert not health.ready().notes
        one.lines["t3"].is_down = True
        one.lines["t3"].drop()
        await pause(600)
        verdict = health.ready()
        assert verdict.is_ok
        assert health.live().is_ok
        notes = [note for note in verdict.notes if "cluster t3" in note]
        assert notes
        assert all("the line is down" in note for note in notes)
        assert not [note for note in verdict.notes if "cluster t1" in note]
        await one.aclose()

    worlds[""].run(scenario)


def test_a_cluster_whose_lists_are_refused_is_not_reconciled_before_it_has_caught_up(
    worlds: dict[str, World], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(worlds, "one")
        line = one.lines["t0"]
        line.refused_lists = "configmaps"  # its watch brings the objects
        await one.start()
        await until(lambda: len(one.working) == len(_TENANTS))
        await pause(20)
        assert one.called() == set(_TENANTS) - {"t0"}
        line.refused_lists = ""
        await until(lambda: "t0" in one.called())
        await one.aclose()

    worlds[""].run(scenario)
    assert "is not called yet" in caplog.text
