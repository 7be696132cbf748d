"""Every way in which a cluster can be dead: waiting always ends in time and names the cause.

Both ways to wait are held to it: for the caches of one cluster, and for a cluster of a pool; and a
dead cluster never delays another, however many ask for it.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pyinformer import ClusterPool, SharedInformerFactory
from pyinformer.errors import CacheSyncTimeoutError, ClusterUnavailableError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, pod
from tests.client.transport.serving import cluster_with
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from pyinformer import Cluster

    Kind = Callable[[], AbstractAsyncContextManager["Dead"]]

# Only the wait's own timeout can end it: every timeout of the connection is far longer than the
# longest that a busy machine takes.
PATIENT = dict.fromkeys(
    (
        "connect_seconds",
        "headers_seconds",
        "request_seconds",
        "idle_seconds",
        "acquire_seconds",
    ),
    600.0,
)
IN_TIME_SECONDS = 100.0


@dataclass
class Dead:
    """A cluster of which there is nothing to be had."""

    url: str
    words: str
    """What the error has to say, as a pattern."""
    plural: str = "pods"
    api_version: str = "v1"
    connections: int = 0
    """How many a server that never answers has accepted in all."""
    open_connections: int = 0
    peak_connections: int = 0
    heal: Callable[[], None] = field(default=lambda: None)


@asynccontextmanager
async def closed_port() -> AsyncIterator[Dead]:
    """No process listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # so that no other process can
        port = taken.getsockname()[1]
        yield Dead(
            f"http://127.0.0.1:{port}",
            rf"cannot connect to 127\.0\.0\.1:{port}: Connection refused",
        )


@asynccontextmanager
async def silent(scheme: str, words: str) -> AsyncIterator[Dead]:
    """A server accepts, and never says anything."""
    dead = Dead("", words)

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dead.connections += 1
        dead.open_connections += 1
        dead.peak_connections = max(dead.peak_connections, dead.open_connections)
        try:
            while await reader.read(4096):
                pass
        except OSError:
            pass
        finally:
            dead.open_connections -= 1
            writer.transport.abort()

    listener = await asyncio.start_server(accepted, "127.0.0.1", 0)
    dead.url = f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield dead
    finally:
        listener.close()
        await until(lambda: not dead.open_connections)


def never_answers() -> AbstractAsyncContextManager[Dead]:
    """It accepts connections, as that of a paused container or a stopped process does."""
    return silent("http", r"waiting for an answer for \d+\.\d s")


def tls_stall() -> AbstractAsyncContextManager[Dead]:
    """It accepts connections, and its handshake never comes."""
    return silent("https", r"waiting for the TLS handshake with 127\.0\.0\.1:\d+ for \d+\.\d s")


@asynccontextmanager
async def dns_failure() -> AsyncIterator[Dead]:
    """No resolver knows the name."""
    yield Dead(
        "http://no-such-cluster.invalid",
        r"cannot resolve the host name of no-such-cluster\.invalid",
    )


@asynccontextmanager
async def refusing(status: int) -> AsyncIterator[Dead]:
    """A server answers everything with one status."""
    with APIServer() as api:
        api.create(pod("a"))
        api.faults.add(Fault(status=status, times=None))
        yield Dead(api.url, rf"\b{status}\b", heal=api.faults.clear)


@asynccontextmanager
async def crd_absent() -> AsyncIterator[Dead]:
    """A good server does not serve the resource."""
    with APIServer() as api:
        words = r"widgets.*\b404\b"

        def register() -> None:
            api.register("example.com/v1", "Widget", "widgets")

        yield Dead(api.url, words, plural="widgets", api_version="example.com/v1", heal=register)


MATRIX = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(closed_port, id="closed-port"),
        pytest.param(never_answers, id="never-answers"),
        pytest.param(tls_stall, id="tls-stall"),
        pytest.param(dns_failure, id="dns-failure"),
        pytest.param(lambda: refusing(503), id="503"),
        pytest.param(lambda: refusing(403), id="403"),
        pytest.param(crd_absent, id="crd-absent"),
    ],
)


