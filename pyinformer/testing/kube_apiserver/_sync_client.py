"""A small synchronous client of one API server on loopback.

It raises the typed errors of the transport. Each thread has its own kept-alive connection, so many
writers can work at once.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Final, final
from urllib.parse import urlencode

import msgspec

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import APIStatusError, ProtocolError, TransportError, status_error_class
from pyinformer.objects import JSONObject, decoder_of
from pyinformer.testing.kube_apiserver._object_calls import ObjectCalls, objects_of

_HOST: Final = "127.0.0.1"
_REQUEST_TIMEOUT_SECONDS: Final = 60.0
_IDLE_LIMIT_SECONDS: Final = 30.0  # the server closes idle connections after 90 s
_FIRST_REFUSAL: Final = 400
_SHOWN_CHARACTERS: Final = 200
_decode = decoder_of(JSONObject)


@final
class SyncClient(ObjectCalls):
    """Requests to one server on loopback, with one bearer token.

    The first request connects. Usable from any thread.
    """

    def __init__(self, *, port: int, token: str, context: ssl.SSLContext) -> None:
        super().__init__()
        self._port = port
        self._token = token
        self._context = context
        self._lock = threading.Lock()
        self._connections: dict[int, tuple[http.client.HTTPSConnection, float]] = {}

    def close(self) -> None:
        """Close the connections of all threads; the next request opens a new one."""
        with self._lock:
            for connection, _ in self._connections.values():
                connection.close()
            self._connections.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JSONObject | None = None,
        content_type: str = "application/json",
    ) -> JSONObject:
        """Send one request; see `ObjectCalls.request`."""
        url = f"{path}?{urlencode(query)}" if query else path
        answer = self._accepted(method, url, body, content_type)
        return _decoded(answer, f"{method} {path}")

    def request_text(self, method: str, path: str) -> str:
        """Send one request whose answer is text, such as `/readyz` or `/metrics`.

        Raises:
            APIStatusError: the server refused it.
            TransportError: the server could not be reached, or the connection broke.
        """
        return self._accepted(method, path, None, "text/plain").decode(errors="replace")

    def _accepted(self, method: str, url: str, body: JSONObject | None, content_type: str) -> bytes:
        payload = None if body is None else msgspec.json.encode(body)
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": content_type,
            "User-Agent": "pyinformer-testing",
        }
        status, answer = self._exchange(method, url, payload, headers)
        if status >= _FIRST_REFUSAL:
            raise _refusal(status, answer, f"{method} {url.partition('?')[0]}")
        return answer

    def _exchange(
        self, method: str, url: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, url, body=payload, headers=dict(headers))
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._forget(connection)
            where = f"https://{_HOST}:{self._port}{url.partition('?')[0]}"
            raise TransportError(where, f"{type(error).__name__}: {error}") from error
        with self._lock:
            if self._connections.get(threading.get_ident(), (None,))[0] is connection:
                self._connections[threading.get_ident()] = (connection, monotonic())
        return response.status, answer

    def _connection(self) -> http.client.HTTPSConnection:
        thread = threading.get_ident()
        with self._lock:
            connection, last_used = self._connections.get(thread, (None, 0.0))
            if connection is not None and monotonic() - last_used < _IDLE_LIMIT_SECONDS:
                return connection
            if connection is not None:
                connection.close()
            fresh = _Connection(self._port, self._context)
            self._connections[thread] = (fresh, monotonic())
            return fresh

    def _forget(self, connection: http.client.HTTPSConnection) -> None:
        connection.close()
        with self._lock:
            if self._connections.get(threading.get_ident(), (None,))[0] is connection:
                del self._connections[threading.get_ident()]


@final
class _Connection(http.client.HTTPSConnection):
    """An HTTPS connection that closes its socket if the handshake fails.

    The standard library connects first and then wraps the socket. If the peer resets the
    connection in between, as a server that is being killed does, the plain socket would leak.
    """

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(_HOST, port, timeout=_REQUEST_TIMEOUT_SECONDS, context=context)
        self._tls = context

    def connect(self) -> None:
        """Connect, and do the TLS handshake."""
        wrapped = self._tls.wrap_socket(socket.socket(), server_hostname=_HOST)
        try:
            wrapped.settimeout(_REQUEST_TIMEOUT_SECONDS)
            wrapped.connect((self.host, self.port))
            wrapped.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            wrapped.close()
            raise
        self.sock = wrapped


def _decoded(answer: bytes, request: str) -> JSONObject:
    try:
        return _decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        shown = answer.decode(errors="replace")[:_SHOWN_CHARACTERS]
        raise ProtocolError(request, f"not a JSON object ({error}): {shown!r}") from error


def _refusal(status: int, answer: bytes, request: str) -> APIStatusError:
    try:
        body = _decoded(answer, request)
    except ProtocolError:  # an unknown group is answered in plain text
        body = {"message": answer.decode(errors="replace")[:_SHOWN_CHARACTERS].strip()}
    details = body.get("details")
    causes = objects_of(details, "causes") if isinstance(details, dict) else []
    reasons = [str(cause.get("reason", "")) for cause in causes]
    return status_error_class(status, reasons)(
        status=status,
        reason=str(body.get("reason", "")),
        message=str(body.get("message", "")),
        request=request,
        causes=reasons,
    )
