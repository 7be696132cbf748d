"""Operators with a fixed number of shards: each object is one process's, by its uid."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.cache.informer import informer_in_range
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import UidRange
from pyinformer.operator import Owns, Watches
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.operator import OperatorRun

_NAME = "db-operator"
_NAMES = [f"m{number}" for number in range(24)]
_OPTIONS = pyinformer.ControllerOptions(drain_timeout_seconds=5.0, grace_seconds=1.0)
_LEASES = ("coordination.k8s.io/v1", "leases")


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, with config maps; its server ignores `shardSelector`."""
    with World([_map(name) for name in _NAMES], virtual_time=True) as world:
        yield world


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _secret(name: str, owner: Any = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "controller": True,
            }
        ]
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def _keys_in(secret: Any) -> list[str]:
    return [f"default/{name}" for name in secret.metadata.labels.get("maps", "").split("-") if name]


class _Process:
    """One process of one shard, on a line of its own."""

    def __init__(
        self, world: World, index: int, total: int, *, identity: str = "", **more: Any
    ) -> None:
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        name = identity or f"{index}-{total}-{id(self)}"
        sharding = pyinformer.Shard(index=index, total=total, identity=name)
        self.app = pyinformer.Operator(_NAME, sharding=sharding)
        self.reconciled: list[tuple[float, str]] = []
        self.gone: list[str] = []
        self.called: list[str] = []
        self.app.reconcile("v1", "configmaps", options=_OPTIONS, **more)(self._reconcile)
        for timer in ("one", "two", "three", "four"):
            self.app.every(60, name=timer)(self._timer(timer))
        self.run: OperatorRun = self.app.running(self.cluster)

    async def _reconcile(self, request: pyinformer.Request, obj: Any, _cluster: Cluster) -> None:
        self.reconciled.append((now(), request.key))
        if obj is None:
            self.gone.append(request.key)

    def _timer(self, name: str) -> Any:
        async def call(_cluster: Cluster) -> None:
            self.called.append(name)

        return call

    @property
    def works(self) -> bool:
        """Whether it holds the Lease of its shard, and its controllers run."""
        elector = self.run.elector
        return elector is not None and elector.is_leading and bool(self.run.controllers)

    @property
    def waits_for(self) -> str:
        """Why it does not work."""
        elector = self.run.elector
        return "" if elector is None else elector.status().last_error

    def keys(self, since_at: float = 0.0) -> Counter[str]:
        """Return how often it has reconciled each key."""
        return Counter(key for at, key in self.reconciled if at >= since_at)

    def cached(self) -> set[str]:
        """Return the keys in its cache."""
        return {obj.key for obj in self.app.lister("v1", "configmaps").list()}


def _all(world: World, total: int, **more: Any) -> list[_Process]:
    return [_Process(world, index, total, **more) for index in range(total)]


async def _start(*processes: _Process) -> None:
    for one in processes:
        await one.run.start()
    await until(lambda: all(one.works for one in processes))
    await pause(1.0)


async def _end(*processes: _Process) -> None:
    for one in processes:
        await one.run.aclose()


def _expected() -> set[str]:
    return {f"default/{name}" for name in _NAMES}


def test_each_object_has_one_process(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 3)
        await _start(*processes)
        assert sum((one.keys() for one in processes), Counter()) == Counter(_expected())
        caches = [one.cached() for one in processes]
        assert sum(map(len, caches)) == len(_NAMES)
        assert set().union(*caches) == _expected()
        assert [set(one.keys()) for one in processes] == caches
        await _end(*processes)

    world.run(scenario)


def test_a_deletion_is_reconciled_by_the_process_that_had_the_object(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 3)
        await _start(*processes)
        had = {key: one for one in processes for key in one.cached()}
        for name in _NAMES:
            await world.cluster.delete("v1", "configmaps", f"default/{name}")
        await pause(5.0)
        assert {key: one for one in processes for key in one.gone} == had
        assert sum(len(one.gone) for one in processes) == len(_NAMES)
        await _end(*processes)

    world.run(scenario)


