"""What an elector logs: each change once, in words that name what happened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyinformer.errors import FencedError
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.waiting import pause

_ELECTION = "pyinformer.leaderelection"


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged since the last call."""
    found = [one.getMessage() for one in caplog.records if one.name == _ELECTION]
    caplog.clear()
    return found


def test_a_new_leader_is_one_line_in_each_replica(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        await pause(5)
        assert lines(caplog) == ["one leads: it holds the Lease default/db-operator"]
        two.start()
        await pause(5)
        assert lines(caplog) == ["the Lease default/db-operator: the leader is one"]
        await one.stop()
        await two.stop()

    caplog.set_level("INFO", _ELECTION)
    world.run(scenario)


def test_an_outage_is_two_lines(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        lines(caplog)
        one.line.is_down = True
        await pause(8)
        one.line.is_down = False
        await pause(8)
        down, up = lines(caplog)
        assert down.startswith("could not read or write the Lease default/db-operator, retrying: ")
        assert up == "the Lease default/db-operator can be read and written again"
        await one.stop()

    caplog.set_level("INFO", _ELECTION)
    world.run(scenario)


def test_a_missing_right_to_the_lease_is_a_warning_and_an_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.line.is_forbidden = True
        one.start()
        await pause(3600)
        first, later = lines(caplog)
        assert first.startswith("could not read or write the Lease default/db-operator, retrying: ")
        assert later.startswith("one cannot lead, and waits until the server allows")
        assert "get, create and update on leases" in first
        assert "get, create and update on leases" in later
        one.line.is_forbidden = False
        await one.leads.wait()
        await one.stop()

    caplog.set_level("INFO", _ELECTION)
    world.run(scenario)


def test_a_term_of_the_greatest_number_is_one_warning(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        await _create(world, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=2**31 - 2)
        for replica, number in ((one, 2**31 - 1), (two, 2**31 - 1)):
            replica.start()
            await replica.leads.wait()
            assert replica.terms[0].transitions == number
            (warning,) = lines(caplog)
            assert "leaseTransitions is at its maximum" in warning
            await replica.stop()

    caplog.set_level("WARNING", _ELECTION)
    world.run(scenario)


async def _create(world: World, **spec: object) -> None:
    """Create the Lease."""
    metadata = {"name": "db-operator", "namespace": "default"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    await world.cluster.create({**lease, "spec": spec})


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_missing_right_to_watch_is_one_warning_for_each_outage(
    world: World, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    async def scenario() -> None:
        await _create(world, holderIdentity="another", leaseDurationSeconds=100_000)
        two = Replica(world, "two")
        two.line.list_is_forbidden = verb == "list"
        two.line.watch_is_forbidden = True
        two.start()
        for refused_verb in (verb, "watch"):  # the second time it was synced, so it watches first
            await pause(1_300)  # a watch lasts for ten minutes at most
            assert not two.elector.status().is_watching
            refused = [line for line in lines(caplog) if "may not be watched" in line]
            assert len(refused) == 1
            assert f"{refused_verb} /apis/coordination.k8s.io" in refused[0]
            assert "grant the verbs list and watch on leases.coordination.k8s.io" in refused[0]
            assert "'db-operator' in namespace default" in refused[0]

            two.line.list_is_forbidden = two.line.watch_is_forbidden = False
            await pause(600)
            assert two.elector.status().is_watching
            assert not two.elector.status().watch_refusal
            assert lines(caplog) == ["the Lease default/db-operator is watched again"]

            two.line.list_is_forbidden = verb == "list"
            two.line.watch_is_forbidden = True
        await two.stop()

    caplog.set_level("INFO", _ELECTION)
    world.run(scenario)


def test_an_unreachable_server_is_not_a_missing_right(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.line.is_down = True
        one.start()
        await pause(60)
        assert not one.elector.status().watch_refusal
        assert not [line for line in lines(caplog) if "watched" in line]
        await one.stop()

    caplog.set_level("INFO", _ELECTION)
    world.run(scenario)


def test_an_edit_that_keeps_the_holder_is_not_said_to_be_another_holder(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        await pause(3)
        lease = await world.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator")
        body = lease.to_dict()
        await world.cluster.replace({**body, "spec": {**body["spec"], "leaseTransitions": 1000}})
        await pause(1)
        with pytest.raises(FencedError, match="another client has changed the Lease"):
            one.terms[0].check()
        await one.stop()

    world.run(scenario)
