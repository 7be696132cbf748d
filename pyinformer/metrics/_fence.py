"""Metrics systems of users, fenced: an error in one never reaches what is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final
from weakref import WeakKeyDictionary

from pyinformer._logging import get_logger
from pyinformer.errors import InvalidTypeError
from pyinformer.metrics._protocol import (
    NO_HANDLE,
    NO_METRICS,
    Counter,
    Gauge,
    Histogram,
    Metrics,
    MetricsScope,
    MetricsSource,
    NeverRaises,
)

_log = get_logger(__name__)

_METHODS: Final = ("counter", "gauge", "histogram", "add_source", "scope")


def fenced(metrics: Metrics) -> Metrics:
    """Return metrics that never raise.

    The first error is logged, with the class of the metrics system. A series whose binding raised
    is dropped.

    Args:
        metrics: what a user passed.

    Returns:
        The metrics themselves if they are pyinformer's own or are fenced already.

    Raises:
        InvalidTypeError: they are not a metrics system.
    """
    if isinstance(metrics, NeverRaises):
        return metrics
    if not all(_has(metrics, name) for name in _METHODS):
        *most, last = _METHODS
        reason = f"must have {', '.join(most)} and {last}, and {type(metrics).__name__} has not"
        raise InvalidTypeError("metrics", reason)
    return _Fenced(metrics, _fence_of(metrics))


def _has(metrics: Metrics, name: str) -> bool:
    """Return whether metrics have a method; an attribute that raises is fenced when it is used."""
    try:
        return callable(getattr(metrics, name, None))
    except Exception:  # noqa: BLE001 - a user's metrics system
        return True


def _fence_of(metrics: Metrics) -> _Fence:
    """Return the fence of a metrics system: all its owners share it, so an error is logged once."""
    try:
        return _fences.setdefault(metrics, _Fence(metrics))
    except TypeError:  # not hashable, or without weak references
        return _Fence(metrics)


@final
class _Fence:
    """Calls a metrics system and drops its errors."""

    __slots__ = ("_kind", "failures")

    def __init__(self, metrics: Metrics) -> None:
        self._kind = type(metrics).__name__
        self.failures = 0

    def failed(self, what: str, error: Exception) -> None:
        """Count an error, and log the first."""
        self.failures += 1
        if self.failures == 1:
            _log.error(
                "%s raised %s in %s: the figure is dropped, and so are others on which it raises;"
                " later errors are not logged",
                self._kind,
                type(error).__name__,
                what,
            )

    def bind(self, name: str, bind: Callable[[], Callable[[float], None]]) -> _FencedHandle | None:
        """Bind a series and fence the function of its handle, or return None."""
        try:
            return _FencedHandle(bind(), name, self)
        except Exception as error:  # noqa: BLE001 - a user's metrics system
            self.failed(name, error)
            return None


@final
class _FencedHandle:
    """One function of a handle, which may raise."""

    __slots__ = ("_call", "_fence", "_name")

    def __init__(self, call: Callable[[float], None], name: str, fence: _Fence) -> None:
        self._call = call
        self._name = name
        self._fence = fence

    def inc(self, amount: float = 1.0) -> None:
        """Pass an amount on, and drop an error."""
        self._pass_on(amount)

    def set(self, value: float) -> None:
        """Pass a value on, and drop an error."""
        self._pass_on(value)

    def observe(self, value: float) -> None:
        """Pass a value on, and drop an error."""
        self._pass_on(value)

    def _pass_on(self, value: float) -> None:
        try:
            self._call(value)
        except Exception as error:  # noqa: BLE001 - a user's metrics system
            self._fence.failed(self._name, error)


@final
class _Fenced(NeverRaises):
    """Metrics, or a scope of them, whose errors are dropped."""

    __slots__ = ("_close", "_fence", "_metrics")

    def __init__(
        self, metrics: Metrics, fence: _Fence, *, close: Callable[[], None] = lambda: None
    ) -> None:
        self._metrics = metrics
        self._fence = fence
        self._close = close

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Bind a counter whose errors are dropped."""
        bound = self._fence.bind(name, lambda: self._metrics.counter(name, labels).inc)
        return bound or NO_HANDLE

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Bind a gauge whose errors are dropped."""
        bound = self._fence.bind(name, lambda: self._metrics.gauge(name, labels).set)
        return bound or NO_HANDLE

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Bind a histogram whose errors are dropped."""
        bound = self._fence.bind(name, lambda: self._metrics.histogram(name, labels).observe)
        return bound or NO_HANDLE

    def add_source(self, source: MetricsSource) -> None:
        """Add a source, and drop an error."""
        try:
            self._metrics.add_source(source)
        except Exception as error:  # noqa: BLE001 - a user's metrics system
            self._fence.failed("add_source", error)

    def scope(self) -> MetricsScope:
        """Open a scope that is fenced, too; one that does nothing if that raises."""
        try:
            scope = self._metrics.scope()
            return _Fenced(scope, self._fence, close=scope.close)
        except Exception as error:  # noqa: BLE001 - a user's metrics system
            self._fence.failed("scope", error)
            return NO_METRICS.scope()

    def close(self) -> None:
        """Close the scope, and drop an error."""
        try:
            self._close()
        except Exception as error:  # noqa: BLE001 - a user's metrics system
            self._fence.failed("close", error)


_fences: Final[WeakKeyDictionary[Metrics, _Fence]] = WeakKeyDictionary()
