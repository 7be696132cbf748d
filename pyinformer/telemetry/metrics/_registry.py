"""A metrics system of pyinformer's own: bound cells, read by any thread.

A label value that is new beyond the limits makes no series: it is counted under `other`.
"""

from __future__ import annotations

import math
import sys
import threading
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import accumulate
from operator import add, itemgetter
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast, final

from pyinformer._runtime.clock import Pace
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    InvalidTypeError,
    MetricConflictError,
)
from pyinformer.objects import check_iterable, check_text, check_type
from pyinformer.telemetry.metrics._catalogue import CATALOGUE
from pyinformer.telemetry.metrics._protocol import (
    NO_HANDLE,
    Counter,
    Gauge,
    Histogram,
    MetricsScope,
    MetricsSource,
    NeverRaises,
    Sample,
)
from pyinformer.telemetry.metrics._spec import MetricSpec, MetricType, scraped_names

MOST_SERIES: Final = 1_000  # of one name; a scrape stays small, whatever a label's values are
# Of pyinformer's own metrics, whose labels are names that the program gives: up to eleven series of
# a name for each of thousands of informers.
MOST_OWN_SERIES: Final = 100_000
MOST_PRIORITIES: Final = 25  # of one queue, as controller-runtime's
OTHER: Final = "other"

_INFINITY: Final = math.inf  # a name of the module is read faster than an attribute
_USER_HELP: Final = "A metric of this program."
_DROPPED: Final = "pyinformer_metrics_dropped_values_total"
_FOLDED: Final = "pyinformer_metrics_folded_series_total"
_FAILURES: Final = "pyinformer_metrics_source_failures_total"

_STEP_SAMPLES: Final = 32  # about a tenth of a millisecond

_OURS: Final = {name: spec.name for spec in CATALOGUE.values() for name in scraped_names(spec)}
"""The metric for which a scrape shows each name."""

_log = get_logger(__name__)

_Key: TypeAlias = tuple[str, ...]
_V = TypeVar("_V")


@final
class HistogramValue(NamedTuple):
    """The state of one histogram."""

    buckets: tuple[int, ...]
    """How many values are at most each bucket's bound; the last counts all values."""
    sum: float
    """The sum of all values."""


@final
class Series(NamedTuple):
    """One series of a metric."""

    label_names: tuple[str, ...]
    label_values: tuple[str, ...]
    value: float | HistogramValue

    @property
    def labels(self) -> dict[str, str]:
        """The labels by name."""
        return dict(zip(self.label_names, self.label_values, strict=True))


@final
class MetricFamily(NamedTuple):
    """A metric and its series at one moment."""

    spec: MetricSpec
    series: tuple[Series, ...]


class _Cell(Protocol):
    """The value of one bound series, as the registry reads it."""

    holders: int
    """How many scopes hold it."""

    def read(self) -> float | HistogramValue: ...


class _Total(_Cell, Protocol):
    """The value of a counter or of a histogram."""

    def merge(self, other: Self) -> None:
        """Add what another one has counted."""
        ...


@final
class _CounterCell:
    __slots__ = ("_family", "_value", "holders")

    def __init__(self, family: _Family) -> None:
        self._family = family
        self._value = 0.0
        self.holders = 0

    def inc(self, amount: float = 1.0) -> None:
        """Add a finite amount >= 0."""
        if 0.0 <= amount < _INFINITY:
            self._value += amount
        else:
            self._family.drop(amount)

    def read(self) -> float:
        return self._value

    def merge(self, other: Self) -> None:
        self._value += other._value


@final
class _GaugeCell:
    __slots__ = ("_family", "_value", "holders")

    def __init__(self, family: _Family) -> None:
        self._family = family
        self._value = 0.0
        self.holders = 0

    def set(self, value: float) -> None:
        """Replace the value by one that is not NaN."""
        if -_INFINITY <= value <= _INFINITY:
            self._value = value
        else:
            self._family.drop(value)

    def read(self) -> float:
        return self._value


