"""The authorities in the configurations: what is written where, and what is left alone."""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pyinformer.testing import World
from tests.admission.certificates.replicas import (
    DAY,
    DEFINITION,
    MUTATING,
    REGISTRATION,
    SECRET,
    VALIDATING,
    Replica,
    configuration,
    definition,
    serial,
)
from tests.waiting import pause, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.admission.certificates import Target

_TARGETS = (VALIDATING, MUTATING, DEFINITION)
_VALIDATING = VALIDATING.resource.resource
_LOGGER = "pyinformer.admission.certificates"
_ANNOTATIONS = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time, which serves configurations of webhooks."""
    acme = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}}
    with World([acme], virtual_time=True) as world:
        for kind in (VALIDATING.kind, MUTATING.kind):
            world.register(REGISTRATION, kind, f"{kind.lower()}s", namespaced=False)
        yield world


def _get(world: World, target: Target) -> dict[str, Any]:
    resource = target.resource
    return world.get(resource.api_version, resource.resource, target.name)


def _bundles(world: World, target: Target) -> list[str]:
    found = _get(world, target)
    if target == DEFINITION:
        configs = [found["spec"]["conversion"]["webhook"]["clientConfig"]]
    else:
        configs = [one["clientConfig"] for one in found["webhooks"]]
    return [base64.b64decode(one.get("caBundle", "")).decode() for one in configs]


def _apply_all(world: World) -> None:
    for target in (VALIDATING, MUTATING):
        world.create(configuration(target))
    world.create(definition())
    world.clear_writes()


def _start(world: World, **options: Any) -> Replica:
    replica = Replica(world, targets=_TARGETS, **options)
    world.run(replica.start)
    world.elapse(1)
    return replica


def _warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name == _LOGGER and one.levelno == logging.WARNING
    ]


def test_each_webhook_gets_the_authorities_and_nothing_else_changes(world: World) -> None:
    _apply_all(world)
    before = _get(world, VALIDATING)
    replica = _start(world)
    bundle = replica.certificate.bundle
    assert _bundles(world, VALIDATING) == _bundles(world, MUTATING) == [bundle, bundle]
    assert _bundles(world, DEFINITION) == [bundle]
    after = _get(world, VALIDATING)
    for one in after["webhooks"]:
        del one["clientConfig"]["caBundle"]
    assert after["webhooks"] == before["webhooks"]
    assert "db-webhooks" in {one["manager"] for one in after["metadata"]["managedFields"]}
    assert [one.verb for one in world.writes] == ["create", "patch", "patch", "patch"]
    world.elapse(3600)
    assert len(world.writes) == 4
    assert not replica.bundles.warnings
    world.run(replica.aclose)


def test_what_a_manifest_took_away_comes_back_at_once(world: World) -> None:
    _apply_all(world)
    replica = _start(world)
    world.update(configuration(VALIDATING))
    world.elapse(0.1)
    assert set(_bundles(world, VALIDATING)) == {replica.certificate.bundle}
    world.run(replica.aclose)


def test_a_bundle_of_another_certificate_is_replaced(world: World) -> None:
    world.create(configuration(VALIDATING, base64.b64encode(b"another").decode()))
    replica = Replica(world, targets=[VALIDATING])
    world.run(replica.start)
    world.elapse(1)
    assert set(_bundles(world, VALIDATING)) == {replica.certificate.bundle}
    world.run(replica.aclose)


@pytest.mark.parametrize("annotation", _ANNOTATIONS)
def test_what_cert_manager_injects_is_left_to_it(world: World, annotation: str) -> None:
    world.create(configuration(VALIDATING, annotations={f"cert-manager.io/{annotation}": "a/b"}))
    replica = Replica(world, targets=[VALIDATING])
    world.run(replica.start)
    world.elapse(60)
    assert _bundles(world, VALIDATING) == ["", ""]
    (warning,) = replica.bundles.warnings  # the operator makes another authority
    assert "has an annotation of cert-manager" in warning
    world.run(replica.aclose)


def test_only_the_leader_writes_and_a_new_leader_does_within_a_second(world: World) -> None:
    world.create(configuration(VALIDATING))
    maker = Replica(world)
    world.run(maker.certificate.start)
    standby = Replica(world, targets=[VALIDATING], leads=False)
    world.run(standby.start)
    world.elapse(3600)
    assert _bundles(world, VALIDATING) == ["", ""]
    standby.leads = True
    world.elapse(1)
    assert set(_bundles(world, VALIDATING)) == {standby.certificate.bundle}
    world.run(standby.aclose)
    world.run(maker.aclose)


def test_what_does_not_exist_yet_is_one_warning_and_written_when_it_does(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(definition(converts=False))
    replica = _start(world)
    world.elapse(3600)
    webhooks = "apply deploy/webhooks.yaml, or what `pyinformer webhooks module:app` prints"
    crd = "apply deploy/crd.yaml, or what `pyinformer crd module:app` prints"
    calls_none = "db has no webhooks, so the API server calls none"
    converts_none = "has no conversion webhook, so versions are not converted"
    assert _warned(caplog) == [
        f"ValidatingWebhookConfiguration {calls_none}: {webhooks}",
        f"MutatingWebhookConfiguration {calls_none}: {webhooks}",
        f"CustomResourceDefinition databases.acme.io {converts_none}: {crd}",
    ]
    assert list(replica.bundles.warnings) == _warned(caplog)
    world.create(configuration(VALIDATING))
    world.elapse(0.1)
    assert set(_bundles(world, VALIDATING)) == {replica.certificate.bundle}
    assert len(replica.bundles.warnings) == 2
    world.run(replica.aclose)


def test_a_write_that_is_refused_is_one_warning_and_retried(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(configuration(VALIDATING))
    world.fail_on("validatingwebhookconfigurations", status=403, times=None)
    replica = Replica(world, targets=[VALIDATING])
    world.run(replica.start)
    world.elapse(600)
    assert len(_warned(caplog)) == 1
    assert "ValidatingWebhookConfiguration db: caBundle cannot be written" in _warned(caplog)[0]
    attempts = replica.line.count("PATCH")
    assert 20 <= attempts <= 100  # 30 s apart at most, in the end
    world.stop_failing()
    world.elapse(30)
    assert set(_bundles(world, VALIDATING)) == {replica.certificate.bundle}
    assert not replica.bundles.warnings
    world.run(replica.aclose)


def test_a_conflict_is_written_again_to_the_next_version(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(configuration(VALIDATING))
    world.conflict_on("validatingwebhookconfigurations")
    replica = Replica(world, targets=[VALIDATING])
    world.run(replica.start)
    world.elapse(11)
    assert set(_bundles(world, VALIDATING)) == {replica.certificate.bundle}
    assert _warned(caplog) == []
    world.run(replica.aclose)


def test_an_authority_counts_as_published_when_servers_have_had_time_to_follow(
    world: World,
) -> None:
    _apply_all(world)
    replica = _start(world)
    authority = replica.certificate.bundle

    def is_published(one: str = authority) -> bool:
        async def ask() -> bool:
            return replica.bundles.is_published(one)

        return world.run(ask)

    assert not is_published()
    world.elapse(20)
    assert is_published()
    assert not is_published("another")
    world.fail_on("validatingwebhookconfigurations", status=403, times=None)
    world.update(configuration(VALIDATING))
    world.elapse(1)
    assert not is_published()
    world.stop_failing()
    world.run(replica.aclose)


def test_the_server_trusts_each_certificate_that_is_shown_during_a_rotation(world: World) -> None:
    """The Secret is deleted, and each second the webhook is called by the bundle of that time."""
    _apply_all(world)
    leader = _start(world)
    standby = Replica(world, targets=_TARGETS, leads=False)
    world.run(standby.start)
    old = leader.certificate.bundle
    shown = set()
    world.delete(*SECRET)
    for _ in range(60):
        world.elapse(1)
        for replica in (leader, standby):
            for target in _TARGETS:
                for bundle in _bundles(world, target):
                    shown.add(serial(replica.certificate, at=bundle))
    assert 2 <= len(shown) <= 3  # with the last one of the old authority
    with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        serial(leader.certificate, at=old)
    assert old in leader.certificate.bundle
    for replica in (leader, standby):
        replica.now += 10 * DAY
    world.elapse(60)
    assert old not in leader.certificate.bundle
    assert set(_bundles(world, MUTATING)) == {leader.certificate.bundle}
    assert serial(standby.certificate, at=_bundles(world, MUTATING)[0])
    for replica in (leader, standby):
        world.run(replica.aclose)


def test_a_new_leader_that_is_behind_takes_no_newer_authority_away(world: World) -> None:
    _apply_all(world)
    old, new = _start(world), _start(world, leads=False)

    async def scenario() -> str:
        new.line.hold("secrets", held=True)
        await world.cluster.delete("v1", "secrets", "acme/db-webhooks")
        await pause(5)
        assert old.certificate.bundle != new.certificate.bundle
        old.leads, new.leads = False, True
        await pause(60)
        assert old.certificate.bundle != new.certificate.bundle
        found = await world.cluster.get(REGISTRATION, _VALIDATING, VALIDATING.name)
        new.line.hold("secrets", held=False)
        return str(found.at("webhooks", list)[0]["clientConfig"]["caBundle"])

    bundle = base64.b64decode(world.run(scenario)).decode()
    assert bundle == old.certificate.bundle
    world.elapse(60)
    assert new.certificate.bundle == bundle
    assert serial(new.certificate, at=bundle) == serial(old.certificate, at=bundle)
    for replica in (old, new):
        world.run(replica.aclose)


@pytest.mark.parametrize("by", ["task", "scope"])
def test_a_start_that_is_cancelled_leaves_nothing(world: World, by: str) -> None:
    replica = Replica(world, targets=_TARGETS)

    async def cancel() -> None:
        if by == "scope":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await replica.bundles.start()
        else:
            starting = asyncio.ensure_future(replica.bundles.start())
            await asyncio.sleep(0)
            starting.cancel()
            await asyncio.wait((starting,))
        await settle()
        await replica.aclose()

    world.run(cancel)
