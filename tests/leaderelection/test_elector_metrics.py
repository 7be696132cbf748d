"""The metrics of an elector, in the virtual time of a World."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.errors import FencedError
from pyinformer.leaderelection import Term
from pyinformer.telemetry.metrics import CATALOGUE, MetricsRegistry
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.telemetry.metrics.reading import collected
from tests.waiting import pause, until

Scenario = Callable[[], Awaitable[None]]


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


def figures(registry: MetricsRegistry) -> dict[str, float]:
    """Return the figures of leader election, by what follows `leader_election_`."""
    begin, end = "leader_election_", '{name="db-operator"}'
    found = collected(registry, begin)
    return {key.removeprefix(begin).removesuffix(end): value for key, value in found.items()}


def test_every_series_is_there_while_the_elector_runs_and_zero_for_a_standby(world: World) -> None:
    async def scenario() -> None:
        leader, registry = Replica(world, "one"), MetricsRegistry()
        standby = Replica(world, "two", metrics=registry)
        assert figures(registry) == {}
        leader.start()
        await leader.leads.wait()
        standby.start()
        await pause(10.0)
        names = [name for name in CATALOGUE if name.startswith("leader_election_")]
        assert figures(registry) == {name.removeprefix("leader_election_"): 0 for name in names}
        await standby.stop()
        assert figures(registry) == {}
        await leader.stop()

    world.run(scenario)


def test_the_leader_shows_its_term_and_the_age_of_its_last_renewal(world: World) -> None:
    async def scenario() -> None:
        registry = MetricsRegistry()
        before = Replica(world, "one")
        before.start()
        await before.leads.wait()
        await before.stop()
        leader = Replica(world, "two", metrics=registry)
        leader.start()
        await leader.leads.wait()
        await pause(10.0)
        leader.line.is_down = True
        await pause(5.0)
        found = figures(registry)
        assert 5.0 <= found.pop("renewal_age_seconds") <= 7.0
        assert found == {
            "master_status": 1,
            "slowpath_total": 0,
            "terms_total": 1,
            "lease_transitions": 1,
            "fenced_writes_total": 0,
        }
        await pause(20.0)
        assert figures(registry)["master_status"] == 0
        await leader.stop()

    world.run(scenario)


def test_counters_go_on_when_the_elector_runs_again(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one", metrics=(registry := MetricsRegistry()))
        for terms in (1, 2):
            one.start()
            await one.leads.wait()
            assert figures(registry)["terms_total"] == terms
            await one.stop()

    world.run(scenario)


def test_each_write_that_a_term_refuses_is_counted_once(world: World) -> None:
    async def scenario() -> None:
        registry = MetricsRegistry()
        one = Replica(world, "one", metrics=registry)
        one.start()
        await one.leads.wait()
        term: Term = one.terms[0]
        await world.cluster.delete("coordination.k8s.io/v1", "leases", "default/db-operator")
        await until(lambda: term.has_ended)
        token = CURRENT_GUARD.set(term)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        for _ in range(2):
            with pytest.raises(FencedError):
                await world.cluster.create(body, namespace="default")
        with pytest.raises(FencedError):
            term.check()  # no write
        CURRENT_GUARD.reset(token)
        assert figures(registry)["fenced_writes_total"] == 2
        await one.crash()

    world.run(scenario)
