"""The log lines of states: one for what lasts, none at INFO for what the next attempt ends."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer import Cluster, SharedInformer, SharedInformerFactory
from pyinformer.errors import ForbiddenError, ServerError
from pyinformer.operator import Health
from pyinformer.testing import APIServer, Fault, World
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.leaderelection.electing import Line
from tests.waiting import pause, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from pyinformer.client.transport import Body
    from pyinformer.client.transport.http import Query
    from pyinformer.errors import InformerError
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


class Unsteady(Line):
    """A connection to a World whose streams can be ended, and refused with several errors."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster.connection)
        self.watches = 0
        self.watch_opened = asyncio.Event()
        """Set by the next watch, which replaces it."""
        self.errors: tuple[Iterator[InformerError], Iterator[InformerError]] | None = None
        """Of lists, and of watches."""
        self._ends: set[asyncio.Event] = set()

    @asynccontextmanager
    async def stream(self, path: str, query: Query = (), **options: Any) -> AsyncIterator[Body]:
        """Open a stream, unless streams are refused."""
        is_watch = "watch" in dict(query)
        if self.errors is not None:
            raise next(self.errors[is_watch])
        async with super().stream(path, query, **options) as body:
            if is_watch:
                self.watches += 1
                self.watch_opened.set()
                self.watch_opened = asyncio.Event()
            end = asyncio.Event()
            self._ends.add(end)
            try:
                yield Ending(body, end)
            finally:
                self._ends.discard(end)

    def end_watches(self) -> None:
        """End all streams, as a server does that is replaced."""
        for end in self._ends:
            end.set()


class Ending:
    """A body that ends when an event is set."""

    def __init__(self, body: Body, end: asyncio.Event) -> None:
        self._body = body
        self._end = end

    @property
    def received_bytes(self) -> int:
        """How much was received."""
        return self._body.received_bytes

    async def read(self) -> bytes:
        """Return the next piece, or an empty one at the end."""
        found: list[bytes] = []

        async def read() -> None:
            found.append(await self._body.read())
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await self._end.wait()
            group.cancel_scope.cancel()
        return found[0] if found else b""

    def expire(self, waited_seconds: float) -> None:
        """Pass it on."""
        self._body.expire(waited_seconds)

    def close(self) -> None:
        """Pass it on."""
        self._body.close()


def watch_in_a_world(
    then: Callable[[SharedInformer[None], Unsteady], Coroutine[None, None, None]],
) -> None:
    """Do something with an informer of pods that watches, in virtual time."""

    async def scenario() -> None:
        line = Unsteady(world)
        cluster = Cluster(world.cluster.config, connection=line)
        async with SharedInformer(cluster, "v1", "pods") as informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.state == "watching")
            await then(informer, line)

    with World([pod("a")], virtual_time=True) as world:
        world.run(scenario)


def test_watches_that_time_out_all_day_log_nothing(lines: pytest.LogCaptureFixture) -> None:
    async def live_on(informer: SharedInformer[None], line: Unsteady) -> None:
        await pause(DAY_SECONDS)
        assert line.watches > 100
        assert said(lines) == ["INFO pods.v1: watching, was new"]
        assert informer.state == "watching"

    watch_in_a_world(live_on)


def test_servers_that_are_replaced_all_day_log_nothing(lines: pytest.LogCaptureFixture) -> None:
    """Each ends its watches early, and its history is asked for."""

    async def replace_servers(informer: SharedInformer[None], line: Unsteady) -> None:
        changes: list[str] = []
        informer.on_state_change(lambda change: changes.append(change.now.value))
        for _ in range(24):
            await pause(3000.0)
            await line.watch_opened.wait()
            await pause(90.0)
            line.end_watches()
        await pause(3600.0)
        assert changes.count("proving") == 24
        assert said(lines) == ["INFO pods.v1: watching, was new"]
        assert informer.state == "watching"

    watch_in_a_world(replace_servers)


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


async def test_lines_of_a_named_cluster_name_it(
    apiserver: APIServer, lines: pytest.LogCaptureFixture
) -> None:
    async with (
        pyinformer.connect(server=apiserver.url, name="east") as cluster,
        SharedInformerFactory(cluster, options=HURRIED) as factory,
    ):
        informer = factory.informer("v1", "pods")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        await until(lambda: informer.status().reflector.attempts >= 6)
        apiserver.accept_again()
        await until(lambda: "is followed again" in lines.text)
    reflectors = said(lines, "pyinformer.cache.reflector")
    assert reflectors
    assert all(" east: pods.v1 " in line for line in reflectors)


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
    refusals = [ForbiddenError(status=403), ServerError(status=503)]

    async def fail_twice(informer: SharedInformer[None], line: Unsteady) -> None:
        for _ in range(2):
            line.errors = cycle(refusals), cycle(refusals)
            line.end_watches()
            await pause(3 * 3600.0)
            assert informer.status().reflector.attempts > 100
            line.errors = None
            await pause(3600.0)
        states = [re.sub(r" pods.v1: (\w+),.*", r" \1", one) for one in said(lines)]
        trouble = ["WARNING forbidden", "INFO waiting", "INFO watching"]
        assert states == ["INFO watching", *trouble, *trouble]

    watch_in_a_world(fail_twice)


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
