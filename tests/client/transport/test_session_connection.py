"""A connection over another library's session: the same bodies and errors, and its own login."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from pyinformer.client.transport import (
    NetworkConnection,
    SessionConnection,
    SessionTimeouts,
)
from pyinformer.errors import (
    ConnectionEndedError,
    FencedError,
    ForbiddenError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
    UnauthorizedError,
)
from tests.client.transport.serving import Request, Server, always, response, serving, silence
from tests.guards import Guard, guarded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.client.transport.serving import Answer


class Library:
    """Another library: it has a session, and logs in once more after a 401."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.server = url
        self.limits = SessionTimeouts()
        self.logins = 0
        self.is_locked_out = False

    def timeouts(self, *, watch: bool) -> SessionTimeouts:
        """Return what the test has set."""
        return self.limits

    async def send(
        self, send: Callable[[aiohttp.ClientSession, str], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        """Send, and once more with new credentials."""
        if self.is_locked_out:
            raise ConnectionEndedError("no credentials are left")
        try:
            return await send(self.session, self.server)
        except UnauthorizedError:
            self.logins += 1
            self.session.headers["Authorization"] = "Bearer new"
            return await send(self.session, self.server)


@asynccontextmanager
async def borrowing(answer: Answer) -> AsyncIterator[tuple[SessionConnection, Library, Server]]:
    """Run a server, and connect to it by another library's session."""
    async with serving(answer) as server, aiohttp.ClientSession() as session:
        library = Library(session, server.url)
        yield SessionConnection(library), library, server


async def read(connection: SessionConnection, *, watch: bool = False) -> bytes:
    """Return the whole body of a list or a watch."""
    async with connection.stream("/api/v1/pods", (("limit", "5"),), watch=watch) as body:
        return b"".join([part async for part in parts_of(body.read)])


async def parts_of(read: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """Yield what is read up to the end."""
    while part := await read():
        yield part


async def test_a_body_is_read_and_the_session_stays_open() -> None:
    async with borrowing(always(response(b'{"items":[]}'))) as (connection, library, server):
        assert await read(connection) == b'{"items":[]}'
        assert await connection.request("GET", "/version") == b'{"items":[]}'
        await connection.aclose()
        assert not library.session.closed
        assert server.requests[0].target == "/api/v1/pods?limit=5"
        assert connection.config.server == server.url
        assert isinstance(connection, NetworkConnection)
        assert connection.describe_pending("/api/v1/pods") == ""


async def test_only_watches_refuse_compression() -> None:
    async with borrowing(always(response())) as (connection, _, server):
        await read(connection)
        await read(connection, watch=True)
    listed, watched = (one.headers["accept-encoding"] for one in server.requests)
    assert "gzip" in listed
    assert watched == "identity"


async def test_a_401_makes_the_library_log_in_and_send_again() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_new = request.headers.get("authorization") == "Bearer new"
        writer.write(response(b"{}", status=200 if is_new else 401))
        await writer.drain()

    async with borrowing(answer) as (connection, library, _):
        assert await read(connection) == b"{}"
        assert library.logins == 1


async def test_a_second_401_is_an_error_and_a_lockout_ends_the_connection() -> None:
    async with borrowing(always(response(b"{}", status=401))) as (connection, library, _):
        with pytest.raises(UnauthorizedError):
            await read(connection)
        library.is_locked_out = True
        with pytest.raises(ConnectionEndedError, match="no credentials are left"):
            await read(connection)
        assert not await connection.probe(5.0)


async def test_a_refusal_names_the_missing_right() -> None:
    async with borrowing(always(response(b'{"kind":"Status"}', status=403))) as (connection, _, _):
        with pytest.raises(ForbiddenError, match='"list" is missing'):
            await read(connection)


async def test_a_web_page_is_not_an_api() -> None:
    page = response(b"<html>", headers={"Content-Type": "text/html"})
    async with borrowing(always(page)) as (connection, _, _):
        with pytest.raises(ProtocolError, match="is a proxy in between"):
            await read(connection)


@pytest.mark.parametrize(("status", "answers"), [(200, True), (401, True), (503, False)])
async def test_a_probe_tells_a_server_from_a_load_balancer(status: int, *, answers: bool) -> None:
    async with borrowing(always(response(b"{}", status=status))) as (connection, library, _):
        assert await connection.probe(60.0) is answers
        assert library.logins == 0


async def test_an_absent_server_is_unreachable() -> None:
    async with borrowing(always(response())) as (connection, library, _):
        library.server = "http://127.0.0.1:1"
        with pytest.raises(TransportError, match="cannot connect") as caught:
            await read(connection)
        assert caught.value.is_unreachable
        assert not await connection.probe(60.0)


async def test_headers_and_silent_bodies_have_deadlines() -> None:
    async with borrowing(silence) as (connection, library, _):
        library.limits = SessionTimeouts(headers_seconds=0.05)
        with pytest.raises(RequestTimeoutError, match="no answer within"):
            await read(connection)
        with pytest.raises(RequestTimeoutError, match="whether the server carried out the POST"):
            await connection.request("POST", "/x", body=b"{}", timeout_seconds=0.05)
        assert not await connection.probe(0.05)


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_write_without_an_answer_may_have_been_carried_out(method: str) -> None:
    async with borrowing(silence) as (connection, library, _):
        library.limits = SessionTimeouts(headers_seconds=0.05)
        with pytest.raises(RequestTimeoutError, match="no answer within") as caught:
            await connection.request(method, "/x")
    words = "whether the server carried out the PUT is not known"
    assert (words in str(caught.value)) == (method == "PUT")


async def test_a_write_whose_term_ends_during_the_login_is_not_begun() -> None:
    async with borrowing(always(response())) as (connection, library, _):
        library.server = "http://127.0.0.1:1"  # a connection would be refused
        guard = Guard(announces=False)

        def timeouts(*, watch: bool) -> SessionTimeouts:
            guard.shut()
            return SessionTimeouts()

        library.timeouts = timeouts  # type: ignore[method-assign]  # called before the login
        with guarded(guard), pytest.raises(FencedError) as caught:
            await connection.request("DELETE", "/x")
    assert not caught.value.may_have_left


async def test_a_watch_ends_at_its_deadline() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", headers={"Content-Length": "9"}))
        await asyncio.Event().wait()

    async with (
        borrowing(answer) as (connection, _, _),
        connection.stream("/x", watch=True, deadline_seconds=0.05) as body,
    ):
        with pytest.raises(RequestTimeoutError, match="still open"):
            await body.read()


async def test_a_cancelled_request_leaves_nothing_open() -> None:
    async with borrowing(silence) as (connection, _, server):
        task = asyncio.create_task(read(connection))
        await server.wait_until(lambda: len(server.requests) == 1)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await server.wait_until(lambda: server.open_connections == 0)
