"""The log lines of states: one for what lasts, none at INFO for what the next attempt ends."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pyinformer import SharedInformer, SharedInformerFactory
from pyinformer.cache.informer._state_changes import StateChangeReporter
from pyinformer.cache.reflector import ReflectorState
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine.steps import Proved, WatchEnded
from pyinformer.operator import Health
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.cache.reflector.machine_bench import Bench
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.objects import JSONObject

DAY_SECONDS = 24 * 3600.0


@pytest.fixture
def apiserver() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        made.create(pod("a"))
        yield made


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Take down what is logged at INFO and above."""
    caplog.set_level(logging.INFO, "pyinformer")
    return caplog


def said(lines: pytest.LogCaptureFixture, logger: str = "pyinformer.cache.informer") -> list[str]:
    """Return the lines of informers, with their level."""
    found = [one for one in lines.records if one.name == logger]
    return [f"{one.levelname} {one.getMessage()}" for one in found]


def has_been_asked(server: APIServer, before: int) -> bool:
    """Return whether there were more requests than that."""
    return len(server.requests) > before


@asynccontextmanager
async def following(server: APIServer) -> AsyncIterator[SharedInformer[None]]:
    """Run an informer, synced and watching."""
    async with (
        cluster_of(server) as cluster,
        SharedInformer(cluster, "v1", "pods", options=HURRIED) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: informer.state == "watching")
        yield informer


def test_watches_that_time_out_all_day_log_nothing(lines: pytest.LogCaptureFixture) -> None:
    bench = Bench().watching()
    states = StateChangeReporter("pods.v1")
    watches = 0
    while bench.now < DAY_SECONDS:
        bench.now += 200.0
        watches += 1
        bench.step(WatchEnded(events=watches % 3, seconds=200.0))
        states.report(bench.machine.state, bench.machine.reason, attempts=bench.machine.attempts)

    assert watches > 400
    assert said(lines) == ["INFO pods.v1: watching, was new"]


def test_servers_that_are_replaced_all_day_log_nothing(lines: pytest.LogCaptureFixture) -> None:
    """Each ends its watches early, and its history is asked for."""
    bench = Bench().watching()
    states = StateChangeReporter("pods.v1")
    for _ in range(24):
        bench.now += 3600.0
        for happened in (WatchEnded(1, 90.0, early=True), Proved(HistoryVerdict.INTACT)):
            bench.step(happened)
            states.report(
                bench.machine.state, bench.machine.reason, attempts=bench.machine.attempts
            )
        bench.machine.connected()
        states.report(bench.machine.state, bench.machine.reason, attempts=bench.machine.attempts)

    assert said(lines) == ["INFO pods.v1: watching, was new"]


async def test_informers_of_one_resource_each_log_that_they_watch(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    """What the request of another one waits for says nothing of an informer's own watch."""
    names = {f"app={number}" for number in range(4)}
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        for selector in names:
            factory.informer("v1", "pods", label_selector=selector)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)

    told = set(said(lines))
    assert told >= {f"INFO pods.v1 with labels {each}: watching, was new" for each in names}
    assert told >= {f"INFO pods.v1 with labels {each}: stopped, was watching" for each in names}