@MATRIX
async def test_waiting_for_caches_ends_in_time_and_names_the_cause(kind: Kind) -> None:
    async with (
        kind() as dead,
        cluster_with(dead.url, **PATIENT) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        factory.informer(dead.api_version, dead.plural)
        await factory.start()
        clock = asyncio.get_running_loop().time
        deadline = clock() + IN_TIME_SECONDS
        words = ""
        while not re.search(dead.words, words):  # a busy machine may not have got there yet
            began = clock()
            with pytest.raises(CacheSyncTimeoutError) as raised:
                await factory.wait_for_cache_sync(timeout_seconds=1.0)
            assert 1.0 <= clock() - began + 0.01 < IN_TIME_SECONDS
            words = str(raised.value)
            assert clock() < deadline, words


class Pools:
    """A pool of one dead cluster and of good ones, by name."""

    def __init__(self, dead: Dead, good: APIServer) -> None:
        self.dead = dead
        self.good = good
        self.now = asyncio.get_running_loop().time

    def connect(self, name: str) -> AbstractAsyncContextManager[Cluster]:
        """Connect to the dead one, or a good one."""
        url = self.dead.url if name == "dead" else self.good.url
        return cluster_with(url, name, **PATIENT)

    @asynccontextmanager
    async def follow(self, cluster: Cluster) -> AsyncIterator[SharedInformerFactory]:
        """Follow what the dead one lacks."""
        async with SharedInformerFactory(cluster, options=HURRIED) as factory:
            is_dead = cluster.name == "dead"
            api_version = self.dead.api_version if is_dead else "v1"
            factory.informer(api_version, self.dead.plural if is_dead else "pods")
            await factory.start()
            yield factory

    async def until_named(self, pool: ClusterPool[SharedInformerFactory]) -> None:
        """Ask for the dead cluster until the error names its cause."""
        deadline = self.now() + IN_TIME_SECONDS
        words = ""
        while not re.search(self.dead.words, words):
            with pytest.raises(ClusterUnavailableError) as raised:
                await pool.get("dead", timeout_seconds=1.0)
            words = str(raised.value)
            assert self.now() < deadline, words

    def pool(self) -> ClusterPool[SharedInformerFactory]:
        """Make the pool."""

        async def synced(factory: SharedInformerFactory, timeout_seconds: float) -> None:
            await factory.wait_for_cache_sync(timeout_seconds=timeout_seconds)

        return ClusterPool(self.follow, connect=self.connect, ready=synced, rng=random.Random(1))


@MATRIX
async def test_a_dead_cluster_of_a_pool_is_named_in_time_and_delays_no_other(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The check is quick, but on a busy machine its loop may not run for half a second.
    monkeypatch.setattr("pyinformer.client.cluster._pool._LAST_CHECK_SECONDS", IN_TIME_SECONDS / 2)
    with APIServer() as good:
        async with kind() as dead:
            pools = Pools(dead, good)
            async with pools.pool() as pool:
                await pool.get("good")
                await pools.until_named(pool)

                async def timed(name: str) -> tuple[float, ClusterUnavailableError | None]:
                    """Ask for a cluster; return how long it took, and the error."""
                    began = pools.now()
                    timeout_seconds = 1.0 if name == "dead" else IN_TIME_SECONDS
                    try:
                        await pool.get(name, timeout_seconds=timeout_seconds)
                    except ClusterUnavailableError as error:
                        return pools.now() - began, error
                    return pools.now() - began, None

                names = ["dead"] * 100 + ["good", "new", "newer"]
                found = await asyncio.gather(*map(timed, names))
                for waited, error in found[:100]:
                    assert 1.0 <= waited + 0.01 < IN_TIME_SECONDS
                    assert error is not None
                    assert re.search(dead.words, str(error)), str(error)
                assert [error for _, error in found[100:]] == [None] * 3
                assert dead.peak_connections <= 1

                states = {one.name: one.state for one in pool.status()}
                opened = dict.fromkeys(("good", "new", "newer"), "open")
                assert states == {"dead": "opening", **opened}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(lambda: refusing(503), id="503"),
        pytest.param(lambda: refusing(403), id="403"),
        pytest.param(crd_absent, id="crd-absent"),
    ],
)
async def test_a_cluster_that_recovers_is_opened_for_the_next_caller(kind: Kind) -> None:
    with APIServer() as good:
        async with kind() as dead:
            pools = Pools(dead, good)
            async with pools.pool() as pool:
                with pytest.raises(ClusterUnavailableError):
                    await pool.get("dead", timeout_seconds=0.3)
                await asyncio.to_thread(dead.heal)
                factory = await pool.get("dead", timeout_seconds=100.0)
                assert factory.status().has_synced
