"""The health endpoint: its answers to probes, and its limits for bad clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import ConfigurationError, InvalidArgumentError
from pyinformer.operator import HealthServer
from tests.operator.inside import connections
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


_MOST_CONNECTIONS = 256


class _Checked:
    """A check whose answer a test chooses."""

    def __init__(self) -> None:
        self.problems: Sequence[str] = ()
        self.error: Exception | None = None

    def __call__(self) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        return self.problems


@contextlib.asynccontextmanager
async def connected(
    port: int, *, local_address: tuple[str, int] | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to the server, with a deadline."""
    async with asyncio.timeout(100):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local_address)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def is_dropped(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a connection; return whether nothing came before it."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def ask(
    port: int, request: bytes, *, local_address: tuple[str, int] | None = None
) -> tuple[int, str]:
    """Send bytes, and return the status and the body of the answer."""
    async with connected(port, local_address=local_address) as (reader, writer):
        writer.write(request)
        answer = await reader.read()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


def get(path: str, method: str = "GET") -> bytes:
    """Return a request as a probe sends it."""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.covers(
    "controller-runtime pkg/healthz: should return healthy if all checks succeed",
    "controller-runtime pkg/healthz: should return ok if the requested check is healthy",
)
async def test_a_path_without_problems_is_ok() -> None:
    async with HealthServer({"/readyz": _Checked()}) as server:
        assert await ask(server.port, get("/readyz")) == (200, "ok\n")
        assert await ask(server.port, get("/readyz?verbose")) == (200, "ok\n")
        assert await ask(server.port, get("/readyz", "HEAD")) == (200, "")
        assert server.url == f"http://127.0.0.1:{server.port}"


@pytest.mark.covers(
    "controller-runtime pkg/healthz: should return healthy if all checks succeed",
    "controller-runtime pkg/healthz: should return ok if the requested check is healthy",
)
async def test_each_problem_has_a_line() -> None:
    check = _Checked()
    check.problems = ["pods: not synced", "nodes: not synced"]
    async with HealthServer({"/readyz": check}) as server:
        assert await ask(server.port, get("/readyz")) == (
            503,
            "pods: not synced\nnodes: not synced\n",
        )
        check.problems = ()
        assert (await ask(server.port, get("/readyz")))[0] == 200


@pytest.mark.covers(
    "controller-runtime pkg/healthz: should return ok if the requested check is healthy"
)
async def test_a_check_that_raises_is_a_problem_without_the_error_text() -> None:
    check = _Checked()
    check.error = ValueError("a secret")
    async with HealthServer({"/readyz": check}) as server:
        assert await ask(server.port, get("/readyz")) == (503, "the check failed with ValueError\n")


@pytest.mark.covers(
    "controller-runtime pkg/healthz: should return ok if the requested check is healthy"
)
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(get("/"), 404, id="unknown-path"),
        pytest.param(get("/readyz/"), 404, id="trailing-slash"),
        pytest.param(get("/readyz", "POST"), 405, id="post"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="tls"),
        pytest.param(b"hello\r\n\r\n", 400, id="no-http"),
        pytest.param(b"GET /" + b"a" * 20_000, 431, id="endless-target"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * 20_000, 431, id="endless-header"),
        pytest.param(
            b"GET /readyz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            200,
            id="upgrade",
        ),
        pytest.param(get("/readyz") + get("/readyz"), 200, id="pipelined"),
        pytest.param(
            b"POST /readyz HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789", 405, id="body"
        ),
    ],
)
async def test_an_odd_request_gets_one_answer_and_the_next_client_is_served(
    request_bytes: bytes, status: int
) -> None:
    async with HealthServer({"/readyz": _Checked()}) as server:
        assert (await ask(server.port, request_bytes))[0] == status
        assert (await ask(server.port, get("/readyz")))[0] == 200


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", id="chunk"),
        pytest.param(b"\r\nno request\r\n\r\n", id="pipelined"),
    ],
)
async def test_what_is_wrong_after_the_head_neither_gets_an_answer_nor_is_logged(
    after: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"GET /readyz HTTP/1.1\r\nHost: a\r\n"
    async with HealthServer({"/readyz": _Checked()}) as server:
        assert await ask(server.port, head + after) == (200, "ok\n")
    assert caplog.records == []


async def test_a_request_may_come_byte_by_byte() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        connected(server.port) as (reader, writer),
    ):
        for byte in get("/readyz"):
            writer.write(bytes([byte]))
            await writer.drain()
        assert (await reader.read()).endswith(b"ok\n")


