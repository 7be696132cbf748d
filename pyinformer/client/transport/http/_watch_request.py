"""Open a watch or a list over HTTP/1.1: connect, send a GET, wait for the head of the response.

A connection carries one watch and is then closed; that of a list may carry another list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from pyinformer.client.transport.http._errors import connect_error
from pyinformer.client.transport.http._server_url import host_header
from pyinformer.client.transport.http._watch_transport import WatchTransport
from pyinformer.errors import ConfigurationError, RequestTimeoutError, TransportError

if TYPE_CHECKING:
    import socket
    import ssl

    from pyinformer.client.transport.http._dialer import Dialer
    from pyinformer.client.transport.http._pending_requests import PendingRequest
    from pyinformer.client.transport.http._watch_response import WatchResponse


async def open_watch(
    response: WatchResponse,
    target: str,
    message: bytes,
    request: PendingRequest,
    *,
    context: ssl.SSLContext | None,
    server_name: str,
    dialer: Dialer,
    room: memoryview,
) -> None:
    """Connect, send a GET and wait for the head of its response.

    Args:
        response: receives the response.
        target: the URL.
        message: the request, from `request_message`.
        request: the URL without its query; its step is set to what is waited for.
        context: the TLS settings; None for plain HTTP.
        server_name: the name that the certificate must have.
        dialer: connects the socket.
        room: for what is received under TLS; see WatchTransport.

    Raises:
        TransportError: the server was not reached, or the connection was lost.
        ProtocolError: the response is not HTTP.

    Cancellation:
        Safe; the connection is closed.
    """
    parts = urlsplit(target)
    host = parts.hostname or ""
    port = parts.port or (443 if context is not None else 80)
    try:
        with anyio.fail_after(dialer.timeout_seconds):
            sock = await dialer.connect(host, port, request)
            if context is not None:
                request.step = f"the TLS handshake with {host}:{port}"
            try:
                name = server_name if context is not None else None
                await _open_transport(sock, response, room, context=context, server_name=name)
            except BaseException:
                sock.close()
                response.abandon()
                raise
    except TimeoutError as error:
        seconds = dialer.timeout_seconds
        reason = f"no connection within {seconds:g} s: it waited for {request.step}"
        raise RequestTimeoutError(request.url, reason, waited_seconds=seconds) from error
    except OSError as error:
        raise connect_error(error, request.url, parts.netloc) from error
    await _exchange(response, message, request)


async def send_again(response: WatchResponse, message: bytes, request: PendingRequest) -> bool:
    """Send another GET on a connection that was kept, and wait for the head of its response.

    Args:
        response: the response that was read last; receives the next one.
        message: the request, from `request_message`.
        request: the URL without its query; its step is set to what is waited for.

    Returns:
        Whether there is a response. False if the server closed the connection meanwhile, without
        a byte of it: the request needs another connection.

    Raises:
        TransportError: the connection was lost within the head.
        ProtocolError: the response is not HTTP.

    Cancellation:
        Safe; the connection is closed.
    """
    before = response.received_bytes
    response.begin_again(request.url)
    try:
        await _exchange(response, message, request)
    except TransportError:
        if response.received_bytes > before:
            raise
        return False
    return True


async def _exchange(response: WatchResponse, message: bytes, request: PendingRequest) -> None:
    request.step = "an answer"
    try:
        response.send(message)
        await response.head()
    except BaseException:
        response.close()
        raise


async def _open_transport(
    sock: socket.socket,
    response: WatchResponse,
    room: memoryview,
    *,
    context: ssl.SSLContext | None,
    server_name: str | None,
) -> None:
    try:
        transport = WatchTransport(sock, response, room, context=context, server_name=server_name)
        await transport.open()
    except NotImplementedError:  # Windows' default loop has no `add_reader`
        await asyncio.get_running_loop().create_connection(
            lambda: response, sock=sock, ssl=context, server_hostname=server_name
        )


def request_message(target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """Return a GET as it is sent.

    Args:
        target: the URL with its query, quoted.
        headers: the headers beside Host; several may have one name.

    Raises:
        ConfigurationError: a header cannot be sent.
    """
    parts = urlsplit(target)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    lines = [f"GET {path} HTTP/1.1", f"Host: {host_header(parts)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConfigurationError("credentials", "a header must not contain a line break")
    return "\r\n".join((*lines, "", "")).encode()  # as UTF-8, as Go sends names
