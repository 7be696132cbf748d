"""Operators with leader election: one replica reconciles, the others wait with full caches."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
import yaml

import pyinformer
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import CacheSyncTimeoutError, InvalidArgumentError
from pyinformer.operator import Listers, OperatorRun
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.operator.inside import unready
from tests.waiting import now, pause, until


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, with one config map."""
    with World([_map("a")], virtual_time=True) as world:
        yield world


def _map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class _Replica:
    """One replica of an operator, on a line of its own."""

    def __init__(
        self, world: World, identity: str, *, operator: str = "db-operator", **settings: Any
    ) -> None:
        election = pyinformer.LeaderElection(identity=identity, **settings)
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        self.app = pyinformer.Operator(operator, leader_election=election)
        self.reconciled: list[tuple[float, str]] = []
        self.go_on: asyncio.Event | None = None
        self.errors: list[BaseException] = []
        self.app.reconcile("v1", "configmaps", options=_OPTIONS)(self._reconcile)
        self.run: OperatorRun = self.app.running(self.cluster)

    async def _reconcile(self, request: pyinformer.Request, _obj: Any, cluster: Cluster) -> None:
        self.reconciled.append((now(), request.key))
        if self.go_on is None:
            return
        try:
            await self.go_on.wait()
            await cluster.create(_map(f"made-by-{self.run.elector and self.run.elector.identity}"))
        except BaseException as error:
            self.errors.append(error)
            raise

    @property
    def leads(self) -> bool:
        """Whether its controllers run."""
        return bool(self.run.controllers) and all(one.is_running for one in self.run.controllers)


