"""The status of informers in trouble as text, read line by line."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import signal
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Event, SharedInformerFactory
from pyinformer.errors import LifecycleError
from pyinformer.telemetry import WatchdogStatistics
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        made.create(pod("a"))
        yield made


async def test_each_informer_is_one_line_with_its_problems(apiserver: APIServer) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(event: Event[Any]) -> None:
        entered.set()
        await leave.wait()

    def failing(event: Event[Any]) -> None:
        raise ValueError(event.key)

    apiserver.faults.add(Fault(resource="secrets", status=403, times=None, message="u may not"))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        pods = factory.informer("v1", "pods", namespaces="default")
        factory.informer("v1", "secrets")
        pods.add_event_handler(slow, name="audit")
        pods.add_event_handler(failing, name="copy")
        await factory.start()
        await pods.wait_for_cache_sync(timeout_seconds=100)
        await asyncio.wait_for(entered.wait(), 10)
        apiserver.create(pod("b"))
        await until(lambda: pods.status().handlers[0].depth)
        await until(lambda: pods.status().handlers[1].failed == 2)
        await until(lambda: "forbidden" in str(factory.status()))
        first, second, third = str(factory.status()).splitlines()
        position = pods.status().position
        leave.set()

    state, behind, failed = first.split("; ")
    assert state == f"pods.v1 in default: watching, 2 objects at {position}, proven 0 s ago"
    assert behind.startswith("handler audit is 1 event behind, the oldest for 0.")
    assert failed.startswith("handler copy failed 2 times, last: ValueError ")
    assert second.startswith("secrets.v1: forbidden, not synced, nothing cached, never proven, ")
    second = second.replace("attempt:", "attempts:")  # one, or some by now
    assert "failed attempts: list secrets.v1: 403 Forbidden: u may not; " in second
    assert second.endswith('verbs: ["list", "watch"] in a ClusterRole')
    assert third == "the event loop was never blocked"


async def test_the_journal_is_in_the_status_of_one_informer_if_asked_for(
    apiserver: APIServer,
) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        pods = factory.informer("v1", "pods")
        await factory.start()
        await pods.wait_for_cache_sync(timeout_seconds=100)
        status = pods.status(with_journal=True)
        without = pods.status()

    assert any("loaded by watch-list" in entry.what for entry in status.journal)
    assert without.journal == ()
    assert json.loads(json.dumps(dataclasses.asdict(status)))["journal"][0]["at"] > 0


@pytest.mark.parametrize(
    ("statistics", "text"),
    [
        pytest.param(
            WatchdogStatistics(blocked=0, longest_seconds=0.0, last_culprit=None),
            "the event loop was never blocked",
            id="never",
        ),
        pytest.param(
            WatchdogStatistics(blocked=1, longest_seconds=4.25, last_culprit="handler audit"),
            "the event loop was blocked once: 4.2 s at most, last by handler audit",
            id="once",
        ),
        pytest.param(
            WatchdogStatistics(
                blocked=3, longest_seconds=4.0, last_culprit="handler audit", blocked_seconds=9.0
            ),
            "the event loop was blocked 3 times, now for 9.0 s: 9.0 s at most,"
            " last by handler audit",
            id="now",
        ),
    ],
)
def test_the_watchdog_names_the_duration_and_the_blocking_task(
    statistics: WatchdogStatistics, text: str
) -> None:
    assert str(statistics) == text


needs_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1"
)


@needs_signals
@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_a_signal_has_the_status_logged_as_one_block(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    """Also where only warnings are logged: the signal asks for it."""
    caplog.set_level(level, "pyinformer")
    before = signal.getsignal(signal.SIGUSR1)
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        factory.informer("v1", "pods")
        factory.log_status_on_signal()
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        caplog.clear()
        signal.raise_signal(signal.SIGUSR1)
        await until(lambda: caplog.records)
        (told,) = [one for one in caplog.records if one.name == "pyinformer.cache.informer"]

    assert told.levelno == level
    lines = told.getMessage().splitlines()
    assert lines[0] == "status: 1 informer"
    assert lines[1].startswith("pods.v1: ")
    assert lines[-1] == "the event loop was never blocked"
    assert signal.getsignal(signal.SIGUSR1) == before  # closing the factory ends it


@needs_signals
async def test_a_closed_factory_does_not_listen(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        async with SharedInformerFactory(cluster) as factory:
            factory.log_status_on_signal()()
        with pytest.raises(LifecycleError):
            factory.log_status_on_signal()


async def test_a_signal_that_the_system_lacks_is_a_typed_error(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        with pytest.raises(LifecycleError, match="this system has no signal SIGNONE"):
            factory.log_status_on_signal("SIGNONE")
