"""Requests out, streams of bytes and single answers in: one API server over HTTP/1.1.

Watches have connections of their own, as many as they like; everything else shares a bounded
number, and waiting for one has a deadline. A stream is closed the moment its context is left and
its connection never used again. Every failure leaves as one of our errors, and every wait but the
one for a watch's next event ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias, final
from urllib.parse import urlencode, urlsplit

import anyio
import anyio.lowlevel

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    InformerError,
    InvalidArgumentError,
    LifecycleError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.tasks import LoopOwner
from pyinformer.transport._body import Body, ResponseBody, read_bounded
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._failures import cause_of, of_a_request, translated, wire_failures
from pyinformer.transport._identity import Identity
from pyinformer.transport._impersonation import impersonation_headers
from pyinformer.transport._keepalive import keepalive_sockets
from pyinformer.transport._names import Names
from pyinformer.transport._options import ConnectionOptions
from pyinformer.transport._requests import common_headers, new_session, once
from pyinformer.transport._rules import needed_rule
from pyinformer.transport._status import status_error
from pyinformer.transport._waits import Wait, Waits
from pyinformer.transport._watch_http import WatchResponse, open_watch

if TYPE_CHECKING:
    import ssl

    import aiohttp

    _Response: TypeAlias = aiohttp.ClientResponse | WatchResponse

_log = get_logger(__name__)

Query = Sequence[tuple[str, str]]
"""Names and values, not yet quoted, in the order in which they are sent."""

_WATCH_BUFFER_BYTES = 1 << 20  # below it the library stops and starts the socket all the time
_REQUEST_BUFFER_BYTES = 256 << 10
_MAX_ANSWER_BYTES = 64 << 20
_MAX_ERROR_BYTES = 64 << 10
_ERROR_BODY_SECONDS = 5.0  # the status is known, and a retry waits for no more than its words
_REST = "the rest of the answer"
_CLOSE_SECONDS = 5.0
_LIVENESS_PATH = "/livez"  # every client may ask, and servers queue no request for it
_UNAUTHORIZED = 401
_NO_SERVER_BEHIND = frozenset({502, 503, 504})  # what a load balancer says for an absent server
_FIRST_NO_SUCCESS = 300
_FIRST_SUCCESS = 200


@final
class Connection:
    """One API server over HTTP: two pools of connections, deadlines, typed errors.

    It belongs to the event loop of its first request, refuses others, and is released by `aclose`.

    Args:
        config: the server and how to reach it.
        options: its bounds.

    Raises:
        ConfigurationError: a certificate of the configuration cannot be read.
    """

    def __init__(self, config: ClusterConfig, *, options: ConnectionOptions | None = None) -> None:
        self._config = config
        self._options = options or ConnectionOptions()
        self._identity = Identity(config)
        self._new_socket = keepalive_sockets(self._options)
        self._server = config.server.rstrip("/")
        self._requests = asyncio.Semaphore(self._options.max_request_connections)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._watches: set[WatchResponse] = set()
        self._waits = Waits()
        self._names = Names()
        self._headers = (*common_headers().items(), *impersonation_headers(config))
        # A proxy, and a password in the URL, are left to the general HTTP library.
        parts = urlsplit(self._server)
        self._reads_watches_itself = (
            self._options.http_client == "direct"
            and config.proxy_url is None
            and "@" not in parts.netloc
        )
        self._loop = LoopOwner(f"the connection to {self._server}")
        self._compressed: set[str] = set()  # URLs whose watches are compressed unasked
        self._is_closed = False
        self._now: Callable[[], float] = float  # the loop's, from the first request on

    @property
    def config(self) -> ClusterConfig:
        """The configuration as given."""
        return self._config

    def claim_loop(self) -> None:
        """Belong to the running event loop from now on, as from the first request on.

        Raises:
            LifecycleError: it belongs to another one, or none runs here.
        """
        self._loop.claim()

    def describe_pending(self, path: str) -> str:
        """Return what the oldest request for a path waits for, in words; empty if none does.

        Safe from any thread.
        """
        return self._waits.words(self._server + path, self._now())

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
    ) -> AsyncIterator[Body]:
        """Open a GET whose body is read as it arrives.

        Args:
            path: from the server's root: `/api/v1/pods`.
            query: names and values.
            watch: take a connection of the unlimited pool, and allow silence.
            what: what is asked for, for errors; the method and the path if empty.
            deadline_seconds: when to give up the stream, counted from its first byte; None for
                never.
            accept: the representations that can be read; empty for plain JSON.

        Raises:
            APIStatusError: the server refused.
            TransportError: the server was not reached in time, or not at all.
            ConfigurationError: there are no credentials.

        Cancellation:
            Safe at every point; the connection is closed and its place in the pool is free again.
        """
        self.claim_loop()
        url = self._server + path
        async with self._place(url, watch=watch):
            response = await self._open("GET", url, query, watch=watch, what=what, accept=accept)
            body = self._body(response, url, watch=watch)
            timer = None
            if deadline_seconds is not None:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(deadline_seconds, body.expire, deadline_seconds)
            try:
                if watch:
                    yield body
                else:
                    with self._waits.begin(url, self._now(), _REST):
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
    ) -> bytes:
        """Send a request and read its whole answer.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            path: from the server's root.
            query: names and values.
            body: what to send, or None.
            content_type: what `body` is.
            timeout_seconds: how long it may take in all; None for the connection's option.

        Returns:
            The answer's body.

        Raises:
            APIStatusError: the server refused.
            TransportError: the server was not reached in time, or the connection was lost.
            InvalidArgumentError: no time to wait.
            ProtocolError: the answer is longer than 64 MiB.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        self.claim_loop()
        url = self._server + path
        seconds = self._options.request_timeout_seconds
        if timeout_seconds is not None:
            seconds = timeout_seconds
        if not seconds > 0:
            raise InvalidArgumentError("timeout_seconds", f"{seconds} is not above 0")
        try:
            async with asyncio.timeout(seconds), self._place(url, watch=False):
                return await self._exchange(method, url, query, body, content_type)
        except TimeoutError as error:
            if isinstance(error, InformerError):
                raise
            late = translated(error, url, waited_seconds=seconds)
            raise of_a_request(late, method) from error

    async def probe(self, timeout_seconds: float) -> bool:
        """Tell whether the server answers a small request.

        Any answer counts but 502, 503 and 504: with these a load balancer answers for a server
        that is away. A kube-apiserver whose own health checks fail answers 500.

        The request has a connection of its own and carries no login, so that no credentials are
        renewed for it.

        Args:
            timeout_seconds: how long name, connection, TLS and answer may take together.

        Cancellation:
            Safe; the connection is closed.
        """
        if self._is_closed:
            return False
        try:
            async with asyncio.timeout(timeout_seconds), self._new_session(watch=True) as alone:
                response = await alone.get(
                    self._server + _LIVENESS_PATH,
                    ssl=self._identity.context(asyncio.get_running_loop().time()) or True,
                    allow_redirects=False,
                    server_hostname=self._config.tls_server_name,
                    proxy=self._config.proxy_url,
                )
                response.close()
        except wire_failures():
            self._identity.look_again()  # whose certificate is it that has changed?
            return False
        except InformerError:  # a certificate that cannot be read, say
            return False
        return response.status not in _NO_SERVER_BEHIND

    async def _exchange(
        self, method: str, url: str, query: Query, content: bytes | None, content_type: str
    ) -> bytes:
        try:
            response = await self._open(
                method, url, query, watch=False, content=content, content_type=content_type
            )
            return await self._read_answer(response, url)
        except (TransportError, ProtocolError) as error:
            raise of_a_request(error, method) from error.__cause__

    async def aclose(self) -> None:
        """Close all connections; streams that are open fail.

        Cancellation:
            Shielded, for at most five seconds; connections are closed in any case.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for watch in tuple(self._watches):
            watch.fail(TransportError(self._server, "the connection was lost: closed by aclose()"))
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            for session in sessions:
                await session.close()
            while self._watches:
                await anyio.lowlevel.checkpoint()

    @asynccontextmanager
    async def _place(self, url: str, *, watch: bool) -> AsyncIterator[None]:
        """Hold one of the places in the bounded pool; a watch needs none."""
        if watch:
            yield
            return
        seconds = self._options.acquire_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._requests.acquire()
        except TimeoutError as error:
            limit = self._options.max_request_connections
            reason = (
                f"the pool is exhausted: all {limit} connections for requests and lists were busy"
                f" for {seconds:g} s"
            )
            raise RequestTimeoutError(url, reason, waited_seconds=seconds) from error
        try:
            yield
        finally:
            self._requests.release()

    async def _open(
        self,
        method: str,
        url: str,
        query: Query,
        *,
        watch: bool,
        what: str = "",
        content: bytes | None = None,
        content_type: str = "",
        accept: str = "",
    ) -> _Response:
        """Send a request, once more after a 401, and return a response that is a success."""
        headers = {"Content-Type": content_type} if content is not None else {}
        if accept:
            headers["Accept"] = accept
        target = f"{url}?{urlencode(query)}" if query else url
        response, login = await self._send(method, target, url, headers, content, watch=watch)
        if response.status == _UNAUTHORIZED:
            response.close()
            self._identity.refused(login)
            response, _ = await self._send(method, target, url, headers, content, watch=watch)
        request = what or f"{method} {url.removeprefix(self._server)}"
        if _FIRST_SUCCESS <= response.status < _FIRST_NO_SUCCESS:
            if response.content_type == "text/html":
                response.close()
                raise ProtocolError(request, "the answer is a web page: is a proxy in between?")
            return response
        text = await self._read_words(response, url)
        needed = needed_rule(method, url.removeprefix(self._server), watch=watch)
        raise status_error(response.status, response.headers, text, request=request, needed=needed)

    async def _read_words(self, response: _Response, url: str) -> bytes:
        """Read the body of an error answer; return nothing if it does not arrive in time."""
        seconds = min(self._options.idle_timeout_seconds, _ERROR_BODY_SECONDS)
        step = f"the body of an answer with status {response.status}"
        try:
            with self._waits.begin(url, self._now(), step):
                async with asyncio.timeout(seconds):
                    return await read_bounded(self._body(response, url), _MAX_ERROR_BYTES)
        except (TransportError, ProtocolError, TimeoutError):
            return b""  # the status is known
        finally:
            response.close()

    async def _send(
        self,
        method: str,
        target: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        watch: bool,
    ) -> tuple[_Response, Mapping[str, str]]:
        """Send a request; return the response, and what authenticated the request."""
        from yarl import URL

        if self._is_closed:
            raise LifecycleError(f"the connection to {self._server} is closed")
        self._now = asyncio.get_running_loop().time
        try:
            with self._waits.begin(url, self._now()) as wait:
                async with asyncio.timeout(self._options.headers_timeout_seconds):
                    then, wait.step = wait.step, "credentials"
                    login = await self._identity.headers()
                    wait.step = then
                    context = self._identity.context(self._now())
                    own = {**headers, **login}
                    if watch and self._reads_watches_itself and url not in self._compressed:
                        direct = await self._send_watch(target, wait, own, context)
                        if not direct.is_encoded:
                            return direct, login
                        self._leave_watches_to_aiohttp(direct)
                    response = await self._session(watch=watch).request(
                        method,
                        URL(target, encoded=True),
                        headers=own,
                        data=content,
                        # Connections are kept by it: one made with another is not taken.
                        ssl=context if context is not None else True,
                        allow_redirects=False,
                        server_hostname=self._config.tls_server_name,
                        proxy=self._config.proxy_url,
                        middlewares=() if method == "GET" else (once,),
                    )
                    return response, login
        except wire_failures() as error:
            self._identity.look_again()  # whose certificate is it that has changed?
            if isinstance(error, InformerError):
                raise
            waited = self._waited(error)
            raise translated(error, url, waited_seconds=waited) from cause_of(error)

    def _leave_watches_to_aiohttp(self, response: WatchResponse) -> None:
        """Drop an answer that is compressed unasked; what reads lists can decompress watches."""
        response.close()
        if not self._compressed:
            encoding = response.headers.get("content-encoding", "")
            _log.warning(
                "%s answers a watch with Content-Encoding: %s, which was not asked for; such"
                " watches are decompressed from now on, and an event comes late if its compressor"
                " keeps it. Is a proxy in between?",
                response.url,
                encoding[:40],
            )
        self._compressed.add(response.url)

    async def _send_watch(
        self, target: str, wait: Wait, headers: Mapping[str, str], context: ssl.SSLContext | None
    ) -> WatchResponse:
        response = WatchResponse(wait.url, self._watches.discard)
        self._watches.add(response)
        try:
            await open_watch(
                response,
                target,
                wait,
                self._headers_of(headers),
                context=context,
                server_name=self._config.tls_server_name,
                connect_timeout_seconds=self._options.connect_timeout_seconds,
                names=self._names,
                socket_factory=self._new_socket,
            )
        except BaseException:
            if response.is_unconnected:
                self._watches.discard(response)
            raise
        return response

    def _headers_of(self, own: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the headers of a request, of which several may have one name."""
        return [(name, value) for name, value in self._headers if name not in own] + [*own.items()]

    def _waited(self, error: Exception) -> float:
        import aiohttp

        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return self._options.connect_timeout_seconds
        return self._options.headers_timeout_seconds

    async def _read_answer(self, response: _Response, url: str) -> bytes:
        try:
            with self._waits.begin(url, self._now(), _REST):
                answer = await read_bounded(self._body(response, url), _MAX_ANSWER_BYTES)
            if len(answer) > _MAX_ANSWER_BYTES:
                raise ProtocolError(url, f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
            return answer
        finally:
            response.close()

    def _body(self, response: _Response, url: str, *, watch: bool = False) -> Body:
        if isinstance(response, WatchResponse):
            return response
        if watch:
            return ResponseBody(response, url, idle_seconds=None)
        return ResponseBody(
            response,
            url,
            idle_seconds=self._options.idle_timeout_seconds,
            total_seconds=self._options.body_timeout_seconds,
        )

    def _session(self, *, watch: bool) -> aiohttp.ClientSession:
        if watch not in self._sessions:
            self._sessions[watch] = self._new_session(watch=watch)
        return self._sessions[watch]

    def _new_session(self, *, watch: bool) -> aiohttp.ClientSession:
        return new_session(
            limit=0 if watch else self._options.max_request_connections,
            buffer_bytes=_WATCH_BUFFER_BYTES if watch else _REQUEST_BUFFER_BYTES,
            connect_timeout_seconds=self._options.connect_timeout_seconds,
            headers=self._headers,
            socket_factory=self._new_socket,
            names=self._names,
        )
