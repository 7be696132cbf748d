"""The protocol of a metrics system, and the default that drops all figures.

What has no state behind it (a duration, an outcome) is recorded through a handle that the caller
binds once. What is state already is read by a source, only when figures are collected.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias, final, runtime_checkable


class Counter(Protocol):
    """A bound series that only grows."""

    @abstractmethod
    def inc(self, amount: float = 1.0) -> None:
        """Add to the counter.

        Args:
            amount: a finite number >= 0.
        """
        ...


class Gauge(Protocol):
    """A bound series that shows the newest value."""

    @abstractmethod
    def set(self, value: float) -> None:
        """Replace the value.

        Args:
            value: a number, in the unit with which the name ends.
        """
        ...


class Histogram(Protocol):
    """A bound series that counts values by size."""

    @abstractmethod
    def observe(self, value: float) -> None:
        """Add one value.

        Args:
            value: a finite number, in the unit with which the name ends.
        """
        ...


class Sample(NamedTuple):
    """The value of one counter or gauge."""

    name: str
    labels: Mapping[str, str]
    value: float


MetricsSource: TypeAlias = Callable[[], Iterable[Sample]]
"""Returns figures that are state. It is called on any thread, at any time until the scope of its
owner is closed and during one more collection; it must be quick and must not block."""


class Metrics(Protocol):
    """Receives figures.

    Its methods and those of its handles are called on the event loop, so they must not block. A
    series exists from the moment at which it is bound: a counter at 0.
    """

    @abstractmethod
    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Bind a counter.

        Args:
            name: the metric, such as `workqueue_adds_total`.
            labels: the labels of the series; the label names of one metric never change.

        Returns:
            The handle of this series; the same series may be bound several times.
        """
        ...

    @abstractmethod
    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Bind a gauge.

        Args:
            name: the metric, such as `workqueue_depth`.
            labels: the labels of the series; the label names of one metric never change.

        Returns:
            The handle of this series; the same series may be bound several times.
        """
        ...

    @abstractmethod
    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Bind a histogram.

        Args:
            name: the metric, such as `workqueue_queue_duration_seconds`.
            labels: the labels of the series; the label names of one metric never change.

        Returns:
            The handle of this series; the same series may be bound several times.
        """
        ...

    @abstractmethod
    def add_source(self, source: MetricsSource) -> None:
        """Read figures from a function whenever figures are collected.

        Args:
            source: returns the figures.
        """
        ...

    @abstractmethod
    def scope(self) -> MetricsScope:
        """Return metrics whose series and sources vanish together.

        Returns:
            The scope, which its owner closes.
        """
        ...


@runtime_checkable
class Exposition(Protocol):
    """Metrics that a server can show, such as on `/metrics`."""

    @abstractmethod
    def exposition(self, accept: str) -> tuple[str, Callable[[], bytes]]:
        """Choose the format of an answer.

        Args:
            accept: the values of the request's Accept headers; empty for none.

        Returns:
            The content type, one of a few, and the function that renders all figures, which is
            called in a thread.
        """
        ...


class MetricsScope(Metrics, Protocol):
    """The series and sources of one owner, such as an informer, a queue or a controller."""

    @abstractmethod
    def close(self) -> None:
        """Remove what was bound or added through this scope.

        A series that another scope has bound, too, remains, and handles of both still record in
        it. Other handles have no effect later; what is bound later does nothing. Closing again
        does nothing.
        """
        ...


@final
class NoHandle:
    """A counter, gauge or histogram that drops its values."""

    __slots__ = ()

    def inc(self, amount: float = 1.0) -> None:
        """Do nothing."""

    def set(self, value: float) -> None:
        """Do nothing."""

    def observe(self, value: float) -> None:
        """Do nothing."""


NO_HANDLE = NoHandle()


class NeverRaises:
    """Marks metrics whose handles and sources never raise, so that no fence is needed."""

    __slots__ = ()


@final
class NoMetrics(NeverRaises):
    """Metrics and a scope that drop all figures."""

    def __repr__(self) -> str:
        return "NO_METRICS"

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Return a handle that does nothing."""
        return NO_HANDLE

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Return a handle that does nothing."""
        return NO_HANDLE

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Return a handle that does nothing."""
        return NO_HANDLE

    def add_source(self, source: MetricsSource) -> None:
        """Do nothing."""

    def scope(self) -> MetricsScope:
        """Return these metrics."""
        return self

    def close(self) -> None:
        """Do nothing."""


NO_METRICS: Metrics = NoMetrics()
