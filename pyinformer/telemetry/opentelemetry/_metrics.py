"""Metrics for OpenTelemetry, read from a registry when its readers collect them.

To record a value costs what it costs with the registry: a hundredth of OpenTelemetry's instruments.
"""

from __future__ import annotations

from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final, final
from weakref import WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.errors import InvalidArgumentError
from pyinformer.telemetry._exposition_format import histogram_samples
from pyinformer.telemetry.metrics import (
    CATALOGUE,
    HistogramValue,
    MetricFamily,
    MetricSpec,
    MetricsRegistry,
)
from pyinformer.telemetry.opentelemetry._scope import SCHEMA_URL, SCOPE, scope_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_log = get_logger(__name__)


class _Global:
    """Stands for OpenTelemetry's global provider."""


_PARTS: Final = ("_bucket", "_count", "_sum")
_GLOBAL: Final = _Global()
_claiming: Final = Lock()
_claimed: Final = WeakSet[object]()  # for good: a provider keeps its callbacks


@final
class OpenTelemetryMetrics(MetricsRegistry):
    """A registry whose figures OpenTelemetry's readers collect.

    Counters and gauges are observable instruments. Counters of what is closed remain, and those of
    a second term or run of the same name add to them. OpenTelemetry has no observable histogram: a
    histogram is three observable up-down counters with Prometheus' names, `_bucket` with the label
    `le`, `_count` and `_sum`. So queries and dashboards for Prometheus find them unchanged, which
    they would not if they were counters: exporters append `_total` to the names of those.

    Args:
        meter_provider: where metrics go; None for OpenTelemetry's global one.
        specs: types, help and buckets of the program's own metrics.

    Raises:
        MetricConflictError: the specs have a metric of pyinformer's names.
        InvalidArgumentError: the provider has one already. OpenTelemetry would drop, without a
            word, all figures of a second one: give each operator, cluster and factory the same.
    """

    def __init__(
        self, meter_provider: MeterProvider | None = None, *, specs: Iterable[MetricSpec] = ()
    ) -> None:
        own = tuple(specs)
        super().__init__(own, keeps_totals=True)  # its readers take the difference of two moments
        _claim(meter_provider)
        self._collection = _Collection(self)
        meter = metrics.get_meter(SCOPE, scope_version(), meter_provider, SCHEMA_URL)
        for spec in (*CATALOGUE.values(), *own):
            for name in names_of(spec):
                self._collection.known.add(name)
                create = {
                    "counter": meter.create_observable_counter,
                    "gauge": meter.create_observable_gauge,
                    "histogram": meter.create_observable_up_down_counter,
                }[spec.type]
                observe = partial(self._collection.observe, name)
                create(name, callbacks=[observe], description=spec.help)


def _claim(chosen: MeterProvider | None) -> None:
    """Take a provider for one registry.

    The global one is a placeholder before the program sets it: both are the same.

    Raises:
        InvalidArgumentError: it is taken.
    """
    current = metrics.get_meter_provider()
    key: object = _GLOBAL if chosen is None or chosen is current else chosen
    with _claiming:
        if key in _claimed:
            reason = (
                "has an OpenTelemetryMetrics already, and would drop the figures of a second one:"
                " pass the first one to each operator, cluster and factory"
            )
            raise InvalidArgumentError("meter_provider", reason)
        _claimed.add(key)


@final
class _Collection:
    """Reads a registry once in each collection, although each instrument asks for itself.

    Args:
        registry: the figures.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self.known: set[str] = set()
        """The names of all instruments."""
        self._registry = registry
        self._lock = RLock()
        self._left: dict[str, list[Observation]] = {}  # not asked for in this collection yet
        self._unknown: set[str] = set()  # metrics that a warning has named

    def observe(self, name: str, _options: CallbackOptions) -> list[Observation]:
        """Return the figures of an instrument; on a thread of OpenTelemetry.

        Each instrument asks once in a collection: one that asks again begins the next.
        """
        with self._lock:
            if name not in self._left:
                self._left = {known: [] for known in self.known}
                for family in self._registry.collect():
                    self._take(family)
            return self._left.pop(name)

    def _take(self, family: MetricFamily) -> None:
        for name, observation in _observations(family):
            if name in self._left:
                self._left[name].append(observation)
            else:
                self._warn_of_unknown(family.spec.name)

    def _warn_of_unknown(self, name: str) -> None:
        if name not in self._unknown:
            self._unknown.add(name)
            _log.warning(
                "metric %s is not exported to OpenTelemetry: pass its MetricSpec to"
                " OpenTelemetryMetrics(specs=)",
                name,
            )


def names_of(spec: MetricSpec) -> tuple[str, ...]:
    """Return the names of the instruments of a metric."""
    if spec.type == "histogram":
        return tuple(f"{spec.name}{part}" for part in _PARTS)
    return (spec.name,)


def _observations(family: MetricFamily) -> Iterator[tuple[str, Observation]]:
    name = family.spec.name
    for series in family.series:
        labels, value = series.labels, series.value
        if not isinstance(value, HistogramValue):
            yield name, Observation(value, labels)
            continue
        for part, its_labels, number in histogram_samples(family.spec, labels, value):
            yield part, Observation(number, its_labels)
