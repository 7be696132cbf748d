"""Watches over HTTP: the shapes of responses that only watches meet."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any, Literal

import aiohttp
import pytest

from pyinformer.client.transport import ClusterConfig, Connection, ConnectionOptions
from pyinformer.errors import (
    ConfigurationError,
    InvalidArgumentError,
    ProtocolError,
    TransportError,
)
from tests.client.transport.serving import (
    CHUNKED,
    always,
    chunk,
    connected,
    response,
    serving,
    silence,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.client.transport.serving import Request

pytestmark = pytest.mark.every_loop

WATCH = [("watch", "true")]


@pytest.mark.covers(
    "kube-client src: watch_clean_termination_delivers_every_event",
    "client-go rest: TestRequestWatch",
)
async def test_all_chunks_arrive_in_order() -> None:
    events = [b'{"n":%d}\n' % number for number in range(50)]
    answer = CHUNKED + b"".join(map(chunk, events)) + chunk(b"")
    async with (
        serving(always(answer)) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        received = b""
        while arrived := await body.read():
            received += arrived

        assert received == b"".join(events)
        assert await body.read() == b""


@pytest.mark.covers(
    "client-go rest/watch: TestDecoder",
    "kube-client src: watch_direct_unexpected_eof_delivers_added_then_ends",
)
async def test_bytes_before_a_cut_are_delivered_before_the_error() -> None:
    async def cut(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"whole\n") + b"6\r\nha")
        await writer.drain()
        writer.transport.close()

    async with (
        serving(cut) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        received = b""
        with pytest.raises(TransportError, match="the connection was lost"):
            while arrived := await body.read():
                received += arrived

    assert received == b"whole\nha"


async def test_an_informational_answer_is_passed_over() -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(b"body")
    async with (
        serving(always(answer)) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        assert await body.read() == b"body"
        assert await body.read() == b""


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")
        await writer.drain()
        writer.transport.close()

    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        received = b""
        while data := await body.read():
            received += data

    assert received == b"all of it"


async def test_a_reset_does_not_end_a_body_without_a_length_cleanly() -> None:
    was_read = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it")
        await was_read.wait()
        no_linger = struct.pack("ii", 1, 0)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        writer.transport.abort()

    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        assert await body.read() == b"half of it"
        was_read.set()
        with pytest.raises(TransportError, match="the connection was lost"):
            await body.read()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "the answer is not HTTP", id="not-http"),
        pytest.param(CHUNKED + b"zz\r\n", "the answer is not HTTP", id="a-chunk-without-a-size"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
            "headers of over 65536 bytes",
            id="endless-headers",
        ),
    ],
)
async def test_an_invalid_response_is_a_protocol_error(answer: bytes, reason: str) -> None:
    async with serving(always(answer)) as server, connected(server.url) as connection:
        with pytest.raises(ProtocolError, match=reason):
            async with connection.stream("/a", WATCH, watch=True) as body:
                await body.read()
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_reader_that_does_not_read_stops_the_server() -> None:
    sent = 0

    async def flood(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        for _ in range(400):
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()
            sent += 65_536
        writer.write(chunk(b""))

    async with (
        serving(flood) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        quiet = 0
        while quiet < 100:  # iterations of the loop in which nothing more was sent
            before = sent
            await asyncio.sleep(0)
            quiet = quiet + 1 if sent == before else 0
        held_back = sent
        received = 0
        while data := await body.read():
            received += len(data)

    assert held_back < 400 * 65_536
    assert received == 400 * 65_536


@pytest.mark.covers("client-go rest: TestRequestWatch")
async def test_a_cancelled_read_takes_nothing() -> None:
    more = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        await more.wait()
        writer.write(chunk(b"later\n"))
        await asyncio.Event().wait()

    async with (
        serving(answer) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        waiting = asyncio.create_task(body.read())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        more.set()

        assert await body.read() == b"later\n"


class Careless:
    """Credentials of a user's class, which do not check their headers."""

    async def headers(self) -> Mapping[str, str]:
        """Return a header that would become two."""
        return {"Authorization": "secret\r\nX-Other: 1"}

    def invalidate(self) -> None:
        """Do nothing."""