async def test_a_client_that_sends_nothing_is_dropped() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}, connection_seconds=0.05) as server,
        connected(server.port) as (reader, _),
    ):
        assert await is_dropped(reader)


async def test_a_request_that_is_not_finished_in_time_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A byte now and then does not extend the deadline."""
    real = (loop := asyncio.get_running_loop()).time
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        connected(server.port) as (reader, writer),
    ):
        writer.write(b"GET /readyz HTTP/1.1\r\n")
        assert (await ask(server.port, get("/readyz")))[0] == 200  # was accepted later
        monkeypatch.setattr(loop, "time", lambda: real() + 4.0)
        writer.write(b"X")
        assert (await ask(server.port, get("/readyz")))[0] == 200
        assert not reader.at_eof()
        monkeypatch.setattr(loop, "time", lambda: real() + 5.0)
        assert await is_dropped(reader)


async def _fill(server: HealthServer, stack: contextlib.AsyncExitStack) -> None:
    """Open as many further connections as the server takes."""
    for _ in range(_MOST_CONNECTIONS - len(connections(server).open)):
        stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        await asyncio.sleep(0)
    await until(lambda: len(connections(server).open) == _MOST_CONNECTIONS)


async def test_a_new_connection_closes_an_answered_one_then_the_oldest_without_a_request() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        contextlib.AsyncExitStack() as stack,
        connected(server.port) as (answered, first),
        connected(server.port) as (oldest, _),
        connected(server.port) as (newer, second),
    ):
        first.write(get("/readyz"))  # is answered, and left open by the client
        assert (await answered.read()).endswith(b"ok\n")
        await until(lambda: len(connections(server).open) == 3)
        await _fill(server, stack)
        async with connected(server.port), connected(server.port) as (_, third):
            assert await is_dropped(oldest)
            third.write(get("/readyz"))
        second.write(get("/readyz"))
        assert (await newer.read()).endswith(b"ok\n")


async def test_connections_that_clients_keep_open_are_closed_for_new_ones() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(_MOST_CONNECTIONS):
            reader, writer = await stack.enter_async_context(connected(server.port))
            writer.write(get("/readyz"))
            assert (await reader.read()).endswith(b"ok\n")
        # As many, unless the machine takes more than five seconds for that.
        assert len(connections(server).open) <= _MOST_CONNECTIONS
        assert (await ask(server.port, get("/readyz")))[0] == 200


@pytest.mark.parametrize("idle", [64, 500])
async def test_every_probe_is_answered_beside_idle_sockets(idle: int) -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        came: set[object] = set()  # an idle one is dropped after five seconds

        def all_came() -> bool:
            came.update(connections(server).open)
            return len(came) >= min(idle, _MOST_CONNECTIONS)

        for _ in range(idle):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            await asyncio.sleep(0)
            all_came()
        await until(all_came)
        answers = [await ask(server.port, get("/readyz")) for _ in range(149)]
        assert answers == [(200, "ok\n")] * 149
        assert len(connections(server).open) <= _MOST_CONNECTIONS


async def test_every_probe_is_answered_beside_clients_that_have_their_answer_and_stay() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        statuses = list[int]()
        for number in range(1_000):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(get("/readyz"))
            if number % 10 == 0:
                statuses.append((await ask(server.port, get("/readyz")))[0])
        assert statuses == [200] * 100


async def test_a_client_with_many_connections_costs_no_other_client_its_own() -> None:
    async with (
        HealthServer({"/readyz": _Checked()}) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        probe = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
        await until(lambda: len(connections(server).open) == 1)
        for _ in range(_MOST_CONNECTIONS + 50):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            await asyncio.sleep(0)
        await until(lambda: len(connections(server).open) == _MOST_CONNECTIONS)
        assert (await ask(server.port, get("/readyz")))[0] == 200
        reader, writer = probe
        writer.write(get("/readyz"))
        async with asyncio.timeout(100):
            assert (await reader.read()).endswith(b"ok\n")
        writer.close()


@pytest.mark.parametrize("pages_for", ["loopback", "all"])
async def test_strangers_read_the_text_of_problems_only_where_they_may_read_pages(
    pages_for: Any,
) -> None:
    """A kubelet needs the status alone; the text may have what an API server has answered."""
    check = _Checked()
    check.problems = ["pods.v1: 403 Forbidden: a secret", "nodes.v1: not synced"]
    full = "pods.v1: 403 Forbidden: a secret\nnodes.v1: not synced\n"
    async with HealthServer({"/readyz": check}, pages_for=pages_for) as server:
        assert await ask(server.port, get("/readyz")) == (503, full)
        foreign = get("/readyz").replace(b"localhost", b"10.0.0.7:8081")
        status, text = await ask(server.port, foreign)
        short = "/readyz: 2 problems, shown to the same host only; use kubectl port-forward\n"
        assert (status, text) == (503, full if pages_for == "all" else short)
        check.problems = ()
        assert await ask(server.port, foreign) == (200, "ok\n")


async def test_a_probe_that_left_before_its_answer_is_dropped_without_an_error() -> None:
    failures = list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with HealthServer({"/livez": _Checked()}) as server:
        port = int(server.url.rpartition(":")[2])
        # Nothing is read meanwhile, as while a handler blocks the event loop.
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(get("/livez"))
        assert await ask(port, get("/livez")) == (200, "ok\n")
    assert failures == []


async def test_closing_drops_the_connections_that_are_open() -> None:
    server = HealthServer({"/readyz": _Checked()})
    await server.start()
    async with connected(server.port) as (reader, _):
        await until(lambda: len(connections(server).open) == 1)

        await server.aclose()
        await server.aclose()

        assert await is_dropped(reader)


async def test_a_port_that_is_taken_is_a_typed_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*choose another port"):
            await HealthServer({}, port=port).start()


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(InvalidArgumentError, match="port"):
        HealthServer({}, port=port)


async def test_many_requests_share_the_verdict_of_a_check_that_takes_long() -> None:
    calls: list[int] = []

    def slow() -> Sequence[str]:
        calls.append(1)
        begun = time.thread_time()
        while time.thread_time() - begun < 0.1:
            pass
        return ()

    async with HealthServer({"/healthz": slow}) as server:
        answers = [await ask(server.port, get("/healthz")) for _ in range(40)]
    assert answers == [(200, "ok\n")] * 40
    assert len(calls) < 40


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_all_addresses_are_those_of_ipv4_and_of_ipv6(address: str) -> None:
    server = HealthServer({"/healthz": _Checked()}, host="::", port=0)
    await server.start()
    try:
        async with asyncio.timeout(100):
            reader, writer = await asyncio.open_connection(address, server.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
            await writer.wait_closed()
    finally:
        await server.aclose()


async def test_all_addresses_are_those_of_ipv4_on_a_host_without_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listening = socket.create_server

    def without_ipv6(address: tuple[str, int], **options: Any) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return listening(address, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    server = HealthServer({"/healthz": _Checked()}, host="::", port=0)
    await server.start()
    try:
        assert (await ask(server.port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 200
    finally:
        await server.aclose()


async def test_a_port_in_use_on_all_addresses_is_named() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:  # noqa: S104 - for a moment
        server = HealthServer({}, host="::", port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="the health endpoint :::"):
            await server.start()
