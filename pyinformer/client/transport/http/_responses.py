"""What every connection makes of a response: its body, or the error for a request without success.

A response that is not returned to the caller is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import anyio

from pyinformer.client.transport._rbac_hint import needed_rule
from pyinformer.client.transport._request_path import RequestPath
from pyinformer.client.transport._status import status_error
from pyinformer.client.transport.http._body import read_bounded
from pyinformer.errors import ProtocolError, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    import aiohttp

    from pyinformer.client.transport.http._body import Body
    from pyinformer.client.transport.http._watch_response import WatchResponse

    Response: TypeAlias = aiohttp.ClientResponse | WatchResponse

R = TypeVar("R", bound="Response")

LIVENESS_PATH: Final = "/livez"
"""What a probe reads: every client may read it, and servers do not queue it."""
UNAUTHORIZED: Final = 401

_MAX_BODY_BYTES = 64 << 20
_MAX_ERROR_BYTES = 64 << 10
_ERROR_BODY_SECONDS = 5.0  # the status is known: a retry should not wait long for its text
_WATCH = ("watch", "true")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FIRST_SUCCESS, _FIRST_NO_SUCCESS = 200, 300


async def successful(
    response: R,
    read_error: Callable[[R], Awaitable[bytes]],
    *,
    method: str,
    path: str,
    query: Sequence[tuple[str, str]],
    what: str,
) -> R:
    """Return a response that is a success.

    Args:
        response: the response; its headers have been read.
        read_error: reads the body of another one, and closes it.
        method: the method of the request.
        path: its path, from the server's root.
        query: its query, which says whether it is a watch.
        what: the request as errors name it; empty for the method and the path.

    Raises:
        APIStatusError: the server refused the request.
        ProtocolError: the response is a web page, and not that of a proxied service.

    Cancellation:
        The body of an error is lost.
    """
    request = what or f"{method} {path}"
    if _FIRST_SUCCESS <= response.status < _FIRST_NO_SUCCESS:
        if response.content_type == "text/html" and not _is_proxied(path):
            response.close()
            raise ProtocolError(request, "the answer is a web page: is a proxy in between?")
        return response
    text = await read_error(response)
    if response.status in _REDIRECTS and not text.lstrip().startswith(b"{"):  # it is not a Status
        text = _redirection(response.headers.get("Location", "")) or text
    needed = needed_rule(method, path, watch=_WATCH in query, refusal=text)
    raise status_error(
        response.status, response.headers, text, request=request, needed=needed, path=path
    )


def _is_proxied(path: str) -> bool:
    """Return whether a service behind the API server answers, which may well be with a page."""
    asked = RequestPath.of(path)
    return asked is not None and asked.subresource == "proxy"


def _redirection(location: str) -> bytes:
    """Return where a redirect leads, without what may be a secret of its URL; else nothing.

    A redirect is not followed: it could take credentials elsewhere, and make a GET of a DELETE.
    """
    try:
        to = urlsplit(location)
        port = f":{to.port}" if to.port else ""
    except ValueError:
        return b""
    if not location:
        return b""
    where = f"{to.scheme}://{to.hostname}{port}" if to.hostname else "another path"
    return f"redirected to {where}, which is not followed".encode()


async def read_whole(response: Response, body: Body, what: str) -> bytes:
    """Read the body of a success, and close the response.

    Args:
        response: the response.
        body: its body.
        what: what the error is about.

    Raises:
        TransportError: as `Body.read`.
        ProtocolError: it is longer than 64 MiB.

    Cancellation:
        Safe; what was read is lost.
    """
    try:
        found = await read_bounded(body, _MAX_BODY_BYTES)
    finally:
        response.close()
    if len(found) > _MAX_BODY_BYTES:
        raise ProtocolError(what, f"the answer is longer than {_MAX_BODY_BYTES} bytes")
    return found


async def read_error_body(
    response: Response, body: Body, *, most_seconds: float = _ERROR_BODY_SECONDS
) -> bytes:
    """Read the body of an error, and close the response; nothing if it does not arrive in time.

    Args:
        response: the response.
        body: its body.
        most_seconds: how long to wait, if less than five seconds.

    Cancellation:
        Safe; what was read is lost.
    """
    try:
        with anyio.fail_after(min(most_seconds, _ERROR_BODY_SECONDS)):
            return await read_bounded(body, _MAX_ERROR_BYTES)
    except (TransportError, ProtocolError, TimeoutError):
        return b""  # the status is known
    finally:
        response.close()
