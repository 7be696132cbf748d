"""Fetch the status page of a running program from its health endpoint."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

from pyinformer.client.transport import ClusterConfig, Connection
from pyinformer.errors import (
    APIStatusError,
    ConfigurationError,
    ForbiddenError,
    InvalidArgumentError,
    NotFoundError,
    ProtocolError,
)
from pyinformer.objects import decoder_of
from pyinformer.operator.diagnosis import is_status_page

_PATH: Final = "/status"
_PATHS: Final = frozenset({"", "/", _PATH, "/debug", "/healthz", "/livez", "/readyz", "/metrics"})
_PROBED: Final = "is it the health endpoint of a program with pyinformer?"


def base_url(url: str) -> str:
    """Return the URL of a health endpoint without the path of one of its pages.

    Raises:
        InvalidArgumentError: it is not such a URL.
    """
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in {"http", "https"} or parts.path not in _PATHS:
        example = "must be the URL of a health endpoint, such as http://127.0.0.1:8081"
        raise InvalidArgumentError("URL", f"{example}, got {url.rpartition('@')[2][:200]!r}")
    if "@" in parts.netloc:
        raise InvalidArgumentError("URL", "must not contain a name or a password")
    return f"{parts.scheme}://{parts.netloc}"


async def fetch_status(url: str, *, timeout_seconds: float) -> object:
    """Return the JSON of the status page of a program.

    Redirects are not followed, proxies of the environment are not used, and at most 64 MiB are
    read.

    Args:
        url: of its health endpoint, as `base_url` returns it.
        timeout_seconds: how long it may take.

    Raises:
        TransportError: the program was not reached, or did not answer in time.
        APIStatusError: it refused the request.
        ProtocolError: what answered is not the status page of a program with pyinformer.
        InvalidArgumentError: the URL is invalid.

    Cancellation:
        Safe; the connection is closed.
    """
    try:
        config = ClusterConfig(server=url, trust_env=False, source="the command line")
    except ConfigurationError as error:
        raise InvalidArgumentError("URL", error.reason) from error
    connection = Connection(config)
    try:
        body = await connection.request("GET", _PATH, timeout_seconds=timeout_seconds)
    except ForbiddenError as error:
        raise _refused(error, 'it answers requests of its own host: "kubectl port-forward"') from (
            error
        )
    except NotFoundError as error:
        raise _refused(error, f"there is no page {_PATH}; {_PROBED}") from error
    finally:
        await connection.aclose()
    return _decoded(f"{url}{_PATH}", body)


def _refused(error: APIStatusError, hint: str) -> APIStatusError:
    """Return an error of the same class: a right of RBAC is not what is missing."""
    plain = type(error)(status=error.status, message=error.message, request=error.request)
    return plain.with_hint(hint)


def _decoded(what: str, body: bytes) -> object:
    try:
        document: object = decoder_of()(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(what, f"the answer is not JSON; {_PROBED}") from error
    if not is_status_page(document):
        raise ProtocolError(what, f"the answer is not a status page; {_PROBED}")
    return document
