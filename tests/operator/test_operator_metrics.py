"""The metrics of an operator: what a scrape has from the start, on one cluster and on two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import pyinformer
from pyinformer.client.cluster import Cluster, WriteOptions
from pyinformer.operator import Operator
from pyinformer.telemetry.metrics import CATALOGUE, NO_METRICS, Metrics, MetricsRegistry
from pyinformer.testing import World
from tests.telemetry.metrics.reading import collected
from tests.telemetry.metrics.upstream import CONTROLLER, LEADER_ELECTION, WEBHOOK, WORKQUEUE
from tests.waiting import now, pause, until

_OURS = ("workqueue_", "controller_", "leader_election_", "operator_", "informer_loop_")


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time without config maps."""
    with World(virtual_time=True) as world:
        yield world


def named(world: World, name: str, metrics: Metrics = NO_METRICS) -> Cluster:
    """Return the cluster of a World under a name."""
    return Cluster(
        world.cluster.config,
        name=name,
        metrics=metrics,
        write_options=WriteOptions(writes_per_second=None, retry_limit=0),
        connection=world.cluster.connection,
    )


def elected(registry: MetricsRegistry) -> Operator:
    """Return an operator with a Lease and a reconcile function `maps`."""
    app = Operator("db", metrics=registry, leader_election=pyinformer.LeaderElection())

    @app.reconcile("v1", "configmaps", name="maps")
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        pass

    return app


def labels_of(registry: MetricsRegistry, metric: str) -> set[str]:
    """Return the labels of a metric's series."""
    return {series.partition("{")[2].rstrip("}") for series in collected(registry, metric)}


def test_every_series_is_there_at_zero_before_the_first_event(world: World) -> None:
    """All but those that count what a running program is, such as its number of workers."""
    registry = MetricsRegistry()
    app = Operator(
        "db-operator", metrics=registry, leader_election=pyinformer.LeaderElection(identity="me")
    )

    @app.reconcile("v1", "configmaps", workers=2, every_seconds=60.0, name="maps")
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        raise AssertionError(request)

    @app.daemon("v1", "configmaps", name="followers")
    async def follow(request: Any, versions: Any, cluster: Any) -> None:
        raise AssertionError(request)

    async def scenario() -> dict[str, float]:
        async with app.running(named(world, "")) as run:
            await until(lambda: run.controllers and all(one.is_running for one in run.controllers))
            return collected(registry, *_OURS)

    found = world.run(scenario)
    names = {series.partition("{")[0] for series in found}
    assert names == {name for name in CATALOGUE if name.startswith(_OURS)} - {*WEBHOOK}
    assert {*WORKQUEUE, *CONTROLLER, *LEADER_ELECTION} <= names
    age = found.pop('leader_election_renewal_age_seconds{name="db-operator"}')
    assert 0.0 <= age < 10.0
    assert {series: value for series, value in found.items() if value} == {
        'controller_runtime_max_concurrent_reconciles{controller="maps"}': 2,
        'controller_runtime_max_concurrent_reconciles{controller="followers"}': 4,
        'leader_election_master_status{name="db-operator"}': 1,
        'leader_election_terms_total{name="db-operator"}': 1,
    }


def test_nothing_is_left_when_the_operator_has_ended(world: World) -> None:
    registry = MetricsRegistry()
    app = Operator("test", metrics=registry)

    @app.every(60.0, name="tick")
    async def tick(cluster: Cluster) -> None:
        pass

    async def scenario() -> None:
        async with app.running(world.cluster):
            assert collected(registry, *_OURS)
        assert collected(registry, *_OURS) == {}

    world.run(scenario)


def test_two_clusters_have_series_of_their_own(world: World) -> None:
    registry = MetricsRegistry()
    app = elected(registry)

    @app.every(60.0, name="tick")
    async def tick(cluster: Cluster) -> None:
        pass

    async def scenario() -> None:
        async with app.running(named(world, "east")) as one, app.running(named(world, "west")):
            await until(lambda: len(one.controllers) == 2)
            active = labels_of(registry, "controller_runtime_active_workers")
            assert active == {'controller="east:maps"', 'controller="east:tick"'}
            queues = {f'name="east:{name}",controller="east:{name}"' for name in ("maps", "tick")}
            assert labels_of(registry, "workqueue_adds_total") == queues
            assert labels_of(registry, "operator_timer") == {'controller="east:tick"'}
            leads = collected(registry, "leader_election_master_status")
            assert leads == {
                'leader_election_master_status{name="east:db"}': 1,
                'leader_election_master_status{name="west:db"}': 0,
            }

    world.run(scenario)


