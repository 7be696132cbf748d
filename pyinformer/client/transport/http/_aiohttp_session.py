"""The aiohttp sessions of a connection: common headers, and no request is ever sent twice."""

from __future__ import annotations

import base64
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from pyinformer._version import __version__
from pyinformer.client.transport.http._errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import aiohttp

    from pyinformer.client.transport.config import ClusterConfig
    from pyinformer.client.transport.http._dialer import Dialer
    from pyinformer.client.transport.http._last_write_check import Fence


USER_AGENT_NAME: Final = "pyinformer"
"""The name in the User-Agent header: to servers it owns the fields of writes that name no owner."""


_MAX_HEADER_BYTES: Final = 64 << 10  # as for lists and watches; a proxy's policies have tens of KiB
_MAX_HEADERS: Final = 1000  # aiohttp allows 128


async def send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a write a second time.

    aiohttp repeats a PUT or a DELETE if its connection is lost, even if the server has carried it
    out: a replace would then conflict with its own result, a delete would hit the object's
    successor.

    Raises:
        aiohttp.ClientError: the failure of the request, as a class that aiohttp does not retry.

    Cancellation:
        Whether the server carried out a change is not known.
    """
    import aiohttp

    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # nothing was sent
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(reason_of(error)) from error


def new_session(
    dialer: Dialer,
    *,
    limit: int,
    buffer_bytes: int,
    headers: Iterable[tuple[str, str]],
    fence: Fence | None = None,
    middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
) -> aiohttp.ClientSession:
    """Return a pool of connections; TLS settings come with each request, since they change.

    Args:
        dialer: makes sockets and looks up hosts.
        limit: how many connections; 0 for no limit.
        buffer_bytes: how much of a response is read ahead.
        headers: the headers of every request; several may have one name.
        fence: of the only request, which has no body whose leaving could be checked; None for none.
        middlewares: see each request and its response.
    """
    import aiohttp

    from pyinformer.client.transport.http._pool_connector import PoolConnector

    session: Callable[..., aiohttp.ClientSession] = aiohttp.ClientSession
    if "max_headers" in signature(session).parameters:  # aiohttp before 3.14 has no limit
        session = partial(session, max_headers=_MAX_HEADERS)
    return session(
        connector=PoolConnector(dialer, limit=limit, fence=fence),
        timeout=aiohttp.ClientTimeout(total=None),  # the connector has one
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=buffer_bytes,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
        headers=tuple(headers),
        middlewares=middlewares,
    )


def common_headers(further: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the headers of every request.

    Args:
        further: headers to add, or to send instead.
    """
    # Compressed watches lose events in many clients, and gzip costs more than decoding.
    # Browsers and curl get indented responses.
    common = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"{USER_AGENT_NAME}/{__version__}",
    }
    instead = {name.lower() for name, _ in further}
    kept = {name: value for name, value in common.items() if name.lower() not in instead}
    return {**kept, **dict(further)}


def proxy_login(config: ClusterConfig) -> dict[str, str]:
    """Return the header that authenticates requests to the proxy, empty if there is none."""
    parts = urlsplit(config.proxy_url or "")
    if parts.username is None and parts.password is None:
        return {}
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
