"""A connection over the aiohttp session of another library, which logs in and renews it.

The other library sends each request; what is received is read, limited and translated here, so the
readers of this connection see the same bodies and errors as those of `Connection`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, final
from urllib.parse import urlencode

import anyio
from msgspec import Struct

from pyinformer.client.transport._status import NO_SERVER_BEHIND, status_error
from pyinformer.client.transport.config import ClusterConfig
from pyinformer.client.transport.http._body import AiohttpBody, Body
from pyinformer.client.transport.http._errors import (
    late_error,
    network_errors,
    request_error,
    safe_cause,
    translate,
)
from pyinformer.client.transport.http._last_write_check import Fence, fence_of
from pyinformer.client.transport.http._responses import (
    LIVENESS_PATH,
    UNAUTHORIZED,
    read_error_body,
    read_whole,
    successful,
)
from pyinformer.errors import InformerError, ProtocolError, TransportError, UnauthorizedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import aiohttp

    from pyinformer.client.transport.http._connection import Query

_BUFFER_BYTES = 256 << 10


@final
class SessionTimeouts(Struct, frozen=True, kw_only=True):
    """The deadlines of a request over a foreign session; None for no limit."""

    connect_seconds: float | None = 10.0
    """How long a new connection may take."""
    headers_seconds: float | None = 60.0
    """How long the server may take to begin its response."""
    total_seconds: float | None = 300.0
    """How long a request may take with its body; watches have no such limit."""
    idle_seconds: float | None = 60.0
    """How long a server may send nothing of a body; for watches this does not count."""


class SessionSource(Protocol):
    """Lends the aiohttp session of another library."""

    @property
    @abstractmethod
    def server(self) -> str:
        """The URL of the server, as far as it is known yet; for errors only."""
        ...

    @abstractmethod
    def timeouts(self, *, watch: bool) -> SessionTimeouts:
        """Return the deadlines of the next request."""
        ...

    @abstractmethod
    async def send(
        self, send: Callable[[aiohttp.ClientSession, str], Awaitable[aiohttp.ClientResponse]]
    ) -> aiohttp.ClientResponse:
        """Send one request with a session that is logged in.

        Args:
            send: sends it with a session to a server's URL; raises UnauthorizedError after a 401,
                for which the library may log in and send again.

        Raises:
            ConnectionEndedError: no credentials are left.
            UnauthorizedError: the server refuses the credentials.

        Cancellation:
            The request is dropped.
        """
        ...


@final
class SessionConnection:
    """One API server over a session that another library owns; `aclose` leaves it open.

    Args:
        source: lends the session.
    """

    def __init__(self, source: SessionSource) -> None:
        self._source = source

    @property
    def config(self) -> ClusterConfig:
        """The server's URL; credentials and certificates are the session's own."""
        return ClusterConfig(server=self._source.server, source="a foreign session")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AsyncIterator[Body]:
        """Open a GET whose body is read as it arrives; see Connection.stream.

        Raises:
            APIStatusError: the server refused the request.
            TransportError: the server was not reached, or not in time.
            ConnectionEndedError: no credentials are left.

        Cancellation:
            Safe; the connection is closed.
        """
        headers = {"Accept": accept or "application/json"}
        if watch:
            headers["Accept-Encoding"] = "identity"  # a compressor may hold events back
        response = await self._open("GET", path, query, watch=watch, what=what, headers=headers)
        body = self._body(response, path, watch=watch)
        timer = None
        if deadline_seconds is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(deadline_seconds, body.expire, deadline_seconds)
        try:
            yield body
        finally:
            if timer is not None:
                timer.cancel()
            body.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Send a request and return the body of its response; see Connection.request.

        Raises:
            APIStatusError: the server refused the request.
            TransportError: the server was not reached in time, or the connection was lost.
            ProtocolError: the response is longer than 64 MiB.
            FencedError: a write belongs to a term of leader election that is over.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        headers = {"Accept": accept or "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            with anyio.fail_after(timeout_seconds):
                async with fence_of(method) as fence:
                    response = await self._open(
                        method, path, query, headers=headers, content=body, fence=fence
                    )
                    return await read_whole(response, self._body(response, path, watch=False), path)
        except (TransportError, ProtocolError) as error:
            raise request_error(error, method) from error.__cause__
        except TimeoutError as error:
            seconds = timeout_seconds or 0.0
            raise late_error(error, self._url(path), method, waited_seconds=seconds) from error

    async def probe(self, timeout_seconds: float) -> bool:
        """Return whether the server answers a small request; see Connection.probe.

        Cancellation:
            Safe; the request is dropped.
        """
        try:
            with anyio.fail_after(timeout_seconds):
                response = await self._send("GET", LIVENESS_PATH, checks_login=False)
        except network_errors():
            return False
        except InformerError:
            return False
        response.close()
        return response.status not in NO_SERVER_BEHIND

    def describe_pending(self, path: str) -> str:
        """Return nothing: the session's owner sends the requests."""
        return ""

    async def aclose(self) -> None:
        """Do nothing: the session belongs to the other library.

        Cancellation:
            Safe.
        """

    def _url(self, path: str) -> str:
        return self._source.server.rstrip("/") + path

    async def _open(
        self,
        method: str,
        path: str,
        query: Query,
        *,
        headers: dict[str, str],
        watch: bool = False,
        what: str = "",
        content: bytes | None = None,
        fence: Fence | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request and return a successful response."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            response = await self._send(
                method, target, headers, watch=watch, content=content, fence=fence
            )
        except network_errors() as error:
            if isinstance(error, InformerError):
                raise
            waited = self._waited(error, watch=watch)
            raise translate(error, self._url(path), waited_seconds=waited) from safe_cause(error)
        return await successful(
            response, self._read_error, method=method, path=path, query=query, what=what
        )

    async def _send(
        self,
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        *,
        watch: bool = False,
        content: bytes | None = None,
        fence: Fence | None = None,
        checks_login: bool = True,
    ) -> aiohttp.ClientResponse:
        import aiohttp
        from yarl import URL

        timeouts = self._source.timeouts(watch=watch)

        async def send(session: aiohttp.ClientSession, server: str) -> aiohttp.ClientResponse:
            if fence is not None:  # the term may have ended during the login
                fence.check()
            with anyio.fail_after(timeouts.headers_seconds):
                response = await session.request(
                    method,
                    URL(server.rstrip("/") + target, encoded=True),
                    headers=headers,
                    data=content if fence is None else fence.body(content),
                    allow_redirects=False,  # the session's own headers may be secret
                    timeout=aiohttp.ClientTimeout(
                        total=None if watch else timeouts.total_seconds,
                        sock_connect=timeouts.connect_seconds,
                    ),
                    read_bufsize=_BUFFER_BYTES,
                )
            if checks_login and response.status == UNAUTHORIZED:
                text = await self._read_error(response)
                name = f"{method} {target.partition('?')[0]}"
                error = status_error(UNAUTHORIZED, response.headers, text, request=name)
                if isinstance(error, UnauthorizedError):
                    raise error
            return response

        return await self._source.send(send)

    def _waited(self, error: Exception, *, watch: bool) -> float:
        import aiohttp

        timeouts = self._source.timeouts(watch=watch)
        is_connect = isinstance(error, aiohttp.ConnectionTimeoutError)
        return (timeouts.connect_seconds if is_connect else timeouts.headers_seconds) or 0.0

    async def _read_error(self, response: aiohttp.ClientResponse) -> bytes:
        return await read_error_body(response, AiohttpBody(response, "", idle_seconds=None))

    def _body(self, response: aiohttp.ClientResponse, path: str, *, watch: bool) -> AiohttpBody:
        idle_seconds = None if watch else self._source.timeouts(watch=False).idle_seconds
        return AiohttpBody(response, self._url(path), idle_seconds=idle_seconds)