async def test_a_connection_that_breaks_and_recovers_logs_nothing(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    async with following(apiserver) as informer:
        lines.clear()
        for name in ("b", "c", "d"):
            asked = len(apiserver.requests)
            apiserver.drop_connections()
            await until(partial(has_been_asked, apiserver, asked))
            apiserver.create(pod(name))
            await until(partial(informer.lister.get, f"default/{name}"))
        assert said(lines) == []
        assert said(lines, "pyinformer.cache.reflector") == []


async def test_an_outage_is_one_line_at_its_start_and_one_at_its_end(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    async with following(apiserver) as informer:
        lines.clear()
        apiserver.stop_accepting()
        apiserver.drop_connections()
        await until(lambda: informer.status().reflector.attempts >= 6)
        apiserver.accept_again()
        await until(lambda: len(said(lines)) > 1)
        told, all_lines = said(lines), len(lines.records)

    start, end = told
    assert start.startswith("INFO pods.v1: waiting, was watching: ")
    assert end == "INFO pods.v1: watching, was waiting"
    assert all_lines <= 4  # with that it cannot be followed, and is again


async def test_a_server_that_refuses_every_watch_is_logged_once(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    """Between two refusals the state is `watching`, which is not news."""
    async with following(apiserver) as informer:
        lines.clear()
        apiserver.faults.add(Fault(verb="watch", status=500, times=8, message="no etcd"))
        apiserver.drop_connections()
        await until(lambda: informer.status().reflector.attempts >= 6)
        await until(lambda: len(said(lines)) > 2)
        told = said(lines)

    assert [line.partition(":")[2].partition(":")[0] for line in told] == [
        " waiting, was watching",
        " polling, was waiting",
        " watching, was polling",
    ]
    assert "no etcd" in told[0]
    assert "watches are refused" in told[1]


async def test_a_relist_is_logged_with_its_reason(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    async with following(apiserver) as informer:
        lines.clear()
        apiserver.create(pod("b"))
        await until(lambda: informer.lister.get("default/b"))
        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.create(pod("c"))
        apiserver.create(pod("d"))
        apiserver.compact()
        apiserver.accept_again()
        await until(lambda: informer.lister.get("default/d"))
        await until(lambda: any("INFO pods.v1: watching" in line for line in said(lines)))
        told = said(lines)

    assert "410" in informer.journal.entries()[-3].what or any("410" in line for line in told)
    assert told[-1].startswith("INFO pods.v1: watching, was ")
    assert len(told) <= 3


async def test_a_forbidden_resource_is_one_warning_for_many_attempts(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    async with following(apiserver) as informer:
        lines.clear()
        apiserver.faults.add(Fault(resource="pods", verb="watch", status=403, times=None))
        apiserver.drop_connections()
        await until(lambda: informer.status().reflector.attempts >= 3)
        told = said(lines)

    (line,) = told
    assert line.startswith("WARNING pods.v1: forbidden, was watching: watch pods.v1: 403")


def test_alternating_refusals_and_failures_are_logged_once_each_until_recovery(
    lines: pytest.LogCaptureFixture,
) -> None:
    """Of two servers behind one address one refuses, the other is out of order."""
    states = StateChangeReporter("pods.v1")
    for _ in range(2):
        states.report(ReflectorState.WATCHING, "")
        for attempts in range(1, 1000):
            states.report(ReflectorState.FORBIDDEN, "403", attempts=2 * attempts)
            states.report(ReflectorState.WAITING, "503", attempts=2 * attempts + 1)
    states.report(ReflectorState.WATCHING, "")

    trouble = [
        "WARNING pods.v1: forbidden, was watching: 403",
        "INFO pods.v1: waiting, was forbidden: 503",
    ]
    again = "INFO pods.v1: watching, was waiting"
    assert said(lines) == ["INFO pods.v1: watching, was new", *trouble, again, *trouble, again]


async def test_a_server_that_breaks_the_order_is_logged_once_and_in_the_status(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    ghost: JSONObject = pod("ghost")
    ghost["metadata"].update(uid="u", resourceVersion="2")
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        informer = factory.informer("v1", "pods")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)

        def breaks_it() -> bool:
            apiserver.emit("v1", "pods", "DELETED", ghost)
            return informer.status().reflector.breaks_order

        await until(breaks_it)
        health = Health(factory).ready()
        explanation = informer.explain("default/a")
        shown = str(factory.status())

    loud = [one.getMessage() for one in lines.records if one.levelno == logging.ERROR]
    assert [line for line in loud if "breaks the order" in line] == loud[-1:]
    assert any("breaks the order" in note for note in health.notes)
    assert any("breaks the order" in sentence for sentence in explanation.sentences)
    assert "breaks the order" in shown
