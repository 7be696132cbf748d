"""One API server over HTTP/1.1: streams and single requests.

Each watch has its own connection; all other requests share bounded pools. A stream's connection is
closed when its context is left, unless the body of a list was read to its end: then the next list
or page may use it. Every failure is one of our errors, and every wait except the one for a watch's
next event has a deadline.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final
from urllib.parse import urlencode, urlsplit

import anyio

from pyinformer._known_tokens import remember_tokens, without_tokens
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import LoopOwner, run_shielded
from pyinformer.client.transport._raw_response import RawResponse
from pyinformer.client.transport._status import NO_SERVER_BEHIND, refuse_failure
from pyinformer.client.transport.config import (
    ClusterConfig,
    impersonation_headers,
    with_environment_proxy,
)
from pyinformer.client.transport.http._aiohttp_session import (
    common_headers,
    new_session,
    proxy_login,
    send_once,
)
from pyinformer.client.transport.http._authenticator import Authenticator
from pyinformer.client.transport.http._body import AiohttpBody, Body, ListBody, ReadTimeouts
from pyinformer.client.transport.http._channel_socket import (
    SWITCHING_PROTOCOLS,
    ChannelSocket,
    Upgrade,
)
from pyinformer.client.transport.http._dialer import Dialer
from pyinformer.client.transport.http._errors import (
    NO_CONNECTION,
    is_of_aiohttp,
    late_error,
    network_errors,
    request_error,
    safe_cause,
    translate,
)
from pyinformer.client.transport.http._last_write_check import Fence, fence_of
from pyinformer.client.transport.http._options import ConnectionOptions, ConnectionTimeouts
from pyinformer.client.transport.http._pending_requests import PendingRequest, PendingRequests
from pyinformer.client.transport.http._request_metrics import MeasuredRequest, RequestMetrics
from pyinformer.client.transport.http._responses import (
    LIVENESS_PATH,
    UNAUTHORIZED,
    read_error_body,
    read_whole,
    successful,
)
from pyinformer.client.transport.http._server_url import (
    host_header,
    name_for_tls,
    request_url,
    without_zone,
)
from pyinformer.client.transport.http._server_warnings import (
    WARNING_HEADER,
    OnWarning,
    ServerWarnings,
)
from pyinformer.client.transport.http._watch_request import open_watch, request_message, send_again
from pyinformer.client.transport.http._watch_response import WatchResponse
from pyinformer.client.transport.http._watch_transport import RECEIVE_BYTES
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    LifecycleError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.telemetry.tracing import CURRENT_REQUEST, RequestSpan

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from pyinformer.client.transport.http._responses import Response

_log = get_logger(__name__)

Query = Sequence[tuple[str, str]]
"""Names and values of a URL's query, not yet quoted, in the order in which they are sent."""

_WATCH_BUFFER_BYTES = 1 << 20  # with less, aiohttp pauses and resumes the socket all the time
_REQUEST_BUFFER_BYTES = 256 << 10
_REST = "the rest of the answer"
_CLOSE_SECONDS = 5.0
_KEPT_SECONDS = 5.0  # pages of a list follow each other; servers keep a connection longer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What a connection sends; the URL is without its query."""

    method: str
    url: str
    query: Query
    watch: bool = False
    is_list: bool = False
    same_server: bool = False
    what: str = ""
    headers: Mapping[str, str]
    content: bytes | None = None
    fence: Fence | None = None
    upgrade: Upgrade | None = None
    received: RawResponse | None = None
    span: RequestSpan | None = field(default_factory=CURRENT_REQUEST.get)

    @property
    def target(self) -> str:
        """The URL with its query, quoted."""
        return f"{self.url}?{urlencode(self.query)}" if self.query else self.url


