"""What running informers show in a metrics system: state and counts, read when it collects.

The informers of one cluster share a source of client-go's metrics, which have no label for the
scope of an informer; of those that have it, each informer has its own. No two informers have the
same labels: the second cluster of a name is `name#2`, and so is the second informer of a scope.
With `NO_METRICS` nothing is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, final

from pyinformer.client.cluster import state_of
from pyinformer.telemetry.metrics import NO_METRICS, Histogram, Metrics, Sample, distinct, fenced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.cache.informer._settings import Scope
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import GroupVersionResource

Figure: TypeAlias = tuple[tuple[str, ...], float]
"""A metric with the values of its labels behind those of every informer, and its value."""

_DIGITS: Final = 15  # of a version, as client-go: a float represents them exactly
_LABELS_KEPT: Final = 1_000  # of one informer; the names of handlers that are gone add up
_LONGEST_SCOPE: Final = 200  # characters; selectors are of any length


class Figures(Protocol):
    """What an informer shows; read from any thread."""

    @property
    def resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list."""
        ...

    @property
    def queued_items(self) -> int:
        """How many events wait for handlers."""
        ...

    def all(self) -> Iterable[Figure]:
        """Return the figures with all labels."""
        ...


@final
class InformerMetrics:
    """The series of one informer, from its start to its end.

    Args:
        metrics: what the user passed.
        cluster: its cluster.
        scope: what it follows at its start, of which the labels are made.
    """

    def __init__(self, metrics: Metrics, cluster: Cluster, scope: Scope) -> None:
        self.metrics: Metrics = metrics
        self.cluster: Cluster = cluster
        self.resource: GroupVersionResource = scope.resource
        self.scope: str = ""
        """The label that distinguishes it from others of its resource."""
        self.figures: Figures | None = None
        """What it shows; None while it does not run."""
        self.processing: Histogram | None = None
        """Takes how long handlers take for some events; None while nothing is recorded."""
        self._sync = NO_METRICS.histogram(_SYNC, {})
        self._asked_scope = scope_label(scope)
        self._cluster_metrics: _ClusterMetrics | None = None
        self._name = ""  # kept at the end: a collection that has begun still reads it
        self._handles = NO_METRICS.scope()
        self._known: dict[tuple[str, ...], dict[str, str]] = {}

    def open(self, figures: Figures) -> None:
        """Show figures from now on; a second call does nothing."""
        if self.metrics is NO_METRICS or self._cluster_metrics is not None:
            return
        self.figures = figures
        with _lock:
            self._cluster_metrics = together = _of(self.metrics, self.cluster)
            self._name = together.name
            self.scope = distinct(self._asked_scope, _scopes(self.cluster, self.resource))
            together.members = (*together.members, self)
        self._handles = together.sink.scope()
        self._handles.add_source(self.samples)  # its own: totals are read when it closes
        self.processing = self._handles.histogram(_PROCESSING, self.labels(_PROCESSING))
        self._sync = self._handles.histogram(_SYNC, self.labels(_SYNC))

    def synced(self, seconds: float) -> None:
        """Record how long the first sync of a cache took."""
        self._sync.observe(seconds)

    def close(self) -> None:
        """Remove everything; a second call does nothing."""
        self._handles.close()
        with _lock:
            together, self._cluster_metrics = self._cluster_metrics, None
            if together is not None:
                together.leave(self)

    def labels(self, *what: str) -> dict[str, str]:
        """Return the labels of a metric.

        Args:
            what: the metric's name, and the values of the labels behind those of every informer.
        """
        known = self._known.get(what)
        if known is None:
            from pyinformer.telemetry.metrics import CATALOGUE  # noqa: PLC0415 - not without metrics

            if len(self._known) >= _LABELS_KEPT:
                self._known.clear()
            name, *values = what
            resource = self.resource
            every = [self._name, resource.group, resource.version, resource.resource, self.scope]
            labels = CATALOGUE[name].labels
            every = every if "scope" in labels else every[:-1]
            known = self._known[what] = dict(zip(labels, every + values, strict=True))
        return known

    def samples(self) -> list[Sample]:
        """Return its own figures."""
        known = self._known.get  # a scrape has some fifty of each informer
        found = () if self.figures is None else self.figures.all()
        return [Sample(what[0], known(what) or self.labels(*what), value) for what, value in found]


