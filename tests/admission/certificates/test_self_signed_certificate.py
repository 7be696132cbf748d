"""A certificate in a Secret: who makes it, and what every replica then shows."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pyinformer.admission.certificates import Material
from pyinformer.errors import ConfigurationError
from pyinformer.testing import World
from tests.admission.certificates.replicas import DAY, SECRET, Replica, serial
from tests.waiting import now, pause, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

_LOGGER = "pyinformer.admission.certificates"
_ACME = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}}


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World([_ACME], virtual_time=True) as world:
        yield world


def _stored(world: World) -> Material:
    secret = world.get(*SECRET)
    assert secret["type"] == "kubernetes.io/tls"
    found = Material.read(secret["data"])
    assert found is not None
    return found


def _secret(**data: str) -> dict[str, Any]:
    metadata = {"name": "db-webhooks", "namespace": "acme", "labels": {"helm": "yes"}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/tls",
        "data": data,
    }


async def _started(*replicas: Replica) -> None:
    async with anyio.create_task_group() as group:
        for one in replicas:
            group.start_soon(one.start)


async def _ended(*replicas: Replica) -> None:
    for one in replicas:
        await one.aclose()


def _warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name == _LOGGER and one.levelno >= logging.WARNING
    ]


def test_the_leader_makes_it_and_every_replica_shows_it(world: World) -> None:
    leader, standby = Replica(world), Replica(world, leads=False)
    world.run(lambda: _started(standby, leader))
    stored = _stored(world)
    assert serial(leader.certificate) == serial(standby.certificate)
    assert leader.certificate.bundle == standby.certificate.bundle == stored.bundle
    assert [one.verb for one in world.writes] == ["create"]
    assert not leader.certificate.problems
    assert not leader.certificate.warnings
    world.run(lambda: _ended(leader, standby))


def test_replicas_that_all_believe_to_lead_agree(world: World) -> None:
    replicas = [Replica(world) for _ in range(4)]
    world.run(lambda: _started(*replicas))
    world.elapse(5)
    assert len({serial(one.certificate) for one in replicas}) == 1
    assert {one.certificate.bundle for one in replicas} == {_stored(world).bundle}
    world.run(lambda: _ended(*replicas))


def test_a_later_replica_takes_what_is_there(world: World) -> None:
    first, later = Replica(world), Replica(world, leads=False)
    world.run(lambda: _started(first))
    world.run(lambda: _ended(first))
    world.run(lambda: _started(later))
    assert serial(later.certificate) == serial(first.certificate)
    world.run(lambda: _ended(later))


def _failure(world: World, replica: Replica) -> str:
    async def fail() -> str:
        began = now()
        with pytest.raises(ConfigurationError) as raised:
            await replica.start()
        assert 60 <= now() - began < 61
        return str(raised.value)

    return world.run(fail)


def test_without_a_leader_the_start_fails_and_tells_so(world: World) -> None:
    assert _failure(world, Replica(world, leads=False)) == (
        "Secret acme/db-webhooks: no certificate within 60 s: Secret acme/db-webhooks does not"
        " exist, and this replica does not lead"
    )


def test_without_the_right_to_write_the_start_fails_and_tells_so(world: World) -> None:
    world.fail_on("secrets", verb="create", status=403, times=None)
    text = _failure(world, Replica(world))
    assert "Secret acme/db-webhooks cannot be written: " in text
    assert "403" in text


def test_without_the_right_to_read_the_start_fails_and_tells_so(world: World) -> None:
    replica = Replica(world)
    replica.line.list_is_forbidden = replica.line.watch_is_forbidden = True
    text = _failure(world, replica)
    assert "Secret acme/db-webhooks cannot be read: " in text
    assert "403" in text


def test_rights_that_are_granted_late_are_waited_for(world: World) -> None:
    world.fail_on("secrets", verb="create", status=403, times=3)
    replica = Replica(world)
    world.run(lambda: _started(replica))
    world.run(lambda: _ended(replica))


def test_what_something_else_keeps_there_is_not_overwritten(world: World) -> None:
    foreign = world.create(_secret(**{"tls.crt": "eA==", "tls.key": "eA=="}))
    text = _failure(world, Replica(world))
    assert "delete it, or configure another name; it is not overwritten" in text
    assert world.get(*SECRET) == foreign


def test_an_empty_secret_is_filled_and_keeps_its_labels(world: World) -> None:
    world.create(_secret(**{"tls.crt": "", "tls.key": ""}))
    replica = Replica(world)
    world.run(lambda: _started(replica))
    assert world.get(*SECRET)["metadata"]["labels"] == {"helm": "yes"}
    assert serial(replica.certificate, at=_stored(world).bundle)
    world.run(lambda: _ended(replica))


def test_the_leader_renews_the_leaf_at_two_thirds_of_its_life(world: World) -> None:
    leader, standby = Replica(world), Replica(world, leads=False)
    replicas = (leader, standby)
    world.run(lambda: _started(*replicas))
    first = serial(leader.certificate)
    for one in replicas:
        one.now += 59 * DAY
    world.elapse(60)
    assert serial(leader.certificate) == first
    standby.now += 2 * DAY
    world.elapse(60)
    assert serial(standby.certificate) == first
    leader.now += 2 * DAY
    world.elapse(60)
    assert serial(leader.certificate) == serial(standby.certificate) != first
    assert [one.verb for one in world.writes] == ["create", "replace"]
    world.run(lambda: _ended(*replicas))


def test_another_leader_continues(world: World) -> None:
    old, new = Replica(world), Replica(world, leads=False)
    world.run(lambda: _started(old, new))
    first = serial(new.certificate)
    old.line.is_down = True
    old.leads, new.leads = False, True
    new.now += 61 * DAY
    world.elapse(15)
    assert serial(new.certificate) != first
    world.run(lambda: _ended(old, new))


def test_a_write_that_fails_is_one_warning_and_retried(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    replica = Replica(world)
    world.run(lambda: _started(replica))
    first = serial(replica.certificate)
    world.fail_on("secrets", verb="replace", status=403, times=None)
    replica.now += 61 * DAY
    world.elapse(300)
    assert serial(replica.certificate) == first
    assert not replica.certificate.problems
    assert "cannot be written" in replica.certificate.warnings[0]
    assert _warned(caplog) == list(replica.certificate.warnings)
    world.stop_failing()
    world.elapse(60)
    assert serial(replica.certificate) != first
    assert not replica.certificate.warnings
    world.run(lambda: _ended(replica))


def test_a_conflict_is_read_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    replica = Replica(world)
    world.run(lambda: _started(replica))
    first = serial(replica.certificate)
    world.conflict_on("secrets", times=2)
    replica.now += 61 * DAY
    world.elapse(60)
    assert serial(replica.certificate) != first
    assert _warned(caplog) == []
    world.run(lambda: _ended(replica))


def test_a_lost_secret_comes_back_with_a_new_authority_beside_the_old_one(world: World) -> None:
    leader, standby = Replica(world), Replica(world, leads=False)
    for one in (leader, standby):  # nothing publishes the new authority
        world.run(one.certificate.start)
    old = _stored(world)
    world.delete(*SECRET)
    world.elapse(5)
    stored = _stored(world)
    assert stored.authorities[1:] == old.authorities
    assert standby.certificate.bundle == stored.bundle
    world.elapse(3600)
    for one in (leader, standby):
        assert serial(one.certificate, at=old.bundle)
    world.run(lambda: _ended(leader, standby))


def test_a_spoiled_secret_leaves_the_last_certificate(world: World) -> None:
    leader = Replica(world)
    world.run(lambda: _started(leader))
    first = serial(leader.certificate)
    spoiled = world.get(*SECRET)
    spoiled["data"]["ca.key"] = "eA=="
    world.update(spoiled)
    world.elapse(60)
    assert serial(leader.certificate) == first
    assert "delete it, or configure another name" in leader.certificate.warnings[0]
    world.delete(*SECRET)
    world.elapse(5)
    assert not leader.certificate.warnings
    assert _stored(world)
    world.run(lambda: _ended(leader))


@pytest.mark.parametrize("by", ["task", "scope"])
def test_a_start_that_is_cancelled_while_it_waits_leaves_nothing(world: World, by: str) -> None:
    replica = Replica(world, leads=False)

    async def cancel() -> None:
        await _cancel(replica.certificate.start, by, after_seconds=5.0)
        count = len(replica.line.calls)
        await pause(60)
        assert len(replica.line.calls) == count
        await replica.aclose()

    world.run(cancel)
    assert world.writes == ()


@pytest.mark.parametrize("by", ["task", "scope"])
@pytest.mark.parametrize("what", ["certificate", "bundles"])
def test_an_end_that_is_cancelled_has_ended(world: World, by: str, what: str) -> None:
    replica = Replica(world)
    world.run(lambda: _started(replica))

    async def cancel() -> None:
        await _cancel(getattr(replica, what).aclose, by)
        await replica.aclose()

    world.run(cancel)


async def _cancel(
    function: Callable[[], Awaitable[None]], by: str, *, after_seconds: float = 0.0
) -> None:
    """Call a function, and cancel it while it waits."""
    if by == "scope":
        with anyio.move_on_after(after_seconds) as scope:
            await function()
        assert scope.cancel_called
        return
    task = asyncio.ensure_future(function())
    await (pause(after_seconds) if after_seconds else settle())
    task.cancel()
    await asyncio.wait((task,))