async def test_a_header_with_a_line_break_is_never_sent() -> None:
    async with (
        serving(always(response())) as server,
        connected(server.url, credentials=Careless()) as connection,
    ):
        with pytest.raises(ConfigurationError, match="line break") as caught:
            async with connection.stream("/a", WATCH, watch=True):
                pass

    assert server.requests == []
    assert "secret" not in str(caught.value)


async def test_closing_the_connection_ends_a_watch_that_is_open() -> None:
    async with (
        serving(always(CHUNKED)) as server,
        connected(server.url) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        await connection.aclose()
        with pytest.raises(TransportError, match="closed by aclose"):
            await body.read()
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_watch_that_is_cancelled_before_its_head_leaves_no_connection() -> None:
    async with serving(silence) as server, connected(server.url) as connection:

        async def watch() -> None:
            async with connection.stream("/a", WATCH, watch=True):
                pass

        watching = asyncio.create_task(watch())
        await server.wait_until(lambda: len(server.requests) == 1)
        watching.cancel()
        await asyncio.wait({watching})
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_watch_through_a_proxy_asks_the_proxy() -> None:
    async with serving(always(response(b"by proxy"))) as proxy:
        config = ClusterConfig(server="http://cluster.test", proxy_url=proxy.url)
        async with (
            connected(config.server, config=config) as connection,
            connection.stream("/a", WATCH, watch=True) as body,
        ):
            assert await body.read() == b"by proxy"

    assert proxy.requests[0].target.startswith("http://cluster.test/a")


@pytest.mark.parametrize(("client", "is_direct"), [("direct", True), ("aiohttp", False)])
async def test_the_option_selects_the_http_client_of_watches(
    client: Literal["direct", "aiohttp"], monkeypatch: pytest.MonkeyPatch, *, is_direct: bool
) -> None:
    connect, by_aiohttp = aiohttp.BaseConnector.connect, list[object]()

    async def counted(self: aiohttp.BaseConnector, *args: Any, **more: Any) -> Any:
        by_aiohttp.append(args)
        return await connect(self, *args, **more)

    monkeypatch.setattr(aiohttp.BaseConnector, "connect", counted)
    answer = CHUNKED + chunk(b"an event\n") + chunk(b"")
    async with (
        serving(always(answer)) as server,
        connected(server.url, http_client=client) as connection,
        connection.stream("/a", WATCH, watch=True) as body,
    ):
        assert await body.read() == b"an event\n"
        assert len(by_aiohttp) == (0 if is_direct else 1)


def test_an_unknown_http_client_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must be one of direct, aiohttp, got 'curl'"):
        ConnectionOptions(http_client="curl")  # type: ignore[arg-type] # that is the test


class _LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that watches no sockets for others, as the default loop of Windows."""

    def add_reader(self, *_: object) -> None:
        """Refuse."""
        raise NotImplementedError


def test_a_loop_without_readers_uses_its_own_transport() -> None:
    events = [b'{"n":%d}\n' % number for number in range(5)]
    answer = CHUNKED + b"".join(map(chunk, events)) + chunk(b"")

    async def watch() -> bytes:
        received = b""
        async with (
            serving(always(answer)) as server,
            connected(server.url) as connection,
            connection.stream("/a", WATCH, watch=True) as body,
        ):
            while arrived := await body.read():
                received += arrived
        return received

    with asyncio.Runner(loop_factory=_LoopWithoutReaders) as runner:
        assert runner.run(watch()) == b"".join(events)


@pytest.mark.virtual_time
async def test_closing_waits_for_a_hanging_handshake_without_using_the_cpu() -> None:
    """Virtual time stands still while anything runs, so that this test would never end."""
    with socket.create_server(("127.0.0.1", 0)) as server:  # it never answers
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        config = ClusterConfig(server=url, verify_tls=False)
        connection = Connection(config)

        async def watch() -> None:
            async with connection.stream("/a", WATCH, watch=True):
                pass

        hanging = asyncio.ensure_future(watch())
        await until(lambda: connection.open_sockets == 1)
        began = asyncio.get_running_loop().time()
        await connection.aclose()
        assert asyncio.get_running_loop().time() - began <= 5.0
        hanging.cancel()
        await asyncio.wait([hanging])