def test_a_mapping_requests_own_objects_alone(world: World) -> None:
    """A foreign one is not cached, and must not look as if it were gone."""

    async def scenario() -> None:
        processes = _all(world, 3, watches=[Watches("v1", "secrets", _keys_in)])
        await _start(*processes)
        began_at = now()
        secret = _secret("of-all")
        secret["metadata"]["labels"] = {"maps": "-".join([*_NAMES[:8], "unknown"])}
        await world.cluster.create(secret)
        await pause(5.0)
        requested = sum((one.keys(began_at) for one in processes), Counter())
        assert requested == Counter(f"default/{name}" for name in _NAMES[:8])
        assert not any(one.gone for one in processes)
        await _end(*processes)

    world.run(scenario)


def test_a_child_requests_its_owner_in_one_process(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 3, owns=[Owns("v1", "secrets")])
        await _start(*processes)
        began_at = now()
        for name in _NAMES:
            owner = await world.cluster.get("v1", "configmaps", f"default/{name}")
            await world.cluster.create(_secret(f"of-{name}", owner))
        await pause(5.0)
        requested = sum((one.keys(began_at) for one in processes), Counter())
        assert requested == Counter(_expected())
        assert not any(one.gone for one in processes)
        await _end(*processes)

    world.run(scenario)


def test_an_enqueued_key_of_another_shard_is_dropped(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 2)
        await _start(*processes)
        began_at = now()
        for one in processes:
            one.run.controllers[0].enqueue("default/m1")
            one.run.controllers[0].enqueue("default/unknown")
        await pause(5.0)
        requested = sum((one.keys(began_at) for one in processes), Counter())
        assert requested == Counter({"default/m1": 1})
        await _end(*processes)

    world.run(scenario)


def test_reconcile_once_refuses_an_object_of_another_shard(world: World) -> None:
    """It is not cached here: it would look as if it were gone."""

    async def scenario() -> None:
        app = pyinformer.Operator(_NAME, sharding=pyinformer.Shard(index=0, total=2))
        found: dict[str, Any] = {}

        @app.reconcile("v1", "configmaps")
        async def reconcile(request: pyinformer.Request, obj: Any, _cluster: Cluster) -> None:
            found[request.key] = obj

        async with pyinformer.SharedInformerFactory(world.cluster) as factory:
            (controller,) = app.controllers(world.cluster, factory)
            await factory.start()
            await factory.wait_for_cache_sync()
            refused: dict[str, str] = {}
            for key in [*sorted(_expected()), "default/unknown"]:
                try:
                    await controller.reconcile_once(key)
                except InvalidArgumentError as error:
                    refused[key] = str(error)
        assert found.pop("default/unknown") is None
        assert found.keys() | refused.keys() == _expected()
        assert None not in found.values()
        assert all(found)
        assert len(refused) in range(1, len(_NAMES))
        for key, text in refused.items():
            assert f"{key} is of shard 1 of 2, and this is shard 0 of 2" in text

    world.run(scenario)


def test_own_writes_of_other_shards_are_not_shown(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 2)
        await _start(*processes)
        for number in range(8):
            for one in processes:
                one.line.hold("configmaps", held=True)
            made = await processes[0].cluster.create(_map(f"new{number}"))
            is_own = UidRange(0, 2).has(made.metadata.uid)
            shown = (
                processes[0]
                .app.lister("v1", "configmaps", cluster=processes[0].cluster)
                .get(made.key)
            )
            assert (shown is not None) is is_own
            for one in processes:
                one.line.hold("configmaps", held=False)
            await pause(1.0)
        await _end(*processes)

    world.run(scenario)