_OPTIONS = pyinformer.ControllerOptions(drain_timeout_seconds=5.0, grace_seconds=1.0)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should be called before leader election runnables",
    "controller-runtime pkg/cache: should not require LeaderElection",
)
def test_one_replica_reconciles_and_the_other_waits_with_full_caches(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        async with one.run:
            await until(lambda: one.leads)
            async with two.run:
                await pause(30)
                assert [key for _, key in one.reconciled] == ["default/a"]
                assert two.reconciled == []
                await one.cluster.create(_map("b"))
                await pause(1)
                assert [key for _, key in one.reconciled] == ["default/a", "default/b"]
                assert two.reconciled == []
                assert two.run.controllers == ()
                assert two.app.lister("v1", "configmaps").get("default/b") is not None

    world.run(scenario)


def test_no_mapping_is_called_before_the_caches_that_it_reads_have_synced(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A deletion before that is remembered, and mapped then."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        reads = list[int]()

        def mapping(obj: Any, listers: Listers) -> str:
            reads.append(len(listers.lister("v1", "secrets").list()))
            return "default/of-a-map"

        one.app.follow("v1", "secrets")
        one.app.reconcile("v1", "services", watches=[("v1", "configmaps", mapping)])(one._reconcile)
        one.run = one.app.running(one.cluster)
        starting = asyncio.create_task(one.run.start())
        one.line.holds_new = True
        await pause(1)
        one.line.hold("configmaps", held=False)
        await pause(1)
        await world.cluster.delete("v1", "configmaps", "default/a")
        await pause(1)
        assert reads == []
        one.line.holds_new = False
        for plural in ("secrets", "services"):
            one.line.hold(plural, held=False)
        await starting
        await until(lambda: one.leads)
        await until(lambda: "default/of-a-map" in [key for _, key in one.reconciled])
        assert reads == [0]
        await one.run.aclose()

    world.run(scenario)
    assert "mapping failed" not in caplog.text


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should be called before leader election runnables"
)
def test_a_replica_whose_caches_are_empty_does_not_compete(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        one.line.holds_new = True
        starting = asyncio.create_task(one.run.start())
        await pause(20)
        assert not one.run.health.ready()
        assert [path for _, _, path in one.line.calls if "leases" in path] == []
        assert one.line.count("POST") == 0
        one.line.holds_new = False
        one.line.hold("configmaps", held=False)
        await starting
        await until(lambda: one.leads)
        await one.run.aclose()

    world.run(scenario)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should return an error if there is an error (3)"
)
def test_a_replica_whose_caches_do_not_fill_in_time_ends_and_has_not_competed(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        one.line.holds_new = True

        with pytest.raises(CacheSyncTimeoutError, match="configmaps"):
            await one.run.run()

        assert [path for _, _, path in one.line.calls if "leases" in path] == []
        assert one.reconciled == []

    world.run(scenario)


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should not leak goroutines when manager is stopped"
)
def test_a_replica_that_is_stopped_while_its_caches_fill_leaves_nothing(world: World) -> None:
    """Neither a task nor a claim to the Lease; the start ends as cancelled, not as failed."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        before = asyncio.all_tasks()
        one.line.holds_new = True
        starting = asyncio.create_task(one.run.run())
        await pause(20)
        assert len(asyncio.all_tasks()) > len(before) + 1

        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

        assert asyncio.all_tasks() == before
        assert one.line.count("POST") == 0
        assert one.reconciled == []

    world.run(scenario)


def test_a_standby_is_ready_and_its_state_is_shown(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        async with one.run, two.run:
            await until(lambda: one.leads)
            await pause(1)
            for replica in (one, two):
                assert replica.run.health.ready()
                assert replica.run.health.live()
                assert not unready(replica.run)
            assert "leads by default/db-operator" in one.run.health.overview()
            assert "held by one" in two.run.health.overview()
            page = two.run.health.pages()["/status"]({})
            assert not isinstance(page, str | dict)
            status = json.loads(b"".join(page.pieces))
            assert status["leader_election"][0]["holder"] == "one"

    world.run(scenario)


def test_the_other_replica_takes_over_after_a_clean_stop(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            stopped_at = now()
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.reconciled)
            assert now() - stopped_at < 0.5
            await closing
            assert two.reconciled[0][1] == "default/a"

    world.run(scenario)


def test_a_reconcile_drains_before_the_lease_is_released(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        one.go_on = asyncio.Event()
        await one.run.start()
        await until(lambda: one.reconciled)
        async with two.run:
            closing = asyncio.create_task(one.run.aclose())
            await pause(3)
            assert two.reconciled == []
            one.go_on.set()
            await closing
            await until(lambda: len(two.reconciled) == 2)
            assert one.errors == []
            assert {key for _, key in two.reconciled} == {"default/a", "default/made-by-one"}

    world.run(scenario)


def test_a_reconcile_that_ignores_its_end_keeps_the_lease_until_it_ends(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        go_on = asyncio.Event()

        @one.app.reconcile("v1", "configmaps", name="stubborn", options=_OPTIONS)
        async def stubborn(_request: pyinformer.Request, _obj: Any, _cluster: Cluster) -> None:
            while not go_on.is_set():
                with suppress(asyncio.CancelledError):
                    await go_on.wait()

        one.run = one.app.running(one.cluster)
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            closing = asyncio.create_task(one.run.aclose())
            await pause(20)  # far beyond the drain and the grace period
            assert not closing.done()
            assert not two.leads
            go_on.set()
            await closing
            await until(lambda: two.leads)

    world.run(scenario)


def test_a_deposed_replica_writes_nothing_and_is_a_standby_again(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        one.go_on = asyncio.Event()
        async with one.run, two.run:
            await until(lambda: one.reconciled)
            one.line.before = _never
            await until(lambda: two.leads)
            assert isinstance(one.errors[0], asyncio.CancelledError)
            assert one.run.controllers == ()
            one.line.before = None
            one.go_on = None
            await pause(5)
            assert [key for _, key in one.reconciled] == ["default/a"]
            await two.run.aclose()
            await until(lambda: one.leads)  # new controllers over the same caches
            await until(lambda: len(one.reconciled) == 2)

    world.run(scenario)
    assert not [write for write in world.writes if write.key.startswith("default/made-by-one")]


async def _never(_method: str) -> None:
    """Hold a request back without an end."""
    await asyncio.Event().wait()


def test_a_term_begins_when_the_cache_has_what_the_predecessor_wrote(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        one.go_on = asyncio.Event()
        one.go_on.set()
        await one.run.start()
        await until(lambda: len(one.reconciled) >= 2)
        async with two.run:
            await pause(5)
            lists = two.line.count("LIST")
            await one.run.aclose()
            await until(lambda: two.leads)
            assert two.line.count("LIST") == lists  # the annotation named a version
            assert two.app.lister("v1", "configmaps").get("default/made-by-one")

    world.run(scenario)


def test_after_a_crash_a_term_begins_with_a_list_of_identities(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            lists = two.line.count("LIST")
            one.line.is_down = True
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.leads)
            assert two.line.count("LIST") == lists + 1
            await closing

    world.run(scenario)


@pytest.mark.parametrize("deletes", [False, True], ids=["creates", "deletes"])
def test_a_term_waits_for_writes_of_the_term_before_last(world: World, *, deletes: bool) -> None:
    """One writes and crashes; two leads, writes nothing and releases; three's cache is late."""

    async def scenario() -> None:
        one, two, three = (_Replica(world, name) for name in ("one", "two", "three"))
        await one.run.start()
        await until(lambda: one.leads)
        may_lead = asyncio.Event()
        three.line.before = lambda method: _pass(may_lead if method == "PUT" else None)
        async with two.run, three.run:
            three.line.hold("configmaps", held=True)
            if deletes:
                await one.cluster.delete("v1", "configmaps", "default/a")
            else:
                await one.cluster.create(_map("late"))
            one.line.is_down = True
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.leads)
            await closing
            await two.run.aclose()
            may_lead.set()
            await until(lambda: three.run.elector is not None and three.run.elector.is_leading)
            await pause(5)
            assert not three.leads
            assert three.reconciled == []
            three.line.hold("configmaps", held=False)
            await until(lambda: three.leads)
            key = "default/a" if deletes else "default/late"
            cached = three.app.lister("v1", "configmaps").get(key)
            assert (cached is None) is deletes

    world.run(scenario)


