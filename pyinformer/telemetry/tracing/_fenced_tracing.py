"""Tracing systems of users, fenced: an error in one never reaches a reconcile or a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.telemetry._user_error_fence import TelemetryFences, check_methods
from pyinformer.telemetry.tracing._protocol import (
    Attributes,
    Span,
    SpanError,
    Tracing,
    WrittenVersion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyinformer.telemetry._user_error_fence import TelemetryFence

_log = get_logger(__name__)

_METHODS: Final = ("start_reconcile", "start_request", "suspend")
_fences: Final = TelemetryFences(_log, loss="some spans are lost, and what is traced continues")


@final
class FencedTracing:
    """The tracing system of a user, which never raises into the work that is traced.

    Args:
        tracing: the user's.

    Raises:
        InvalidTypeError: it is not a tracing system.
    """

    __slots__ = ("_fence", "_tracing")

    def __init__(self, tracing: Tracing) -> None:
        check_methods("tracing", tracing, _METHODS)
        self._tracing = tracing
        self._fence = _fences.of(tracing)

    @classmethod
    def of(cls, tracing: Tracing | None) -> FencedTracing | None:
        """Return a tracing system behind one fence; None for None.

        Raises:
            InvalidTypeError: it is not a tracing system.
        """
        return tracing if tracing is None or isinstance(tracing, cls) else cls(tracing)

    def start_reconcile(
        self, name: str, attributes: Attributes, causes: Iterable[WrittenVersion]
    ) -> FencedSpan | None:
        """Start the span of a reconcile; None if that fails."""
        return self._started(
            "start_reconcile", lambda: self._tracing.start_reconcile(name, attributes, causes)
        )

    def start_request(self, name: str, attributes: Attributes) -> FencedSpan | None:
        """Start the span of a request; None if there is no current span, or if that fails."""
        return self._started("start_request", lambda: self._tracing.start_request(name, attributes))

    def suspend(self) -> Callable[[], None]:
        """Make no span current, and return what makes the same one current again."""
        resume = self._fence.call("suspend", self._tracing.suspend, _nothing)
        return lambda: self._fence.call("suspend", resume, None)

    def _started(self, what: str, start: Callable[[], Span | None]) -> FencedSpan | None:
        span = self._fence.call(what, start, None)
        return None if span is None else FencedSpan(span, self._fence)


def _nothing() -> None:
    """Stand in for the function that `suspend` returns, if that has failed."""


@final
class FencedSpan:
    """A span of a user's tracing system; its methods never raise.

    Args:
        span: the user's.
        fence: of its tracing system.
    """

    __slots__ = ("_fence", "_span")

    def __init__(self, span: Span, fence: TelemetryFence) -> None:
        self._span = span
        self._fence = fence

    @property
    def is_recording(self) -> bool:
        """Whether the span is sampled."""
        return self._fence.call("is_recording", lambda: bool(self._span.is_recording), False)

    def headers(self) -> Mapping[str, str]:
        """Return the headers that carry the span's context, without those that HTTP forbids."""
        none: dict[str, str] = {}
        headers = self._fence.call("headers", lambda: dict(self._span.headers()), none)
        return {name: value for name, value in headers.items() if _is_header(name, value)}

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Record that something happened now."""
        self._fence.call("add_event", lambda: self._span.add_event(name, attributes), None)

    def wrote(self, version: WrittenVersion) -> None:
        """Remember the span as the cause of a version."""
        self._fence.call("wrote", lambda: self._span.wrote(version), None)

    def end(self, attributes: Attributes, error: SpanError | None) -> None:
        """End the span."""
        self._fence.call("end", lambda: self._span.end(attributes, error), None)


def _is_header(name: object, value: object) -> bool:
    """Return whether HTTP allows a header: any other would fail the request."""
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    is_name = name.isascii() and name.replace("-", "").isalnum()
    return is_name and value.isascii() and value.isprintable()
