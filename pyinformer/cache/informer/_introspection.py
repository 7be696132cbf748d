"""What an informer says about itself: state, age, staleness and status.

Reads only, from any thread; nothing is stored here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Generic, final

from pyinformer.cache.informer._status import InformerStatus
from pyinformer.cache.reflector import (
    FollowedServer,
    GuardStatistics,
    ReflectorState,
    ReflectorStatus,
)
from pyinformer.cache.store import OverlayStatistics
from pyinformer.client.cluster import state_of
from pyinformer.objects import JournalEntry, V, older

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.cache.informer._context import InformerContext
    from pyinformer.cache.informer._lifecycle import InformerLifecycle
    from pyinformer.cache.informer._namespace_cache import NamespaceCache
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.informer._status import NamespaceStatus
    from pyinformer.cache.informer.delivery import SharedProcessor


@final
@dataclass(frozen=True, slots=True)
class Introspection(Generic[V]):
    """Reads state, age and status from the parts of one informer."""

    context: InformerContext[V]
    caches: NamespaceCaches[V]
    processor: SharedProcessor[V]
    selection: Introspection[Any] | None
    """That of the informer of Namespaces, if a selector chooses the namespaces; else None."""

    @property
    def _lifecycle(self) -> InformerLifecycle:
        return self.context.lifecycle

    @property
    def has_crashed(self) -> bool:
        """Whether a bug of pyinformer has ended it."""
        return self._lifecycle.crash is not None

    def now(self) -> float:
        """Return the time of its event loop; 0 before its start."""
        return self._lifecycle.now()

    @property
    def state(self) -> ReflectorState:
        """The state of the namespace with the worst state, or of the selection of namespaces."""
        states = [cache.state for cache in self.caches.all] or [self._idle_state]
        if self.selection is not None:
            states.append(self.selection.state)
        return min(states, key=_WORST_FIRST.index)

    @property
    def observed_resource_version(self) -> str:
        """The position of the namespace that is furthest behind; empty before the first list."""
        positions = [cache.freshness.shown_position for cache in self.caches.all]
        return "" if not all(positions) else reduce(_older, positions, "")

    @property
    def last_event_at(self) -> float | None:
        """When the last change arrived, on the event loop's clock; None if none did."""
        return _latest(cache.reflector.liveness().last_event_at for cache in self.caches.all)

    @property
    def last_bookmark_at(self) -> float | None:
        """When the last bookmark arrived, on the event loop's clock; None if none did."""
        return _latest(cache.reflector.liveness().last_bookmark_at for cache in self.caches.all)

    def age_seconds(self) -> float | None:
        """Return how long ago the oldest cache was last proven; None if one never was."""
        ages = [cache.age_seconds() for cache in self.caches.all]
        if self.selection is not None:
            ages.append(self.selection.age_seconds())
        known = [age for age in ages if age is not None]
        return max(known, default=None) if len(known) == len(ages) else None

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        sole = self.caches.sole
        if sole is not None and self.selection is None:
            return sole.staleness
        troubled = [f"{one.scope}: {one.staleness}" for one in self.caches.all if one.staleness]
        if self.selection is not None and self.selection.state is not ReflectorState.WATCHING:
            troubled.insert(0, str(self._selection_status))
        more = f"; and {len(troubled) - _NAMED} more" if len(troubled) > _NAMED else ""
        return "; ".join(troubled[:_NAMED]) + more

    def _worst(self) -> NamespaceCache[V] | None:
        """Return the namespace with the worst state; None if there are no namespaces."""
        return min(self.caches.all, key=lambda one: _WORST_FIRST.index(one.state), default=None)

    @property
    def _idle_state(self) -> ReflectorState:
        """The state of an informer without a namespace to follow."""
        if self._lifecycle.is_closed:
            return ReflectorState.STOPPED
        if self.selection is not None:
            return self.selection.state
        return ReflectorState.WATCHING if self._lifecycle.is_running else ReflectorState.NEW

    def status(self, *, with_journal: bool = False) -> InformerStatus:
        """Return a frozen record without object content.

        Args:
            with_journal: add the latest events of the journal.
        """
        life, caches, worst = self._lifecycle, self.caches.all, self._worst()
        ages = [
            None if at is None else life.now() - at
            for at in (self.last_event_at, self.last_bookmark_at)
        ]
        return InformerStatus(
            informer=self.caches.name,
            has_synced=self.caches.has_synced,
            objects=len(self.caches.cache),
            cached_bytes=self.caches.cache.estimated_bytes(),
            position=self.observed_resource_version,
            running_seconds=life.running_seconds,
            state=self.state,
            age_seconds=self.age_seconds(),
            last_event_seconds=ages[0],
            last_bookmark_seconds=ages[1],
            reflector=self._idle_status if worst is None else worst.reflector.status(),
            indexes=self.caches.cache.indexes(),
            label_indexes=self.caches.cache.label_indexes(),
            handlers=self.processor.status(life.now()),
            own_writes=_sum([one.freshness.overlay.statistics() for one in caches]),
            lineage=state_of(self.context.cluster).share(FollowedServer).lineage.status(),
            journal=self._journal() if with_journal else (),
            crash=None if life.crash is None else str(life.crash),
            namespaces=tuple(cache.status() for cache in caches),
            selection=self._selection_status,
            cluster=self.context.cluster.name,
        )

    @property
    def _selection_status(self) -> NamespaceStatus | None:
        return None if self.selection is None else self.selection.caches.all[0].status()

    @property
    def _idle_status(self) -> ReflectorStatus:
        return ReflectorStatus(
            state=self._idle_state,
            reason="",
            attempts=0,
            last_error=None,
            loads=0,
            guard=GuardStatistics("", 0, 0, {}),
        )

    def _journal(self) -> tuple[JournalEntry, ...]:
        """Return what happened to all namespaces, the oldest first."""
        found = list(self.caches.journal.entries())
        for cache in self.caches.all:
            if cache.journal is not self.caches.journal:
                where = f"in {cache.scope.namespace}: "
                entries = cache.journal.entries()
                found += [JournalEntry(one.at, where + one.what) for one in entries]
        return tuple(sorted(found, key=lambda entry: entry.at))

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the state of what has not synced, or else of the worst, and its last error."""
        unsynced = [one.status() for one in self.caches.all if not one.has_synced]
        selection = self._selection_status
        if not self.caches.is_known and selection is not None:
            unsynced = [selection]
        worst = self._worst()
        if unsynced:
            first = min(unsynced, key=lambda one: _WORST_FIRST.index(one.state))
            where = f" in {first.namespace}" if self.caches.sole is None else ""
            return f"{first.state.value}{where if first.namespace else ''}", first.last_error
        if worst is None:
            return self._idle_state.value, None
        status = worst.reflector.status()
        return status.state.value, status.last_error


def _latest(instants: Iterable[float | None]) -> float | None:
    return max((at for at in instants if at is not None), default=None)


def _older(first: str, second: str) -> str:
    if not first:
        return second
    return second if older(second, first) else first


def _sum(statistics: Sequence[OverlayStatistics]) -> OverlayStatistics:
    """Return the statistics of several overlays as one."""
    return OverlayStatistics(
        entries=sum(one.entries for one in statistics),
        peak=sum(one.peak for one in statistics),
        ignored=sum(one.ignored for one in statistics),
        dropped=sum(one.dropped for one in statistics),
        is_off=any(one.is_off for one in statistics),
    )


_NAMED: Final = 3  # namespaces in one sentence
_WORST_FIRST: Final = (
    ReflectorState.FAILED,
    ReflectorState.FORBIDDEN,
    ReflectorState.POLLING,
    ReflectorState.ABSENT,
    ReflectorState.WAITING,
    ReflectorState.PROVING,
    ReflectorState.NEW,
    ReflectorState.LOADING,
    ReflectorState.WATCHING,
    ReflectorState.STOPPED,
)
