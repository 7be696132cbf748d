"""A name server that does not answer delays only the requests that need its answer."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.client.transport.http._resolver import Resolver
from pyinformer.errors import RequestTimeoutError, TransportError
from tests.client.transport.serving import always, connected, response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

STALLS = "stalls.example"
KNOWN = "known.example"
ODD = "odd.example"
PROGRAM = """
import asyncio, socket, threading
import pyinformer

def silent(*_, **settings):
    if settings.get("flags"):
        raise socket.gaierror(socket.EAI_NONAME, "no number")
    threading.Event().wait(3600)

socket.getaddrinfo = silent

async def main():
    server = "http://stalls.example:1"
    async with pyinformer.connect(server=server) as cluster:
        async with pyinformer.SharedInformer(cluster, "v1", "pods") as informer:
            try:
                await informer.wait_for_cache_sync(timeout_seconds=0.2)
            except TimeoutError:
                print("gave up")

asyncio.run(main())
"""


class NameServer:
    """A stand-in for the system's resolver: it knows one name, and never answers for another."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.answers = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, *args: Any, flags: int = 0, **settings: Any) -> Any:
        if flags & socket.AI_NUMERICHOST:
            return self._real(host, port, *args, flags=flags, **settings)
        self.asked.append(host)
        host.encode("idna")  # as the real one does at first
        if host == STALLS:
            self.answers.wait()
        if host == ODD:
            raise ValueError("no sense in it")
        if host == KNOWN:
            return self._real("127.0.0.1", port, *args, **settings)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """Replace the system's resolver during a test."""
    server = NameServer(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.answers.set()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_address_is_taken_as_it_is(name_server: NameServer, host: str) -> None:
    (address,) = await Resolver().addresses(host, 443)
    assert address[4][:2] == (host, 443)
    assert not name_server.asked


async def test_concurrent_lookups_of_one_host_are_one(name_server: NameServer) -> None:
    names = Resolver()
    found = await asyncio.gather(*(names.addresses(KNOWN, 443) for _ in range(100)))
    assert name_server.asked == [KNOWN]
    assert {one[0][4] for one in found} == {("127.0.0.1", 443)}
    await names.addresses(KNOWN, 443)  # an address may change: nothing is cached
    assert len(name_server.asked) == 2


async def test_the_cancellation_of_one_caller_does_not_affect_the_others(
    name_server: NameServer,
) -> None:
    names = Resolver()
    first, second = (asyncio.create_task(names.addresses(STALLS, 443)) for _ in range(2))
    await until(lambda: name_server.asked)
    first.cancel()
    name_server.answers.set()
    with pytest.raises(socket.gaierror):
        await second
    assert first.cancelled()
    assert name_server.asked == [STALLS]


async def test_an_answer_without_a_waiter_is_dropped(name_server: NameServer) -> None:
    task = asyncio.create_task(Resolver().addresses(STALLS, 443))
    await until(lambda: name_server.asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    name_server.answers.set()
    await until(lambda: not any(STALLS in thread.name for thread in threading.enumerate()))


async def test_without_a_thread_to_be_had_it_fails_and_works_again_later(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no thread can be started, later lookups must not wait for the one that failed."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = Resolver()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="can't start new thread"):
                await names.addresses(KNOWN, 443)
    assert await names.addresses(KNOWN, 443)
    assert name_server.asked == [KNOWN]


async def test_any_exception_of_the_system_ends_the_lookup(name_server: NameServer) -> None:
    names = Resolver()
    with pytest.raises(OSError, match="ValueError: no sense in it"):
        async with asyncio.timeout(100):
            await names.addresses(ODD, 443)
    assert await names.addresses(KNOWN, 443)


async def test_a_failed_answer_without_a_waiter_is_not_an_error_of_the_loop(
    name_server: NameServer,
) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    names = Resolver()
    first, second = (asyncio.create_task(names.addresses(STALLS, 443)) for _ in range(2))
    await until(lambda: name_server.asked)
    first.cancel()
    name_server.answers.set()
    await asyncio.wait((first, second))
    assert isinstance(second.exception(), socket.gaierror)
    assert not told


def test_a_name_server_that_is_silent_does_not_hold_up_the_end_of_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "gave up\n", "")


@pytest.mark.parametrize("host", ["unknown.example", "a..b", "x" * 64])
async def test_a_url_without_a_host_is_a_transport_error(host: str) -> None:
    async with connected(f"http://{host}:1") as connection:
        for watch in (True, False):
            with pytest.raises(TransportError, match="cannot resolve"):
                async with connection.stream("/a", watch=watch):
                    pass


@pytest.mark.parametrize("watch", [True, False], ids=["watch", "list"])
async def test_clusters_whose_name_server_is_silent_delay_no_other(
    name_server: NameServer, watch: bool
) -> None:
    """The loop's own threads for lookups would all be busy."""

    async def ask(connection: Any) -> None:
        async with asyncio.timeout(100), connection.stream("/a", watch=watch) as body:
            await body.read()

    async with serving(always(response())) as server, AsyncExitStack() as stack:
        url = f"http://{STALLS}:1"
        dead = [
            await stack.enter_async_context(connected(url, connect_seconds=1.0)) for _ in range(40)
        ]
        good = await stack.enter_async_context(connected(server.url.replace("127.0.0.1", KNOWN)))
        asks = [asyncio.create_task(ask(one)) for one in dead for _ in range(3)]
        await until(lambda: name_server.asked.count(STALLS) == len(dead))

        await ask(good)

        for outcome in await asyncio.gather(*asks, return_exceptions=True):
            assert isinstance(outcome, RequestTimeoutError)
        assert name_server.asked.count(STALLS) == len(dead)
