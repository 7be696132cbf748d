"""The figures of the requests to one server, under client-go's names and some of our own.

A request is counted once for each time it is sent, with the status of its response. A watch is
counted when it is opened; its lifetime is not a duration of a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar, final
from urllib.parse import urlsplit

from pyinformer.client.transport.http._errors import failure_reason
from pyinformer.telemetry.metrics import Sample

if TYPE_CHECKING:
    from types import TracebackType

    from pyinformer.client.transport.http._body import Body
    from pyinformer.telemetry.metrics import Counter, Histogram, Metrics

R = TypeVar("R")

_IS_RETRY: Final[ContextVar[bool]] = ContextVar("pyinformer_is_retry", default=False)
_ERROR: Final = "<error>"  # client-go's code of a request without a response


class ConnectionFigures(Protocol):
    """The state of a connection; read from any thread."""

    @property
    def in_flight(self) -> int:
        """How many requests have no complete response yet, watches until they are opened."""
        ...

    @property
    def waiting(self) -> int:
        """How many requests wait for one of the connections that requests share."""
        ...

    @property
    def open_sockets(self) -> int:
        """How many sockets are open, those of watches included."""
        ...


@final
class RequestMetrics:
    """The figures of one cluster's requests, of all its connections together.

    Args:
        metrics: where they go; its owner closes it.
        server: the URL of the server.
        name: the label of the cluster, unlike that of every other open one with these metrics;
            client-go's figures do not have it.
    """

    def __init__(self, metrics: Metrics, server: str, *, name: str = "") -> None:
        self._metrics = metrics
        self._host = {"host": urlsplit(server).netloc}
        self.labels: dict[str, str] = {"name": name, **self._host}
        """The labels of the figures that client-go does not have."""
        self._results: dict[tuple[str, str], Counter] = {}
        self._failures: dict[str, Counter] = {}
        self._exchanges: dict[str, _ExchangeHistograms] = {}
        self._limiters: dict[str, Histogram] = {}
        self._connections: dict[ConnectionFigures, None] = {}
        self._dialled = metrics.counter("rest_client_connections_dialled_total", self.labels)
        self._warnings = metrics.counter("rest_client_warnings_total", self.labels)
        self._retry_after = metrics.histogram("rest_client_retry_after_seconds", self.labels)
        metrics.add_source(self._state)

    def request(self, method: str, *, is_watch: bool = False) -> MeasuredRequest:
        """Return what measures a request from its first wait to the end of its response.

        Args:
            method: its HTTP method.
            is_watch: whether its response has no end; then only a failure to open it counts.
        """
        return MeasuredRequest(self, method, is_watch=is_watch)

    def answered(self, method: str, status: int | None, *, is_retry: bool = False) -> None:
        """Count a request that was sent.

        Args:
            method: its HTTP method.
            status: the status of the response; None if there is none.
            is_retry: whether it was sent before; else the context knows, see `as_retry`.
        """
        code = _ERROR if status is None else str(status)
        self._result(code, method).inc()
        if is_retry or _IS_RETRY.get():
            labels = {"code": code, "verb": method, **self._host}
            self._metrics.counter("rest_client_request_retries_total", labels).inc()

    def sent(self, method: str, size: int) -> None:
        """Count the size of a request's body; 0 for a request without one."""
        self._exchange(method).request_bytes.observe(size)

    def exchanged(self, method: str, seconds: float, size: int | None) -> None:
        """Count a request that has ended, with the size of its response if there was one."""
        histograms = self._exchange(method)
        histograms.seconds.observe(seconds)
        if size is not None:
            histograms.response_bytes.observe(size)

    def failed(self, error: BaseException) -> None:
        """Count a request that got no complete response, by the kind of its error."""
        reason = failure_reason(error)
        if reason and reason not in self._failures:
            labels = {**self.labels, "reason": reason}
            name = "rest_client_request_failures_total"
            self._failures[reason] = self._metrics.counter(name, labels)
        if reason:
            self._failures[reason].inc()

    def throttled(self, method: str, seconds: float) -> None:
        """Count how long a request has waited for the rate limit."""
        found = self._limiters.get(method)
        if found is None:
            labels = {"verb": method, **self._host}
            name = "rest_client_rate_limiter_duration_seconds"
            found = self._limiters[method] = self._metrics.histogram(name, labels)
        found.observe(seconds)

    def retry_after(self, seconds: float) -> None:
        """Count how long a request waits since the server was busy."""
        self._retry_after.observe(seconds)

    def warned(self) -> None:
        """Count a warning of the server."""
        self._warnings.inc()

    def resolved(self, host: str, seconds: float) -> None:
        """Count the lookup of a name: the server's, or a proxy's."""
        name = "rest_client_dns_resolution_duration_seconds"
        self._metrics.histogram(name, {"host": host}).observe(seconds)

    def dialled(self) -> None:
        """Count a socket that was made to connect it."""
        self._dialled.inc()

    def tls_files_read(self, result: str, reason: str) -> None:
        """Count that changed files of certificates were read."""
        labels = {"result": result, "reason": reason}
        self._metrics.counter("rest_client_transport_ca_reload_total", labels).inc()

    def logged_in(self, *, is_success: bool) -> None:
        """Count a login, or the reading of a token file."""
        labels = {**self.labels, "result": "success" if is_success else "failure"}
        self._metrics.counter("rest_client_credential_renewals_total", labels).inc()

    def plugin_called(self, code: int, status: str) -> None:
        """Count a run of an exec plug-in by its exit code and client-go's name of its outcome."""
        labels = {"code": str(code), "call_status": status}
        self._metrics.counter("rest_client_exec_plugin_call_total", labels).inc()

    def add(self, connection: ConnectionFigures) -> None:
        """Add the state of a connection until it is removed."""
        self._connections[connection] = None

    def remove(self, connection: ConnectionFigures) -> None:
        """Remove a connection that is closed."""
        self._connections.pop(connection, None)

    def _state(self) -> Iterator[Sample]:
        connections = tuple(self._connections)
        labels = self.labels
        in_flight = sum(one.in_flight for one in connections)
        yield Sample("rest_client_requests_in_flight", labels, in_flight)
        open_sockets = sum(one.open_sockets for one in connections)
        yield Sample("rest_client_connections_open", labels, open_sockets)
        waiting = sum(one.waiting for one in connections)
        reason = {**labels, "reason": "connection"}
        yield Sample("rest_client_requests_waiting", reason, waiting)

    def _result(self, code: str, method: str) -> Counter:
        found = self._results.get((code, method))
        if found is None:
            labels = {"code": code, "method": method, **self._host}
            found = self._metrics.counter("rest_client_requests_total", labels)
            self._results[code, method] = found
        return found

    def _exchange(self, method: str) -> _ExchangeHistograms:
        found = self._exchanges.get(method)
        if found is None:
            found = _ExchangeHistograms(self._metrics, {"verb": method, **self._host})
            self._exchanges[method] = found
        return found