def test_a_write_of_another_share_holds_up_no_reader(world: World) -> None:
    """The position passes it, though the cache gets no event."""

    async def scenario() -> None:
        async with pyinformer.SharedInformerFactory(world.cluster) as factory:
            informers = [
                informer_in_range(factory, "v1", "configmaps", uid_range=UidRange(index, 2))
                for index in range(2)
            ]
            await factory.start()
            await factory.wait_for_cache_sync()
            for number in range(6):
                began_at = now()
                made = await world.cluster.create(_map(f"new{number}"))
                for one in informers:
                    await one.wait_until(made.metadata.resource_version, timeout_seconds=30)
                assert now() - began_at < 0.5

    world.run(scenario)


def test_a_name_that_is_used_again_may_get_another_process(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 2)
        await _start(*processes)
        for _ in range(6):
            await world.cluster.delete("v1", "configmaps", "default/m1")
            made = await world.cluster.create(_map("m1"))
            await pause(2.0)
            holders = [one for one in processes if "default/m1" in one.cached()]
            index = next(i for i in range(2) if UidRange(i, 2).has(made.metadata.uid))
            assert holders == [processes[index]]
            assert holders[0].reconciled[-1][1] == "default/m1"
        await _end(*processes)

    world.run(scenario)


def test_each_timer_is_called_by_one_process(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 3)
        await _start(*processes)
        called = sum((Counter(set(one.called)) for one in processes), Counter())
        assert called == Counter(("one", "two", "three", "four"))
        await _end(*processes)

    world.run(scenario)


