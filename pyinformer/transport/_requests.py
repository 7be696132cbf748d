"""What every request of ours looks like, and that none is sent a second time behind our back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from pyinformer.transport._failures import words_of

if TYPE_CHECKING:
    import socket

    import aiohttp
    from aiohappyeyeballs import AddrInfoType

    from pyinformer.transport._names import Names


async def once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep the library from sending a write a second time.

    It repeats a PUT or a DELETE by itself if its connection is lost, whether or not the server has
    carried it out: a replace would then meet its own version, a delete the object's successor.

    Raises:
        aiohttp.ClientError: what the request ran into, as one that is not repeated.

    Cancellation:
        Whether the server carried out a change is not known.
    """
    import aiohttp

    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # nothing was sent
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(words_of(error)) from error


def new_session(
    *,
    limit: int,
    buffer_bytes: int,
    connect_timeout_seconds: float,
    headers: Iterable[tuple[str, str]],
    socket_factory: Callable[[AddrInfoType], socket.socket],
    names: Names,
) -> aiohttp.ClientSession:
    """Return a pool of connections; TLS settings come with each request, since they change.

    Args:
        limit: how many; 0 for as many as are asked for.
        buffer_bytes: how much of an answer is read ahead.
        connect_timeout_seconds: how long names, TCP and TLS may take together.
        headers: what every request has; several may have one name.
        socket_factory: makes the sockets.
        names: looks up the hosts.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(
        limit=limit, socket_factory=socket_factory, resolver=names.for_aiohttp()
    )
    timeout = aiohttp.ClientTimeout(
        total=None, connect=connect_timeout_seconds, sock_connect=connect_timeout_seconds
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=buffer_bytes,
        headers=tuple(headers),
    )


def common_headers() -> dict[str, str]:
    """Return the headers that every request has."""
    # Compressed watches lose events in many clients, and gzip costs more than decoding.
    return {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": _user_agent(),  # browsers and curl get indented answers
    }


@cache  # it is read from the disk, which costs a third of the start of an informer
def _user_agent() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"pyinformer/{version('pyinformer')}"
    except PackageNotFoundError:  # run from a checkout
        return "pyinformer/0"
