"""Lists one after another share a connection, if each body was read to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import ConfigurationError, LifecycleError, TransportError
from tests.client.transport.serving import CHUNKED, always, chunk, connected, response, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.client.transport import Body, Connection
    from tests.client.transport.serving import Request

pytestmark = pytest.mark.every_loop
LARGE = b"x" * 700_000  # longer than the buffer, and in one chunk
BODIES = pytest.mark.parametrize(
    ("answer", "content"),
    [
        pytest.param(response(), b"{}", id="sized"),
        pytest.param(CHUNKED + chunk(b"{}") + chunk(b""), b"{}", id="chunked"),
        pytest.param(CHUNKED + chunk(LARGE) + chunk(b""), LARGE, id="large"),
    ],
)


async def listed(connection: Connection) -> bytes:
    """Read a list to its end."""
    parts: list[bytes] = []
    async with connection.stream("/a", watch=False) as body:
        while part := await body.read():
            assert len(part) <= 64 << 10
            parts.append(part)
        assert body.received_bytes == sum(map(len, parts))
    return b"".join(parts)


@pytest.mark.covers("client-go rest: TestTransportConcurrency")
@BODIES
async def test_lists_that_are_read_to_their_end_share_a_connection(
    answer: bytes, content: bytes
) -> None:
    async with serving(always(answer)) as server, connected(server.url) as connection:
        for _ in range(4):
            assert await listed(connection) == content
            assert (connection.open_sockets, server.open_connections) == (1, 1)
        assert len(server.requests) == 4

        await connection.aclose()
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_list_that_is_left_before_its_end_closes_its_connection() -> None:
    async with (
        serving(always(CHUNKED + chunk(b"{}"))) as server,
        connected(server.url) as connection,
    ):
        async with connection.stream("/a", watch=False) as body:
            assert await body.read() == b"{}"
        await server.wait_until(lambda: server.open_connections == 0)


async def test_a_connection_that_the_server_ends_is_not_used_again() -> None:
    answer = response(headers={"Connection": "close"})
    async with serving(always(answer)) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        await server.wait_until(lambda: server.open_connections == 0)
        assert await listed(connection) == b"{}"


async def test_a_list_whose_kept_connection_was_closed_is_sent_on_another_one() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer all requests but the second, which finds its connection closed."""
        del request
        if len(server.requests) == 2:
            writer.transport.abort()
        writer.write(response())

    async with serving(answer) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        assert await listed(connection) == b"{}"
        assert len(server.requests) == 3


async def test_a_list_that_is_cut_off_in_its_head_is_not_sent_again() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        """Cut off the second response."""
        del request
        writer.write(response() if len(server.requests) == 1 else b"HTTP/1.1 200")
        if len(server.requests) == 2:
            writer.close()

    async with serving(answer) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        with pytest.raises(TransportError, match="the connection was lost"):
            await listed(connection)
        assert len(server.requests) == 2


@pytest.mark.covers("client-go rest: TestTransportConcurrency")
async def test_lists_at_the_same_time_have_connections_of_their_own() -> None:
    async with (
        serving(always(response())) as server,
        connected(server.url) as connection,
        connection.stream("/a", watch=False) as one,
        connection.stream("/a", watch=False) as other,
    ):
        assert (await one.read(), await other.read()) == (b"{}", b"{}")
        assert connection.open_sockets == 2


@pytest.mark.parametrize(
    "rest", [pytest.param(response(b"[]"), id="whole"), pytest.param(b"HTTP", id="in part")]
)
async def test_a_connection_with_a_response_that_was_not_requested_is_closed(rest: bytes) -> None:
    """Its rest would be read as the beginning of the next response."""
    answers = iter([response() + rest, response(b"{1}")])

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        del request
        writer.write(next(answers))

    async with serving(answer) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        assert connection.open_sockets == 0
        assert await listed(connection) == b"{1}"


async def test_a_list_on_a_kept_connection_ends_with_aclose() -> None:
    """It is not sent again, on a connection that nothing would close."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer only the first request."""
        del request
        if len(server.requests) > 1:
            await asyncio.Event().wait()
        writer.write(response())

    async with serving(answer) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        again = asyncio.create_task(listed(connection))
        await server.wait_until(lambda: len(server.requests) > 1)
        await connection.aclose()
        with pytest.raises(LifecycleError, match="is closed"):
            await again
        await server.wait_until(lambda: server.open_connections == 0)
        assert len(server.requests) == 2


async def test_a_request_that_cannot_be_sent_leaves_the_kept_connection() -> None:
    async with serving(always(response())) as server, connected(server.url) as connection:
        assert await listed(connection) == b"{}"
        with pytest.raises(ConfigurationError, match="line break"):
            async with connection.stream("/a", watch=False, accept="a\r\nb"):
                pass
        assert await listed(connection) == b"{}"
        assert connection.open_sockets == 1


@BODIES
async def test_a_watch_that_wants_the_same_server_uses_the_connection_of_the_list(
    answer: bytes, content: bytes
) -> None:
    async with serving(always(answer)) as server, connected(server.url) as connection:
        assert await listed(connection) == content
        async with connection.stream("/a", watch=True) as body:
            assert await read_whole(body) == content
            assert server.open_connections == 2
        async with connection.stream("/a", watch=True, same_server=True) as body:
            assert await read_whole(body) == content
            await server.wait_until(lambda: server.open_connections == 1)
        await server.wait_until(lambda: server.open_connections == 0)
        async with connection.stream("/a", watch=True, same_server=True) as body:
            assert await read_whole(body) == content  # on another one: there is none to use


async def read_whole(body: Body) -> bytes:
    """Read a watch to its end."""
    return b"".join([part async for part in _parts(body)])


async def _parts(body: Body) -> AsyncIterator[bytes]:
    while part := await body.read():
        yield part
