"""Wraps a user's metrics system, so that its errors never reach the code that is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.telemetry._user_error_fence import TelemetryFence, TelemetryFences, check_methods
from pyinformer.telemetry.metrics._protocol import (
    NO_HANDLE,
    NO_METRICS,
    Counter,
    Gauge,
    Histogram,
    Metrics,
    MetricsScope,
    MetricsSource,
    NeverRaises,
    NoHandle,
)

_log = get_logger(__name__)

_METHODS: Final = ("counter", "gauge", "histogram", "add_source", "scope")
_fences: Final = TelemetryFences(
    _log, loss="the figure is dropped, and so are others on which it raises"
)


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
    check_methods("metrics", metrics, _METHODS)
    return _Fenced(metrics, _fences.of(metrics))


@final
class _FencedHandle:
    """A counter, gauge or histogram: passes each value to the user's one, and drops its errors."""

    __slots__ = ("_call", "_fence", "_name")

    def __init__(self, call: Callable[[float], None], name: str, fence: TelemetryFence) -> None:
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
        try:  # not by fence.call: each figure passes here
            self._call(value)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - a user's metrics system
            self._fence.failed(self._name, error)


@final
class _Fenced(NeverRaises):
    """A user's metrics, or a scope of them, whose errors are dropped."""

    __slots__ = ("_close", "_fence", "_metrics")

    def __init__(
        self, metrics: Metrics, fence: TelemetryFence, *, close: Callable[[], None] = lambda: None
    ) -> None:
        self._metrics = metrics
        self._fence = fence
        self._close = close

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Bind a counter whose errors are dropped."""
        return self._bind(name, lambda: self._metrics.counter(name, labels).inc)

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Bind a gauge whose errors are dropped."""
        return self._bind(name, lambda: self._metrics.gauge(name, labels).set)

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Bind a histogram whose errors are dropped."""
        return self._bind(name, lambda: self._metrics.histogram(name, labels).observe)

    def _bind(
        self, name: str, bind: Callable[[], Callable[[float], None]]
    ) -> _FencedHandle | NoHandle:
        fence = self._fence
        return fence.call(name, lambda: _FencedHandle(bind(), name, fence), None) or NO_HANDLE

    def add_source(self, source: MetricsSource) -> None:
        """Add a source, and drop an error."""
        self._fence.call("add_source", lambda: self._metrics.add_source(source), None)

    def scope(self) -> MetricsScope:
        """Open a scope that is fenced, too; one that does nothing if that raises."""
        return self._fence.call("scope", self._scope, NO_METRICS.scope())

    def _scope(self) -> MetricsScope:
        scope = self._metrics.scope()
        return _Fenced(scope, self._fence, close=scope.close)

    def close(self) -> None:
        """Close the scope, and drop an error."""
        self._fence.call("close", self._close, None)
