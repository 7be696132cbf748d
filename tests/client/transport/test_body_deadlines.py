"""Every read of a body ends, also of one that stalls or trickles, with an error that says why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import pytest

from pyinformer.errors import RequestTimeoutError, ServerError
from tests.client.transport.serving import CHUNKED, chunk, connected, serving
from tests.waiting import until

if TYPE_CHECKING:
    from tests.client.transport.serving import Request

pytestmark = pytest.mark.every_loop

HEAD_503 = b"HTTP/1.1 503 X\r\nContent-Type: application/json\r\n"
CLIENTS = ("direct", "aiohttp")


async def stalls(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 503 with a length and without a body."""
    writer.write(HEAD_503 + b"Content-Length: 50\r\n\r\n")
    await asyncio.Event().wait()


async def trickles(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 503 and send its body byte by byte without end."""
    writer.write(HEAD_503 + b"Transfer-Encoding: chunked\r\n\r\n")
    await trickle(writer)


async def breaks_http(request: Request, writer: asyncio.StreamWriter) -> None:
    """Answer 503 with a chunk that has no size."""
    writer.write(HEAD_503 + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    await asyncio.Event().wait()


async def trickle(writer: asyncio.StreamWriter) -> None:
    """Send a byte as often as timers allow, until the client closes the connection."""
    while not writer.is_closing():
        writer.write(chunk(b" "))
        await writer.drain()
        tick = asyncio.Event()
        asyncio.get_running_loop().call_later(0.002, tick.set)
        await tick.wait()


@pytest.mark.covers("client-go rest: TestCheckRetryClosesBody")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("answer", [stalls, trickles])
async def test_an_error_answer_without_its_body_is_the_error_of_its_status(
    answer: object, watch: bool, client: Literal["direct", "aiohttp"]
) -> None:
    async with (
        serving(answer) as server,  # type: ignore[arg-type] # each of them is one
        connected(server.url, http_client=client, idle_seconds=0.05) as connection,
    ):
        with pytest.raises(ServerError) as caught:
            async with connection.stream("/a", watch=watch):
                pass
        await server.wait_until(lambda: server.open_connections == 0)

    assert (caught.value.status, caught.value.message) == (503, "")


async def test_an_error_answer_whose_body_is_not_http_is_the_error_of_its_status() -> None:
    async with serving(breaks_http) as server, connected(server.url) as connection:
        with pytest.raises(ServerError, match="503"):
            async with connection.stream("/a", watch=True):
                pass


async def test_a_request_gets_the_status_though_the_body_never_arrives() -> None:
    async with (
        serving(stalls) as server,
        connected(server.url, idle_seconds=0.05) as connection,
    ):
        with pytest.raises(ServerError, match="503"):
            await connection.request("PUT", "/a", body=b"{}")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("watch", [True, False])
async def test_waiting_for_the_body_of_an_error_is_reported_and_can_be_cancelled(
    watch: bool, client: Literal["direct", "aiohttp"]
) -> None:
    async with (
        serving(stalls) as server,
        connected(server.url, http_client=client) as connection,
    ):

        async def ask() -> None:
            """Open a stream that is refused."""
            async with connection.stream("/a", watch=watch):
                pass

        task = asyncio.create_task(ask())
        await until(
            lambda: "the body of an answer with status 503" in connection.describe_pending("/a")
        )
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert connection.describe_pending("/a") == ""
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_list_and_a_request_wait_for_the_rest_of_the_answer() -> None:
    async def half(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"{"))
        await asyncio.Event().wait()

    async with serving(half) as server, connected(server.url) as connection:
        async with connection.stream("/a", watch=False) as body:
            await body.read()
            assert "waiting for the rest of the answer" in connection.describe_pending("/a")
        assert connection.describe_pending("/a") == ""

        task = asyncio.create_task(connection.request("GET", "/b"))
        await until(lambda: "the rest of the answer" in connection.describe_pending("/b"))
        task.cancel()
        await asyncio.wait({task})


async def test_a_list_that_trickles_is_abandoned_though_it_is_never_idle() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        await trickle(writer)

    async with (
        serving(answer) as server,
        connected(server.url, body_seconds=0.1) as connection,
        connection.stream("/a", watch=False) as body,
    ):
        with pytest.raises(RequestTimeoutError, match=r"too slowly: \d+ bytes within"):
            while await body.read():
                pass


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_list_is_not_idle_while_a_long_chunk_arrives(
    client: Literal["direct", "aiohttp"],
) -> None:
    """A server that sends a list in one chunk, over a slow link."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"x" * 1000)[:-502])
        await asyncio.Event().wait()

    async with (
        serving(answer) as server,
        connected(server.url, http_client=client, idle_seconds=1.0) as connection,
        connection.stream("/a", watch=False) as body,
    ):
        assert await body.read() == b"x" * 500


async def test_a_list_that_brings_much_may_take_longer() -> None:
    """The bytes that arrived extend the limit by three seconds."""
    may_end = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"x" * 48 * 1024))
        await may_end.wait()
        writer.write(chunk(b"y") + chunk(b""))

    async with (
        serving(answer) as server,
        connected(server.url, body_seconds=0.05) as connection,
        connection.stream("/a", watch=False) as body,
    ):
        received = 0
        while received < 48 * 1024:
            received += len(await body.read())
        asyncio.get_running_loop().call_later(0.2, may_end.set)
        assert await body.read() == b"y"
        assert await body.read() == b""