@final
class Connection:
    """One API server over HTTP: two pools of connections, deadlines, typed errors.

    It belongs to the event loop of its first request, refuses others, and is closed by `aclose`.

    Args:
        config: the server and how to reach it.
        options: how many connections it uses, and what reads them.
        timeouts: its deadlines; None for those of every program.
        metrics: where its requests are counted; None for nowhere.
        on_warning: is called with the text and the request of each warning of the server; None for
            no function.

    Raises:
        ConfigurationError: a certificate in the configuration cannot be used, or the environment
            names a proxy that cannot be used. Files are read by `read_certificates`.
        InvalidTypeError: `on_warning` cannot be called with two texts.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        options: ConnectionOptions | None = None,
        timeouts: ConnectionTimeouts | None = None,
        metrics: RequestMetrics | None = None,
        on_warning: OnWarning | None = None,
    ) -> None:
        self._warnings = ServerWarnings(on_warning, None if metrics is None else metrics.warned)
        self._config = config = with_environment_proxy(config, os.environ)
        self._options = options or ConnectionOptions()
        self._timeouts = timeouts or ConnectionTimeouts()
        self._metrics = metrics
        self._authenticator = Authenticator(config, metrics=metrics)
        remember_tokens(self, proxy_login(config))  # the proxy may quote it in its answer
        self._dialer = Dialer(self._timeouts.connect_seconds, metrics=metrics)
        self._server = request_url(config.server)
        self._tls_name = name_for_tls(config.tls_server_name or urlsplit(self._server).hostname)
        places = self._options.max_request_connections
        self._requests = asyncio.Semaphore(places)
        self._write_places = max(1, places - places // 4)
        self._writes = asyncio.Semaphore(self._write_places)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._watches: dict[WatchResponse, ssl.SSLContext | None] = {}  # and lists
        self._has_no_watch: asyncio.Event | None = None  # while aclose() waits for the last one
        self._kept: dict[WatchResponse, asyncio.TimerHandle] = {}  # of lists that were read
        self._receive_room = memoryview(bytearray(RECEIVE_BYTES))  # what is unused takes no memory
        self._bodies: set[Body] = set()  # of open streams
        self._channels: set[ChannelSocket] = set()
        self._pending = PendingRequests()
        self._headers = (
            *common_headers(config.headers).items(),
            *impersonation_headers(config),
        )
        parts = urlsplit(self._server)
        has_zone = without_zone(self._server) != self._server  # which aiohttp would send
        self._host = (("Host", host_header(parts)),) if has_zone else ()
        # Proxies, and passwords in the URL, are left to aiohttp.
        self._reads_itself = (
            self._options.http_client == "direct"
            and config.proxy_url is None
            and "@" not in parts.netloc
        )
        self._loop = LoopOwner(f"the connection to {self._server}")
        # URLs whose watches, or whose lists, the server compresses unasked.
        self._compressed: set[tuple[str, bool]] = set()
        self._is_closed = False
        self.waiting: int = 0
        """How many requests wait for one of the connections that requests share."""
        self._now: Callable[[], float] = float  # the loop's, from the first request on
        if metrics is not None:
            metrics.add(self)

    @property
    def in_flight(self) -> int:
        """How many requests have no complete response yet; safe from any thread.

        A watch counts until it is opened.
        """
        return len(self._pending)

    @property
    def open_sockets(self) -> int:
        """How many sockets are open, those of watches included; safe from any thread."""
        return self._dialer.open_sockets

    @property
    def config(self) -> ClusterConfig:
        """The configuration as given, with the proxy of the environment if there is one."""
        return self._config

    def claim_loop(self) -> None:
        """Bind this connection to the running event loop, as its first request does.

        Raises:
            LifecycleError: it belongs to another loop, or no loop runs here.
        """
        self._loop.claim()

    async def read_certificates(self) -> None:
        """Read the certificate files of the configuration; else the first request does this.

        Raises:
            ConfigurationError: one of them cannot be used, or does not answer.

        Cancellation:
            Safe.
        """
        await self._authenticator.check_files()

    def describe_pending(self, path: str) -> str:
        """Return what the oldest pending request for a path waits for; empty if there is none.

        Safe from any thread.
        """
        return self._pending.describe(self._server + path, self._now())

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
        """Open a GET whose body is read as it arrives.

        Args:
            path: from the server's root: `/api/v1/pods`.
            query: names and values.
            watch: use a connection outside of the pool, and allow silence.
            what: the request as errors name it; empty for the method and the path.
            deadline_seconds: how long the stream may last from its first byte; None for no limit.
            accept: the media types that can be read; empty for plain JSON.
            same_server: use the connection of the list that was read to its end just before, so
                that a balancer of connections does not choose another server; if it is not open any
                more, another connection. Lists do so in any case.

        Raises:
            APIStatusError: the server refused the request.
            TransportError: the server was not reached, or not in time.
            ConfigurationError: no credentials are available.

        Cancellation:
            Safe at every point; the connection is closed and its place in the pool is released.
        """
        self.claim_loop()
        url = self._server + path
        with self._measured("GET", is_watch=watch) as measured:
            async with self._pool_place(url, watch=watch):
                headers = {"Accept": accept} if accept else {}
                response = await self._open(
                    _Request(
                        method="GET",
                        url=url,
                        query=query,
                        watch=watch,
                        same_server=same_server,
                        is_list=not watch,
                        what=what,
                        headers=headers,
                    )
                )
                body = self._body(response, url, watch=watch)
                if measured is not None:
                    measured.opened(body)
                self._bodies.add(body)
                if self._is_closed and isinstance(body, AiohttpBody):  # by aclose() meanwhile
                    body.close()
                timer = None
                if deadline_seconds is not None:
                    loop = asyncio.get_running_loop()
                    timer = loop.call_later(deadline_seconds, body.expire, deadline_seconds)
                try:
                    if watch:
                        yield body
                    else:
                        with self._pending.add(url, self._now(), _REST):
                            yield body
                finally:
                    if timer is not None:
                        timer.cancel()
                    self._bodies.discard(body)
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
        """Send a request and return the body of its response.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            path: from the server's root.
            query: names and values.
            body: the body to send, or None.
            content_type: the media type of `body`.
            timeout_seconds: how long it may take in all; None for the connection's option.
            accept: the media types that can be read; empty for plain JSON.

        Returns:
            The body of the response.

        Raises:
            APIStatusError: the server refused the request.
            TransportError: the server was not reached in time, or the connection was lost.
            InvalidArgumentError: the timeout is not greater than 0.
            ProtocolError: the response is longer than 64 MiB.
            FencedError: a write belongs to a term of leader election that is over.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        return await self.exchange(
            method,
            path,
            query=query,
            headers=headers,
            body=body,
            timeout_seconds=timeout_seconds,
        )

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_seconds: float | None = None,
        received: RawResponse | None = None,
    ) -> bytes:
        """Send a request with headers of its own, as `request` does.

        Args:
            method: the HTTP method.
            path: from the server's root.
            query: names and values.
            headers: the headers beside those of every request.
            body: the body to send, or None.
            timeout_seconds: how long it may take in all; None for the connection's option.
            received: gets the response, also if it is a refusal; None for nothing.

        Returns:
            The body of the response.

        Raises:
            InformerError: as `request`.

        Cancellation:
            Safe for the connection. Whether the server carried out a change is not known.
        """
        self.claim_loop()
        url = self._server + path
        seconds = self._timeouts.request_seconds
        if timeout_seconds is not None:
            seconds = timeout_seconds
        if not seconds > 0:
            raise InvalidArgumentError("timeout_seconds", f"must be greater than 0, got {seconds}")
        request = _Request(
            method=method,
            url=url,
            query=query,
            headers=headers,
            content=body,
            received=received,
        )
        if self._metrics is None:
            return await self._request(request, seconds)
        with self._metrics.request(method) as measured:
            answer = await self._request(request, seconds)
            measured.received(len(answer))
            return answer

    @asynccontextmanager
    async def channels(
        self, path: str, query: Query = (), *, protocols: Sequence[str]
    ) -> AsyncIterator[ChannelSocket]:
        """Open a conversation of numbered channels, such as a command in a container.

        It has a connection of its own. What it starts is guarded as a write is, though the request
        is a GET: it is refused, or cut off, at the end of a term of leader election.

        Args:
            path: from the server's root.
            query: names and values.
            protocols: the protocols that the caller speaks, the preferred one first.

        Raises:
            APIStatusError: the server refused the request.
            TransportError: the server was not reached, or not in time.
            ProtocolError: the server answered without a conversation.
            FencedError: it belongs to a term of leader election that is over.

        Cancellation:
            The conversation is ended and its connection closed, within about a second.
        """
        self.claim_loop()
        url = self._server + path
        upgrade = Upgrade(
            url,
            protocols,
            refusal_seconds=self._timeouts.idle_seconds,
            pong_seconds=self._timeouts.pong_seconds,
        )
        async with fence_of("CONNECT") as fence:
            request = _Request(
                method="GET",
                url=url,
                query=query,
                watch=True,
                headers={},
                fence=fence,
                upgrade=upgrade,
            )
            with self._measured("GET", is_watch=True):
                opened = await self._open_channels(request, upgrade)
            self._channels.add(opened)
            if self._is_closed:  # by aclose() while it was opened
                opened.close()
            try:
                yield opened
            finally:
                self._channels.discard(opened)
                await run_shielded(f"the end of a conversation with {url}", opened.aclose())

    async def probe(self, timeout_seconds: float) -> bool:
        """Return whether the server answers a small request.

        Every response counts except 502, 503 and 504, which a load balancer sends for an absent
        server. A kube-apiserver whose own health checks fail sends 500.

        The request has its own connection, and no credentials: none are renewed for it.

        Args:
            timeout_seconds: how long name, connection, TLS and response may take together.

        Cancellation:
            Safe; the connection is closed.
        """
        if self._is_closed:
            return False
        status: int | None = None
        try:
            async with self._new_session(watch=True) as alone:
                with anyio.fail_after(timeout_seconds):
                    await self._authenticator.check_files()
                    response = await alone.get(
                        self._server + LIVENESS_PATH,
                        ssl=self._authenticator.ssl_context() or True,
                        allow_redirects=False,
                        server_hostname=self._tls_name,
                        proxy=self._config.proxy_url,
                    )
                response.close()
                status = response.status
        except network_errors():
            self._authenticator.on_connection_failed()  # a certificate may have changed
            return False
        except InformerError:  # such as a certificate that cannot be read
            return False
        finally:
            if self._metrics is not None:
                self._metrics.answered("GET", status)
        return status not in NO_SERVER_BEHIND

    async def _request(self, request: _Request, seconds: float) -> bytes:
        try:
            with anyio.fail_after(seconds):
                async with (
                    fence_of(request.method) as fence,
                    self._pool_place(request.url, watch=False, writes=request.method != "GET"),
                ):
                    return await self._exchange(replace(request, fence=fence) if fence else request)
        except TimeoutError as error:
            if isinstance(error, InformerError):
                raise
            raise late_error(error, request.url, request.method, waited_seconds=seconds) from error

    async def _exchange(self, request: _Request) -> bytes:
        try:
            body = await self._read_body(await self._open(request), request.url)
        except (TransportError, ProtocolError) as error:
            raise request_error(error, request.method) from error.__cause__
        if request.received is not None:
            request.received.body = body
        refuse_failure(body, method=request.method, path=request.url.removeprefix(self._server))
        return body

    async def _open_channels(self, request: _Request, upgrade: Upgrade) -> ChannelSocket:
        try:
            response = await self._respond(request)
            if upgrade.socket is not None:
                return upgrade.socket
            if response.status != SWITCHING_PROTOCOLS:
                await self._successful(response, request)
        except (TransportError, ProtocolError) as error:
            raise request_error(error, "command") from error.__cause__
        reason = (
            "the server did not upgrade the connection to a WebSocket: a proxy in between must pass"
            " the headers Connection and Upgrade on"
        )
        raise ProtocolError(request.url, reason)

    async def aclose(self) -> None:
        """Close all connections; open streams fail.

        Cancellation:
            Shielded, for at most five seconds; connections are closed in any case.
        """
        self._loop.check(may_be_closed=True)
        self._is_closed = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        if self._metrics is not None:
            self._metrics.remove(self)
        for watch in tuple(self._watches):
            watch.fail(TransportError(self._server, "the connection was lost: closed by aclose()"))
        for channels in tuple(self._channels):
            channels.close()
        for body in tuple(self._bodies):
            if isinstance(body, AiohttpBody):  # its reader would not notice the end of the session
                body.close()
        await run_shielded(f"the close of connections to {self._server}", self._close(sessions))

    async def _close(self, sessions: Sequence[aiohttp.ClientSession]) -> None:
        with anyio.move_on_after(_CLOSE_SECONDS):
            for session in sessions:
                await session.close()
            if self._watches:
                self._has_no_watch = asyncio.Event()
                await self._has_no_watch.wait()

    @asynccontextmanager
    async def _pool_place(
        self, url: str, *, watch: bool, writes: bool = False
    ) -> AsyncIterator[None]:
        """Hold a place in the bounded pool; a watch does not need one."""
        if watch:
            yield
            return
        seconds = self._timeouts.acquire_seconds
        async with AsyncExitStack() as places:
            self.waiting += 1
            try:
                with anyio.fail_after(seconds):
                    if writes:
                        await places.enter_async_context(self._writes)
                    await places.enter_async_context(self._requests)
            except TimeoutError as error:
                most = self._options.max_request_connections
                limit = self._write_places if writes else most
                what = "writes" if writes else "requests and lists"
                reason = (
                    f"the pool is exhausted: all of the {limit} connections that {what} may use"
                    f" were busy for {seconds:g} s"
                )
                raise RequestTimeoutError(url, reason, waited_seconds=seconds) from error
            finally:
                self.waiting -= 1
            yield

    def _measured(
        self, method: str, *, is_watch: bool
    ) -> AbstractContextManager[MeasuredRequest | None]:
        if self._metrics is None:
            return nullcontext()
        return self._metrics.request(method, is_watch=is_watch)

    async def _open(self, request: _Request) -> Response:
        """Send a request, again after a 401, and return a successful response."""
        return await self._successful(await self._respond(request), request)

    async def _respond(self, request: _Request) -> Response:
        """Send a request, again after a 401, and return the response."""
        response, login = await self._send(request)
        if response.status == UNAUTHORIZED:
            response.close()
            self._authenticator.on_unauthorized(login)
            response, _ = await self._send(request, is_retry=True)
        if request.span is not None:
            request.span.status = response.status
        if request.received is not None:
            request.received.status = response.status
            request.received.headers = response.headers
        if WARNING_HEADER in response.headers:
            warnings = response.headers.getall(WARNING_HEADER)
            path = request.url.removeprefix(self._server)
            self._warnings.read(warnings, request.method, path)
        return response

    async def _successful(self, response: Response, request: _Request) -> Response:
        return await successful(
            response,
            lambda refused: self._read_error(refused, request),
            method=request.method,
            path=request.url.removeprefix(self._server),
            query=request.query,
            what=request.what,
        )

    async def _read_error(self, response: Response, request: _Request) -> bytes:
        if request.upgrade is not None:
            return request.upgrade.refusal
        url = request.url
        step = f"the body of an answer with status {response.status}"
        with self._pending.add(url, self._now(), step):
            body = self._body(response, url)
            seconds = self._timeouts.idle_seconds
            text = await read_error_body(response, body, most_seconds=seconds)
        if request.received is not None:
            request.received.body = text
        return text

    async def _send(
        self, request: _Request, *, is_retry: bool = False
    ) -> tuple[Response, Mapping[str, str]]:
        """Send a request; return the response and the headers that authenticated the request."""
        if self._metrics is None:
            return await self._send_once(request)
        if not request.watch:
            self._metrics.sent(request.method, len(request.content or b""))
        status: int | None = None
        try:
            sent = await self._send_once(request)
            status = sent[0].status
            return sent
        finally:
            self._metrics.answered(request.method, status, is_retry=is_retry)

    async def _send_once(self, request: _Request) -> tuple[Response, Mapping[str, str]]:
        self._check_open()
        self._now = asyncio.get_running_loop().time
        try:
            with self._pending.add(request.url, self._now()) as pending:
                with anyio.fail_after(self._timeouts.headers_seconds):
                    login = await self._log_in(pending)
                    self._check_open()
                    if request.fence is not None:
                        request.fence.check()
                    return await self._exchange_heads(request, pending, login), login
        except network_errors() as error:
            self._authenticator.on_connection_failed()  # a certificate may have changed
            if isinstance(error, InformerError):
                raise
            waited = self._waited(error)
            raise translate(error, request.url, waited_seconds=waited) from safe_cause(error)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LifecycleError(f"the connection to {self._server} is closed")

    async def _log_in(self, pending: PendingRequest) -> Mapping[str, str]:
        """Return the headers that authenticate a request."""
        then, pending.step = pending.step, "credentials"
        login = await self._authenticator.headers()
        pending.step = then
        return login

    async def _exchange_heads(
        self, request: _Request, pending: PendingRequest, login: Mapping[str, str]
    ) -> Response:
        """Send a request; return its response when the headers have arrived."""
        context = self._authenticator.ssl_context()
        traced = {} if request.span is None else request.span.headers
        own = {**traced, **request.headers, **login}
        if request.upgrade is not None:
            return await self._upgrade(request.upgrade, request, own, context)
        url = request.url
        is_direct = self._reads_itself and (request.watch or request.is_list)
        if is_direct and (url, request.watch) not in self._compressed:
            direct = await self._send_itself(request, pending, own, context)
            if not direct.is_encoded:
                return direct
            self._leave_to_aiohttp(direct, watch=request.watch)
        return await self._send_by_aiohttp(request, own, context)

    async def _send_by_aiohttp(
        self, request: _Request, headers: Mapping[str, str], context: ssl.SSLContext | None
    ) -> aiohttp.ClientResponse:
        from yarl import URL

        fence, content = request.fence, request.content
        return await self._session(watch=request.watch).request(
            request.method,
            URL(request.target, encoded=True),
            headers=headers,
            data=content if fence is None else fence.body(content),
            # Part of the pool's key: a connection of another context is not used.
            ssl=context if context is not None else True,
            allow_redirects=False,
            server_hostname=self._tls_name,
            proxy=self._config.proxy_url,
            middlewares=() if request.method == "GET" else (send_once,),
        )

    async def _upgrade(
        self,
        upgrade: Upgrade,
        request: _Request,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
    ) -> aiohttp.ClientResponse:
        session = self._new_session(watch=True, fence=request.fence, middlewares=(upgrade,))
        try:
            return await upgrade.open(
                session,
                request.target,
                headers=headers,
                context=context,
                server_hostname=self._tls_name,
                proxy=self._config.proxy_url,
            )
        finally:
            if upgrade.socket is None:
                await run_shielded(f"the close of a connection to {request.url}", session.close())

    def _leave_to_aiohttp(self, response: WatchResponse, *, watch: bool) -> None:
        """Drop a compressed response that was not requested; aiohttp can decompress it."""
        response.close()
        if watch and not any(is_watch for _, is_watch in self._compressed):
            encoding = response.headers.get("content-encoding", "")
            _log.warning(
                "%s answered a watch with Content-Encoding: %s, which was not requested; its"
                " watches are decompressed from now on, and events arrive late if the compressor"
                " holds them back. Is a proxy in between?",
                response.url,
                without_tokens(encoding)[:40],
            )
        self._compressed.add((response.url, watch))

    async def _send_itself(
        self,
        request: _Request,
        pending: PendingRequest,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
    ) -> WatchResponse:
        target = request.target
        message = request_message(target, self._headers_of(headers))
        may_use_kept = request.is_list or request.same_server
        kept = self._take_kept(context) if may_use_kept else None
        if kept is not None:
            if await send_again(kept, message, pending):
                return kept
            self._check_open()  # aclose() may have closed it
        response = WatchResponse(pending.url, self._on_closed)
        self._watches[response] = context
        try:
            await open_watch(
                response,
                target,
                message,
                pending,
                context=context,
                server_name=self._tls_name,
                dialer=self._dialer,
                room=self._receive_room,
            )
        except BaseException:
            if response.is_unconnected:
                self._forget(response)
            raise
        return response

    def _take_kept(self, context: ssl.SSLContext | None) -> WatchResponse | None:
        """Return a connection that an earlier list has left, if there is one with these settings.

        The newest is taken: that it is still open is the most likely.
        """
        for response, timer in reversed(self._kept.items()):
            if self._watches.get(response) is context and response.can_take_another:
                timer.cancel()
                del self._kept[response]
                return response
        return None

    def _leave(self, response: WatchResponse) -> None:
        """Keep the connection of a list that was read to its end, for a short time; else close."""
        if not response.can_take_another or response not in self._watches or self._is_closed:
            response.close()
            return
        loop = asyncio.get_running_loop()
        self._kept[response] = loop.call_later(_KEPT_SECONDS, response.close)

    def _forget(self, response: WatchResponse) -> None:
        self._watches.pop(response, None)
        if self._has_no_watch is not None and not self._watches:
            self._has_no_watch.set()

    def _on_closed(self, response: WatchResponse) -> None:
        self._forget(response)
        timer = self._kept.pop(response, None)
        if timer is not None:
            timer.cancel()

    def _headers_of(self, own: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the headers of a request; several may have one name."""
        return [(name, value) for name, value in self._headers if name not in own] + [*own.items()]

    def _waited(self, error: Exception) -> float:
        if is_of_aiohttp(error, NO_CONNECTION):
            return self._timeouts.connect_seconds
        return self._timeouts.headers_seconds

    async def _read_body(self, response: Response, url: str) -> bytes:
        with self._pending.add(url, self._now(), _REST):
            return await read_whole(response, self._body(response, url), url)

    def _body(self, response: Response, url: str, *, watch: bool = False) -> Body:
        if isinstance(response, WatchResponse):
            return response if watch else ListBody(response, self._read_timeouts(url), self._leave)
        if watch:
            return AiohttpBody(response, url, idle_seconds=None)
        return AiohttpBody(
            response,
            url,
            idle_seconds=self._timeouts.idle_seconds,
            total_seconds=self._timeouts.body_seconds,
        )

    def _read_timeouts(self, url: str) -> ReadTimeouts:
        return ReadTimeouts(
            url,
            idle_seconds=self._timeouts.idle_seconds,
            total_seconds=self._timeouts.body_seconds,
        )

    def _session(self, *, watch: bool) -> aiohttp.ClientSession:
        if watch not in self._sessions:
            self._sessions[watch] = self._new_session(watch=watch)
        return self._sessions[watch]

    def _new_session(
        self,
        *,
        watch: bool,
        fence: Fence | None = None,
        middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
    ) -> aiohttp.ClientSession:
        return new_session(
            self._dialer,
            limit=0 if watch else self._options.max_request_connections,
            buffer_bytes=_WATCH_BUFFER_BYTES if watch else _REQUEST_BUFFER_BYTES,
            headers=(*self._headers, *self._host),
            fence=fence,
            middlewares=middlewares,
        )
