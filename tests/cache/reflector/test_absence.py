"""A resource that is not served, goes away and comes back, over real HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.reflector import ReflectorState
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import Running, is_load, listed, options, reflecting
from tests.cache.reflector.wire_tap import tapping
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.cache.reflector import AbsencePolicy
    from pyinformer.testing import RequestRecord

GROUP = "example.com"
WIDGETS = GroupVersionResource.of(f"{GROUP}/v1", "widgets")
CONFIRM_SECONDS = 0.5  # in place of ten
POLICIES: list[AbsencePolicy] = ["require", "wait", "optional"]


def serve(server: APIServer, version: str = "v1") -> None:
    """Serve widgets."""
    server.register(f"{GROUP}/{version}", "Widget", "widgets")


def make(server: APIServer, *names: str, version: str = "v1", **spec: Any) -> None:
    """Create widgets."""
    for name in names:
        body = {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": {"name": name}}
        server.create({**body, "spec": spec})


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


def following(server: APIServer, absent: AbsencePolicy = "wait", **more: Any) -> Any:
    """Follow widgets."""
    return reflecting(
        server,
        resource=more.pop("resource", WIDGETS),
        absent=absent,
        with_options=options(),
        **more,
    )


def discoveries(server: APIServer) -> int:
    """Count the questions to discovery."""
    return sum(one.path == f"/apis/{GROUP}/v1" for one in server.requests)


def hasten(running: Running) -> None:
    """Let two answers of discovery be as far apart as this test waits, not ten seconds."""
    running.reflector._availability.confirm_seconds = CONFIRM_SECONDS


async def until_absent(running: Running) -> None:
    """Wait until it knows that its resource is not served."""
    await until(lambda: running.reflector.state is ReflectorState.ABSENT)


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_404_of_a_lagging_replica_costs_a_load_and_no_object(
    server: APIServer, policy: AbsencePolicy
) -> None:
    serve(server)
    make(server, "a", "b")
    async with following(server, policy) as running:
        await running.until_watching()
        server.faults.add(Fault(verb="watch", status=404), Fault(verb="list", status=404, skip=1))
        server.end_watches()
        await running.until_watching(loads=2)
        await running.until_equal(f"{GROUP}/v1", "widgets")
        assert {len(history) for history in running.sink.history.values()} == {1}
        assert ReflectorState.ABSENT in running.states


async def test_a_resource_that_comes_late_is_loaded_by_itself(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with following(server) as running:
        await until_absent(running)
        serve(server)
        make(server, "a")
        await running.until_equal(f"{GROUP}/v1", "widgets")
    said = [one.getMessage() for one in caplog.records if "served" in one.getMessage()]
    assert len(said) == 2
    assert "is not served" in said[0]
    assert "is served again" in said[1]


async def test_a_long_absence_of_a_resource_is_one_log_line(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyinformer.cache.reflector")
    async with following(server) as running:
        hasten(running)
        await until(lambda: running.reflector.status().attempts == 3, timeout_seconds=100)
        serve(server)
        await until(lambda: running.reflector.status().loads == 1, timeout_seconds=100)
    ours = [record for record in caplog.records if record.name.startswith("pyinformer")]
    said = [record.getMessage() for record in ours]
    assert ["not served" in said[0], "served again" in said[-1]] == [True, True]
    assert len(said) == 2, said


async def test_an_optional_resource_that_is_not_served_is_treated_as_empty(
    server: APIServer,
) -> None:
    async with following(server, "optional") as running:
        await until(lambda: running.sink.synced_at)
        assert running.sink.objects == {}
        assert running.reflector.state is ReflectorState.ABSENT
        assert not running.reflector.fails_sync
        serve(server)
        make(server, "a")
        await running.until_equal(f"{GROUP}/v1", "widgets")


async def test_a_required_resource_that_is_not_served_fails_the_wait(
    server: APIServer,
) -> None:
    async with following(server, "require") as running:
        await until(lambda: running.reflector.fails_sync)
        assert running.sink.synced_at == []
        serve(server)
        await until(lambda: running.sink.synced_at)
        assert not running.reflector.fails_sync


async def test_a_resource_that_will_come_is_waited_for(server: APIServer) -> None:
    async with following(server, "wait") as running:
        await until(lambda: discoveries(server) >= 2)
        assert running.sink.synced_at == []
        assert not running.reflector.fails_sync


@pytest.mark.slow
async def test_objects_of_a_removed_resource_are_deleted_after_two_discovery_answers() -> None:
    """Some time apart, on a connection each; under `require` nothing is ever deleted."""
    async with asyncio.TaskGroup() as group:
        for policy in POLICIES:
            group.create_task(_goes_and_comes_back(policy))


async def _goes_and_comes_back(policy: AbsencePolicy) -> None:
    with APIServer() as server:
        serve(server)
        make(server, *(f"w{number:02}" for number in range(12)))
        everything = listed(server, f"{GROUP}/v1", "widgets")
        async with tapping(server.url) as tap, following(server, policy, url=tap.url) as running:
            hasten(running)
            await running.until_watching()
            server.unregister(f"{GROUP}/v1", "widgets")
            await until(lambda: discoveries(server) == 1)
            await until_absent(running)
            assert running.sink.versions() == everything
            await until(lambda: discoveries(server) == 2, timeout_seconds=100)
            await _check_second_answer(server, running, policy)
            connections = tap.that_asked(f"/apis/{GROUP}/v1")
            assert {len(asked) for asked in connections} == {1}
            assert len(connections) == 2 if policy == "require" else len(connections) > 10
            serve(server)
            await until(lambda: running.reflector.status().loads == 2, timeout_seconds=100)
            assert running.sink.versions() == everything
            lives = {len(history) for history in running.sink.history.values()}
            assert lives == ({1} if policy == "require" else {3})  # add, delete, add


async def test_one_server_that_still_serves_a_resource_keeps_its_objects() -> None:
    """Servers of two releases are behind one address for minutes while a cluster is upgraded."""
    with APIServer() as server:
        serve(server)
        make(server, *(f"w{number:02}" for number in range(12)))
        everything = listed(server, f"{GROUP}/v1", "widgets")
        async with following(server) as running:
            hasten(running)
            await running.until_watching()

            def is_of_the_other_server(record: RequestRecord) -> bool:
                if record.path == f"/apis/{GROUP}/v1" and discoveries(server) == 6:
                    serve(server)
                return False

            server.faults.add(Fault(match=is_of_the_other_server, times=None))
            server.unregister(f"{GROUP}/v1", "widgets")
            await until(lambda: running.reflector.status().loads == 2, timeout_seconds=100)
            assert running.sink.versions() == everything
            assert {len(history) for history in running.sink.history.values()} == {1}


async def _check_second_answer(server: APIServer, running: Running, policy: AbsencePolicy) -> None:
    questions = [one for one in server.requests if one.path == f"/apis/{GROUP}/v1"]
    assert questions[1].arrived_at - questions[0].arrived_at >= CONFIRM_SECONDS
    if policy != "require":
        await until(lambda: not running.sink.objects)
    counts = running.counts()
    assert counts.get("mass_deletes:confirmed", 0) == int(policy != "require")


async def test_a_version_that_is_replaced_by_another_is_absent_and_its_successor_is_loaded(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its objects exist in the other version, so no handler may get a deletion of them."""
    serve(server, "v1alpha1")
    make(server, "a", version="v1alpha1")
    old = GroupVersionResource.of(f"{GROUP}/v1alpha1", "widgets")
    async with (
        following(server, resource=old) as before,
        following(server, "optional") as after,
    ):
        hasten(before)
        await until(lambda: "default/a" in before.sink.objects)
        await until(lambda: after.sink.synced_at)
        server.unregister(f"{GROUP}/v1alpha1", "widgets")
        serve(server)
        make(server, "a", "b")
        await until_absent(before)
        await after.until_equal(f"{GROUP}/v1", "widgets")
        asked = f"/apis/{GROUP}/v1alpha1"
        await until(lambda: sum(one.path == asked for one in server.requests) > 3)
        assert list(before.sink.objects) == ["default/a"]
        (said,) = [one.message for one in caplog.records if "its objects exist" in one.message]
        assert f"{GROUP}/v1 is" in said


