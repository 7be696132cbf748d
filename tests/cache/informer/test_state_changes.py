"""The state of an informer, reported at each change with the reason; the age of its cache."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import SharedInformer
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import InvalidTypeError, StaleCacheError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, informer_of, pod
from tests.suspends import HAS_CLOCK, SUSPENDED_SECONDS, suspending
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.cache.informer import StateChange


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        made.create(pod("a"))
        yield made


async def test_each_change_of_state_is_reported_once_with_its_reason(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyinformer.cache.informer")
    apiserver.faults.add(Fault(resource="pods", status=403, times=2))
    told: list[StateChange] = []
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods", options=HURRIED)
        informer.on_state_change(told.append)
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.state is ReflectorState.WATCHING)

    assert all(one.before is not one.now for one in told)
    assert all(one.now is two.before for one, two in pairwise(told))
    now = [one.now for one in told]
    assert now[0] is ReflectorState.LOADING
    assert now.index(ReflectorState.FORBIDDEN) < now.index(ReflectorState.WATCHING)
    forbidden = next(one for one in told if one.now is ReflectorState.FORBIDDEN)
    assert "403" in forbidden.reason
    assert {one.informer for one in told} == {"pods.v1"}
    lines = [one for one in caplog.records if ", was " in one.getMessage()]
    assert len(lines) == len(told)
    loud = [one.getMessage() for one in lines if one.levelno == logging.WARNING]
    assert all("forbidden" in line and "403" in line for line in loud)
    assert len(loud) == now.count(ReflectorState.FORBIDDEN)


async def test_a_callback_that_raises_or_was_removed_affects_no_other(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(change: StateChange) -> None:
        raise ValueError(change.informer)

    told: list[StateChange] = []
    left: list[StateChange] = []
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods", options=HURRIED)
        informer.on_state_change(raises)
        leave = informer.on_state_change(left.append)
        informer.on_state_change(told.append)
        leave()
        leave()
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            assert informer.crash is None

    assert told
    assert left == []
    failed = [one for one in caplog.messages if "raises failed on a change of state" in one]
    assert len(failed) == 1
    assert "ValueError at " in failed[0]


async def test_a_callback_that_returns_a_coroutine_is_a_failed_one(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def notify(_: StateChange) -> None:
        """Never run."""

    def decorated(change: StateChange) -> object:
        return notify(change)

    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods", options=HURRIED)
        informer.on_state_change(decorated)
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)

    assert "InvalidTypeError" in caplog.text
    assert "failed on a change of state of pods.v1" in caplog.text


async def test_an_object_that_is_not_callable_is_refused(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        informer = SharedInformer(cluster, "v1", "pods")
        with pytest.raises(InvalidTypeError):
            informer.on_state_change("no function")  # type: ignore[arg-type] # on purpose


async def test_the_age_counts_from_the_last_proof_and_has_a_reason(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster:
        new: SharedInformer[None] = pyinformer.SharedInformer(cluster, "v1", "pods")
        assert new.age_seconds() is None
        assert new.state is ReflectorState.NEW

    async with informer_of(apiserver) as informer:
        await until(lambda: informer.state is ReflectorState.WATCHING)
        young = informer.age_seconds()
        assert young is not None
        assert informer.staleness == ""
        apiserver.stop_accepting()
        apiserver.drop_connections()
        await until(lambda: informer.staleness)
        await until(lambda: (informer.age_seconds() or 0.0) > young + 0.1)
        old = informer.age_seconds()
        assert old is not None
        apiserver.accept_again()
        apiserver.create(pod("b"))
        await until(lambda: informer.lister.get("default/b"))
        await until(lambda: not informer.staleness)
        informer.lister.fresh(max_age_seconds=0.5)  # asks the server to confirm the cache soon
        await until(lambda: (informer.age_seconds() or 0.0) < old)


@HAS_CLOCK
async def test_the_age_counts_a_suspend_of_the_machine_until_the_cache_is_proven_again(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspend = suspending(monkeypatch)
    async with informer_of(apiserver) as informer:
        await until(lambda: informer.state is ReflectorState.WATCHING)
        suspend()
        age = informer.age_seconds()
        assert age is not None
        assert age >= SUSPENDED_SECONDS
        with pytest.raises(StaleCacheError):
            informer.lister.fresh(max_age_seconds=100.0).get("default/a")

        await until(lambda: (informer.age_seconds() or 0.0) < SUSPENDED_SECONDS)

        assert informer.lister.fresh(max_age_seconds=100.0).list() == informer.lister.list()
        suspend()
        assert (informer.age_seconds() or 0.0) >= SUSPENDED_SECONDS


async def test_what_arrives_shows_life_and_not_the_age(apiserver: APIServer) -> None:
    async with informer_of(apiserver) as informer:
        await until(lambda: apiserver.open_watches == 1)
        assert informer.last_event_at is None
        assert informer.last_bookmark_at is None
        assert informer.status().silent_seconds is None
        apiserver.create(pod("b"))
        await until(lambda: informer.last_event_at is not None)
        apiserver.advance_resource_version(3)
        apiserver.send_bookmarks()
        await until(lambda: informer.last_bookmark_at is not None)
        assert informer.observed_resource_version == apiserver.resource_version
        age = informer.age_seconds()
        assert age is not None
        assert age > asyncio.get_running_loop().time() - (informer.last_event_at or 0.0)
        status = informer.status()
        assert status.silent_seconds == status.last_bookmark_seconds
        assert (status.silent_seconds or 0.0) < (status.age_seconds or 0.0)


async def test_the_name_of_a_cluster_stands_in_every_line(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyinformer.cache.informer")
    async with (
        pyinformer.connect(server=apiserver.url, name="eu") as cluster,
        SharedInformer(cluster, "v1", "pods") as pods,
    ):
        await pods.wait_for_cache_sync(timeout_seconds=100)
        assert str(pods) == "<SharedInformer of eu: pods.v1>"
        assert pods.status().informer == "eu: pods.v1"
    ours = [one.getMessage() for one in caplog.records if one.name == "pyinformer.cache.informer"]
    assert ours
    assert all(line.startswith("eu: pods.v1") for line in ours)
