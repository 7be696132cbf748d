"""The half of a fault proxy that reads requests: it ends TLS, and applies a fault script.

What no fault is meant for is passed on as it is, both ways. The client sees when the server cannot
be reached, or breaks a response; what no fault can have caused, such as a certificate of another
authority, is answered with the reason.
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final
from urllib.parse import urlsplit

import aiohttp
import yarl
from aiohttp import web

from pyinformer._printable import printable
from pyinformer._runtime.clock import monotonic
from pyinformer.client.transport import ClusterConfig, send_once
from pyinformer.client.transport.aborting_connector import AbortingConnector
from pyinformer.testing._tls import server_context
from pyinformer.testing.apiserver.requests import (
    Failure,
    Fault,
    FaultScript,
    RequestLog,
    RequestRecord,
    parse_route,
)
from pyinformer.testing.apiserver.server import Response, ResponseCut, ServerThread, cut_transport

_OF_ONE_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"}
)
_SET_BY_RESPONSE: Final = _OF_ONE_CONNECTION | {"content-type", "date", "server", "cache-control"}
_ADDED_BY_LIBRARY: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_JSON: Final = "application/json"
_UNREACHABLE: Final = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorDNSError)
"""What no fault causes."""
_NAMES: Final = ("127.0.0.1", "localhost")


class _Server(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def ca_file(self) -> Path | None: ...

    @property
    def token(self) -> str | None: ...


@final
class RequestProxy:
    """An HTTP proxy on loopback in front of one server.

    Args:
        server: the server behind it.
        faults: which requests get a faulty response.
        ports: the ports of several servers, as in FaultProxy.

    Attributes:
        ca_pem: the certificate that clients must trust; None for plain HTTP.
    """

    def __init__(self, server: _Server, faults: FaultScript, *, ports: Sequence[int] = ()) -> None:
        parts = urlsplit(server.url)
        self._server = server
        self._faults = faults
        self._bases = [f"{parts.scheme}://{parts.hostname}:{port}" for port in ports]
        self._bases = self._bases or [server.url.rstrip("/")]
        self._log = RequestLog()
        self._token: str | None = None
        self._refused_tokens: set[str] = set()
        self._turn = 0
        self._context: ssl.SSLContext | None = None
        self.ca_pem: bytes | None = None
        if parts.scheme == "https":
            self._context, self.ca_pem = server_context(*_NAMES)
        self._thread = ServerThread(
            self._handle,
            ssl_context=self._context,
            tick=lambda: None,
            tick_seconds=0.0,
            lifetime=self._connected,
        )

    def start(self) -> int:
        """Listen, and return the port."""
        return self._thread.start(0)

    def stop(self) -> None:
        """Cut every connection and stop listening; idempotent."""
        self._thread.stop()

    @property
    def token(self) -> str | None:
        """The token that is valid now."""
        return self._token or self._server.token

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """The requests so far, oldest first."""
        return self._log.records()

    def expire_token(self) -> str | None:
        """Refuse the token that is valid now, and return a new one; None without tokens."""
        if self.token is None:
            return None
        self._refused_tokens.add(self.token)
        self._token = secrets.token_hex(16)
        return self._token

    def renew_certificate(self) -> bytes | None:
        """Show later connections a certificate of a new authority; return what they must trust.

        None for plain HTTP.
        """
        if self._context is not None:
            _, self.ca_pem = server_context(*_NAMES, context=self._context)
        return self.ca_pem

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[None]:
        """Hold the connections to the server."""
        found = self._server.ca_file
        ca_file = None if found is None else str(found)
        config = ClusterConfig(server=self._server.url, ca_file=ca_file)
        async with aiohttp.ClientSession(
            connector=AbortingConnector(ssl=config.ssl_context() or True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED_BY_LIBRARY,
            middlewares=(send_once,),
        ) as self._session:
            yield

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        record = _record(request)
        number = self._log.open(record)
        fault = self._faults.pick(record)
        response = Response(request, fault, self._faults, partial(self._log.answer, number))
        # It was broken off on purpose, or the client disconnected during the answer.
        try:
            with contextlib.suppress(ResponseCut, ConnectionResetError):
                await self._answer(request, fault, response)
        finally:
            self._log.finish(number)
        return response.begun or web.Response(status=500)

    async def _answer(self, request: web.Request, fault: Fault | None, response: Response) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given in self._refused_tokens:
            await response.fail(Failure(401, "Unauthorized"))
        elif not await response.begin_faulty():
            try:
                await self._forward(request, fault, response)
            except _UNREACHABLE as error:  # before anything was sent
                message = f"the fault proxy cannot reach the server: {printable(str(error))}"
                await response.fail(Failure(502, message))
            except (aiohttp.ClientError, OSError):
                cut_transport(request.transport, reset=True)

    async def _forward(self, request: web.Request, fault: Fault | None, response: Response) -> None:
        base = self._bases[self._turn % len(self._bases)]
        self._turn += 1
        url = yarl.URL(base + request.rel_url.raw_path_qs, encoded=True)
        async with self._session.request(
            request.method,
            url,
            headers=self._headers_for_server(request, fault),
            data=await request.read() or None,
            allow_redirects=False,
        ) as answer:
            try:
                await _pass_on(answer, response)
            except BaseException:
                if answer.connection is not None:  # an orderly end of TLS would wait for the server
                    cut_transport(answer.connection.transport, reset=False)
                raise

    def _headers_for_server(
        self, request: web.Request, fault: Fault | None
    ) -> list[tuple[str, str]]:
        """Return the headers of a request; an answer that is changed has to be plain JSON."""
        dropped = {*_OF_ONE_CONNECTION}
        added = []
        if fault is not None and fault.changes_body:
            dropped |= {"accept-encoding"}
            added = [("Accept-Encoding", "identity")]
            if "protobuf" in request.headers.get("Accept", ""):
                dropped |= {"accept"}
                added.append(("Accept", _JSON))
        if self._token is not None and f"Bearer {self._token}" == request.headers.get(
            "Authorization"
        ):
            dropped |= {"authorization"}
            added.append(("Authorization", f"Bearer {self._server.token}"))
        kept = [one for one in request.headers.items() if one[0].lower() not in dropped]
        return [*kept, *added]


async def _pass_on(answer: aiohttp.ClientResponse, response: Response) -> None:
    headers = answer.headers.copy()  # a header may come several times
    for name in _SET_BY_RESPONSE:
        headers.popall(name, None)
    await response.start(
        answer.status,
        content_type=answer.headers.get("Content-Type", _JSON),
        headers=headers,
        length=answer.content_length,
    )
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.finish()


def _record(request: web.Request) -> RequestRecord:
    query = dict(reversed(list(request.query.items())))  # the first of equal names counts
    is_watch = query.get("watch", "false").lower() not in ("false", "0")
    route = parse_route(request.method, request.rel_url.raw_path, watch=is_watch)
    return RequestRecord(
        method=request.method,
        path=request.path,
        query=query,
        verb=route.verb,
        resource=f"{route.plural}.{route.group}" if route.group else route.plural,
        namespace=route.namespace,
        name=route.name,
        headers={
            name.lower(): value
            for name, value in request.headers.items()
            if name.lower() != "authorization"
        },
        arrived_at=monotonic(),
    )