async def test_a_version_that_is_served_again_is_loaded_again(server: APIServer) -> None:
    """Discovery is asked again and again until it has the resource."""
    serve(server)
    make(server, "a")
    async with following(server) as running:
        hasten(running)
        await running.until_watching()
        server.unregister(f"{GROUP}/v1", "widgets")
        await until_absent(running)
        serve(server)
        await until(lambda: running.reflector.status().loads == 2, timeout_seconds=100)
        make(server, "b")
        await running.until_equal(f"{GROUP}/v1", "widgets")
        assert {len(history) for history in running.sink.history.values()} == {1}


@pytest.mark.parametrize("policy", POLICIES)
async def test_discovery_without_an_answer_does_not_stop_an_informer(
    server: APIServer, policy: AbsencePolicy
) -> None:
    """Some clients may not use discovery: then only a list can show that a 404 is over."""
    serve(server)
    make(server, "a")
    server.faults.add(
        Fault(match=lambda one: one.path == f"/apis/{GROUP}/v1", status=403),
        Fault(match=is_load, status=404, times=2),
    )
    async with following(server, policy) as running:
        await running.until_equal(f"{GROUP}/v1", "widgets")
        assert discoveries(server) == 2


async def test_inconclusive_discovery_deletes_nothing(server: APIServer) -> None:
    serve(server)
    make(server, "a")
    async with following(server) as running:
        await running.until_watching()
        server.faults.add(
            Fault(match=lambda one: one.path.startswith("/apis"), status=503, times=3)
        )
        server.unregister(f"{GROUP}/v1", "widgets")
        await until(lambda: discoveries(server) == 1)
        await until_absent(running)
        assert "default/a" in running.sink.objects
