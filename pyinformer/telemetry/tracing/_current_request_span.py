"""The span of the request that the current context sends.

A context variable passes it from where the request is made to the retries and the connection.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, final

from pyinformer.telemetry.tracing._protocol import Attributes, SpanError, WrittenVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.telemetry.tracing._fenced_tracing import FencedSpan

_FIRST_ERROR: Final = 400  # of the HTTP statuses


@final
class RequestSpan:
    """The span of one request, to which the retries and the connection report.

    Args:
        span: of the tracing system.
    """

    __slots__ = ("_resent", "_span", "headers", "status")

    def __init__(self, span: FencedSpan) -> None:
        self._span = span
        self._resent = 0
        self.headers: Mapping[str, str] = span.headers()
        """What to send with the request."""
        self.status: int = 0
        """The HTTP status of the response; 0 before there is one."""

    def retried(self, after_seconds: float) -> None:
        """Record that the request will be sent again, since the server was busy."""
        self._resent += 1
        attributes: Attributes = {
            "http.response.status_code": self.status,
            "pyinformer.retry.after_seconds": after_seconds,
        }
        self._span.add_event("retry", attributes)

    def wrote(self, key: str, resource_version: str) -> None:
        """Record the version that the request has written, unless that is empty."""
        if resource_version:
            self._span.wrote(WrittenVersion(key, resource_version))

    def end(self, error: SpanError | None) -> None:
        """End the span; a status of 400 or more is an error, whatever the caller makes of it."""
        if error is None and self.status >= _FIRST_ERROR:
            error = SpanError(str(self.status))
        attributes: dict[str, int] = {}
        if self.status:
            attributes["http.response.status_code"] = self.status
        if self._resent:
            attributes["http.request.resend_count"] = self._resent
        self._span.end(attributes, error)


CURRENT_REQUEST: Final = ContextVar[RequestSpan | None]("pyinformer request span", default=None)
"""None while the request is not traced."""
