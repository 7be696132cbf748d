"""Metrics for tests: what is recorded arrives at three methods, with name and labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer.telemetry.metrics import MetricsScope, MetricsSource


class _Handle:
    """A handle that calls one function, whatever kind it is."""

    def __init__(self, call: Callable[[float], None]) -> None:
        self._call = call

    def inc(self, amount: float = 1.0) -> None:
        """Pass it on."""
        self._call(amount)

    def set(self, value: float) -> None:
        """Pass it on."""
        self._call(value)

    def observe(self, value: float) -> None:
        """Pass it on."""
        self._call(value)


class Recorded:
    """Metrics whose handles call `on_inc`, `on_set` and `on_observe`, which a test overrides."""

    def __init__(self) -> None:
        self.sources: list[MetricsSource] = []

    def on_inc(self, name: str, labels: Mapping[str, str], amount: float) -> None:
        """A counter grew."""

    def on_set(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """A gauge was set."""

    def on_observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """A histogram has one more value."""

    def counter(self, name: str, labels: Mapping[str, str]) -> Any:
        """Bind a counter."""
        return _Handle(partial(self.on_inc, name, labels))

    def gauge(self, name: str, labels: Mapping[str, str]) -> Any:
        """Bind a gauge."""
        return _Handle(partial(self.on_set, name, labels))

    def histogram(self, name: str, labels: Mapping[str, str]) -> Any:
        """Bind a histogram."""
        return _Handle(partial(self.on_observe, name, labels))

    def add_source(self, source: MetricsSource) -> None:
        """Keep the source."""
        self.sources.append(source)

    def scope(self) -> MetricsScope:
        """Return these metrics."""
        return self

    def close(self) -> None:
        """Keep everything, for the test to read."""
