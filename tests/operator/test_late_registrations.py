"""Reconcile functions that are registered while their operator runs."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer import ControllerOptions, KubeObject, LeaderElection, Operator, Request, View
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.errors import (
    CacheSyncTimeoutError,
    FencedError,
    InvalidArgumentError,
    LifecycleError,
    NotFoundError,
)
from pyinformer.operator import Listers, OperatorRun, Owns, Watches
from pyinformer.testing import World
from tests.leaderelection.electing import Line
from tests.operator.inside import unready
from tests.waiting import pause, until

_OPTIONS = ControllerOptions(drain_timeout_seconds=5.0, sync_timeout_seconds=30.0)


class PodView(View):
    """Any view."""


def body(kind: str, name: str) -> dict[str, Any]:
    """Return an object of the core group in the namespace default."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"namespace": "default", "name": name},
    }


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time with a ConfigMap, a Secret and a Pod."""
    objects = [body("ConfigMap", "map"), body("Secret", "secret"), body("Pod", "pod")]
    with World(objects, virtual_time=True) as world:
        yield world


class _Replica:
    """An operator of ConfigMaps, on a line of its own."""

    def __init__(self, world: World, identity: str = "") -> None:
        self.line = Line(world.cluster.connection)
        self.cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        election = LeaderElection(identity=identity) if identity else None
        self.app = Operator("db-operator", leader_election=election)
        self.reconciled: list[str] = []
        self.app.reconcile("v1", "configmaps", options=_OPTIONS)(self.reconcile)
        self.run: OperatorRun = self.app.running(self.cluster)

    async def reconcile(self, request: Request, obj: Any, cluster: Cluster) -> None:
        """Note the object."""
        kind = "nothing" if obj is None else obj.gvk.kind
        self.reconciled.append(f"{kind} {request.name}")

    def add(self, plural: str, **options: Any) -> None:
        """Register one more resource."""
        self.app.reconcile("v1", plural, options=_OPTIONS, **options)(self.reconcile)

    @property
    def names(self) -> list[str]:
        """The names of the controllers."""
        return [one.name for one in self.run.controllers]


def test_a_reconcile_that_is_registered_later_works_beside_the_others(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)

        def pods_of(secret: KubeObject, listers: Listers) -> list[str]:
            return [one.key for one in listers.lister("v1", "pods").list()]

        async with one.run:
            await until(lambda: one.reconciled == ["ConfigMap map"])
            watches = [Watches("v1", "secrets", pods_of)]
            one.add("pods", watches=watches, owns=[("v1", "configmaps")])
            await one.app.wait_started("pods")
            await one.app.wait_started("configmaps")
            await until(lambda: "Pod pod" in one.reconciled)
            assert one.app.lister("v1", "secrets").keys() == ["default/secret"]
            assert one.names == ["configmaps", "pods"]
            await pause(1)
            one.reconciled.clear()
            await one.cluster.create(body("Secret", "other"))
            await one.cluster.create(body("ConfigMap", "new"))
            await until(lambda: len(one.reconciled) == 2)
            assert sorted(one.reconciled) == ["ConfigMap new", "Pod pod"]
            assert one.run.health.ready()
            assert "pods.v1" in one.run.health.overview()
            assert "- pods/status\n" in one.run.required_rbac()
        assert all(not each.is_running for each in one.run.controllers)
        with pytest.raises(LifecycleError, match="does not run"):
            one.app.lister("v1", "pods")

    world.run(scenario)


def test_a_resource_that_is_not_served_is_refused_at_once_and_can_come_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            one.add("podz")
            with pytest.raises(NotFoundError, match="podz"):
                await one.app.wait_started("podz")
            assert "the reconcile podz was not added: " in caplog.text
            assert "the server does not serve it; did you mean v1/pods?" in caplog.text
            assert one.names == ["configmaps"]
            with pytest.raises(InvalidArgumentError, match="podz"):
                one.app.lister("v1", "podz")
            world.register("v1", "Podz", "podz")
            one.add("podz")
            await one.app.wait_started("podz")
            await one.cluster.create(body("ConfigMap", "new"))
            await until(lambda: "ConfigMap new" in one.reconciled)
            assert one.names == ["configmaps", "podz"]

    world.run(scenario)


def test_a_cache_that_does_not_sync_ends_its_addition_alone(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            await until(lambda: one.reconciled)
            one.line.holds_new = True
            one.add("pods", owns=[("v1", "secrets")])
            one.line.holds_new = True
            await pause(20)
            assert one.run.health.ready()
            assert not unready(one.run)
            with pytest.raises(CacheSyncTimeoutError, match="pods"):
                await one.app.wait_started("pods")
            with pytest.raises(InvalidArgumentError, match="not followed"):
                one.app.lister("v1", "pods")
            one.line.holds_new = False
            one.add("pods")
            await one.app.wait_started("pods")
            await until(lambda: "Pod pod" in one.reconciled)
            assert one.names == ["configmaps", "pods"]

    world.run(scenario)


def test_what_cannot_be_added_is_refused_where_it_is_registered(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            with pytest.raises(InvalidArgumentError, match="'configmaps' is registered already"):
                one.add("configmaps")
            changed = Owns("v1", "configmaps", model=PodView)
            with pytest.raises(InvalidArgumentError, match="by the running operator"):
                one.add("pods", owns=[changed])
            with pytest.raises(LifecycleError, match=r"call_soon_threadsafe"):
                await asyncio.to_thread(one.add, "pods")
            with pytest.raises(InvalidArgumentError, match="'pods' is not one of configmaps"):
                await one.app.wait_started("pods")
            one.add("pods")  # nothing of them was registered
            await one.app.wait_started("pods")

    world.run(scenario)


def test_a_registration_during_the_start_works_after_it(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        one.line.holds_new = True
        starting = asyncio.create_task(one.run.start())
        await until(lambda: one.line.count("LIST") + one.line.count("WATCH"))
        one.add("pods")
        one.line.holds_new = False
        one.line.hold("configmaps", held=False)
        await starting
        await one.app.wait_started("pods")
        await until(lambda: sorted(one.reconciled) == ["ConfigMap map", "Pod pod"])
        await one.run.aclose()

    world.run(scenario)


def test_additions_that_begin_together_share_their_new_caches(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            one.add("pods", name="first", owns=[("v1", "secrets")])
            one.add("pods", name="second", owns=[("v1", "secrets")])
            await one.app.wait_started("first")
            await one.app.wait_started("second")
            informers = [each for made in one.run.controllers for each in made.engine.informers]
            assert sorted(str(each.scope.resource) for each in {*informers}) == [
                "configmaps.v1",
                "pods.v1",
                "secrets.v1",
            ]

    world.run(scenario)


def test_an_addition_that_fails_leaves_the_cache_to_the_next_one(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            one.add("pods", name="first", owns=[("acme.io/v1", "databases")])
            one.add("pods", name="second")
            with pytest.raises(NotFoundError):
                await one.app.wait_started("first")
            await one.app.wait_started("second")
            await until(lambda: "Pod pod" in one.reconciled)
            assert one.app.lister("v1", "pods").keys() == ["default/pod"]

    world.run(scenario)


def test_values_of_secrets_that_an_addition_keeps_are_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            one.add("pods", owns=[("v1", "secrets")])
            assert "because of owns= of 'pods'" in caplog.text

    world.run(scenario)


def test_the_caches_of_a_run_that_has_ended_are_released(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run:
            caches = weakref.ref(one.app.lister("v1", "configmaps"))
        del one.run
        gc.collect()
        assert caches() is None

    world.run(scenario)


def test_an_end_does_not_wait_for_a_reconcile_that_waits_for_an_addition(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        waits: list[str] = []

        @one.app.reconcile("v1", "secrets", options=_OPTIONS)
        async def register(request: Request, obj: object, cluster: Cluster) -> None:
            one.line.holds_new = True
            one.add("pods")
            waits.append("begun")
            with pytest.raises(LifecycleError, match="ended before this reconcile had started"):
                await one.app.wait_started("pods")
            waits.append("ended")

        await one.run.start()
        await until(lambda: waits == ["begun"])
        await one.run.aclose()
        assert waits == ["begun", "ended"]

    world.run(scenario)


def test_on_several_clusters_a_name_stays_taken_where_it_has_started(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        async with one.run, one.app.running(other.cluster) as second:
            register = one.app.reconcile("acme.io/v1", "databases")
            register(one.reconcile)
            with pytest.raises(NotFoundError):
                await one.app.wait_started("databases")
            await until(lambda: "Database db" in one.reconciled)
            with pytest.raises(InvalidArgumentError, match="registered already"):
                register(one.reconcile)
            assert [each.name for each in second.controllers] == ["configmaps", "databases"]

    database = {**body("Database", "db"), "apiVersion": "acme.io/v1"}
    with World([database], beside=world) as other:
        world.run(scenario)


def test_an_end_cancels_what_is_being_added(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        running = asyncio.create_task(one.run.run())
        await until(lambda: one.reconciled)
        one.line.holds_new = True
        one.add("pods")
        waiting = [asyncio.create_task(one.app.wait_started("pods")) for _ in range(2)]
        await pause(1)
        waiting[0].cancel()
        await pause(1)
        assert waiting[0].cancelled()
        running.cancel()
        with pytest.raises(LifecycleError, match="ended before this reconcile had started"):
            await waiting[1]
        await asyncio.wait((running,))
        one.line.holds_new = False
        one.app.reconcile("v1", "secrets")(one.reconcile)  # for the next run
        async with one.app.running(one.cluster):
            await until(lambda: {"Pod pod", "Secret secret"} <= set(one.reconciled))

    world.run(scenario)


def test_a_run_that_is_being_closed_accepts_no_registration(world: World) -> None:
    async def scenario() -> None:
        one = _Replica(world)
        may_end = asyncio.Event()

        @one.app.reconcile("v1", "secrets", options=_OPTIONS)
        async def slow(request: Request, obj: object, cluster: Cluster) -> None:
            one.reconciled.append("slow")
            await may_end.wait()
            with pytest.raises(LifecycleError, match="is being closed"):
                one.add("pods")
            one.reconciled.append("refused")

        await one.run.start()
        await until(lambda: "slow" in one.reconciled)
        closing = asyncio.create_task(one.run.aclose())
        await pause(1)
        may_end.set()
        await closing
        assert "refused" in one.reconciled

    world.run(scenario)


def test_a_leader_calls_it_in_its_term_and_a_standby_in_the_next(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.reconciled)
        async with two.run:
            for replica in (one, two):
                replica.add("pods")
                await replica.app.wait_started("pods")
            await until(lambda: "Pod pod" in one.reconciled)
            await pause(5)
            assert one.names == ["configmaps", "pods"]
            assert two.reconciled == []
            assert two.app.lister("v1", "pods").keys() == ["default/pod"]
            await one.run.aclose()
            await until(lambda: sorted(two.reconciled) == ["ConfigMap map", "Pod pod"])
            two.add("secrets")
            await until(lambda: "Secret secret" in two.reconciled)
            assert two.names == ["configmaps", "pods", "secrets"]

    world.run(scenario)


def test_a_reconcile_that_is_registered_in_a_term_writes_only_in_that_term(world: World) -> None:
    """It is registered by a task that began before the term, and so knows of none."""

    async def scenario() -> None:
        one = _Replica(world, "one")
        errors: list[FencedError] = []
        waits, goes_on = asyncio.Event(), asyncio.Event()

        async def write(request: Request, _obj: Any, cluster: Cluster) -> None:
            waits.set()
            try:
                await goes_on.wait()
            except asyncio.CancelledError:
                try:
                    await cluster.create(body("Secret", "late"))
                except FencedError as error:
                    errors.append(error)
                raise
            await cluster.create(body("Secret", f"of-{request.name}"))

        async with one.run:
            await until(lambda: one.reconciled)
            one.app.reconcile("v1", "pods", options=_OPTIONS)(write)
            await waits.wait()
            lease = await world.cluster.get(
                "coordination.k8s.io/v1", "leases", "default/db-operator"
            )
            taken = lease.to_dict()
            taken["spec"]["holderIdentity"] = "another"
            await world.cluster.replace(taken)
            await until(lambda: errors)
            goes_on.set()
            elector = one.run.elector
            assert elector is not None
            await until(lambda: elector.status().terms == 2)
            await until(lambda: "default/of-pod" in {write.key for write in world.writes})

    world.run(scenario)
    assert "default/late" not in {write.key for write in world.writes}


def test_an_added_cache_obeys_the_barrier_of_a_term(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.reconciled)
        async with two.run:
            two.add("pods")
            await two.app.wait_started("pods")
            two.line.hold("pods", held=True)
            await one.cluster.create(body("Pod", "late"))
            await one.run.aclose()
            await until(lambda: two.run.elector is not None and two.run.elector.is_leading)
            await pause(5)
            assert two.reconciled == []
            two.line.hold("pods", held=False)
            await until(lambda: "Pod late" in two.reconciled)

    world.run(scenario)


def test_what_cannot_join_a_term_is_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        async with one.run:
            await until(lambda: one.reconciled)
            one.add("pods")
            await until(lambda: "Pod pod" in one.reconciled)
            one.line.hold("pods", held=True)
            one.line.holds_new = True
            await world.cluster.create(body("Pod", "late"))
            one.add("pods", name="again")
            await until(lambda: "again does not reconcile yet" in caplog.text)
            assert one.names == ["configmaps", "pods"]
            one.line.holds_new = False
            one.line.hold("pods", held=False)
            await until(lambda: one.reconciled.count("Pod late") == 2)
            assert one.names == ["configmaps", "pods", "again"]

    world.run(scenario)


def test_what_joins_a_term_waits_for_what_earlier_leaders_wrote(world: World) -> None:
    async def scenario() -> None:
        one, two = _Replica(world, "one"), _Replica(world, "two")
        await one.run.start()
        await until(lambda: one.reconciled)
        async with two.run:
            await one.cluster.create(body("Pod", "late"))
            one.line.is_down = True
            closing = asyncio.create_task(one.run.aclose())
            await until(lambda: two.reconciled)
            await closing
            lists = [path for _, verb, path in two.line.calls if verb == "LIST"]
            two.add("pods")
            await until(lambda: "Pod late" in two.reconciled)
            later = [path for _, verb, path in two.line.calls if verb == "LIST"][len(lists) :]
            assert later == ["/api/v1/pods"], "it asks for identities: the leader had crashed"

    world.run(scenario)


def test_an_addition_that_fails_disturbs_no_leader(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = _Replica(world, "one")
        async with one.run:
            await until(lambda: one.reconciled)
            one.line.holds_new = True
            one.add("pods")
            with pytest.raises(CacheSyncTimeoutError, match="pods"):
                await one.app.wait_started("pods")
            await one.cluster.create(body("ConfigMap", "new"))
            await until(lambda: "ConfigMap new" in one.reconciled)
            assert one.run.health.ready()
            assert one.names == ["configmaps"]

    world.run(scenario)
    assert "the reconcile pods was not added" in caplog.text