def test_a_watch_that_stands_still_ends_no_term(world: World) -> None:
    """A list makes the caches right; the next replica's watch might stand still as well."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        two = _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.leads)
        await two.run.start()
        await until(lambda: two.run.elector and two.run.elector.status().holder == "one")
        two.line.hold("configmaps", held=True)
        await one.cluster.create(_map("late"))
        one.line.is_down = True
        closing = asyncio.create_task(one.run.aclose())
        await until(lambda: two.run.elector is not None and two.run.elector.is_leading)
        leading_at = now()
        await closing
        await until(lambda: two.leads)
        assert 10 <= now() - leading_at < 20
        await until(lambda: "default/late" in [key for _, key in two.reconciled])
        assert min(at for at, _ in two.reconciled) >= leading_at + 10
        await two.run.aclose()

    world.run(scenario)


def test_an_election_that_ended_inside_another_program_is_not_alive(world: World) -> None:
    """The block of `app.running()` continues without it, and only a restart begins another one."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        two = _Replica(world, "one")
        await one.run.start()
        await until(lambda: one.leads)
        assert one.run.health.live()
        await two.run.start()
        await until(lambda: not (one.run.health.live() and two.run.health.live()))
        ended, other = (two, one) if one.run.health.live() else (one, two)
        (reason,) = ended.run.health.live().reasons
        assert reason.startswith("the leader election of")
        assert "has ended: identity: another living replica uses 'one'" in reason
        with pytest.raises(InvalidArgumentError, match="another living replica"):
            await ended.run.aclose()
        await other.run.aclose()

    world.run(scenario)


class _Follower(_Replica):
    """It reads pods, too; with `owns`, a second function owns them and so waits for them."""

    def __init__(self, world: World, identity: str, *, owns: bool) -> None:
        super().__init__(world, identity)
        self.owners: list[str] = []
        if owns:
            owned = [pyinformer.operator.Owns("v1", "pods")]
            self.app.reconcile("v1", "services", options=_OPTIONS, owns=owned)(self._own)
        else:
            self.app.follow("v1", "pods")
        self.run = self.app.running(self.cluster)

    async def _own(self, request: pyinformer.Request, _obj: Any, _cluster: Cluster) -> None:
        self.owners.append(request.key)


