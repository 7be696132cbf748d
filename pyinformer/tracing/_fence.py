"""Keeps a tracing system that fails away from reconciles and requests.

Whatever it raises is counted, and logged once; the reconcile or the request continues untraced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, final

from pyinformer._logging import get_logger
from pyinformer.errors import InvalidTypeError
from pyinformer.tracing._protocol import Attributes, Span, SpanError, Tracing, WrittenVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_R = TypeVar("_R")

_log = get_logger(__name__)

_METHODS: Final = ("start_reconcile", "start_request")


@final
class FencedTracing:
    """The tracing system of a user, which never raises into the work that is traced.

    Args:
        tracing: the user's.

    Raises:
        InvalidTypeError: it is not a tracing system.
    """

    __slots__ = ("_tracing", "failures")

    def __init__(self, tracing: Tracing) -> None:
        if not all(callable(getattr(tracing, name, None)) for name in _METHODS):
            reason = f"must have {' and '.join(_METHODS)}, and {type(tracing).__name__} has not"
            raise InvalidTypeError("tracing", reason)
        self._tracing = tracing
        self.failures: int = 0
        """How often the tracing system raised."""

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
        return self._started(lambda: self._tracing.start_reconcile(name, attributes, causes))

    def start_request(self, name: str, attributes: Attributes) -> FencedSpan | None:
        """Start the span of a request; None if there is no current span, or if that fails."""
        return self._started(lambda: self._tracing.start_request(name, attributes))

    def _started(self, start: Callable[[], Span | None]) -> FencedSpan | None:
        try:
            span = start()
        except Exception as error:  # noqa: BLE001 - a fence: the user's tracing system
            self.failed(error)
            return None
        return None if span is None else FencedSpan(span, self)

    def failed(self, error: Exception) -> None:
        """Count a failure; log the first."""
        self.failures += 1
        if self.failures == 1:
            _log.error(
                "tracing failed with %s, and some spans are lost; what is traced continues. Further"
                " failures of %s are not logged",
                type(error).__name__,  # its text may quote an attribute
                type(self._tracing).__name__,
            )


@final
class FencedSpan:
    """A span of a user's tracing system; its methods never raise.

    Args:
        span: the user's.
        fence: counts its failures.
    """

    __slots__ = ("_fence", "_span")

    def __init__(self, span: Span, fence: FencedTracing) -> None:
        self._span = span
        self._fence = fence

    @property
    def is_recording(self) -> bool:
        """Whether the span is sampled."""
        return self._guarded(lambda: bool(self._span.is_recording), False)

    def headers(self) -> Mapping[str, str]:
        """Return the headers that carry the span's context; those that HTTP allows."""
        none: dict[str, str] = {}
        headers = self._guarded(lambda: dict(self._span.headers()), none)
        return {name: value for name, value in headers.items() if _is_header(name, value)}

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Record that something happened now."""
        self._guarded(lambda: self._span.add_event(name, attributes), None)

    def wrote(self, version: WrittenVersion) -> None:
        """Remember the span as the cause of a version."""
        self._guarded(lambda: self._span.wrote(version), None)

    def end(self, attributes: Attributes, error: SpanError | None) -> None:
        """End the span."""
        self._guarded(lambda: self._span.end(attributes, error), None)

    def _guarded(self, call: Callable[[], _R], otherwise: _R) -> _R:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - as above
            self._fence.failed(error)
            return otherwise


def _is_header(name: object, value: object) -> bool:
    """Return whether a header can be sent: another one would fail the request."""
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    is_name = name.isascii() and name.replace("-", "").isalnum()
    return is_name and value.isascii() and value.isprintable()
