"""What follows one namespace, or all of them: the stations behind an informer, put together.

A scope of at most one namespace enters; a cache, its freshness and everything that is told of
changes leave. Position, epochs, guard, audits and own writes are this member's alone, so that what
befalls one namespace stops no other. What all members of an informer have in common is `Common`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, cast, final

import anyio

from pyinformer.apimachinery import Journal, V
from pyinformer.cluster import state_of
from pyinformer.informer._auditor import Auditor
from pyinformer.informer._freshness import Freshness
from pyinformer.informer._queued_sink import sink_of
from pyinformer.informer._state_changes import StateCallbacks, StateReporter
from pyinformer.informer._status import NamespaceStatus
from pyinformer.informer._store_sink import StoreSink
from pyinformer.reflector import Reflector, ReflectorState
from pyinformer.store import Indexer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio.abc import TaskStatus

    from pyinformer.apimachinery import InformerError
    from pyinformer.cluster import Cluster
    from pyinformer.informer._lifecycle import InformerLifecycle
    from pyinformer.informer._own_writes import WrittenAt
    from pyinformer.informer._settings import InformerSettings, Scope
    from pyinformer.metrics import Metrics
    from pyinformer.reflector import ReflectorOptions
    from pyinformer.store import IndexFunction, Lister, OverlayEntries


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Common(Generic[V]):
    """What the members of one informer share."""

    cluster: Cluster
    settings: InformerSettings
    options: ReflectorOptions | None
    metrics: Metrics
    lifetime: InformerLifecycle
    indexes: Mapping[str, str | IndexFunction]
    """Those that were asked for, by name."""
    written: OverlayEntries[V]
    """The own writes that no member has heard of yet; each puts its own in."""
    callbacks: StateCallbacks
    """Are told of every member's state."""
    lister: Callable[[], Lister[V]]
    written_at: Callable[[str], WrittenAt | None]
    """Returns the object that this process wrote at a version."""
    announces: Callable[[], bool]
    """Whether a first list is told as additions; else it is handed over as a whole."""
    on_synced: Callable[[], None]
    """Is called when the first list of a member is in its cache, and when it has been told."""
    on_settled: Callable[[], None]
    """Is called when a member will never sync."""
    on_large: Callable[[], None]
    """Is called when an object with a large body arrives."""
    on_crash: Callable[[BaseException], None]
    check_running: Callable[[], None]