@pytest.mark.parametrize("owns", [False, True], ids=["only-read", "owned"])
@pytest.mark.parametrize(
    "seconds", [0.0, 30.0, math.inf], ids=["refused", "refused-late", "unanswered"]
)
def test_lists_that_bring_nothing_hold_no_function_but_those_that_need_them(
    world: World, caplog: pytest.LogCaptureFixture, seconds: float, *, owns: bool
) -> None:
    """The leader's node has died, and took the API server or webhook of one resource with it."""

    async def scenario() -> None:
        metadata = {"name": "s", "namespace": "default"}
        await world.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
        one, two = (_Follower(world, name, owns=owns) for name in ("one", "two"))
        await one.run.start()
        await until(lambda: one.reconciled)
        async with two.run:
            await pause(5)
            one.line.is_down = True
            closing = asyncio.create_task(one.run.aclose())
            two.line.refused_lists, two.line.refuses_after_seconds = "pods", seconds
            await until(lambda: two.run.elector is not None and two.run.elector.is_leading)
            leading_at = now()
            await until(lambda: two.reconciled)
            assert 9.5 <= now() - leading_at <= 16.0
            await closing
            waits = "services will not be called until they are answered"
            assert (waits if owns else "so the term begins") in caplog.text
            assert _waiting_in(two.run) == (["services: waits for pods.v1"] if owns else [])
            await pause(300)
            assert two.leads
            assert not two.owners
            two.line.refused_lists = ""
            if owns:
                await until(lambda: two.owners == ["default/s"])
                assert caplog.text.count("does not reconcile yet") == 1
                await until(lambda: not _waiting_in(two.run))

    world.run(scenario)


def _waiting_in(run: OperatorRun) -> list[str]:
    """Return which controllers wait, and for what, as the health pages say it."""
    assert run.health is not None
    found = (note for note in run.health.ready().notes if note.startswith("controller "))
    return [": ".join(one.removeprefix("controller ").split(": ")[:2]) for one in found]


def test_a_standby_waits_for_nothing(world: World) -> None:
    """Its term has ended while its caches were still behind."""

    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            two.line.hold("configmaps", held=True)
            await world.cluster.create(_map("late"))
            one.line.is_down = True
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.run.elector is not None and two.run.elector.is_leading)
            await pause(3)
            (waiting,) = _waiting_in(two.run)
            assert waiting.startswith(
                "configmaps: waits until the caches hold what earlier leaders"
            )
            lease = ("coordination.k8s.io/v1", "leases", "default/db-operator")
            held = await world.cluster.get(*lease)
            taken = held.to_dict()
            taken["spec"]["holderIdentity"] = "another"
            await world.cluster.patch(held, taken)
            await until(lambda: two.run.elector is not None and not two.run.elector.is_leading)
            await pause(1)
            assert _waiting_in(two.run) == []
            two.line.hold("configmaps", held=False)
            await closing

    world.run(scenario)


def test_a_namespace_without_rights_holds_up_no_other(world: World) -> None:
    """Its RoleBinding is gone; the leader of before has reconciled the others all the time."""

    async def scenario() -> None:
        names = ["default", "shop"]
        await world.cluster.create(
            {**_map("s"), "metadata": {"name": "s", "namespace": "shop"}}, namespace="shop"
        )
        one, two = _Replica(world, "one"), _Replica(world, "two")
        for each in (one, two):
            each.run = each.app.running(each.cluster, namespaces=names)
        await one.run.start()
        await until(lambda: len(one.reconciled) == 2)
        async with two.run:
            await pause(5)
            two.line.forbidden_namespace = "shop"
            two.line.drop()
            one.line.is_down = True
            await world.cluster.create(_map("late"))
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.run.elector is not None and two.run.elector.is_leading)
            leading_at = now()
            await until(lambda: "default/late" in [key for _, key in two.reconciled])
            assert now() - leading_at <= 10.0
            await closing

    world.run(scenario)


async def _pass(gate: asyncio.Event | None) -> None:
    if gate is not None:
        await gate.wait()