def test_the_second_process_of_a_shard_waits(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        first, second = (_Process(world, 0, 2, identity=name) for name in ("a", "b"))
        await _start(first)
        await second.run.start()
        await pause(30.0)
        assert not second.works
        assert not second.reconciled
        await first.run.aclose()
        await until(lambda: second.works)
        await pause(2.0)
        assert set(second.keys()) == set(first.keys())
        await second.run.aclose()

    caplog.set_level("INFO", "pyinformer.leaderelection")
    world.run(scenario)
    assert "waits: the Lease default/db-operator.0-of-2 is held by" in caplog.text


def test_what_is_deleted_between_two_processes_of_a_shard_is_reconciled(world: World) -> None:
    async def scenario() -> None:
        first, second = (_Process(world, 0, 2, identity=name) for name in ("a", "b"))
        await _start(first)
        await second.run.start()
        first.line.is_down = True
        elector = first.run.elector
        assert elector is not None
        elector.abort()
        mine = second.cached()
        for name in _NAMES:
            await world.cluster.delete("v1", "configmaps", f"default/{name}")
        await until(lambda: second.works)
        await pause(2.0)
        assert set(second.gone) == mine
        await second.run.aclose()
        await first.run.aclose()

    world.run(scenario)


def test_another_total_waits_for_the_end_of_all_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        old, new = _all(world, 2), _all(world, 3)
        await _start(*old)
        with caplog.at_level(logging.ERROR):
            for one in new:
                await one.run.start()
            await pause(60.0)
        assert not any(one.works or one.reconciled for one in new)
        assert "shard 0 of 3" in new[0].waits_for
        assert "shard 1 of 2" in new[0].waits_for
        assert "shard 1 of 2" in new[0].run.health.overview()
        shown = old[0].run.health.overview()
        assert f"share of {_NAME}: works by default/{_NAME}.0-of-2" in shown
        assert "leads" not in shown
        assert "leader" not in shown
        lines = [one.getMessage() for one in caplog.records if "does not work" in one.getMessage()]
        assert any("shard 2 of 3" in one and "shard 0 of 2" in one for one in lines)
        await _end(old[0])
        await pause(30.0)
        assert not any(one.works for one in new)
        await _end(old[1])
        await until(lambda: all(one.works for one in new))
        assert not new[0].waits_for
        await pause(2.0)
        assert sum((one.keys() for one in new), Counter()) == Counter(_expected())
        await _end(*new)

    world.run(scenario)


def test_a_total_whose_processes_crashed_is_waited_for_once(world: World) -> None:
    async def scenario() -> None:
        old, new = _Process(world, 1, 2), _Process(world, 0, 3)
        await _start(old)
        old.line.is_down = True
        elector = old.run.elector
        assert elector is not None
        elector.abort()
        await new.run.start()
        began_at = now()
        await until(lambda: new.works)
        assert now() - began_at < 20.0
        await new.run.aclose()
        again = _Process(world, 1, 3)
        began_at = now()
        await again.run.start()
        await until(lambda: again.works)
        assert now() - began_at < 5.0
        await again.run.aclose()
        await old.run.aclose()

    world.run(scenario)


def test_a_deleted_lease_is_waited_for_as_long_as_a_term_lasts(world: World) -> None:
    async def scenario() -> None:
        old, new = _Process(world, 0, 2), _Process(world, 0, 3)
        await _start(old)
        await new.run.start()
        await pause(3.0)
        old.line.is_down = True
        old.line.hold("leases", held=True)
        began_at = now()
        await world.cluster.delete(*_LEASES, f"default/{_NAME}.0-of-2")
        await until(lambda: not old.works)
        assert not new.works
        await until(lambda: new.works)
        assert now() - began_at < 20.0
        await new.run.aclose()
        await old.run.aclose()

    world.run(scenario)


def _write_late(line: Line, seconds: float = 1.0) -> None:
    """Delay the first write, and what the watch brings from then on: others begin unseen."""

    async def delay(method: str) -> None:
        if method in {"POST", "PUT"} and line.count("POST") + line.count("PUT") == 1:
            line.hold("leases", held=True)
            await pause(seconds)

    line.before = delay


def test_of_two_totals_that_begin_at_once_one_works(world: World) -> None:
    async def scenario() -> None:
        for _ in range(4):
            first, second = _Process(world, 0, 2), _Process(world, 0, 3)
            for one in (first, second):
                _write_late(one.line)
            starts = [asyncio.create_task(one.run.start()) for one in (first, second)]
            await asyncio.wait(starts)
            await pause(5.0)
            for one in (first, second):
                one.line.hold("leases", held=False)
            await pause(30.0)
            assert {bool(first.reconciled), bool(second.reconciled)} == {True, False}
            await _end(first, second)

    world.run(scenario)


@pytest.mark.parametrize("late", ["shard", "buckets", "both"])
def test_of_a_shard_and_buckets_that_begin_at_once_one_works(world: World, late: str) -> None:
    """A write that was decided on when no other worked may arrive when one does."""

    async def scenario() -> None:
        shard = _Process(world, 0, 1)
        line = Line(world.cluster.connection)
        cluster = Cluster(world.cluster.config, name="", connection=line)
        buckets = pyinformer.Operator(_NAME, sharding=pyinformer.Buckets(identity="pod-1"))
        seen: list[str] = []

        @buckets.reconcile("v1", "configmaps", options=_OPTIONS)
        async def reconcile(request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
            seen.append(request.key)

        run = buckets.running(cluster)
        for name, one in (("shard", shard.line), ("buckets", line)):
            if late in {name, "both"}:
                _write_late(one, 5.0)
        first, then = (run, shard.run) if late == "buckets" else (shard.run, run)
        starts = [asyncio.create_task(first.start())]
        if late != "both":
            await pause(0.5)
        starts.append(asyncio.create_task(then.start()))
        await asyncio.wait(starts)
        await pause(10.0)
        for one in (shard.line, line):
            one.hold("leases", held=False)
        await pause(30.0)
        assert {bool(shard.reconciled), bool(seen)} == {True, False}
        await run.aclose()
        await _end(shard)

    world.run(scenario)


def test_shards_wait_for_replicas_with_buckets(world: World) -> None:
    async def scenario() -> None:
        buckets = pyinformer.Operator(_NAME, sharding=pyinformer.Buckets(identity="pod-1"))
        seen: list[str] = []

        @buckets.reconcile("v1", "configmaps", options=_OPTIONS)
        async def reconcile(request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
            seen.append(request.key)

        running = buckets.running(world.cluster)
        await running.start()
        await until(lambda: len(seen) == len(_NAMES))
        one = _Process(world, 0, 1)
        await one.run.start()
        await pause(30.0)
        assert not one.reconciled
        assert "one of Buckets()" in one.waits_for
        await running.aclose()
        await until(lambda: one.works)
        await pause(2.0)
        assert set(one.keys()) == _expected()

        seen.clear()
        again = buckets.running(world.cluster)
        await again.start()
        await pause(30.0)
        assert not seen
        assert again.sharing is not None
        assert "shard 0 of 1" in again.sharing.last_error
        await one.run.aclose()
        await until(lambda: len(seen) == len(_NAMES))
        await again.aclose()

    world.run(scenario)


def test_shards_wait_for_a_leader(world: World) -> None:
    async def scenario() -> None:
        leader = pyinformer.Operator(_NAME, leader_election=pyinformer.LeaderElection())

        @leader.reconcile("v1", "configmaps", options=_OPTIONS)
        async def reconcile(request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
            """Do nothing."""

        running = leader.running(world.cluster)
        await running.start()
        await until(lambda: running.elector is not None and running.elector.is_leading)
        one = _Process(world, 0, 1)
        await one.run.start()
        await pause(60.0)
        assert not one.reconciled
        await running.aclose()
        await until(lambda: one.works)
        await one.run.aclose()

    world.run(scenario)


def test_the_leases_are_labelled_and_named_by_shard(world: World) -> None:
    async def scenario() -> None:
        processes = _all(world, 2)
        await _start(*processes)
        label = f"pyinformer.dev/buckets={_NAME}"
        found = world.cluster.list(*_LEASES, namespace="default", label_selector=label)
        assert {one.metadata.name async for one in found} == {f"{_NAME}.0-of-2", f"{_NAME}.1-of-2"}
        elector = processes[1].run.elector
        assert elector is not None
        assert "default/db-operator.1-of-2" in str(elector.status())
        await _end(*processes)

    world.run(scenario)


def test_the_printed_role_has_the_verbs_for_leases() -> None:
    app = pyinformer.Operator(_NAME, sharding=pyinformer.Shard(index=0, total=2))

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
        """Do nothing."""

    rules = [
        rule
        for one in yaml.safe_load_all(app.required_rbac(service_account="ops/db"))
        if one["kind"] == "Role" and one["metadata"]["namespace"] == "ops"
        for rule in one["rules"]
    ]
    leases = [rule for rule in rules if rule["resources"] == ["leases"]]
    assert [sorted(rule["verbs"]) for rule in leases] == [
        ["create", "get", "list", "update", "watch"]
    ]
    with pytest.raises(InvalidArgumentError, match=r"Shard\(namespace="):
        app.required_rbac()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        pytest.param({"index": 4, "total": 4}, "less than total, which is 4, got 4", id="above"),
        pytest.param({"index": -1, "total": 4}, "index", id="negative"),
        pytest.param({"index": 0, "total": 0}, "total", id="no-shards"),
        pytest.param({"index": True, "total": 4}, "index", id="bool-index"),
        pytest.param({"index": 0, "total": True}, "total", id="bool-total"),
        pytest.param({"index": "0", "total": 4}, "index", id="text"),
        pytest.param({"index": 0, "total": 4, "namespace": "A B"}, "namespace", id="namespace"),
        pytest.param({"index": 0, "total": 4, "identity": ""}, "identity", id="identity"),
    ],
)
def test_bad_values_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        pyinformer.Shard(**values)


def test_a_shard_and_leader_election_exclude_each_other() -> None:
    shard = pyinformer.Shard(index=0, total=2)
    with pytest.raises(InvalidArgumentError, match="leader_election"):
        pyinformer.Operator(_NAME, sharding=shard, leader_election=pyinformer.LeaderElection())


def test_another_kind_of_sharding_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"Buckets\(\) or a Shard, not a int"):
        pyinformer.Operator(_NAME, sharding=4)  # type: ignore[arg-type]