@final
class _HistogramCell:
    __slots__ = ("_bounds", "_counts", "_family", "_sum", "holders")

    def __init__(self, family: _Family) -> None:
        self._family = family
        self._bounds = family.spec.buckets
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self.holders = 0

    def observe(self, value: float) -> None:
        """Count a finite value."""
        if -_INFINITY < value < _INFINITY:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value
        else:
            self._family.drop(value)

    def read(self) -> HistogramValue:
        # The counts first: the sum may then include one value more than they do.
        return HistogramValue(tuple(accumulate(self._counts.copy())), self._sum)

    def merge(self, other: Self) -> None:
        self._counts[:] = map(add, self._counts, other._counts)
        self._sum += other._sum


_CELLS: Final[Mapping[MetricType, type[_CounterCell | _GaugeCell | _HistogramCell]]] = {
    "counter": _CounterCell,
    "gauge": _GaugeCell,
    "histogram": _HistogramCell,
}


@final
class _SeriesTable(Generic[_V]):
    """A table of the series of one metric by their label values, within the limits."""

    __slots__ = ("_priorities", "_priority_at", "most", "values")

    def __init__(self, spec: MetricSpec, most: int = 0) -> None:
        labels = spec.labels
        self.most: int = most or (MOST_OWN_SERIES if spec.name in CATALOGUE else MOST_SERIES)
        self._priority_at = labels.index("priority") if "priority" in labels else -1
        self._priorities: Counts[_Key] = Counts()
        self.values: dict[_Key, _V] = {}

    @classmethod
    def of(cls, spec: MetricSpec, values: Iterable[tuple[_Key, _V]]) -> Self:
        """Return a table that has these series."""
        table = cls(spec)
        for key, value in values:
            table.put(key, value)
        return table

    def admitted(self, key: _Key) -> _Key:
        """Return the key itself, or beyond the limits the one with `other` to fold it into."""
        if key in self.values:
            return key
        at = self._priority_at
        if at >= 0 and self._priorities[_without(key, at)] >= MOST_PRIORITIES:
            key = (*key[:at], OTHER, *key[at + 1 :])
        if key not in self.values and len(self.values) >= self.most:
            return _other(key)
        return key

    @property
    def may_fold(self) -> bool:
        """Whether a new series may have to be folded."""
        return self._priority_at >= 0 or len(self.values) >= self.most

    def put(self, key: _Key, value: _V) -> None:
        """Add an admitted series, or replace its value."""
        at = self._priority_at
        if at >= 0 and key not in self.values and key[at] != OTHER:
            self._priorities[_without(key, at)] += 1
        self.values[key] = value

    def remove(self, key: _Key) -> None:
        """Remove a series."""
        at = self._priority_at
        del self.values[key]
        if at >= 0 and key[at] != OTHER:
            rest = _without(key, at)
            self._priorities[rest] -= 1
            if not self._priorities[rest]:
                del self._priorities[rest]


