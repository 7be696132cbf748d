"""Translate the errors of aiohttp and of sockets into ours.

No exception of the HTTP library reaches a caller: the error here names the situation, the host and
the library's reason. No other module knows the library's exceptions.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import sys
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyinformer._known_tokens import without_tokens
from pyinformer.errors import (
    ConfigurationError,
    FencedError,
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TLSVerificationError,
    TransportError,
)

if TYPE_CHECKING:
    import aiohttp

_PORTS: Final = {"http": 80, "https": 443}
_MAX_QUOTED_CHARS: Final = 500  # the library quotes everything that is not HTTP

NO_CONNECTION: Final = "ConnectionTimeoutError"
"""The class of aiohttp for a connection that was not made in time."""


class _ResponseError(Exception):
    """Replaces an error of the library that holds the request: its headers, the proxy's URL."""


class _ProxyError(_ResponseError):
    """The same for a proxy that refused a tunnel, so that nothing was sent through it."""


def network_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of aiohttp and of sockets, to catch by name."""
    # Until a request is left to aiohttp, a failing watch does not load it: that takes 100 ms.
    aiohttp = sys.modules.get("aiohttp")
    return (OSError,) if aiohttp is None else (aiohttp.ClientError, OSError)


def is_of_aiohttp(error: BaseException | None, *names: str) -> bool:
    """Return whether an error is of these classes of aiohttp.

    What raises one has loaded the library. This does not load it: a process that is out of
    descriptors cannot import, and its errors are translated here, too.
    """
    aiohttp = sys.modules.get("aiohttp")
    return aiohttp is not None and isinstance(
        error, tuple(getattr(aiohttp, name) for name in names)
    )


def translate(error: Exception, url: str, *, waited_seconds: float = 0.0) -> InformerError:
    """Return our error for an error of the library.

    Args:
        error: what the library raised.
        url: the URL of the request, without its query.
        waited_seconds: the deadline that may have passed.
    """
    if isinstance(error, TimeoutError):
        what = "no answer"
        if is_of_aiohttp(error, NO_CONNECTION):
            what = "no connection"
        reason = f"{what} within {waited_seconds:g} s"
        return RequestTimeoutError(url, reason, waited_seconds=waited_seconds)
    if "aiohttp" in sys.modules:
        import aiohttp

        if isinstance(error, aiohttp.ClientConnectorError):
            return _connector_error(error, url)
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return TransportError(url, f"the proxy refused: {_status_of(error)}")
        if isinstance(error, aiohttp.ClientResponseError):
            return ProtocolError(url, f"the answer is not HTTP: {_status_of(error)}")
    if _lacks_descriptors(error):
        return connect_error(error, url, urlsplit(url).netloc)
    return TransportError(url, f"the connection was lost: {reason_of(error)}")


def _lacks_descriptors(error: BaseException | None) -> bool:
    """Return whether the process had no descriptor: for a socket, or to import what sends."""
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


def safe_cause(error: Exception) -> Exception:
    """Return an error of the library, or a replacement without the request that it holds.

    It becomes the cause of our error, which logs may show.
    """
    if "aiohttp" not in sys.modules:
        return error
    import aiohttp

    if not isinstance(error, aiohttp.ClientResponseError):
        return error
    is_proxy = isinstance(error, aiohttp.ClientHttpProxyError)
    return (_ProxyError if is_proxy else _ResponseError)(_status_of(error))


def request_error(error: InformerError, method: str) -> InformerError:
    """Return the error of a request; for a write that may have been sent, with that added.

    Args:
        error: the error.
        method: the HTTP method of the request.
    """
    if method == "GET" or not isinstance(error, TransportError | ProtocolError):
        return error
    if _was_never_sent(error.__cause__):
        return error
    if isinstance(error, ProtocolError) and isinstance(error.__cause__, _ResponseError):
        return error  # a proxy may have answered before anything was sent
    reason = f"{error.reason}; whether the server carried out the {method} is not known"
    if isinstance(error, ProtocolError):
        return ProtocolError(error.what, reason)
    if isinstance(error, RequestTimeoutError):
        return RequestTimeoutError(error.url, reason, waited_seconds=error.waited_seconds)
    return TransportError(error.url, reason)


def _was_never_sent(cause: BaseException | None) -> bool:
    is_ours = isinstance(cause, _ProxyError) or _lacks_descriptors(cause)
    return is_ours or is_of_aiohttp(cause, "ClientConnectorError", NO_CONNECTION)


def late_error(
    error: TimeoutError, url: str, method: str, *, waited_seconds: float
) -> InformerError:
    """Return the error of a request that did not end in time.

    Args:
        error: the end of the request's time.
        url: the URL of the request, without its query.
        method: the HTTP method of the request.
        waited_seconds: the time that the request had.
    """
    return request_error(translate(error, url, waited_seconds=waited_seconds), method)


def connect_error(error: BaseException, url: str, host: str) -> TransportError:
    """Return the error for a connection that was not made.

    Args:
        error: what the operating system, the resolver or TLS raised.
        url: the URL of the request, without its query.
        host: the server, with its port.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or reason_of(error)
        return TLSVerificationError(url, f"cannot verify the certificate of {host}: {reason}")
    if isinstance(error, ssl.SSLError):
        return TransportError(url, f"no TLS connection to {host}: {reason_of(error)}")
    if isinstance(error, socket.gaierror):
        return _name_error(error, url, host)
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number) if number else reason_of(error)  # asyncio's texts lack the cause
    return TransportError(url, f"cannot connect to {host}: {reason}", is_unreachable=True)


def failure_reason(error: BaseException) -> str:
    """Return the kind of an error after which a request has no complete response.

    Args:
        error: what a connection raised, with its cause.

    Returns:
        A word of a fixed vocabulary; empty for the server's own errors, and for errors that are not
        a connection's.
    """
    if isinstance(error, TransportError):
        return _network_reason(error)
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (asyncio.CancelledError, "cancelled"),
        (FencedError, "fenced"),
        (ConfigurationError, "credentials"),
        (ProtocolError, "protocol"),
    )
    return next((reason for kind, reason in kinds if isinstance(error, kind)), "")


def _network_reason(error: TransportError) -> str:
    cause = error.__cause__
    if isinstance(error, RequestTimeoutError):
        return "timeout"
    if isinstance(cause, ssl.SSLError):
        return "tls"
    if isinstance(cause, socket.gaierror) or is_of_aiohttp(cause, "ClientConnectorDNSError"):
        return "dns"
    if isinstance(cause, _ProxyError):
        return "proxy"
    return "connect" if error.is_unreachable else "lost"


def reason_of(error: BaseException) -> str:
    """Return the text of an error, without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _connector_error(error: aiohttp.ClientConnectorError, url: str) -> TransportError:
    import aiohttp

    parts = urlsplit(url)
    host = parts.netloc
    # Also of the proxy's certificate and name: then the class of the error is that of a server's.
    server = (parts.hostname or "").removesuffix("."), parts.port or _PORTS.get(parts.scheme)
    if ((error.host or "").lower().removesuffix("."), error.port) != server:
        host = f"the proxy {error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return connect_error(error.certificate_error, url, host)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return _name_error(error, url, host)
    return connect_error(error.os_error, url, host)


def _name_error(error: BaseException, url: str, host: str) -> TransportError:
    return TransportError(url, f"cannot resolve the host name of {host}: {reason_of(error)}")


def _status_of(error: aiohttp.ClientResponseError) -> str:
    text = " ".join(without_tokens(error.message).split())
    return f"{error.status} {text[:_MAX_QUOTED_CHARS]}"
