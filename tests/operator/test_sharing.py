"""Operators whose replicas share the keys: each key has one of them at a time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import FencedError, InvalidArgumentError, InvalidTypeError
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.leaderelection.electing import Replica as ElectingReplica
from tests.telemetry.metrics.reading import collected
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyinformer.operator import OperatorRun
    from pyinformer.sharding import SharingStatus

_NAME = "db-operator"
_NAMES = [f"m{number}" for number in range(40)]
_OPTIONS = pyinformer.ControllerOptions(drain_timeout_seconds=5.0, grace_seconds=1.0)


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, with forty config maps."""
    with World([_map(name) for name in _NAMES], virtual_time=True) as world:
        yield world


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class _Replica:
    """One replica of an operator, on a line of its own."""

    def __init__(self, world: World, identity: str, *, workers: int = 1, **settings: Any) -> None:
        self.identity = identity
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        self.metrics = MetricsRegistry()
        self.app = pyinformer.Operator(
            _NAME,
            metrics=self.metrics,
            sharding=pyinformer.Buckets(identity=identity, **settings),
        )
        self.reconciled: list[tuple[float, str]] = []
        self.gone: list[str] = []
        self.running: list[str] = []
        register = self.app.reconcile("v1", "configmaps", options=_OPTIONS, workers=workers)
        register(self._reconcile)
        self.run: OperatorRun = self.app.running(self.cluster)
        self.go_on: asyncio.Event | None = None
        self.marks = False
        self.marked: dict[str, str] = {}
        self.states: list[tuple[float, str, str]] = []
        self.fails = False
        self.ignores = ""  # the key whose reconcile ignores its cancellation
        self.stuck = asyncio.Event()
        self.writes_late = False  # and then it writes
        self.refused: list[str] = []
        self.hold_up: asyncio.Event | None = None
        self.is_held_up = False

    async def _reconcile(self, request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
        self.reconciled.append((now(), request.key))
        data = {} if obj is None else obj.to_dict()["data"]
        self.states.append((now(), request.key, data.get("at", "")))
        if self.marks and data.get("mark") != data.get("at"):
            await cluster.patch(obj, {**obj.to_dict(), "data": {**data, "mark": data["at"]}})
            self.marked[request.key] = data["at"]
        if self.fails:
            raise OSError("a fault of the test")
        if obj is None:
            self.gone.append(request.key)
        if self.go_on is not None:
            self.running.append(request.key)
            try:
                if request.key == self.ignores:
                    await _ignoring(self.stuck)
                    await self._write_late(request, obj, cluster)
                else:
                    await self.go_on.wait()
            finally:
                self.running.remove(request.key)

    async def _write_late(self, request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
        if not self.writes_late:
            return
        try:
            await cluster.patch(obj, {**obj.to_dict(), "data": {"mark": "late"}})
        except FencedError as error:
            self.refused.append(f"{request.key}: {error}")
            raise

    @property
    def sharing(self) -> SharingStatus:
        """Its state among the replicas."""
        status = self.run.sharing
        assert status is not None
        return status

    def figure(self, name: str, **labels: str) -> float:
        """Return the value of a metric."""
        shown = ",".join(f'{key}="{value}"' for key, value in {"name": _NAME, **labels}.items())
        return collected(self.metrics, name)[f"{name}{{{shown}}}"]

    def keys(self, since_at: float = 0.0) -> Counter[str]:
        """Return how often it has reconciled each key."""
        return Counter(key for at, key in self.reconciled if at >= since_at)


async def _ignoring(stuck: asyncio.Event) -> None:
    """Wait, whatever cancels it."""
    while not stuck.is_set():
        with suppress(asyncio.CancelledError):
            await stuck.wait()


async def _change_all(world: World, names: list[str] = _NAMES) -> float:
    """Change all config maps; return when that began."""
    began_at = now()
    for name in names:
        changed = _map(name, at=str(began_at))
        await world.cluster.apply(changed, field_manager="test", force=True)
    return began_at


def _keys(names: list[str] = _NAMES) -> Counter[str]:
    return Counter(f"default/{name}" for name in names)


def _sum(replicas: list[_Replica], since_at: float) -> Counter[str]:
    return sum((one.keys(since_at) for one in replicas), Counter())


async def _start(*replicas: _Replica) -> None:
    """Start replicas one after the other, and wait until they share equally."""
    for one in replicas:
        await one.run.start()
    least = 128 // len(replicas)
    await until(lambda: all(one.sharing.open >= least for one in replicas))


async def _crash(one: _Replica) -> asyncio.Task[None]:
    """Let no request of a replica through any more, and end it."""
    one.line.is_down = True
    return asyncio.create_task(one.run.aclose())


def test_one_replica_has_all_keys(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        async with one.run:
            await until(lambda: one.keys() == _keys())
            assert one.sharing.open == one.sharing.buckets == 128

    world.run(scenario)


def test_each_key_has_one_replica(world: World) -> None:
    async def scenario() -> None:
        replicas = [_Replica(world, name) for name in ("one", "two", "three")]
        await _start(*replicas)
        began_at = await _change_all(world)
        await pause(1)
        assert _sum(replicas, began_at) == _keys()
        assert all(one.keys(began_at) for one in replicas)
        assert sorted(one.sharing.open for one in replicas) == [42, 43, 43]
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


def test_more_replicas_than_buckets_are_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        replicas = [_Replica(world, name, count=2, workers=40) for name in ("one", "two", "three")]
        for one in replicas:
            await one.run.start()
        await until(lambda: all(one.sharing.members == 3 for one in replicas))
        await pause(30)
        assert sorted(one.sharing.open for one in replicas) == [0, 1, 1]
        assert sum((one.keys() for one in replicas), Counter()).keys() == _keys().keys()
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)
    found = [line for line in caplog.messages if "3 replicas share 2 buckets of" in line]
    assert len(found) == 3


def test_when_a_replica_leaves_the_others_have_its_keys_within_seconds(world: World) -> None:
    async def scenario() -> None:
        one, two, three = (_Replica(world, name) for name in ("one", "two", "three"))
        await _start(one, two, three)
        began_at = await _change_all(world)
        await pause(1)
        left_at = now()
        await two.run.aclose()
        await until(lambda: one.sharing.open + three.sharing.open == 128)
        assert now() - left_at < 3
        moved = set(two.keys(began_at))
        assert moved <= set(_sum([one, three], left_at))
        await one.run.aclose()
        await three.run.aclose()

    world.run(scenario)


def test_when_a_replica_crashes_the_others_have_its_keys_after_the_duration_of_its_lease(
    world: World,
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        crashed_at = now()
        closing = await _crash(two)
        await until(lambda: one.sharing.open == 128)
        assert 12 < now() - crashed_at < 18
        assert set(two.keys()) <= set(one.keys(crashed_at))
        await closing
        await one.run.aclose()

    world.run(scenario)


def test_a_bucket_moves_when_its_reconcile_has_ended(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        one.go_on = asyncio.Event()
        await _change_all(world)
        await until(lambda: one.running)
        held = one.running[0]
        left_at = now()
        closing = asyncio.create_task(one.run.aclose())
        await until(lambda: two.sharing.open == 127)
        assert now() - left_at < 3
        await pause(3)
        assert not two.keys()[held]
        one.go_on.set()
        await until(lambda: two.sharing.open == 128)
        await until(lambda: two.keys()[held])
        await closing
        await two.run.aclose()

    world.run(scenario)


def test_a_reconcile_that_ignores_its_cancellation_holds_no_other_key_up(world: World) -> None:
    async def scenario() -> None:
        one, two = (
            _Replica(world, name, count=2, drain_seconds=3.0, workers=40) for name in ("one", "two")
        )
        one.go_on, one.ignores = asyncio.Event(), "default/m0"
        await one.run.start()
        await until(lambda: len(one.running) == len(_NAMES))  # both buckets are busy
        await two.run.start()
        await until(lambda: one.sharing.open == two.sharing.open == 1)
        one.go_on.set()
        one.go_on = None
        began_at = await _change_all(world, _NAMES[1:])
        await until(lambda: set(_sum([one, two], began_at)) == set(_keys(_NAMES[1:])))
        assert one.running == ["default/m0"]
        one.stuck.set()
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_a_reconcile_that_does_not_end_in_time_is_cancelled(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one", drain_seconds=3.0)
        await _start(one)
        one.go_on = asyncio.Event()
        await _change_all(world)
        await until(lambda: one.running)
        held = one.running[0]
        began_at = now()
        await one.run.aclose()
        assert 3 <= now() - began_at < 5
        assert one.running == []
        assert one.keys()[held] == 2

    world.run(scenario)


def test_what_is_deleted_while_its_bucket_has_no_owner_is_reconciled(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        lost = sorted(set(two.keys()) - set(one.keys()) or set(two.keys()))
        closing = await _crash(two)
        await pause(1)
        for key in _keys():
            await world.cluster.delete("v1", "configmaps", key)
        await until(lambda: one.sharing.open == 128)
        await pause(1)
        assert set(lost) <= set(one.gone)
        assert set(one.gone) == set(_keys())
        await closing
        await one.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_bucket_is_opened_when_the_cache_has_what_its_earlier_owner_wrote(
    world: World, *, is_clean: bool
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        one.marks = True
        await _start(one, two)
        began_at = await _change_all(world)
        await until(lambda: len(one.keys(began_at)) + len(two.keys(began_at)) == len(_NAMES))
        two.line.hold("configmaps", held=True)
        one.marked.clear()
        changed_at = await _change_all(world)
        await until(lambda: set(one.marked) >= set(one.keys(changed_at)) != set())
        await pause(1)
        left_at, written = now(), dict(one.marked)
        closing = asyncio.create_task(one.run.aclose()) if is_clean else await _crash(one)
        await until(lambda: two.sharing.open == 128)
        await until(lambda: set(written) <= set(two.keys(left_at)))
        seen = {key: at for when, key, at in two.states if when >= left_at}
        assert {key: seen[key] for key in written} == written
        await closing
        await two.run.aclose()

    world.run(scenario)


def test_the_last_replica_that_leaves_frees_the_table(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        await one.run.aclose()
        await two.run.aclose()
        lease = await world.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator")
        assert not lease.to_dict()["spec"]["holderIdentity"]
        other = _Replica(world, "three", count=16)
        await other.run.start()
        await until(lambda: other.sharing.open == 16)
        await other.run.aclose()

    world.run(scenario)


def test_a_replica_that_elects_a_leader_says_once_that_it_waits_for_those_that_share(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, electing = _Replica(world, "one"), ElectingReplica(world, "two")
        await _start(one)
        electing.start()
        await pause(60)
        what = "two waits: the Lease default/db-operator is held by replicas that share keys"
        assert caplog.text.count(what) == 1
        assert str(electing.elector.status()) == (
            "waits for default/db-operator, held by replicas that share keys"
        )
        await one.run.aclose()
        await electing.leads.wait()
        await electing.stop()

    world.run(scenario)


def test_a_table_whose_replicas_have_all_crashed_may_be_deleted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader waits for the terms of members that may not know it yet, and no longer."""

    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        electing = ElectingReplica(world, "three")
        electing.start()
        await pause(5)
        ends = [await _crash(one), await _crash(two)]
        await pause(60)
        assert not electing.leads.is_set()
        assert "delete it if all of them have crashed" in caplog.text
        await world.cluster.delete(*_LEASES, "default/db-operator")
        began_at = now()
        await electing.leads.wait()
        assert 10.0 < now() - began_at < 20.0
        await electing.stop()
        await asyncio.gather(*ends)

    world.run(scenario)


def test_a_replica_that_may_not_write_the_table_says_so_once_and_what_to_grant(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.sharing.open == 128)
        two.line.read_only_path = "/db-operator"
        await two.run.start()
        await until(lambda: two.sharing.is_member)
        sent, began_at = len(two.line.calls), now()
        await pause(60)
        assert "grant what `pyinformer rbac` prints" in two.sharing.last_error
        assert caplog.text.count("grant what `pyinformer rbac` prints") == 1
        assert len(two.line.calls) - sent < 3 * (now() - began_at) / 2.0 + 5
        two.line.read_only_path = ""
        await until(lambda: one.sharing.open == two.sharing.open == 64)
        assert not two.sharing.last_error
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_a_drain_that_is_called_off_loses_no_event(world: World) -> None:
    async def scenario() -> None:
        one, two = (_Replica(world, name, count=2, workers=40) for name in ("one", "two"))
        one.go_on = asyncio.Event()
        await one.run.start()
        await until(lambda: len(one.running) == len(_NAMES))  # both buckets are busy
        closing = await _join_and_crash(one, two)
        began_at = await _change_all(world)
        await until(lambda: one.sharing.draining == 0)
        assert one.keys(began_at) == Counter()
        one.go_on.set()
        one.go_on = None
        await until(lambda: one.keys(began_at) == _keys())
        await closing
        await one.run.aclose()

    world.run(scenario)


async def _join_and_crash(one: _Replica, two: _Replica) -> asyncio.Task[None]:
    """Have another replica join until it is given buckets, and crash."""
    await two.run.start()
    await until(lambda: one.sharing.draining)
    await pause(1)
    return await _crash(two)


def test_a_replica_that_was_cut_off_writes_nothing_and_shares_again(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        one.go_on = asyncio.Event()
        await _change_all(world)
        await until(lambda: one.running)
        one.line.before = _never
        held = one.running[0]
        await until(lambda: two.sharing.open == 128)
        assert one.running == []
        assert two.keys()[held]
        one.line.before, one.go_on = None, None
        await until(lambda: one.sharing.open == two.sharing.open == 64)
        began_at = await _change_all(world)
        await pause(1)
        assert _sum([one, two], began_at) == _keys()
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_a_reconcile_whose_bucket_is_lost_writes_nothing(world: World, *, is_cut_off: bool) -> None:
    """It ignores its cancellation, and writes when the bucket has begun elsewhere, or again."""

    async def scenario() -> None:
        one, two = _Replica(world, "one", workers=40), _Replica(world, "two")
        await _start(one, two)
        began_at = await _change_all(world)
        await pause(1)
        one.ignores = min(one.keys(began_at))
        one.go_on, one.writes_late = asyncio.Event(), True
        await _change_all(world)
        await until(lambda: one.ignores in one.running)
        one.go_on = None
        if is_cut_off:  # its term ends
            one.line.before = _never
            await until(lambda: two.sharing.open == 128)
        else:  # its term lasts
            moves = one.figure("sharing_moves_total")
            await world.cluster.delete(*_LEASES, "default/db-operator")
            await until(lambda: one.figure("sharing_moves_total") >= moves + 64)
            await until(lambda: one.sharing.open + two.sharing.open == 128)
        assert one.running == [one.ignores]
        one.line.before = None
        one.stuck.set()
        await until(lambda: one.refused)
        assert one.refused[0].startswith(f"{one.ignores}: ")
        assert one.figure("sharing_fenced_writes_total") == 1
        obj = await world.cluster.get("v1", "configmaps", one.ignores)
        assert obj.to_dict()["data"].get("mark") != "late"
        await until(lambda: one.sharing.open == two.sharing.open == 64)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


async def _never(_method: str) -> None:
    """Hold a request back without an end."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("what", ["table", "lease", "label"])
def test_what_is_deleted_by_hand_is_made_again(world: World, what: str) -> None:
    async def scenario() -> None:
        replicas = [_Replica(world, name) for name in ("one", "two", "three")]
        await _start(*replicas)
        name = "db-operator" if what == "table" else replicas[1].sharing.member
        if what == "label":
            lease = await world.cluster.get(*_LEASES, f"default/{name}")
            unlabelled = lease.to_dict()
            del unlabelled["metadata"]["labels"]
            await world.cluster.patch(lease, unlabelled)
        else:
            await world.cluster.delete(*_LEASES, f"default/{name}")
        await pause(60)
        began_at = await _change_all(world)
        await pause(1)
        assert _sum(replicas, began_at) == _keys()
        assert all(one.sharing.open >= 42 for one in replicas)
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


_LEASES = ("coordination.k8s.io/v1", "leases")


def test_leases_of_replicas_that_are_gone_are_deleted(world: World) -> None:
    async def scenario() -> None:
        one, two, three = (_Replica(world, name) for name in ("one", "two", "three"))
        await _start(one, two, three)
        await two.run.aclose()
        closing = await _crash(three)
        await pause(1800)
        found = [lease.key async for lease in world.cluster.list(*_LEASES, namespace="default")]
        assert set(found) == {
            "default/db-operator",
            f"default/{one.sharing.member}",
        }
        await closing
        await one.run.aclose()

    world.run(scenario)


def test_a_timer_is_called_by_one_replica_at_each_beat(world: World) -> None:
    async def scenario() -> None:
        calls: list[tuple[float, str]] = []
        one, two, three = (_Replica(world, name) for name in ("one", "two", "three"))
        for replica in (one, two, three):
            _call_every_minute(replica, calls)
        await _start(one, two, three)
        first = len(calls)
        began_at = now()
        await pause(600)
        moments = [at for at, _ in calls if at >= began_at]
        assert len(moments) == 10
        assert {round(at % 60, 3) for at in moments} == {0.0}
        owner = calls[-1][1]
        replicas = {"one": one, "two": two, "three": three}
        await replicas.pop(owner).run.aclose()
        left_at = now()
        await pause(600)
        after = [(at, name) for at, name in calls if at >= left_at]
        assert 10 <= len(after) <= 11  # a beat close to the move may be called twice
        assert owner not in {name for _, name in after}
        assert first <= 2
        for replica in replicas.values():
            await replica.run.aclose()

    world.run(scenario)


def _call_every_minute(replica: _Replica, calls: list[tuple[float, str]]) -> None:
    @replica.app.every(60, name="clean-up")
    async def clean_up(_cluster: Cluster) -> None:
        calls.append((now(), replica.identity))
        if replica.hold_up is not None:
            replica.is_held_up = True
            await replica.hold_up.wait()


def test_a_crash_misses_no_beat(world: World) -> None:
    async def scenario() -> None:
        calls: list[tuple[float, str]] = []
        one, two = _Replica(world, "one"), _Replica(world, "two")
        for replica in (one, two):
            _call_every_minute(replica, calls)
        await _start(one, two)
        await until(lambda: now() % 60 > 55)
        owner, other = (one, two) if calls[-1][1] == "one" else (two, one)
        before = len(calls)
        closing = await _crash(owner)
        await until(lambda: len(calls) > before)
        assert calls[-1][1] == other.identity
        assert now() % 60 < 20
        await closing
        await other.run.aclose()

    world.run(scenario)


def test_objects_are_reconciled_at_intervals_by_their_replica_alone(world: World) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        one, two = _Replica(world, "one"), _Replica(world, "two")
        for replica in (one, two):
            _reconcile_every_minute(replica, seen)
        await _start(one, two)
        await pause(120)
        seen.clear()
        await pause(600)
        calls = Counter(key for _, key in seen)
        assert set(calls) == set(_keys())
        assert set(calls.values()) <= {10, 11}
        assert len(set(seen)) == len(_NAMES)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def _reconcile_every_minute(replica: _Replica, seen: list[tuple[str, str]]) -> None:
    @replica.app.reconcile("v1", "configmaps", name="every", every_seconds=60)
    async def look(request: pyinformer.Request, _obj: Any, _cluster: Cluster) -> None:
        seen.append((replica.identity, request.key))


def test_a_function_that_is_registered_later_gets_the_keys_of_its_replica(world: World) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        for replica in (one, two):
            _reconcile_every_minute(replica, seen)
            await replica.app.wait_started("every")
        await pause(1)
        assert Counter(key for _, key in seen) == _keys()
        assert {identity for identity, _ in seen} == {"one", "two"}
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_the_failures_of_keys_that_another_replica_has_are_forgotten(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        one.fails = two.fails = True
        await one.run.start()
        await until(lambda: _failing(one) == len(_NAMES))
        await two.run.start()
        await until(lambda: two.sharing.open == 64)
        await until(lambda: _failing(one) + _failing(two) == len(_NAMES))
        assert 0 < _failing(two) < len(_NAMES)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def _failing(replica: _Replica) -> int:
    (controller,) = replica.run.controllers
    return controller.status().failing


def test_a_replica_whose_watch_shows_nothing_holds_no_keys_up(world: World) -> None:
    """The others see its Lease, and leave it a share, which it does not take."""

    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")

        async def before(method: str) -> None:
            if method == "POST":  # of its own Lease
                two.line.hold("leases", held=True)

        two.line.before = before
        await _start(one)
        await two.run.start()
        await until(lambda: one.sharing.without_owner == 64)
        held_at = now()
        await until(lambda: one.sharing.open == 128)
        assert now() - held_at < 35
        two.line.before = None
        two.line.hold("leases", held=False)
        await until(lambda: two.sharing.open == 64)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_a_replica_that_saw_nothing_and_has_lost_its_lease_shares_again(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")

        async def before(method: str) -> None:
            if method == "POST":  # of its own Lease
                two.line.hold("leases", held=True)

        two.line.before = before
        await _start(one)
        await two.run.start()
        await until(lambda: one.sharing.without_owner == 64)
        await until(lambda: one.sharing.open == 128)
        assert two.sharing.without_owner == 0  # it follows no table
        await world.cluster.delete(*_LEASES, f"default/{two.sharing.member}")
        two.line.before = None
        two.line.drop()
        await until(lambda: two.sharing.open == 64)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize("fails", [True, False])
def test_a_call_of_a_timer_that_failed_or_was_cut_short_comes_again_elsewhere(
    world: World, *, fails: bool
) -> None:
    async def scenario() -> None:
        calls: list[str] = []
        one, two = (_Replica(world, name, drain_seconds=3.0) for name in ("one", "two"))
        for replica in (one, two):
            _work_every_hour(replica, calls, fails=fails)
        await one.run.start()
        await until(lambda: calls)
        await pause(60)
        await two.run.start()
        await pause(1)
        left_at = now()
        await one.run.aclose()
        await until(lambda: calls[-1] == "two")
        assert now() - left_at < 5
        await two.run.aclose()

    world.run(scenario)


def _work_every_hour(replica: _Replica, calls: list[str], *, fails: bool) -> None:
    @replica.app.every(3600, name="clean-up")
    async def clean_up(_cluster: Cluster) -> None:
        calls.append(replica.identity)
        if replica.identity == "one":
            if fails:
                raise OSError("a fault of the test")
            await pause(600)


def test_a_beat_within_a_drain_is_not_left_out(world: World) -> None:
    async def scenario() -> None:
        calls: list[tuple[float, str]] = []
        one, two = (_Replica(world, name, drain_seconds=30.0) for name in ("one", "two"))
        for replica in (one, two):
            _call_every_minute(replica, calls)
        await _start(one, two)
        await pause(65)
        owner, other = (one, two) if calls[-1][1] == "one" else (two, one)
        hold_up = asyncio.Event()
        owner.hold_up = hold_up
        await until(lambda: now() % 60 > 59)
        await until(lambda: owner.is_held_up)  # its call at the beat does not end
        await until(lambda: now() % 60 > 40)
        closing = asyncio.create_task(owner.run.aclose())
        before = len(calls)
        await until(lambda: len(calls) > before)
        assert calls[-1][1] == other.identity
        assert now() % 60 < 35
        await closing
        await other.run.aclose()

    world.run(scenario)


def test_a_function_that_is_added_opens_no_bucket_for_others(world: World) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        one, two = _Replica(world, "one"), _Replica(world, "two")
        for replica in (one, two):
            replica.app.reconcile("v1", "services", watches=[("v1", "pods", lambda _: None)])(
                replica._reconcile
            )
        await _start(one, two)
        closing = await _crash(one)
        two.line.refused_lists = "pods"
        await until(lambda: two.sharing.catching_up == 64)
        _reconcile_every_minute(two, seen)
        await two.app.wait_started("every")
        await pause(60)
        assert two.sharing.catching_up == 64
        two.line.refused_lists = ""
        await until(lambda: two.sharing.catching_up == 0)
        assert set(_keys()) == {key for _, key in seen}
        await closing
        await two.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize(
    "identities", [("Pod_A", "pod-a"), ("___", "日本"), ("a b", "a-b"), ("x" * 300, "x" * 301)]
)
def test_identities_that_look_alike_have_leases_of_their_own(
    world: World, identities: tuple[str, str]
) -> None:
    async def scenario() -> None:
        replicas = [_Replica(world, identity) for identity in identities]
        await _start(*replicas)
        assert len({one.sharing.member for one in replicas}) == 2
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


def test_all_keys_of_a_namespace_have_one_replica(world: World) -> None:
    async def scenario() -> None:
        for number in range(10):
            metadata = {"name": "m", "namespace": f"n{number}"}
            await world.cluster.create({**_map("m"), "metadata": metadata})
            metadata = {"name": "o", "namespace": f"n{number}"}
            await world.cluster.create({**_map("o"), "metadata": metadata})
        replicas = [_Replica(world, name, by="namespace") for name in ("one", "two")]
        await _start(*replicas)
        began_at = now()
        for number in range(10):
            for name in ("m", "o"):
                changed = _map(name, at="1")
                changed["metadata"]["namespace"] = f"n{number}"
                await world.cluster.apply(changed, field_manager="test", force=True)
        await pause(1)
        owners = [{key.partition("/")[0] for key in one.keys(began_at)} for one in replicas]
        assert not owners[0] & owners[1]
        assert len(owners[0] | owners[1]) == 10
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


def _tenant_but(failing: Collection[str] = ()) -> Callable[[pyinformer.Request], str]:
    """Return a function that fails for some keys, and elsewhere returns the last digit."""

    def tenant_of(request: pyinformer.Request) -> str:
        if request.key in failing:
            raise OSError("a fault of the test")
        return request.name[-1]

    return tenant_of


def test_all_keys_for_which_a_function_returns_one_text_have_one_replica(world: World) -> None:
    async def scenario() -> None:
        replicas = [_Replica(world, name, by=_tenant_but()) for name in ("one", "two")]
        await _start(*replicas)
        began_at = await _change_all(world)
        await pause(1)
        assert _sum(replicas, began_at) == _keys()
        owners = [{key[-1] for key in one.keys(began_at)} for one in replicas]
        assert not owners[0] & owners[1]
        assert all(owners)
        assert "by tests.operator.test_sharing._tenant_but.<locals>.tenant_of of" in str(
            replicas[0].sharing
        )
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize("is_everywhere", [True, False])
def test_keys_for_which_the_function_fails_have_no_replica_until_it_returns(
    world: World, caplog: pytest.LogCaptureFixture, *, is_everywhere: bool
) -> None:
    """One that guessed a bucket could handle a key together with one that did not have to."""

    async def scenario() -> None:
        failing = ({"default/m0", "default/m1"}, {"default/m0"} if is_everywhere else set())
        replicas = [
            _Replica(world, name, by=_tenant_but(failing[place]))
            for place, name in enumerate(("one", "two"))
        ]
        await _start(*replicas)
        began_at = await _change_all(world)
        await pause(60)
        found = _sum(replicas, began_at)
        assert max(found.values()) == 1
        assert set(found) >= set(_keys()) - failing[0]
        assert not set(replicas[0].keys()) & failing[0]
        assert not set(replicas[1].keys()) & failing[1]
        assert "tenant_of fails for" in replicas[0].sharing.last_error
        assert caplog.text.count("tenant_of fails for") == 1 + is_everywhere
        for keys in failing:
            keys.clear()
        await until(lambda: set(_sum(replicas, began_at)) == set(_keys()))
        await pause(60)
        assert _sum(replicas, began_at) == _keys()
        assert "tenant_of returns a bucket for all keys again" in caplog.text
        assert replicas[0].sharing.last_error == ""
        for one in replicas:
            await one.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize("returned", [None, 1, "\ud800"])
def test_a_function_that_returns_no_text_is_reported(
    world: World, caplog: pytest.LogCaptureFixture, returned: Any
) -> None:
    def tenant_of(_request: pyinformer.Request) -> Any:
        return returned

    async def scenario() -> None:
        calls: list[tuple[float, str]] = []
        one = _Replica(world, "one", by=tenant_of)
        _call_every_minute(one, calls)
        async with one.run:
            await pause(200)
            assert not one.keys()
            assert len(calls) == 4  # a timer has the bucket of its name
        assert caplog.text.count("tenant_of fails for") == 1

    world.run(scenario)


def test_what_was_deleted_while_the_function_failed_is_reconciled(world: World) -> None:
    async def scenario() -> None:
        failing = {"default/m0"}
        one = _Replica(world, "one", by=_tenant_but(failing))
        await _start(one)
        await pause(1)
        await world.cluster.delete("v1", "configmaps", "default/m0")
        await pause(30)
        assert one.gone == []
        failing.clear()
        await until(lambda: one.gone == ["default/m0"])
        await one.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param(lambda: "", r"must be a function like by\(request\)", id="no arguments"),
        pytest.param(lambda _one, _two: "", "must be a function like", id="two arguments"),
        pytest.param(str, "must be a function like", id="a type"),
    ],
)
def test_functions_that_cannot_be_called_with_a_request_are_refused(
    wrong: Any, reason: str
) -> None:
    with pytest.raises(InvalidTypeError, match=reason):
        pyinformer.Buckets(by=wrong)


async def _later(_request: pyinformer.Request) -> str:
    return ""


def test_a_function_whose_text_has_to_be_awaited_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"_later cannot be used: must not be asynchronous"):
        pyinformer.Buckets(by=_later)  # type: ignore[arg-type]


def test_a_replica_that_may_not_watch_the_leases_says_so_and_gets_no_share(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        two.line.forbidden_path = "/leases"
        await one.run.start()
        await two.run.start()
        await pause(60)
        assert one.sharing.open == 128
        assert two.sharing.is_member is False
        assert "403" in two.sharing.last_error
        assert "cannot share without the right to watch Leases" in caplog.text
        two.line.forbidden_path = ""
        await until(lambda: one.sharing.open == two.sharing.open == 64)
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_lists_that_bring_nothing_hold_no_function_but_those_that_need_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        for replica in (one, two):
            replica.app.reconcile("v1", "services", watches=[("v1", "pods", lambda _: None)])(
                replica._reconcile
            )
        await _start(one, two)
        began_at = await _change_all(world)
        await pause(1)
        closing = await _crash(one)
        two.line.refused_lists = "pods"
        moved_at = now()
        await until(lambda: set(two.keys(moved_at)) >= set(one.keys(began_at)))
        assert "services is not called for new buckets yet; it waits for pods.v1" in caplog.text
        assert two.sharing.catching_up > 0
        two.line.refused_lists = ""
        await until(lambda: two.sharing.open == 128)
        await closing
        await two.run.aclose()

    world.run(scenario)


def test_its_state_is_shown(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        assert one.run.health.ready()
        assert one.run.health.live()
        overview = one.run.health.overview()
        assert "db-operator.one has 64 of 128 buckets by key of default/db-operator, among 2" in (
            overview
        )
        page = two.run.health.pages()["/status"]({})
        assert not isinstance(page, str | dict)
        (shown,) = json.loads(b"".join(page.pieces))["sharing"]
        assert (shown["open"], shown["members"], shown["without_owner"]) == (64, 2, 0)
        closing = await _crash(two)
        two.line.is_down = True
        one.line.store = _refused_tables
        await pause(120)
        assert one.sharing.without_owner == 64
        assert any("64 of 128 buckets" in note for note in one.run.health.ready().notes)
        one.line.store = bytes
        await until(lambda: one.sharing.without_owner == 0)
        await closing
        await one.run.aclose()

    world.run(scenario)


def test_its_metrics_carry_the_name_of_the_operator(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        assert one.figure("sharing_buckets", state="open") == 64
        assert one.figure("sharing_members") == 2
        assert one.figure("sharing_lives_total") == 1
        assert one.figure("sharing_moves_total") == 128 + 64
        assert one.figure("sharing_fenced_writes_total") == 0
        two.line.before = _never
        await until(lambda: one.sharing.open == 128)
        assert one.figure("sharing_without_owner_seconds") == 0
        two.line.before = None
        await until(lambda: two.sharing.open == 64)
        assert two.figure("sharing_lives_total") == 2
        assert not collected(one.metrics, "leader_election_")
        await one.run.aclose()
        await two.run.aclose()

    world.run(scenario)


def test_events_report_who_joined_left_and_was_revoked(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await _start(one, two)
        closing = await _crash(two)
        await until(lambda: one.sharing.open == 128)
        await closing
        await one.run.aclose()

    world.run(scenario)
    events = world.list("events.k8s.io/v1", "events", "default")
    found = sorted(
        (event["regarding"]["name"], event["type"], event["action"], event["note"])
        for event in events
    )
    assert {event["reason"] for event in events} == {"Sharing"}
    assert found == [
        ("db-operator.one", "Normal", "Join", "one joined the replicas that share the keys"),
        ("db-operator.one", "Normal", "Leave", "one left the replicas that share the keys"),
        ("db-operator.two", "Normal", "Join", "two joined the replicas that share the keys"),
        (
            "db-operator.two",
            "Warning",
            "Revoke",
            "db-operator.two was revoked by one: it was not renewed in time",
        ),
    ]


def _refused_tables(body: bytes) -> bytes:
    """Have the server refuse what would change a table."""
    return b"{}" if b"pyinformer.dev/table" in body else body


def test_required_rights_include_the_leases(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        async with one.run:
            text = one.run.required_rbac(name="db", service_account="ops/db")
        rules = [rule for one in yaml.safe_load_all(text) for rule in one.get("rules", ())]
        assert {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create", "delete", "get", "list", "update", "watch"],
        } in rules

    world.run(scenario)


def test_required_rights_include_events_where_the_leases_are() -> None:
    app = pyinformer.Operator("db-operator", sharding=pyinformer.Buckets(namespace="ops"))
    app.reconcile("v1", "configmaps")(_nothing)
    text = app.required_rbac(namespaces="shop", name="db", service_account="ops/db")
    (role,) = (
        one
        for one in yaml.safe_load_all(text)
        if one["kind"] == "Role" and one["metadata"]["namespace"] == "ops"
    )
    assert {
        "apiGroups": ["events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "get", "patch"],
    } in role["rules"]


def test_rights_without_a_namespace_are_refused() -> None:
    app = pyinformer.Operator("db-operator", sharding=pyinformer.Buckets())
    app.reconcile("v1", "configmaps")(_nothing)
    with pytest.raises(InvalidArgumentError, match="the Leases of the replicas are in the names"):
        app.required_rbac()


async def _nothing(_request: pyinformer.Request, _obj: Any, _cluster: Cluster) -> None:
    """Reconcile nothing."""


@pytest.mark.parametrize(
    ("field", "value"), [("count", 16), ("by", "namespace"), ("by", _tenant_but())]
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_replica_that_shares_in_another_way_waits_for_the_end_of_the_others(
    world: World, caplog: pytest.LogCaptureFixture, field: str, value: Any, *, is_clean: bool
) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two", **{field: value})
        await _start(one)
        await two.run.start()
        await pause(60)
        assert one.sharing.open == 128
        assert one.figure("sharing_moves_total") == 128  # it was not disturbed
        assert "128 buckets by key" in two.sharing.last_error
        assert "in the Lease default/db-operator" in caplog.text
        assert "the last one that leaves frees the table" in caplog.text
        ended_at = now()
        closing = asyncio.create_task(one.run.aclose()) if is_clean else await _crash(one)
        await until(lambda: two.sharing.open == two.sharing.buckets)
        assert now() - ended_at < (3 if is_clean else 20)
        await until(lambda: set(two.keys()) == set(_keys()))
        assert two.sharing.last_error == ""
        await closing
        await two.run.aclose()

    world.run(scenario)


def test_two_replicas_of_one_identity_are_refused(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "one")
        await _start(one)
        await two.run.start()
        await pause(120)
        with pytest.raises(InvalidArgumentError, match="another living replica uses 'one', too"):
            await two.run.aclose()
        assert one.sharing.open == 128
        await one.run.aclose()

    world.run(scenario)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"count": 0}, "count"),
        ({"count": 5000}, "at most 4096"),
        ({"by": "name"}, "key, namespace, cluster"),
        ({"drain_seconds": -1}, "drain_seconds"),
        ({"identity": " "}, "identity"),
        ({"namespace": "A"}, "namespace"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        pyinformer.Buckets(**wrong)


def test_an_operator_does_not_share_clusters() -> None:
    with pytest.raises(InvalidArgumentError, match=r'by="cluster" is for a pyinformer.Fleet'):
        pyinformer.Operator("db", sharding=pyinformer.Buckets(by="cluster"))


def test_sharding_with_leader_election_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be combined with leader_election"):
        pyinformer.Operator(
            "db", sharding=pyinformer.Buckets(), leader_election=pyinformer.LeaderElection()
        )


@pytest.mark.parametrize("name", ["Db", "a" * 64])
def test_the_name_of_the_operator_must_be_that_of_a_lease_and_a_label(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        pyinformer.Operator(name, sharding=pyinformer.Buckets())
