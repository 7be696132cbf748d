"""Whatever goes wrong on the wire in, a TransportError out.

No exception of the HTTP library reaches a caller: this module names the situation, the host and
the library's reason. It is the only place that knows the library's exceptions.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pyinformer._known_tokens import without_tokens
from pyinformer.apimachinery import (
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TLSVerificationError,
    TransportError,
)

if TYPE_CHECKING:
    import aiohttp

_MAX_WORDS_CHARS: Final = 500  # the library quotes all that is no HTTP


class _AnswerError(Exception):
    """Stands for an error of the library that holds the request: its headers, the proxy's URL."""


class _ProxyError(_AnswerError):
    """The same for a proxy that refused a tunnel, so that nothing was sent through it."""


def wire_failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that mean the wire failed, to catch by name."""
    import aiohttp

    return (aiohttp.ClientError, OSError)


def translated(error: Exception, url: str, *, waited_seconds: float = 0.0) -> InformerError:
    """Return the error of ours that says what the library's error means.

    Args:
        error: what the library raised.
        url: what was asked for, without its query.
        waited_seconds: the deadline that may have passed.
    """
    import aiohttp

    if isinstance(error, TimeoutError):
        what = "no connection" if isinstance(error, aiohttp.ConnectionTimeoutError) else "no answer"
        reason = f"{what} within {waited_seconds:g} s"
        return RequestTimeoutError(url, reason, waited_seconds=waited_seconds)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _not_connected(error, url)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return TransportError(url, f"the proxy refused: {_answer_of(error)}")
    if isinstance(error, aiohttp.ClientResponseError):
        return ProtocolError(url, f"the answer is not HTTP: {_answer_of(error)}")
    return TransportError(url, f"the connection was lost: {words_of(error)}")


def cause_of(error: Exception) -> Exception:
    """Return what may stand behind an error of ours, where logs show it.

    Args:
        error: what the library raised.
    """
    import aiohttp

    if not isinstance(error, aiohttp.ClientResponseError):
        return error
    is_proxy = isinstance(error, aiohttp.ClientHttpProxyError)
    return (_ProxyError if is_proxy else _AnswerError)(_answer_of(error))


def _answer_of(error: aiohttp.ClientResponseError) -> str:
    words = " ".join(without_tokens(error.message).split())
    return f"{error.status} {words[:_MAX_WORDS_CHARS]}"


def of_a_request(error: InformerError, method: str) -> InformerError:
    """Return the error of a request: of a write that may have been sent, nobody knows the outcome.

    Args:
        error: what happened.
        method: `GET`, or what changes something.
    """
    import aiohttp

    never_sent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, _ProxyError)
    if method == "GET" or not isinstance(error, TransportError | ProtocolError):
        return error
    if isinstance(error.__cause__, never_sent):
        return error
    if isinstance(error, ProtocolError) and isinstance(error.__cause__, _AnswerError):
        return error  # a proxy may have answered so before anything was sent
    reason = f"{error.reason}; whether the server carried out the {method} is not known"
    if isinstance(error, ProtocolError):
        return ProtocolError(error.what, reason)
    if isinstance(error, RequestTimeoutError):
        return RequestTimeoutError(error.url, reason, waited_seconds=error.waited_seconds)
    return TransportError(error.url, reason)


def _not_connected(error: aiohttp.ClientConnectorError, url: str) -> TransportError:
    import aiohttp

    host = urlsplit(url).netloc
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        host = f"the proxy {error.host}:{error.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return not_connected(error.certificate_error, url, host)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return _not_resolved(error, url, host)
    return not_connected(error.os_error, url, host)


def _not_resolved(error: BaseException, url: str, host: str) -> TransportError:
    return TransportError(url, f"cannot resolve the host name of {host}: {words_of(error)}")


def not_connected(error: BaseException, url: str, host: str) -> TransportError:
    """Return the error for a connection that was not made.

    Args:
        error: what the operating system, the resolver or TLS said.
        url: what was asked for, without its query.
        host: the server, with its port.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        words = error.verify_message or words_of(error)
        reason = f"cannot verify the certificate of {host}: {words}"
        return TLSVerificationError(url, reason)
    if isinstance(error, ssl.SSLError):
        return TransportError(url, f"no TLS connection to {host}: {words_of(error)}")
    if isinstance(error, socket.gaierror):
        return _not_resolved(error, url, host)
    number = error.errno if isinstance(error, OSError) else None
    words = os.strerror(number) if number else words_of(error)  # asyncio's words name no cause
    return TransportError(url, f"cannot connect to {host}: {words}")


def words_of(error: BaseException) -> str:
    """Return what an error says, without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