async def as_retry(attempt: Callable[[], Awaitable[R]]) -> R:
    """Send a request that was sent before and refused; it is counted as a retry, too.

    Cancellation:
        That of `attempt`.
    """
    token = _IS_RETRY.set(True)
    try:
        return await attempt()
    finally:
        _IS_RETRY.reset(token)


@final
class _ExchangeHistograms:
    """The histograms of one HTTP method."""

    __slots__ = ("request_bytes", "response_bytes", "seconds")

    def __init__(self, metrics: Metrics, labels: dict[str, str]) -> None:
        self.seconds = metrics.histogram("rest_client_request_duration_seconds", labels)
        self.request_bytes = metrics.histogram("rest_client_request_size_bytes", labels)
        self.response_bytes = metrics.histogram("rest_client_response_size_bytes", labels)


@final
class MeasuredRequest:
    """Measures one request while its block runs; see `RequestMetrics.request`."""

    __slots__ = ("_began", "_body", "_is_watch", "_method", "_metrics", "_now", "_size")

    def __init__(self, metrics: RequestMetrics, method: str, *, is_watch: bool) -> None:
        self._metrics = metrics
        self._method = method
        self._is_watch = is_watch
        self._now = asyncio.get_running_loop().time
        self._began = self._now()
        self._body: Body | None = None
        self._size: int | None = None

    def opened(self, body: Body) -> None:
        """Record the body of the response, which is read from now on."""
        self._body = body

    def received(self, size: int) -> None:
        """Record the size of the whole response."""
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        body = self._body
        if error is not None and (body is None or not self._is_watch):
            self._metrics.failed(error)
        if self._is_watch:
            return
        if body is not None:
            self._size = body.received_bytes
        self._metrics.exchanged(self._method, self._now() - self._began, self._size)