def _values_of(names: tuple[str, ...]) -> Callable[[Mapping[str, str]], _Key]:
    """Return a function that reads label values in order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda labels: tuple([labels[name] for name in names])


def _other(key: _Key) -> _Key:
    """Return the key of the series into which one is folded."""
    return (OTHER,) * len(key)


def _without(key: _Key, at: int) -> _Key:
    return (*key[:at], *key[at + 1 :])


@final
class _Family:
    """A metric and its bound series."""

    __slots__ = (
        "_values_of",
        "cells",
        "dropped",
        "ended",
        "folded",
        "is_counter",
        "is_histogram",
        "least",
        "most",
        "spec",
    )

    def __init__(self, spec: MetricSpec) -> None:
        self.spec = spec
        self.is_counter = spec.type == "counter"
        self.is_histogram = spec.type == "histogram"
        self.least = 0.0 if self.is_counter else -_INFINITY
        self.most = sys.float_info.max if self.is_counter else _INFINITY
        self._values_of = _values_of(spec.labels)
        self.cells: _SeriesTable[_Cell] = _SeriesTable(spec)
        self.dropped = 0
        self.ended = 0
        """How many cells remain that no scope holds, without that of all other series."""
        self.folded = 0

    def key_of(self, labels: Mapping[str, str]) -> _Key | None:
        """Return the label values in order, or None for other names, or values that are not str."""
        if len(labels) != len(self.spec.labels):
            return None
        try:
            key = self._values_of(labels)
            "".join(key)
        except (KeyError, TypeError):
            return None
        return key

    def admitted(self, key: _Key, table: _SeriesTable[_V]) -> _Key:
        """Return what `table.admitted` returns, and count a series that is folded."""
        found = table.admitted(key)
        if found != key:
            self.folded += 1
            if self.folded == 1:
                _log.warning(
                    "metric %s has too many series (at most %d, and %d priorities): further ones"
                    " are folded into label values %r; label values must not come from objects",
                    self.spec.name,
                    table.most,
                    MOST_PRIORITIES,
                    OTHER,
                )
        return found

    def drop(self, value: float) -> None:
        """Count a value that no series can have, and log the first."""
        self.dropped += 1
        if self.dropped == 1:
            _log.error(
                "metric %s was given %r, which a %s cannot have: the value is dropped; later"
                " ones are counted in %s",
                self.spec.name,
                value,
                self.spec.type,
                _DROPPED,
            )


@final
class _Source:
    """A source and whether its failure was logged."""

    __slots__ = ("has_failed", "read")

    def __init__(self, read: MetricsSource) -> None:
        self.read = read
        self.has_failed = False


@final
class _Tables:
    """All metrics of a registry. One lock guards which series exist, none guards their values.

    Args:
        specs: of the program's own metrics.
        keeps_totals: counters and histograms of scopes that are closed remain.
    """

    def __init__(self, specs: Iterable[MetricSpec], *, keeps_totals: bool) -> None:
        self._keeps_totals = keeps_totals
        self._ended: _Figures = {}
        self._specs: dict[str, MetricSpec] = dict(CATALOGUE)
        self._metric_of: dict[str, str] = dict(_OURS)
        check_iterable("specs", specs, shown="MetricSpecs")
        for spec in specs:
            check_type("specs", spec, MetricSpec, shown="MetricSpecs")
            if self._specs.get(spec.name, spec) != spec:
                raise MetricConflictError(spec.name, "it is defined already, and differently")
            self._define(spec)
        self._families: dict[str, _Family] = {}
        self._sources: dict[_Source, None] = {}
        self._failures: Counts[str] = Counts(raised=0, name=0, labels=0, type=0, value=0)
        # A finalizer that binds a series may run while this thread binds another.
        self._lock = threading.RLock()

    def bind(
        self, kind: MetricType, name: str, labels: Mapping[str, str], held: dict[_Held, _Cell]
    ) -> _Cell:
        """Return the cell of a series, and add it to `held`, the cells of one owner."""
        check_text("name", name)
        check_type("labels", labels, Mapping, shown="a mapping of names to values")
        with self._lock:
            family = self._family(kind, name, labels)
            if family.spec.type != kind:
                raise MetricConflictError(name, f"it is a {family.spec.type}, not a {kind}")
            key = family.key_of(labels)
            if key is None:
                raise _refusal(family.spec, labels)
            return self._held(family, family.admitted(key, family.cells), held)

    def _held(self, family: _Family, key: _Key, held: dict[_Held, _Cell]) -> _Cell:
        mine = (family, key)
        cell = held.get(mine)
        if cell is None:
            cell = family.cells.values.get(key)
            if cell is None:
                cell = self._new_cell(family, key)
            elif not cell.holders and key != _other(key):
                family.ended -= 1
            cell.holders += 1
            held[mine] = cell
        return cell

    def _new_cell(self, family: _Family, key: _Key) -> _Cell:
        cell = _CELLS[family.spec.type](family)
        family.cells.put(key, cell)
        return cell

    def _family(self, kind: MetricType, name: str, labels: Mapping[str, str]) -> _Family:
        family = self._families.get(name)
        if family is None:
            spec = self._specs.get(name)
            if spec is None:
                spec = MetricSpec(name, kind, _USER_HELP, tuple(labels))
                self._define(spec)
            family = self._families[name] = _Family(spec)
        return family

    def _define(self, spec: MetricSpec) -> None:
        """Add a metric, unless a scrape shows one of its names for another."""
        names = scraped_names(spec)
        for name in names:
            other = self._metric_of.get(name, spec.name)
            if other != spec.name:
                reason = f"a scrape shows the name {name!r} for {other!r} already"
                raise MetricConflictError(spec.name, reason)
        self._metric_of.update(dict.fromkeys(names, spec.name))
        self._specs[spec.name] = spec

    def release(self, held: dict[_Held, _Cell], sources: list[_Source]) -> None:
        """Remove the series that no other scope holds, and the sources."""
        figures: _Figures = {}
        if self._keeps_totals:
            pace = Pace()
            for source in sources:
                self._read(source, figures, pace)
        # In one step: a collection finds a figure in its source, or in the totals, never in both.
        with self._lock:
            for (family, key), cell in held.items():
                cell.holders -= 1
                if not cell.holders:
                    self._end_cell(family, key, cell)
            for source in sources:
                self._sources.pop(source, None)
            for name, (family, table) in figures.items():
                if family.is_counter:
                    self._add_totals(name, family, table.values)

    def _end_cell(self, family: _Family, key: _Key, cell: _Cell) -> None:
        """Remove a series, or keep its total; of too many, the sum of the further ones."""
        if self._keeps_totals and family.spec.type != "gauge":
            other = _other(key)
            if key == other:
                return
            if family.ended < MOST_SERIES:
                family.ended += 1
                return
            kept = family.cells.values.get(other) or self._new_cell(family, other)
            cast("_Total", kept).merge(cast("_Total", cell))
        family.cells.remove(key)

    def _add_totals(
        self, name: str, family: _Family, values: Mapping[_Key, float | HistogramValue]
    ) -> None:
        """Add up the last figures of a counter whose sources end."""
        if name not in self._ended:
            self._ended[name] = family, _SeriesTable(family.spec, MOST_SERIES)
        _, totals = self._ended[name]
        for key, value in values.items():
            at = totals.admitted(key)
            before = cast("float", totals.values.get(at, 0.0))
            totals.put(at, before + cast("float", value))

    def add(self, source: _Source) -> None:
        """Read a source at each collection."""
        with self._lock:
            self._sources[source] = None

    def collect(self) -> list[MetricFamily]:
        """Return all series of this moment."""
        with self._lock:
            found = {
                family: list(family.cells.values.items()) for family in self._families.values()
            }
            sources = list(self._sources)
            ended = [
                (family.spec, list(table.values.items())) for family, table in self._ended.values()
            ]
        pace = Pace()
        figures: _Figures = {}
        for family, cells in found.items():
            values = [(key, cell.read()) for key, cell in cells]
            figures[family.spec.name] = family, _SeriesTable.of(family.spec, values)
            pace.step()
        totals = _Source(partial(_samples_of, ended))
        for source in (*sources, totals, _Source(self._own)):
            self._read(source, figures, pace)
        made = []
        for family, table in figures.values():
            if table.values:
                names = family.spec.labels
                series = tuple([Series(names, *item) for item in table.values.items()])
                made.append(MetricFamily(family.spec, series))
                pace.step()
        return made

    def _read(self, source: _Source, figures: _Figures, pace: Pace) -> None:
        """Add a source's figures."""
        try:
            for number, sample in enumerate(source.read()):
                reason = self._take(sample, figures)
                if reason:
                    self._failed(source, reason, f"{sample.name} with labels {[*sample.labels]}")
                if not number % _STEP_SAMPLES:
                    pace.step()
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - an owner's or a user's function
            self._failed(source, "raised", f"{type(error).__name__}")

    def _take(self, sample: Sample, figures: _Figures) -> str:
        """Add one figure, or return what is wrong with it. Most of a scrape is spent here."""
        name, labels, value = sample
        if name not in figures and (reason := self._open(name, labels, figures)):
            return reason
        family, table = figures[name]
        if family.is_histogram:
            return "type"
        key = family.key_of(labels)
        if key is None:
            return "labels"
        if not family.least <= value <= family.most:
            return "value"
        # Counters of several sources add up; of gauges the last one counts. Folded gauges add up,
        # too: a queue's depth at priority `other` is the sum over all folded priorities.
        adds = family.is_counter
        if key not in table.values and table.may_fold:
            with self._lock:
                admitted = family.admitted(key, table)
            adds = adds or admitted != key
            key = admitted
        if adds and key in table.values:
            value += cast("float", table.values[key])
        table.put(key, float(value))  # sources give integers, too
        return ""

    def _open(self, name: str, labels: Mapping[str, str], figures: _Figures) -> str:
        """Add the table of a metric that has no bound series, or return what is wrong with it."""
        kind: MetricType = "counter" if name.endswith("_total") else "gauge"
        try:
            with self._lock:
                family = self._family(kind, name, labels)
        except InvalidArgumentError:
            return "name"
        figures[name] = family, _SeriesTable(family.spec)
        return ""

    def _failed(self, source: _Source, reason: str, what: str) -> None:
        with self._lock:
            self._failures[reason] += 1
        if not source.has_failed:
            source.has_failed = True
            _log.error(
                "a metrics source has failed (%s: %s): its figure is dropped; later failures are"
                " counted in %s",
                reason,
                what,
                _FAILURES,
            )

    def _own(self) -> Iterable[Sample]:
        """Return what the registry counts of itself."""
        with self._lock:
            families = list(self._families.values())
        for reason, count in self._failures.items():
            yield Sample(_FAILURES, {"reason": reason}, count)
        for family in families:
            if family.dropped:
                yield Sample(_DROPPED, {"metric": family.spec.name}, family.dropped)
            if family.folded:
                yield Sample(_FOLDED, {"metric": family.spec.name}, family.folded)


