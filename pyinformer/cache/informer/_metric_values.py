"""The figures of one informer for a metrics system, by metric and label values.

They are read from what the parts of the informer know or have counted, from any thread. Several
namespaces are one informer: their counts add up, and the worst state and the largest age count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, final

from pyinformer.cache.reflector import ReflectorState
from pyinformer.objects import V, VersionOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.cache.informer._introspection import Introspection
    from pyinformer.cache.informer._metrics import Figure
    from pyinformer.cache.informer._mutation_guard import MutationGuard
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.informer.delivery import HandlerStatus, SharedProcessor

_CRASHED: Final = "crashed"
_STATES: Final = (*(state.value for state in ReflectorState), _CRASHED)
_ZEROS: Final[dict[tuple[str, ...], int]] = dict.fromkeys(
    (
        ("lineage_resets",),
        ("rv_malformed",),
        ("unknown_events",),
        *(("audits", verdict) for verdict in ("consistent", "inconsistent", "inconclusive")),
        *(("mass_deletes", action) for action in ("held", "confirmed", "averted", "unconfirmed")),
        *(("undecodable", action) for action in ("kept", "skipped")),
    ),
    0,
)
"""Counters that exist at 0 from the start: a query sees no increase of one that begins at 1."""


@final
@dataclass(frozen=True, slots=True)
class InformerFigures(Generic[V]):
    """Reads the figures of a metrics system from the parts of one informer."""

    introspection: Introspection[V]
    caches: NamespaceCaches[V]
    processor: SharedProcessor[V]
    mutation_guard: MutationGuard[V]

    @property
    def resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list."""
        return self.introspection.observed_resource_version

    @property
    def queued_items(self) -> int:
        """How many events wait for handlers."""
        return self.processor.depth

    def all(self) -> Iterator[Figure]:
        """Yield all figures, each once."""
        yield from self._state()
        yield from self._sharing()
        yield from self._handlers()
        for (name, *details), count in ({**_ZEROS, **self.caches.counts()}).items():
            yield (f"informer_{name}_total", *details), count

    def _state(self) -> Iterator[Figure]:
        caches, introspection = self.caches.all, self.introspection
        state = _CRASHED if introspection.has_crashed else introspection.state.value
        yield ("informer_synced",), float(self.caches.has_synced)
        for one in _STATES:
            yield ("informer_state", one), float(one == state)
        age = introspection.age_seconds()
        if age is not None:
            yield ("informer_age_seconds",), age
        yield ("informer_objects",), len(self.caches.cache)
        yield ("informer_cached_bytes",), self.caches.cache.estimated_bytes()
        orders = {cache.reflector.version_order for cache in caches}
        for order in VersionOrder:
            yield ("informer_rv_order", order.value), float(order in orders)
        written = [cache.freshness.overlay for cache in caches]
        yield ("informer_own_writes",), sum(len(overlay.entries) for overlay in written)

    def _sharing(self) -> Iterator[Figure]:
        values: Counter[str] = Counter()
        held_bytes: Counter[str] = Counter()
        for cache in self.caches.all:
            for kind, table in cache.reflector.interned().items():
                values[kind] += table.entries
                held_bytes[kind] += table.held_bytes
        for kind, entries in values.items():
            yield ("informer_interned_values", kind), entries
            yield ("informer_interned_bytes", kind), held_bytes[kind]
        guard = self.mutation_guard
        yield ("informer_cache_mutations_total",), guard.mutations
        if guard.decoded is not None:
            yield ("informer_decoded_objects",), len(guard.decoded)

    def _handlers(self) -> Iterator[Figure]:
        yield ("informer_abandoned_handlers",), len(self.processor.abandoned)
        found = sorted(self.processor.status(self.introspection.now()), key=_by_name)
        for name, statuses in groupby(found, _by_name):
            yield from _figures_of(name, list(statuses))


def _figures_of(name: str, statuses: list[HandlerStatus]) -> Iterator[Figure]:
    """Yield the figures of the handlers of one name."""
    merges = sum(one.coalesced + one.dropped_pairs for one in statuses)
    yield ("informer_mailbox_depth", name), sum(one.depth for one in statuses)
    yield ("informer_mailbox_age_seconds", name), max(one.oldest_seconds for one in statuses)
    yield ("informer_mailbox_merges_total", name), merges
    yield ("informer_handler_busy_seconds", name), max(one.in_flight_seconds for one in statuses)
    for result, calls in (
        ("success", sum(one.delivered for one in statuses)),
        ("error", sum(one.failed for one in statuses)),
    ):
        yield ("informer_handler_calls_total", name, result), calls


_by_name = attrgetter("name")
