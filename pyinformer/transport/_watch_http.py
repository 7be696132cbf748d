"""A watch over HTTP/1.1, read without a detour: bytes from the socket, pieces of the body out.

The hot path of every informer. The general HTTP library puts a stream with a copy and a coroutine
between the parser and the reader, which costs a watch more than a tenth of its CPU time; here the
parser's pieces are handed over as they are, and a piece is nearly always one event. Connecting and
TLS are the event loop's, parsing is llhttp's. One connection carries one watch and is then closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit

from pyinformer.apimachinery import (
    ConfigurationError,
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.transport._failures import not_connected

if TYPE_CHECKING:
    import ssl

    from aiohappyeyeballs import AddrInfoType
    from httptools import HttpResponseParser
    from multidict import CIMultiDict

    from pyinformer.transport._names import Names
    from pyinformer.transport._waits import Wait

_PAUSE_BYTES = 1 << 20  # a reader that is so far behind stops the socket, and so the server
_MAX_HEAD_BYTES = 64 << 10  # honest ones have one or two KiB
_FIRST_FINAL = 200
_NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305: a dead address of two must not cost the whole deadline


@final
class WatchResponse(asyncio.Protocol):
    """One response: its head once it is there, then its body piece by piece.

    Args:
        url: what was asked for, without its query; names it in errors.
        on_closed: is told when the connection is closed, whoever closed it.
    """

    def __init__(self, url: str, on_closed: Callable[[WatchResponse], None]) -> None:
        from httptools import HttpParserError, HttpResponseParser
        from multidict import CIMultiDict

        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._url = url
        self._on_closed = on_closed
        self._parser: HttpResponseParser = HttpResponseParser(self)
        self._not_http: type[Exception] = HttpParserError
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._is_paused = False
        self._has_head = False
        self._has_ended = False
        self._error: InformerError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_unconnected(self) -> bool:
        """Whether nothing needs closing: there never was a connection, or it is closed."""
        return self._transport is None

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            TransportError: the connection was lost before.
            ProtocolError: the answer is not HTTP.

        Cancellation:
            Safe; the connection stays open.
        """
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._something()

    async def pieces(self) -> list[bytes]:
        """Wait for what comes next of the body.

        Returns:
            The pieces that arrived since, none of them empty; nothing at the end of the body.

        Raises:
            TransportError: the connection was lost before the end of the body.
            ProtocolError: what arrived is not HTTP.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return []
            await self._something()
        pieces, self._pieces = self._pieces, []
        self._size = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return pieces

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; `b""` at its end.

        Raises:
            TransportError: as `pieces`.
            ProtocolError: as `pieces`.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        return b"".join(await self.pieces())

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for whoever reads it and for later reads."""
        reason = f"still open {waited_seconds:g} s after it began"
        self.fail(RequestTimeoutError(self._url, reason, waited_seconds=waited_seconds))

    async def _something(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def fail(self, error: InformerError) -> None:
        """End the body with an error, behind what has arrived, and close the connection."""
        if not self._has_ended and self._error is None:
            self._error = error
        self._hang_up()
        self._wake()

    def send(self, request: bytes) -> None:
        """Send the request."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Close the connection at once; what has arrived and was not read is gone."""
        self._pieces.clear()
        self.fail(TransportError(self._url, "the connection was lost: it was closed by us"))

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection (for the event loop)."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket (for the event loop)."""
        try:
            self._parser.feed_data(data)
        except self._not_http as error:
            self.fail(ProtocolError(self._url, f"the answer is not HTTP: {error}"))
            return
        if self._size > _PAUSE_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end (for the event loop)."""
        self._transport = None
        self._on_closed(self)
        if self._has_head and not self._is_sized and exc is None:
            self._has_ended = True  # a body without a length ends with its connection, but no reset
        if not self._has_ended and self._error is None:
            words = str(exc) if exc is not None and str(exc) else "the server closed it"
            self._error = TransportError(self._url, f"the connection was lost: {words}")
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header (for the parser)."""
        self._head_size += len(name) + len(value)
        if self._head_size > _MAX_HEAD_BYTES:
            self.fail(ProtocolError(self._url, f"headers of over {_MAX_HEAD_BYTES} bytes"))
            return
        self.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take note that the head is complete (for the parser)."""
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL:
            self.headers.clear()  # informational; the real answer follows
            return
        self.status = status
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body (for the parser)."""
        self._pieces.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        """Take note that the body is complete (for the parser)."""
        self._has_ended = self._has_head

    @property
    def _is_sized(self) -> bool:
        return "transfer-encoding" in self.headers or "content-length" in self.headers

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def open_watch(
    response: WatchResponse,
    target: str,
    wait: Wait,
    headers: Mapping[str, str],
    *,
    context: ssl.SSLContext | None,
    server_name: str | None,
    connect_timeout_seconds: float,
    names: Names,
    socket_factory: Callable[[AddrInfoType], socket.socket],
) -> None:
    """Connect, send a GET and wait for its head.

    Args:
        response: takes the answer.
        target: the URL with its query, quoted.
        wait: the URL without its query; is told how far the request is.
        headers: what to send, beside Host.
        context: the TLS settings; None for plain HTTP.
        server_name: the name that the certificate must carry; None for the URL's host.
        connect_timeout_seconds: how long TCP and TLS may take together.
        names: looks up the host.
        socket_factory: makes the socket.

    Raises:
        TransportError: the server was not reached, or the connection was lost.
        ProtocolError: the answer is not HTTP.
        ConfigurationError: a header that cannot be sent.

    Cancellation:
        Safe; the connection is closed.
    """
    parts = urlsplit(target)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    request = _request(parts.netloc, path, headers)
    port = parts.port or (443 if context is not None else 80)
    try:
        await _connect(
            response,
            parts.hostname or "",
            port,
            wait,
            context=context,
            server_name=server_name,
            timeout_seconds=connect_timeout_seconds,
            names=names,
            socket_factory=socket_factory,
        )
    except TimeoutError as error:
        seconds = connect_timeout_seconds
        reason = f"no connection within {seconds:g} s: it waited for {wait.step}"
        raise RequestTimeoutError(wait.url, reason, waited_seconds=seconds) from error
    except OSError as error:
        raise not_connected(error, wait.url, parts.netloc) from error
    wait.step = "an answer"
    try:
        response.send(request)
        await response.head()
    except BaseException:
        response.close()
        raise


async def _connect(
    response: WatchResponse,
    host: str,
    port: int,
    wait: Wait,
    *,
    context: ssl.SSLContext | None,
    server_name: str | None,
    timeout_seconds: float,
    names: Names,
    socket_factory: Callable[[AddrInfoType], socket.socket],
) -> None:
    from aiohappyeyeballs import start_connection

    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_seconds):
        wait.step = f"the address of {host}"
        addresses = await names.addresses(host, port)
        wait.step = f"a connection to {host}:{port}"
        sock = await start_connection(
            addresses,
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=socket_factory,
        )
        wait.step = f"the TLS handshake with {host}:{port}" if context is not None else wait.step
        try:
            await loop.create_connection(
                lambda: response,
                sock=sock,
                ssl=context,
                server_hostname=(server_name or host) if context is not None else None,
            )
        except BaseException:
            sock.close()
            raise


def _request(host: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConfigurationError("credentials", "a header with a line break cannot be sent")
    return "\r\n".join((*lines, "", "")).encode("latin-1")