def _samples_of(
    found: Iterable[tuple[MetricSpec, Iterable[tuple[_Key, float | HistogramValue]]]],
) -> Iterable[Sample]:
    for spec, values in found:
        for key, value in values:
            labels = dict(zip(spec.labels, key, strict=True))
            yield Sample(spec.name, labels, cast("float", value))


def _refusal(spec: MetricSpec, labels: Mapping[str, str]) -> InformerError:
    """Return why a metric cannot have these labels."""
    if labels.keys() == set(spec.labels):
        return InvalidTypeError("labels", f"values of {spec.name} must be str, got {labels!r}")
    expected, given = ", ".join(spec.labels), ", ".join(map(str, labels))
    return MetricConflictError(spec.name, f"its labels are ({expected}), got ({given})")


_Held: TypeAlias = tuple[_Family, _Key]
_Figures: TypeAlias = dict[str, tuple[_Family, _SeriesTable[float | HistogramValue]]]
"""The figures of one collection, by metric."""


@final
class RegistryScope(NeverRaises):
    """The series and sources that one owner has in a registry.

    Args:
        tables: the registry's.
        siblings: the open scopes of the scope in which it is opened.
    """

    def __init__(self, tables: _Tables, siblings: dict[RegistryScope, None] | None = None) -> None:
        self._tables = tables
        self._siblings = {} if siblings is None else siblings
        self._held: dict[_Held, _Cell] = {}
        self._sources: list[_Source] = []
        self._inner: dict[RegistryScope, None] = {}
        self._is_closed = False

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Bind a counter. Raises MetricConflictError: other labels, another type."""
        return cast("Counter", self._bind("counter", name, labels))

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Bind a gauge. Raises MetricConflictError: other labels, another type."""
        return cast("Gauge", self._bind("gauge", name, labels))

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Bind a histogram. Raises MetricConflictError: other labels, another type."""
        return cast("Histogram", self._bind("histogram", name, labels))

    def _bind(self, kind: MetricType, name: str, labels: Mapping[str, str]) -> object:
        if self._is_closed:
            return NO_HANDLE
        return self._tables.bind(kind, name, labels, self._held)

    def add_source(self, source: MetricsSource) -> None:
        """Read a source at each collection until the scope is closed."""
        if not self._is_closed:
            self._sources.append(_Source(source))
            self._tables.add(self._sources[-1])

    def scope(self) -> MetricsScope:
        """Open a scope that is closed with this one, at the latest."""
        scope = RegistryScope(self._tables, self._inner)
        if self._is_closed:
            scope.close()
        else:
            self._inner[scope] = None
        return scope

    def close(self) -> None:
        """Remove the series that no other scope holds, and the sources."""
        if self._is_closed:
            return
        self._is_closed = True
        self._siblings.pop(self, None)
        for scope in list(self._inner):
            scope.close()
        self._tables.release(self._held, self._sources)
        self._held, self._sources = {}, []


class MetricsRegistry(NeverRaises):
    """Keeps series in memory for `collect`, which any thread may call.

    A bound handle writes plain numbers without a lock: only one thread at a time may use a handle,
    as the event loop does. A reader on another thread sees each number before or after a change,
    never half of it; of a histogram, the sum may be ahead of the counts by the value that is being
    added. Values that a series cannot have, such as NaN, are dropped and counted, and so are
    figures of sources that raise.

    A name has at most 1,000 series, one of pyinformer's own 100,000, and a queue 25 priorities;
    further ones are folded into one series whose label values are `other`.

    Args:
        specs: types, help and buckets of the program's own metrics; a name without one has the type
            and the labels of its first use.
        keeps_totals: counters and histograms of what is closed remain, and what is opened again
            adds to them, for systems in which a counter must not fall. Of what is closed at most
            1,000 series of a name remain; what further ones have counted is in one, `other`.

    Raises:
        MetricConflictError: a spec has the name of another metric.
    """

    def __init__(self, specs: Iterable[MetricSpec] = (), *, keeps_totals: bool = False) -> None:
        self._tables = _Tables(specs, keeps_totals=keeps_totals)
        self._root = RegistryScope(self._tables)

    def counter(self, name: str, labels: Mapping[str, str]) -> Counter:
        """Bind a counter that remains; see `Metrics.counter`.

        Raises:
            MetricConflictError: the name has other label names, or another type; or a scrape
                shows it for another metric.
            InvalidArgumentError: the name or a label's name cannot be one of a metric.
            InvalidTypeError: a label value is not a string.
        """
        return self._root.counter(name, labels)

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Bind a gauge that remains; see `Metrics.gauge`.

        Raises:
            MetricConflictError: the name has other label names, or another type; or a scrape
                shows it for another metric.
            InvalidArgumentError: the name or a label's name cannot be one of a metric.
            InvalidTypeError: a label value is not a string.
        """
        return self._root.gauge(name, labels)

    def histogram(self, name: str, labels: Mapping[str, str]) -> Histogram:
        """Bind a histogram that remains; see `Metrics.histogram`.

        Raises:
            MetricConflictError: the name has other label names, or another type; or a scrape
                shows it for another metric.
            InvalidArgumentError: the name or a label's name cannot be one of a metric.
            InvalidTypeError: a label value is not a string.
        """
        return self._root.histogram(name, labels)

    def add_source(self, source: MetricsSource) -> None:
        """Read a source at each collection.

        Args:
            source: returns figures of counters, whose names end in `_total`, and of gauges.
        """
        self._root.add_source(source)

    def scope(self) -> MetricsScope:
        """Return metrics whose series and sources vanish together; see `Metrics.scope`."""
        return RegistryScope(self._tables)

    def collect(self) -> list[MetricFamily]:
        """Read all series and sources, on the calling thread.

        Returns:
            The metrics that have a series. Counters of several sources with the same labels add up;
            of several gauges with the same labels, the source that was added last counts.
        """
        return self._tables.collect()