@final
class NamespaceCache(Generic[V]):
    """Follows one namespace, or all of them. Constructing it starts nothing.

    Args:
        common: what it shares with the others of its informer.
        scope: what it follows: in one namespace, or everywhere.
        journal: is told what happens to it.
    """

    def __init__(self, common: Common[V], scope: Scope, journal: Journal) -> None:
        cluster, settings, options = common.cluster, common.settings, common.options
        view = cast("type[V] | None", settings.projection)
        self.scope: Scope = scope
        self.settings: InformerSettings = settings
        self.cluster: Cluster = cluster
        self.journal: Journal = journal
        self.name: str = f"{cluster.name}: {scope}" if cluster.name else str(scope)
        """What it follows, and of which cluster if that has a name."""
        self.ended: anyio.Event = anyio.Event()
        """Is set when nothing of it runs any more."""
        self._common = common
        self._scope_of_tasks: anyio.CancelScope | None = None  # needs a loop, and here is none yet
        self._is_stopped = False
        self._states = StateReporter(
            self.name, absence_is_fine=settings.absent == "optional", callbacks=common.callbacks
        )
        self.indexer: Indexer[V] = Indexer(view)
        for name, by in common.indexes.items():
            self.indexer.add_index(name, by)
        self.freshness: Freshness[V] = Freshness(
            cluster,
            scope,
            settings,
            self.indexer,
            reflector=lambda: self.reflector,
            on_missed_state=lambda was, now: self.distribution.on_missed_state(was, now),  # noqa: PLW0108 - made later
            check_running=common.check_running,
            written_at=common.written_at,
            written=common.written,
        )
        self.distribution: StoreSink[V] = StoreSink(
            self.indexer,
            on_synced=common.on_synced,
            on_crash=common.on_crash,
            selective=scope.is_selective,
            freshness=self.freshness,
            may_go_back=lambda: self.reflector.is_resetting,
            announces=common.announces,
        )
        self.reflector: Reflector[V] = Reflector(
            cluster.list_watch(
                scope.resource,
                namespace=scope.namespace,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
                metadata_only=settings.memory == "metadata",
            ),
            sink_of(settings.queue, self.distribution, selective=scope.is_selective),
            projection=view,
            strip_managed_fields=settings.memory != "raw",
            compact=settings.memory == "compact",
            transform=settings.transform,
            options=options,
            absent=settings.absent,
            watch_list_memory=state_of(cluster).watch_list_memory,
            lineage=cluster.lineage,
            request_budget=cluster.request_budget,
            journal=journal,
            metrics=common.metrics,
            on_change=self._changed,
            on_suspicion=self._suspected,
            on_large=common.on_large,
        )
        self.auditor: Auditor = Auditor(
            self.name,
            self.reflector.list_watch,
            self.indexer,
            reflector=self.reflector,
            request_budget=cluster.request_budget,
            options=options,
            metrics=common.metrics,
            journal=journal,
            period_seconds=settings.audit_period_seconds,
        )

    @property
    def has_synced(self) -> bool:
        """Whether its cache has held everything at least once."""
        return self.distribution.has_synced

    @property
    def has_failed(self) -> bool:
        """Whether it will never sync by itself."""
        return self.reflector.state is ReflectorState.FAILED or self.reflector.fails_sync

    @property
    def is_running(self) -> bool:
        """Whether its informer was started, and neither closed nor broken since."""
        return self._common.lifetime.is_running

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside."""
        return self._common.lifetime.crash

    @property
    def lister(self) -> Lister[V]:
        """Reads the cache of its informer."""
        return self._common.lister()

    @property
    def state(self) -> ReflectorState:
        """What it does at this moment."""
        return self.reflector.state

    def age_seconds(self) -> float | None:
        """Return how long ago its cache was last proven; None if never."""
        proven_at = self.reflector.liveness().last_proof_at
        return None if proven_at is None else self._common.lifetime.now() - proven_at

    @property
    def staleness(self) -> str:
        """Why its cache may be behind the server; empty while it is followed."""
        if self.state is ReflectorState.WATCHING:
            return ""
        age = self.age_seconds()
        never = "taken as empty" if self.has_synced else "never synced"
        since = never if age is None else f"last proven {age:.0f} s ago"
        reason = self.reflector.status().reason
        return f"{self.state.value}, {since}{': ' if reason else ''}{reason}"

    def status(self) -> NamespaceStatus:
        """Return how it is doing; from any thread."""
        facts = self.reflector.status()
        return NamespaceStatus(
            follows=self.name,
            namespace=self.scope.namespace,
            has_synced=self.has_synced,
            objects=len(self.indexer),
            position=self.reflector.position,
            state=facts.state,
            age_seconds=self.age_seconds(),
            reason=facts.reason,
            attempts=facts.attempts,
            last_error=facts.last_error,
            loads=facts.loads,
            epoch=facts.guard.epoch,
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow until it is cancelled or stopped.

        Cancellation:
            One way to end it; the cache stays as it is.
        """
        try:
            with self._new_scope():
                async with anyio.create_task_group() as group:
                    await group.start(self.reflector.run)
                    group.start_soon(self.auditor.run)
                    task_status.started()
        finally:
            self.ended.set()

    def stop_nowait(self) -> None:
        """Begin to end; `ended` is set when nothing runs any more."""
        self._is_stopped = True
        if self._scope_of_tasks is not None:
            self._scope_of_tasks.cancel()

    def _new_scope(self) -> anyio.CancelScope:
        scope = self._scope_of_tasks = anyio.CancelScope()
        if self._is_stopped:
            scope.cancel()
        return scope

    def forget_nowait(self) -> None:
        """Let go of everybody who waits, and of own writes: nobody reads this cache any more."""
        self.freshness.close_nowait(f"namespace {self.scope.namespace} is followed no more")
        self.freshness.overlay.clear()

    def _changed(self) -> None:
        self.freshness.check_epoch()
        self.auditor.changed_nowait()
        status = self.reflector.status()
        self._states.tell(status.state, status.reason, attempts=status.attempts)
        if self.has_failed:
            self._common.on_settled()

    def _suspected(self, reason: str) -> None:
        """Take note that what is cached should be compared with the server."""
        self.auditor.suspect_nowait(reason)
