"""The spans of a cluster's requests: one for each read or write, with its retries.

A request gets a span if it is made where a span is current, such as in a reconcile. Watches, and
the lists of informers, get none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlsplit

from pyinformer.client.cluster._targets import PathParts, parts_of
from pyinformer.errors import APIStatusError
from pyinformer.telemetry.tracing import (
    CURRENT_REQUEST,
    AttributeValue,
    FencedTracing,
    RequestSpan,
    SpanError,
)

if TYPE_CHECKING:
    from pyinformer.telemetry.tracing import Tracing

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PORTS: Final = {"http": 80, "https": 443}
_UNTRACED: Final = nullcontext()


@final
class RequestSpans:
    """Makes the spans of the requests of one cluster.

    Args:
        cluster: the cluster's name; empty for the only one.
        server: its URL.
        tracing: the tracing system; None to trace nothing.
    """

    __slots__ = ("_server", "_shared", "tracing")

    def __init__(self, cluster: str, server: str, tracing: Tracing | None) -> None:
        self.tracing: FencedTracing | None = FencedTracing.of(tracing)
        """What traces the cluster's requests, and the reconciles of its objects."""
        parts = urlsplit(server)
        host = parts.hostname or ""
        port = parts.port or _PORTS.get(parts.scheme, 0)
        shown = f"[{host}]" if ":" in host else host
        # Without a user and a password, which a URL may have.
        self._server = f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}"
        self._shared: dict[str, AttributeValue] = {"server.address": host, "server.port": port}
        if cluster:
            self._shared["k8s.cluster.name"] = cluster

    def of(self, method: str, path: str) -> AbstractContextManager[RequestSpan | None]:
        """Return a context in which one request is sent; None in it if the request is not traced.

        Args:
            method: of HTTP.
            path: from the server's root. The query is not traced: it may quote an object.
        """
        return _UNTRACED if self.tracing is None else self._span(self.tracing, method, path)

    @contextmanager
    def _span(self, tracing: FencedTracing, method: str, path: str) -> Iterator[RequestSpan | None]:
        parts = parts_of(path)
        started = tracing.start_request(_name(method, parts), self._attributes(method, path, parts))
        if started is None:
            yield None
            return
        span = RequestSpan(started)
        token = CURRENT_REQUEST.set(span)
        error: SpanError | None = None
        try:
            yield span
        except BaseException as caught:
            error = _error_of(caught)
            raise
        finally:
            CURRENT_REQUEST.reset(token)
            span.end(error)

    def _attributes(
        self, method: str, path: str, parts: PathParts | None
    ) -> dict[str, AttributeValue]:
        attributes = {
            **self._shared,
            "http.request.method": method,
            "url.full": f"{self._server}{path}",
        }
        if parts is None:
            return attributes
        attributes["pyinformer.request.verb"] = _verb(method, parts)
        attributes["pyinformer.request.resource"] = str(parts.resource)
        if parts.namespace:
            attributes["k8s.namespace.name"] = parts.namespace
        if parts.name:
            attributes["pyinformer.request.name"] = parts.name
        if parts.subresource:
            attributes["pyinformer.request.subresource"] = parts.subresource
        return attributes


def _name(method: str, parts: PathParts | None) -> str:
    """Return a span's name: of few different ones, so without names of objects."""
    if parts is None:
        return method
    below = f"/{parts.subresource}" if parts.subresource else ""
    return f"{method} {parts.resource}{below}"


def _verb(method: str, parts: PathParts) -> str:
    """Return the verb that the server's audit log and RBAC use."""
    if method == "GET":
        return "get" if parts.name else "list"
    verb = _VERBS.get(method, method.lower())
    return "deletecollection" if verb == "delete" and not parts.name else verb


def _error_of(error: BaseException) -> SpanError:
    if isinstance(error, APIStatusError):
        return SpanError(str(error.status))
    return SpanError(f"{type(error).__module__}.{type(error).__qualname__}")
