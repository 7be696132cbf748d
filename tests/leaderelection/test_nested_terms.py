"""An election inside of another one's term: writes need both terms, the inner Lease neither."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import FencedError
from pyinformer.leaderelection import Term, WrittenVersions
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.telemetry.metrics.reading import collected
from tests.waiting import now, pause

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster

Drain = Callable[["Nested"], Awaitable[None]]


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


class Nested:
    """An elector of `inner` that runs inside of each term of `outer`."""

    def __init__(self, world: World, drain: Drain | None = None, **elector: Any) -> None:
        self.outer = Replica(world, "one", name="outer", **elector)
        self.inner = Replica(world, "one", name="inner", **elector)
        self.outer_terms: list[Term] = []
        self.inner_terms: list[Term] = []
        self.refusals: list[FencedError] = []
        self._drain = drain
        self._leads = asyncio.Event()
        self.task: asyncio.Task[None]

    @property
    def cluster(self) -> Cluster:
        """The cluster that the inner work writes to."""
        return self.inner.cluster

    async def start(self) -> None:
        """Run both, and wait until both lead."""
        self.task = asyncio.create_task(self.outer.elector.run(self._lead_outer))
        await self._leads.wait()

    async def stop(self) -> None:
        """Cancel the outer elector, and wait for its end."""
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled()

    async def write(self, name: str) -> str:
        """Write an object as the inner work; return its version, or "" for a refusal."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        try:
            written = await self.cluster.create(body, namespace="default")
        except FencedError as error:
            self.refusals.append(error)
            return ""
        return written.metadata.resource_version

    async def _lead_outer(self, term: Term) -> None:
        self.outer_terms.append(term)
        await self.inner.elector.run(self._lead_inner)

    async def _lead_inner(self, term: Term) -> None:
        self.inner_terms.append(term)
        self._leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._leads.clear()
            if self._drain is not None:
                await self._drain(self)


async def _holder(world: World, name: str) -> str:
    found = await world.cluster.get("coordination.k8s.io/v1", "leases", f"default/{name}")
    return str(found.to_dict()["spec"]["holderIdentity"])


async def _inherited(world: World, name: str) -> WrittenVersions | None:
    """Return what the next leader knows of the writes before it."""
    successor = Replica(world, "successor", name=name)
    successor.start()
    await successor.leads.wait()
    await successor.stop()
    return successor.terms[0].predecessor


async def _take_over(world: World, name: str) -> None:
    """Write another holder into a Lease."""
    found = await world.cluster.get("coordination.k8s.io/v1", "leases", f"default/{name}")
    edited = found.to_dict()
    edited["spec"]["holderIdentity"] = "another"
    await world.cluster.patch(found, edited)


def test_writes_of_an_inner_term_are_refused_when_the_outer_term_has_ended(world: World) -> None:
    async def drain(nested: Nested) -> None:
        assert not nested.inner_terms[0].has_ended
        for number in range(3):
            await pause(1.0)
            await nested.write(f"late-{number}")
        with pytest.raises(FencedError, match="default/outer"):
            nested.inner_terms[0].check()

    async def scenario() -> None:
        nested = Nested(world, drain)
        await nested.start()
        assert await nested.write("of-another-task")
        await _take_over(world, "outer")
        await pause(5.0)
        assert [error.lease for error in nested.refusals] == ["default/outer"] * 3
        assert all(error.has_ended for error in nested.refusals)
        found = world.cluster.list("v1", "configmaps", namespace="default")
        assert [one.metadata.name async for one in found] == ["of-another-task"]
        await nested.stop()

    world.run(scenario)


def test_the_lease_of_an_inner_term_is_released_when_the_outer_term_has_ended(
    world: World,
) -> None:
    """It is renewed while the work drains, and released with the versions that it wrote."""

    async def drain(_nested: Nested) -> None:
        await pause(10.0)

    async def scenario() -> None:
        nested = Nested(world, drain)
        await nested.start()
        await _take_over(world, "outer")
        began_at = now()
        await pause(9.0)
        assert await _holder(world, "inner") == "one"
        while await _holder(world, "inner"):
            await pause(0.5)
        assert now() - began_at <= 11.0
        assert await _inherited(world, "inner") is not None
        assert nested.inner.elector.status().last_error == ""
        await nested.stop()

    world.run(scenario)


def test_writes_of_an_inner_term_that_is_over_are_refused_and_the_outer_goes_on(
    world: World,
) -> None:
    async def drain(nested: Nested) -> None:
        await nested.write("late")

    async def scenario() -> None:
        nested = Nested(world, drain)
        await nested.start()
        await _take_over(world, "inner")
        await pause(1.0)
        assert [error.lease for error in nested.refusals] == ["default/inner"]
        nested.outer_terms[0].check()
        await nested.stop()

    world.run(scenario)


def test_what_an_inner_term_writes_is_named_by_the_release_of_both(world: World) -> None:
    async def scenario() -> None:
        versions: list[str] = []

        async def drain(nested: Nested) -> None:
            for term in (*nested.outer_terms, *nested.inner_terms):
                term.record_caught_up({"configmaps.v1": "1"})
            versions.append(await nested.write("a"))

        nested = Nested(world, drain)
        await nested.start()
        await nested.stop()
        for name in ("outer", "inner"):
            written = await _inherited(world, name)
            assert written is not None
            assert written.version_of("configmaps.v1") == versions[0]

    world.run(scenario)


def test_a_refused_write_is_counted_for_the_lease_whose_term_refuses_it(world: World) -> None:
    async def scenario() -> None:
        registry = MetricsRegistry()
        counts: list[dict[str, float]] = []

        async def drain(nested: Nested) -> None:
            await nested.write("late")
            counts.append(collected(registry, "leader_election_fenced_writes_total"))

        nested = Nested(world, drain, metrics=registry)
        await nested.start()
        await _take_over(world, "outer")
        await pause(1.0)
        assert [sorted(one.values()) for one in counts] == [[0, 1]]
        assert [one for one, count in counts[0].items() if count] == [
            'leader_election_fenced_writes_total{name="outer"}'
        ]
        await nested.stop()

    world.run(scenario)


async def _drain_for_long(_nested: Nested) -> None:
    await pause(3.0)


def test_a_write_is_cut_off_once_by_the_end_of_either_term(world: World) -> None:
    async def scenario() -> None:
        nested = Nested(world, _drain_for_long)
        await nested.start()
        inner = nested.inner_terms[0]
        called: list[str] = []
        inner.on_end(lambda: called.append("cut off"))
        inner.on_end(lambda: called.append("taken back"))()
        await _take_over(world, "outer")
        await pause(1.0)
        assert not inner.has_ended
        assert called == ["cut off"]
        inner.on_end(lambda: called.append("at once"))
        assert called == ["cut off", "at once"]
        await _take_over(world, "inner")
        await pause(1.0)
        assert inner.has_ended
        assert called == ["cut off", "at once"]
        await nested.stop()

    world.run(scenario)


def test_a_write_that_the_inner_term_has_cut_off_is_not_kept_by_the_outer(world: World) -> None:
    async def scenario() -> None:
        nested = Nested(world, _drain_for_long)
        await nested.start()
        called: list[str] = []
        take_back = nested.inner_terms[0].on_end(lambda: called.append("cut off"))
        await _take_over(world, "inner")
        await pause(1.0)
        assert nested.inner_terms[0].has_ended
        assert called == ["cut off"]
        take_back()
        await _take_over(world, "outer")
        await pause(1.0)
        assert nested.outer_terms[0].has_ended
        assert called == ["cut off"]
        await nested.stop()

    world.run(scenario)