@final
class _ClusterMetrics:
    """The running informers of one cluster in one metrics system.

    Args:
        metrics: what the user passed.
        cluster: the cluster.
        name: the label, which no other running cluster has.
    """

    def __init__(self, metrics: Metrics, cluster: Cluster, name: str) -> None:
        self.metrics: Metrics = metrics
        self.cluster: Cluster = cluster
        self.name: str = name
        self.sink: Metrics = fenced(metrics)
        self.members: tuple[InformerMetrics, ...] = ()
        """Never changed, only replaced."""
        self._scope = self.sink.scope()
        self._scope.add_source(self._samples)

    def leave(self, informer: InformerMetrics) -> None:
        """Forget an informer; the last one ends it."""
        self.members = tuple(one for one in self.members if one is not informer)
        if not self.members:
            _running.remove(self)
            self._scope.close()

    def _samples(self) -> Iterator[Sample]:
        # Piece by piece: a registry lets the event loop run in between.
        members = sorted(self.members, key=_by_resource)
        for _, found in groupby(members, _by_resource):
            yield from _as_client_go(list(found))


def _as_client_go(informers: list[InformerMetrics]) -> Iterator[Sample]:
    """Yield client-go's gauges of one resource: all events that wait, the cache furthest behind.

    Source:
        client-go tools/cache/informer_metrics.go; thread_safe_store.go for the digits.
    """
    shown = [one.figures for one in informers if one.figures is not None]
    versions = [one.resource_version or "0" for one in shown]
    yield Sample(_QUEUED, informers[0].labels(_QUEUED), sum(one.queued_items for one in shown))
    if all(map(str.isdecimal, versions)):
        oldest = str(min(map(int, versions), default=0))
        yield Sample(_VERSION, informers[0].labels(_VERSION), int(oldest[-_DIGITS:]))


def scope_label(scope: Scope) -> str:
    """Return the label of a scope: options of the program, never what a server sent.

    Several namespaces are one label, whatever their number, since they may change.
    """
    if scope.namespace_selector is not None:
        parts = [f"namespaces with labels {scope.namespace_selector}"]
    elif scope.namespaces is not None:
        parts = [scope.namespace or "several namespaces"]
    else:
        parts = []
    if not scope.label_selector.is_empty:
        parts.append(f"with labels {scope.label_selector}")
    if not scope.field_selector.is_empty:
        parts.append(f"with fields {scope.field_selector}")
    return " ".join(parts)[:_LONGEST_SCOPE]


def _of(metrics: Metrics, cluster: Cluster) -> _ClusterMetrics:
    """Return the informers of a cluster in a metrics system; the caller holds the lock."""
    known = {one.name for one in _running if one.cluster is cluster}
    for one in _running:
        if one.cluster is cluster and one.metrics is metrics:
            return one
    # Not only in these metrics: two fences of one foreign metrics system look like two systems.
    taken = {one.name for one in _running}
    name = known.pop() if known else distinct(_label_of(cluster), taken)
    _running.append(_ClusterMetrics(metrics, cluster, name))
    return _running[-1]


def _scopes(cluster: Cluster, resource: GroupVersionResource) -> set[str]:
    """Return the scopes of a resource that are taken; the caller holds the lock."""
    members = (one.members for one in _running if one.cluster is cluster)
    return {one.scope for found in members for one in found if one.resource == resource}


def _label_of(cluster: Cluster) -> str:
    """Return the label of a cluster's own figures, or its name if it has none."""
    measured = state_of(cluster).request_metrics
    return cluster.name if measured is None else measured.labels["name"]


_by_resource = attrgetter("resource")
_lock: Final = threading.RLock()
_running: Final[list[_ClusterMetrics]] = []
"""As long as an informer of them runs; changed under the lock."""
_PROCESSING: Final = "informer_processing_latency_seconds"
_QUEUED: Final = "informer_queued_items"
_SYNC: Final = "informer_sync_seconds"
_VERSION: Final = "informer_store_resource_version"
