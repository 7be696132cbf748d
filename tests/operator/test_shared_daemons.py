"""Daemons of several replicas: each object has one at a time, in one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import FencedError
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.operator import OperatorRun, Versions

_NAMES = [f"m{number}" for number in range(40)]
_OPTIONS = pyinformer.ControllerOptions(drain_timeout_seconds=20.0, grace_seconds=2.0)


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, with forty config maps."""
    with World([_map(name) for name in _NAMES], virtual_time=True) as world:
        yield world


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class _Daemons:
    """What the daemons of all replicas do; no two of one object may run at once."""

    def __init__(self) -> None:
        self.owner: dict[str, str] = {}
        self.overlaps: list[str] = []
        self.lost: list[str] = []
        self.refused: list[FencedError] = []
        self.stubborn = ""
        self.may_end = asyncio.Event()

    def of(self, replica: str) -> set[str]:
        """Return the objects whose daemon runs in a replica."""
        return {name for name, owner in self.owner.items() if owner == replica}


class _Replica:
    """One replica of an operator with a daemon, on a line of its own."""

    def __init__(self, world: World, identity: str, daemons: _Daemons, **settings: Any) -> None:
        self.identity = identity
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        self._daemons = daemons
        self.app = pyinformer.Operator("db-operator", **settings)
        self.app.daemon("v1", "configmaps", options=_OPTIONS)(self._daemon)
        self.run: OperatorRun = self.app.running(self.cluster)

    async def _daemon(
        self, request: pyinformer.Request, versions: Versions[Any], cluster: Cluster
    ) -> None:
        seen, name = self._daemons, request.name
        if name in seen.owner:
            seen.overlaps.append(name)
        seen.owner[name] = self.identity
        try:
            async for _ in versions:
                pass
        finally:
            while name == seen.stubborn and not seen.may_end.is_set():
                with suppress(asyncio.CancelledError):
                    await seen.may_end.wait()
            if self.line.is_down:
                try:
                    await cluster.patch(_map(name), _map(name, by=self.identity))
                except FencedError as error:
                    seen.refused.append(error)
                except OSError:  # the line
                    seen.lost.append(name)
            del seen.owner[name]


def _elected(world: World, identity: str, daemons: _Daemons) -> _Replica:
    election = pyinformer.LeaderElection(identity=identity)
    return _Replica(world, identity, daemons, leader_election=election)


def _shared(world: World, identity: str, daemons: _Daemons, **settings: Any) -> _Replica:
    buckets = pyinformer.Buckets(identity=identity, **settings)
    return _Replica(world, identity, daemons, sharding=buckets)


def _all(daemons: _Daemons, *replicas: str) -> bool:
    return len(daemons.owner) == len(_NAMES) and set(daemons.owner.values()) == set(replicas)


def test_only_the_leader_has_daemons_and_hands_over_in_order(world: World) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        one, two = (_elected(world, name, daemons) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: _all(daemons, "one"))
        async with two.run:
            await pause(30)
            assert _all(daemons, "one")
            began_at = now()
            await one.run.aclose()
            await until(lambda: _all(daemons, "two"))
            assert now() - began_at < 5  # nothing drains: a daemon has no end of its own
        assert daemons.owner == {}

    world.run(scenario)
    assert daemons.overlaps == []


def test_a_leader_that_loses_its_term_has_ended_its_daemons_before_the_next_one_begins(
    world: World,
) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        one, two = (_elected(world, name, daemons) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: _all(daemons, "one"))
        async with two.run:
            one.line.is_down = True
            await until(lambda: _all(daemons, "two"))
            one.line.is_down = False
            await pause(60)
            assert _all(daemons, "two")
            await one.run.aclose()

    world.run(scenario)
    assert daemons.overlaps == []
    assert daemons.lost == []
    assert len(daemons.refused) == len(_NAMES)  # each tried to write when it was cancelled


def test_a_daemon_that_ignores_its_cancellation_keeps_the_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    daemons = _Daemons()
    daemons.stubborn = "m7"

    async def scenario() -> None:
        one, two = (_elected(world, name, daemons) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: _all(daemons, "one"))
        async with two.run:
            closing = asyncio.create_task(one.run.aclose())
            await pause(8)
            assert daemons.owner == {"m7": "one"}
            daemons.may_end.set()
            await until(lambda: _all(daemons, "two"))
            await closing

    world.run(scenario)
    assert daemons.overlaps == []
    assert "daemon of default/m7 by controller _daemon did not end within 2.0 s" in caplog.text


def test_each_object_has_one_daemon_while_buckets_move(world: World) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        one, two = (_shared(world, name, daemons) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: _all(daemons, "one"))
        joined_at = now()
        await two.run.start()
        await until(lambda: _all(daemons, "one", "two") and len(daemons.of("two")) > 10)
        await pause(5)
        assert _all(daemons, "one", "two")
        assert now() - joined_at < 20  # of the drain, which a daemon would use up
        left_at = now()
        await one.run.aclose()
        await until(lambda: _all(daemons, "two"))
        assert now() - left_at < 10
        await two.run.aclose()
        assert daemons.owner == {}

    world.run(scenario)
    assert daemons.overlaps == []


def test_the_daemons_of_a_replica_that_lost_its_lease_end_and_write_nothing(world: World) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        one, two = (_shared(world, name, daemons) for name in ("one", "two"))
        await one.run.start()
        await two.run.start()
        await until(lambda: _all(daemons, "one", "two"))
        one.line.is_down = True
        await until(lambda: _all(daemons, "two"))
        one.line.is_down = False
        await until(lambda: _all(daemons, "one", "two"))
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)
    assert daemons.overlaps == []
    assert daemons.lost == []
    assert daemons.refused


def test_a_daemon_that_ignores_its_cancellation_keeps_its_bucket_alone(world: World) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        one, two = (_shared(world, name, daemons, drain_seconds=5.0) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: _all(daemons, "one"))
        daemons.stubborn = "m7"
        await two.run.start()
        await until(lambda: len(daemons.of("two")) > 10)
        closing = asyncio.create_task(one.run.aclose())
        await until(lambda: daemons.of("one") == {"m7"})
        await until(lambda: len(daemons.of("two")) == len(_NAMES) - 1)
        daemons.may_end.set()
        await until(lambda: _all(daemons, "two"))
        await closing
        await two.run.aclose()

    world.run(scenario)
    assert daemons.overlaps == []


def test_a_shard_has_the_daemons_of_its_own_objects(world: World) -> None:
    daemons = _Daemons()

    async def scenario() -> None:
        replicas = [
            _Replica(world, str(index), daemons, sharding=pyinformer.Shard(index=index, total=2))
            for index in range(2)
        ]
        for each in replicas:
            await each.run.start()
        await until(lambda: _all(daemons, "0", "1"))
        await pause(30)
        assert _all(daemons, "0", "1")
        for each in replicas:
            await each.run.aclose()

    world.run(scenario)
    assert daemons.overlaps == []
