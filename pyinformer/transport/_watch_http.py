"""Opening a watch over HTTP/1.1: a name and a query in, a response whose head is there out.

Connecting and TLS are the event loop's, names and sockets those of the connection's other requests.
One connection carries one watch and is then closed; how its answer is read is the response's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyinformer.apimachinery import ConfigurationError, RequestTimeoutError
from pyinformer.transport._failures import not_connected
from pyinformer.transport._watch_response import WatchResponse

if TYPE_CHECKING:
    import ssl

    from aiohappyeyeballs import AddrInfoType

    from pyinformer.transport._names import Names
    from pyinformer.transport._waits import Wait

_NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305: a dead address of two must not cost the whole deadline


async def open_watch(
    response: WatchResponse,
    target: str,
    wait: Wait,
    headers: Sequence[tuple[str, str]],
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
        headers: what to send, beside Host; several may have one name.
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
            response.abandon()
            raise


def _request(host: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConfigurationError("credentials", "a header with a line break cannot be sent")
    return "\r\n".join((*lines, "", "")).encode()  # as UTF-8, as Go sends names


__all__ = ["WatchResponse", "open_watch"]
