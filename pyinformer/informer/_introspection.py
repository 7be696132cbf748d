"""What an informer tells of itself: how fresh it is, in what state, and why it shows what it shows.

The stations behind it enter; facts, sentences and frozen records leave. Nothing here changes
anything, nothing is kept for it, and all of it may be asked from any thread.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, Generic

from pyinformer.apimachinery import JournalEntry, V, older
from pyinformer.informer._explain import Explainer, Explanation
from pyinformer.informer._state_changes import StateChange
from pyinformer.informer._status import InformerStatus
from pyinformer.reflector import GuardStatistics, ReflectorState, ReflectorStatus
from pyinformer.store import OverlayStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyinformer.apimachinery import InformerError, Journal
    from pyinformer.cluster import Cluster
    from pyinformer.informer._lifecycle import InformerLifecycle
    from pyinformer.informer._namespace_cache import NamespaceCache
    from pyinformer.informer._namespace_caches import NamespaceCaches
    from pyinformer.informer._namespace_selection import NamespaceSelection
    from pyinformer.informer._settings import InformerSettings, Scope
    from pyinformer.informer._shared_processor import SharedProcessor
    from pyinformer.informer._state_changes import StateCallbacks
    from pyinformer.store import Lister, OverlayEntries


class Insight(Generic[V]):
    """What can be asked of one resource that is followed; the stations are made by Following."""

    name: str
    scope: Scope
    settings: InformerSettings
    cluster: Cluster
    journal: Journal
    lister: Lister[V]
    _callbacks: StateCallbacks
    _members: NamespaceCaches[V]
    _written: OverlayEntries[V]
    _audience: SharedProcessor[V]
    _lifetime: InformerLifecycle
    _selection: NamespaceSelection | None

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once, in each namespace."""
        return self._members.has_synced

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither closed nor broken since."""
        return self._lifetime.is_running

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside, which would be a bug of ours; None unless that happened."""
        return self._lifetime.crash

    @property
    def state(self) -> ReflectorState:
        """What it does at this moment; `status()` says why, `on_state_change` tells of changes.

        Of several namespaces it is the state of the one in the most trouble, and so is that of
        the choice of namespaces.
        """
        states = [member.state for member in self._members.all] or [self._idle_state]
        if self._selection is not None:
            states.append(self._selection.state)
        return min(states, key=_WORST_FIRST.index)

    def on_state_change(self, callback: Callable[[StateChange], object]) -> Callable[[], None]:
        """Call a function at each change of state, on the event loop; it must not block.

        Each namespace has a state of its own, and the change says which one it is.

        Returns:
            A function that ends it.

        Raises:
            InvalidTypeError: it cannot be called.
        """
        return self._callbacks.add(callback)

    @property
    def observed_resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list.

        Of several namespaces it is that of the one that is furthest behind.
        """
        positions = [member.reflector.position for member in self._members.all]
        return "" if not all(positions) else reduce(_older, positions, "")

    @property
    def last_event_at(self) -> float | None:
        """When the last change arrived, on the event loop's clock; None if none did."""
        return _latest(member.reflector.liveness().last_event_at for member in self._members.all)

    @property
    def last_bookmark_at(self) -> float | None:
        """When the last bookmark arrived, on the event loop's clock; None if none did."""
        return _latest(member.reflector.liveness().last_bookmark_at for member in self._members.all)

    def age_seconds(self) -> float | None:
        """Return how long ago the cache was last proven to be what the server has; None if never.

        A change, a bookmark, a complete list and an intact history prove it. A quiet resource
        hears about once a minute from its server, so an age of two minutes is a sign of trouble.
        Of several namespaces it is that of the one that was proven the longest ago. From any
        thread.
        """
        ages = [member.age_seconds() for member in self._members.all]
        if self._selection is not None:
            ages.append(self._selection.age_seconds())
        known = [age for age in ages if age is not None]
        return max(known, default=None) if len(known) == len(ages) else None

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        sole = self._members.sole
        if sole is not None and self._selection is None:
            return sole.staleness
        troubled = [f"{one.scope}: {one.staleness}" for one in self._members.all if one.staleness]
        if self._selection is not None and self._selection.state is not _FINE:
            troubled.insert(0, str(self._selection.status()))
        more = f"; and {len(troubled) - _NAMED} more" if len(troubled) > _NAMED else ""
        return "; ".join(troubled[:_NAMED]) + more

    def explain(self, key: str) -> Explanation:
        """Say in sentences why the cache shows what it shows of a key; costs only when asked.

        From the scope, the selectors and the state to how the object came and which handler has
        heard of it. Nothing is asked of the server, and no object's content is in the answer.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.
        """
        return self._explainer(key).explain(key)

    async def explain_live(self, key: str) -> Explanation:
        """Say the same as `explain`, and what the server has of the key now.

        That is one list of one object, and a GET if it is not in this informer's scope; what the
        server refuses is said.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.
            LifecycleError: it is called from another event loop than the informer's.

        Cancellation:
            Safe.
        """
        self._lifetime.loop.check()
        return await self._explainer(key).explain_live(key)

    def _explainer(self, key: str) -> Explainer:
        now = self._lifetime.now()
        member = self._members.of(key) if isinstance(key, str) else None
        return Explainer(
            self if member is None else member,
            self._members.cache if member is None else member.indexer,
            None if member is None else member.reflector,
            self._written,
            lambda about: self._audience.stories(about, now),
        )

    def _worst(self) -> NamespaceCache[V] | None:
        """Return the namespace in the most trouble; None if there is none."""
        members = self._members.all
        return min(members, key=lambda one: _WORST_FIRST.index(one.state), default=None)

    @property
    def _idle_state(self) -> ReflectorState:
        """What an informer does that has no namespace to follow."""
        if self._lifetime.is_closed:
            return ReflectorState.STOPPED
        if self._selection is not None:
            return self._selection.state
        return ReflectorState.WATCHING if self.is_running else ReflectorState.NEW

    def status(self, *, with_journal: bool = False) -> InformerStatus:
        """Return how it is doing: a frozen record without object content; from any thread.

        Args:
            with_journal: add what happened to it lately.
        """
        life, members, worst = self._lifetime, self._members.all, self._worst()
        ages = [
            None if at is None else life.now() - at
            for at in (self.last_event_at, self.last_bookmark_at)
        ]
        return InformerStatus(
            informer=self.name,
            has_synced=self.has_synced,
            objects=len(self._members.cache),
            position=self.observed_resource_version,
            running_seconds=life.running_seconds,
            state=self.state,
            age_seconds=self.age_seconds(),
            last_event_seconds=ages[0],
            last_bookmark_seconds=ages[1],
            reflector=self._nothing if worst is None else worst.reflector.status(),
            indexes=self._members.cache.indexes(),
            handlers=self._audience.status(life.now()),
            own_writes=joint_overlay([one.freshness.overlay.statistics() for one in members]),
            lineage=self.cluster.lineage.status(),
            journal=self._entries() if with_journal else (),
            crash=None if life.crash is None else str(life.crash),
            namespaces=tuple(member.status() for member in members),
            selection=None if self._selection is None else self._selection.status(),
        )

    @property
    def _nothing(self) -> ReflectorStatus:
        return ReflectorStatus(
            state=self._idle_state,
            reason="",
            attempts=0,
            last_error=None,
            loads=0,
            guard=GuardStatistics("", 0, 0, {}),
        )

    def _entries(self) -> tuple[JournalEntry, ...]:
        """Return what happened to all namespaces, the oldest first."""
        found = list(self.journal.entries())
        for member in self._members.all:
            if member.journal is not self.journal:
                where = f"in {member.scope.namespace}: "
                entries = member.journal.entries()
                found += [JournalEntry(one.at, where + one.what) for one in entries]
        return tuple(sorted(found, key=lambda entry: entry.at))

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the state of what has not synced, or else of the worst, and its last error."""
        unsynced = [one.status() for one in self._members.all if not one.has_synced]
        if not self._members.is_known and self._selection is not None:
            unsynced = [self._selection.status()]
        worst = self._worst()
        if unsynced:
            first = min(unsynced, key=lambda one: _WORST_FIRST.index(one.state))
            where = f" in {first.namespace}" if self._members.sole is None else ""
            return f"{first.state.value}{where if first.namespace else ''}", first.last_error
        if worst is None:
            return self._idle_state.value, None
        status = worst.reflector.status()
        return status.state.value, status.last_error

    def _why_never_synced(self, key: str) -> str:
        """Return why the first sync of what holds a key will not come by itself; or nothing."""
        member = self._members.of(key)
        is_hopeless = member is not None and member.has_failed and not member.has_synced
        return str(member.status()) if member is not None and is_hopeless else ""


def _latest(instants: Iterable[float | None]) -> float | None:
    return max((at for at in instants if at is not None), default=None)


def _older(first: str, second: str) -> str:
    if not first:
        return second
    return second if older(second, first) else first


def joint_overlay(statistics: Sequence[OverlayStatistics]) -> OverlayStatistics:
    """Return how several overlays do, as one."""
    return OverlayStatistics(
        entries=sum(one.entries for one in statistics),
        peak=sum(one.peak for one in statistics),
        ignored=sum(one.ignored for one in statistics),
        dropped=sum(one.dropped for one in statistics),
        is_off=any(one.is_off for one in statistics),
    )


_FINE: Final = ReflectorState.WATCHING
_NAMED: Final = 3  # namespaces in a sentence
_WORST_FIRST: Final = (
    ReflectorState.FAILED,
    ReflectorState.FORBIDDEN,
    ReflectorState.ABSENT,
    ReflectorState.WAITING,
    ReflectorState.PROVING,
    ReflectorState.NEW,
    ReflectorState.LOADING,
    ReflectorState.WATCHING,
    ReflectorState.STOPPED,
)