def test_controllers_use_the_metrics_of_their_cluster_unless_they_are_given_others(
    world: World,
) -> None:
    registry, own = MetricsRegistry(), MetricsRegistry()

    async def reconcile(request: Any, obj: Any) -> None:
        pass

    async def scenario() -> None:
        cluster = named(world, "", registry)
        factory = pyinformer.SharedInformerFactory(cluster)
        informer = factory.informer("v1", "configmaps")
        async with (
            factory,
            pyinformer.Controller("a", reconcile, informer),
            pyinformer.Controller("b", reconcile, informer, metrics=own),
            pyinformer.Controller("c", reconcile, informer, metrics=NO_METRICS),
        ):
            active = "controller_runtime_active_workers"
            assert labels_of(registry, active) == {'controller="a"'}
            assert labels_of(own, active) == {'controller="b"'}

    world.run(scenario)


def test_controllers_that_are_added_later_have_metrics(world: World) -> None:
    registry = MetricsRegistry()
    app = Operator("test", metrics=registry)

    @app.reconcile("v1", "configmaps", name="maps")
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        pass

    async def scenario() -> None:
        async with app.running(world.cluster):
            app.reconcile("v1", "secrets", name="secrets")(reconcile)
            await app.wait_started("secrets")
            assert labels_of(registry, "controller_runtime_active_workers") == {
                'controller="maps"',
                'controller="secrets"',
            }

    world.run(scenario)


def test_a_term_of_leadership_begins_with_counters_at_zero_and_ends_without_series(
    world: World,
) -> None:
    registry = MetricsRegistry()
    app = Operator(
        "test", metrics=registry, leader_election=pyinformer.LeaderElection(identity="a")
    )

    @app.reconcile("v1", "configmaps", name="maps")
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        pass

    async def scenario() -> None:
        async with app.running(world.cluster) as run:
            await until(lambda: run.controllers)
            await pause(1.0)
            await world.cluster.delete("coordination.k8s.io/v1", "leases", "default/test")
            await until(lambda: not run.controllers)
            assert collected(registry, "controller_", "workqueue_") == {}
            await until(lambda: run.controllers)
            assert labels_of(registry, "controller_runtime_active_workers") == {'controller="maps"'}

    world.run(scenario)


def test_the_calls_of_a_timer_are_counted_with_those_that_fail_and_beats_that_are_skipped(
    world: World,
) -> None:
    registry = MetricsRegistry()
    app = Operator("test", metrics=registry)
    began: list[float] = []

    @app.every(10.0, name="tick")
    async def tick(cluster: Cluster) -> None:
        began.append(now())
        if len(began) == 2:
            await pause(35.0)  # three beats
            raise ValueError

    async def scenario() -> dict[str, float]:
        async with app.running(world.cluster):
            await pause(12.0)
            assert len(began) == 2
            await pause(60.0)
            return collected(registry, "operator_timer")

    found = world.run(scenario)
    assert found.pop('operator_timer_calls_total{controller="tick"}') == len(began)
    assert found == {
        'operator_timer_failures_total{controller="tick"}': 1,
        'operator_timer_skipped_beats_total{controller="tick"}': 3,
    }


def test_the_calls_for_an_objects_beats_are_counted_and_those_for_its_events_are_not(
    world: World,
) -> None:
    registry = MetricsRegistry()
    app = Operator("test", metrics=registry)
    calls = 0

    @app.reconcile("v1", "configmaps", every_seconds=100.0, name="maps")
    async def reconcile(request: Any, obj: Any, cluster: Any) -> None:
        nonlocal calls
        calls += 1

    async def scenario() -> dict[str, float]:
        await world.cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            namespace="default",
        )
        async with app.running(world.cluster):
            await pause(1_000.0)
            return collected(registry, "operator_timer")

    found = world.run(scenario)
    assert calls in {10, 11}
    assert found['operator_timer_calls_total{controller="maps"}'] == calls - 1
    assert found['operator_timer_skipped_beats_total{controller="maps"}'] == 0


def test_a_scrape_on_another_thread_is_whole_while_reconciles_come_and_go(world: World) -> None:
    registry = MetricsRegistry()
    app = Operator("test", metrics=registry)

    @app.reconcile("v1", "configmaps", name="maps", workers=3)
    async def reconcile(request: Any, obj: Any, cluster: Any) -> pyinformer.Result:
        await asyncio.sleep(0)
        return pyinformer.Result(0.001)

    async def scenario() -> None:
        async with app.running(world.cluster):
            for number in range(30):
                await world.cluster.create(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{number}"}},
                    namespace="default",
                )
                found = await asyncio.to_thread(collected, registry)
                assert found['pyinformer_metrics_source_failures_total{reason="raised"}'] == 0

    world.run(scenario)