def test_required_rights_include_the_lease(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        async with one.run:
            text = one.run.required_rbac(name="db", service_account="ops/db")
        everywhere, of_lease = (
            one for one in yaml.safe_load_all(text) if one["kind"].endswith("Role")
        )
        assert everywhere["rules"][0]["resources"] == ["configmaps"]
        assert of_lease["metadata"] == {"namespace": "default", "name": "db"}
        assert of_lease["rules"][1] == {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["db-operator"],
            "verbs": ["get", "list", "update", "watch"],
        }

    world.run(scenario)


def test_the_name_of_the_operator_must_be_that_of_a_lease() -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        pyinformer.Operator("DB operator", leader_election=pyinformer.LeaderElection())
    named = pyinformer.LeaderElection(name="db")
    pyinformer.Operator("DB operator", leader_election=named)


def test_events_report_the_leader(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        await one.run.start()
        await until(lambda: one.leads)
        await one.run.aclose()

    world.run(scenario)
    assert _notes(world) == ["one became leader", "one stopped leading"]


@pytest.mark.parametrize(
    ("name", "lease"),
    [
        pytest.param("x" * 64, None, id="operator"),
        pytest.param("a." * 40 + "b", None, id="cut-at-a-dot"),
        pytest.param("db-operator", "y" * 64, id="lease"),
        pytest.param("db-operator", "y" * 253, id="longest-lease"),
    ],
)
def test_names_that_are_longer_than_a_reporter_of_events_do_not_prevent_the_start(
    world: World, name: str, lease: str | None
) -> None:
    """A Lease's name may have 253 characters, and that of what reports an Event 63."""

    async def scenario() -> None:
        one = _Replica(world, "one", operator=name, name=lease)
        async with one.run:
            await until(lambda: one.leads)
        assert world.get("coordination.k8s.io/v1", "leases", lease or name, "default")

    world.run(scenario)
    assert _notes(world) == ["one became leader", "one stopped leading"]
    reporter = (lease or name)[:63].strip("-_.")
    assert _reporters(world) == {reporter}


def test_the_event_of_an_end_is_written_by_a_slow_server_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        await one.run.start()
        await until(lambda: one.leads)
        await pause(5)
        one.line.before = lambda method: pause(2.0 if method == "POST" else 0.0)
        await one.run.aclose()

    world.run(scenario)
    assert _notes(world) == ["one became leader", "one stopped leading"]
    assert "dropped" not in caplog.text


@pytest.mark.parametrize("by", ["anyio", "asyncio"])
def test_the_event_of_an_end_is_written_if_the_close_is_cancelled(
    world: World, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    """A scope of anyio that has ended cancels each wait, a task only the one under way."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        written = asyncio.Event()

        async def slow(method: str) -> None:
            if method == "POST":
                written.set()
                await pause(2.0)

        async def operate(scope: anyio.CancelScope) -> None:
            with scope:
                async with one.run:
                    await until(lambda: one.leads)
                    await pause(5)
                    one.line.before = slow
                    if by == "anyio":
                        scope.cancel()

        operating = asyncio.create_task(operate(anyio.CancelScope()))
        await written.wait()
        await pause(1.0)  # the Lease is released by now, and the Event is on its way
        if by == "asyncio":
            operating.cancel()
        await asyncio.wait([operating])
        assert operating.cancelled() is (by == "asyncio")

    world.run(scenario)
    assert _notes(world) == ["one became leader", "one stopped leading"]
    assert "dropped" not in caplog.text


def _notes(world: World) -> list[str]:
    return sorted(event["note"] for event in world.list("events.k8s.io/v1", "events", "default"))


def _reporters(world: World) -> set[str]:
    events = world.list("events.k8s.io/v1", "events", "default")
    return {event["reportingController"] for event in events}


def test_an_error_of_the_election_is_raised_and_is_not_a_crash(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, same = _Replica(world, "one"), _Replica(world, "one")
        await one.run.start()
        await until(lambda: one.leads)
        with pytest.raises(InvalidArgumentError, match="each replica needs an identity of its own"):
            await same.run.run()
        await one.run.aclose()

    world.run(scenario)
    assert "crashed" not in caplog.text


def test_a_standby_without_the_right_to_the_lease_waits(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        one.line.is_forbidden = True
        await one.run.start()
        await pause(600)
        assert not one.leads
        one.line.is_forbidden = False
        await until(lambda: bool(one.reconciled))
        assert one.leads
        await one.run.aclose()

    world.run(scenario)


class _Standby(_Replica):
    """A replica that also records which keys it reconciled with None."""

    def __init__(self, world: World, identity: str, **settings: Any) -> None:
        super().__init__(world, identity, **settings)
        self.gone: list[str] = []

    async def _reconcile(self, request: pyinformer.Request, obj: Any, cluster: Cluster) -> None:
        await super()._reconcile(request, obj, cluster)
        if obj is None:
            self.gone.append(request.key)


async def _crash(one: _Replica) -> asyncio.Task[None]:
    one.line.is_down = True
    return asyncio.create_task(one.run.aclose())


async def _delete(world: World, key: str) -> None:
    await world.cluster.delete("v1", "configmaps", key)


def test_what_is_deleted_after_a_crash_is_reconciled_by_the_next_leader(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Standby(world, "two")
        await world.cluster.create(_map("old"))
        await world.cluster.create(_map("back"))
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            await _delete(world, "default/old")
            await pause(3600)  # the leader has had time for that one
            closing = await _crash(one)
            await pause(1)
            await _delete(world, "default/a")
            await _delete(world, "default/back")
            await world.cluster.create(_map("back"))
            await until(lambda: two.leads)
            await closing
            await pause(5)
            assert two.gone == ["default/a"]
            assert [key for _, key in two.reconciled].count("default/back") == 1

    world.run(scenario)


def test_what_a_replica_did_not_see_between_two_of_its_terms_is_reconciled(world: World) -> None:
    async def scenario() -> None:
        one = _Standby(world, "one")
        await one.run.start()
        await until(lambda: one.leads)
        await pause(3600)
        one.line.before = lambda method: _pass(asyncio.Event() if method == "PUT" else None)
        await until(lambda: not one.leads)
        await _delete(world, "default/a")
        await pause(600)
        assert one.gone == []
        one.line.before = None
        await until(lambda: one.leads)
        await until(lambda: one.gone == ["default/a"])
        await one.run.aclose()

    world.run(scenario)


def test_a_deletion_shortly_before_the_leaders_last_sign_of_life_is_reconciled(
    world: World,
) -> None:
    """Its reconcile may still have been waiting in the old leader's queue."""

    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Standby(world, "two")
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            one.go_on = asyncio.Event()
            await _delete(world, "default/a")
            await pause(20)  # the leader renews its Lease, and reconciles
            closing = await _crash(one)
            await until(lambda: two.leads)
            await until(lambda: two.gone == ["default/a"])
            await closing

    world.run(scenario)


def _name(obj: pyinformer.KubeObject[Any] | None) -> str:
    return "" if obj is None else obj.metadata.name


def test_predicates_and_mappings_apply_to_deletions_between_two_leaders(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Standby(world, "two")
        for replica in (one, two):
            replica.app.reconcile(
                "v1",
                "services",
                name="services",
                predicate=lambda old, new: _name(new or old) != "ignored",
                watches=[("v1", "secrets", lambda secret: f"default/of-{secret.metadata.name}")],
                options=_OPTIONS,
            )(replica._reconcile)
        for kind, name in (("Service", "a"), ("Service", "ignored"), ("Secret", "s")):
            await world.cluster.create({**_map(name), "kind": kind, "data": None})
        await one.run.start()
        await until(lambda: one.leads)
        async with two.run:
            await pause(5)
            closing = await _crash(one)
            await world.cluster.delete("v1", "services", "default/a")
            await world.cluster.delete("v1", "services", "default/ignored")
            await world.cluster.delete("v1", "secrets", "default/s")
            await until(lambda: two.leads)
            await closing
            await pause(5)
            assert sorted(two.gone) == ["default/a", "default/of-s"]

    world.run(scenario)
