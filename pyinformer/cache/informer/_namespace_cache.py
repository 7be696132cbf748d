"""The cache of one namespace, or of all of them, with everything that keeps it up to date.

Position, epochs, guard, audits and own writes belong to this cache alone, so that trouble in one
namespace stops no other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, Protocol, cast, final

import anyio

from pyinformer._runtime.tasks import run_until_cancelled
from pyinformer.cache.informer._auditor import Auditor
from pyinformer.cache.informer._host_suspends import Suspends
from pyinformer.cache.informer._own_write_progress import Freshness
from pyinformer.cache.informer._state_changes import StateChangeReporter
from pyinformer.cache.informer._status import NamespaceStatus
from pyinformer.cache.informer._store_sink import StoreSink, make_sink
from pyinformer.cache.reflector import FollowedServer, Reflector, ReflectorState
from pyinformer.client.cluster import state_of
from pyinformer.objects import V

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from pyinformer.cache.informer._context import InformerContext
    from pyinformer.cache.informer._settings import Scope
    from pyinformer.cache.store import Indexer
    from pyinformer.objects import DiagnosticJournal


_AFTER_SUSPEND_SECONDS: Final = 2.0  # the age that is wanted: it is looked for at once


class CacheGroup(Protocol):
    """All caches of an informer, as one of them sees them."""

    @property
    def is_several(self) -> bool:
        """Whether there are or were several."""
        ...

    def recheck_nowait(self) -> None:
        """Determine again whether everything has synced."""
        ...

    def on_large_object(self) -> None:
        """Record that an object with a large body has arrived."""
        ...


@final
class NamespaceCache(Generic[V]):
    """Follows one namespace, or all of them. Constructing it starts nothing.

    Args:
        context: what it shares with the other caches of its informer.
        scope: what it follows: in one namespace, or everywhere.
        journal: records what happens to it.
        caches: all caches of its informer.
    """

    def __init__(
        self,
        context: InformerContext[V],
        scope: Scope,
        journal: DiagnosticJournal,
        caches: CacheGroup,
    ) -> None:
        cluster, settings = context.cluster, context.settings
        self.scope: Scope = scope
        self.journal: DiagnosticJournal = journal
        self.name: str = scope.named_in(cluster)
        """What it follows, and in which cluster if that has a name."""
        self.ended: asyncio.Event = asyncio.Event()
        """Set when none of its tasks runs any more."""
        self._context = context
        self._caches = caches
        self._cancel_scope: anyio.CancelScope | None = None  # needs a running loop
        self._is_stopped = False
        self._began_at: float | None = None  # until it has synced
        self._suspends = Suspends()
        self._states = StateChangeReporter(self.name, callbacks=context.state_callbacks)
        self.indexer: Indexer[V] = context.new_indexer()
        self.freshness: Freshness[V] = Freshness(context, scope, self.indexer)
        self.sink: StoreSink[V] = StoreSink(
            self.indexer, self, selective=scope.is_selective, freshness=self.freshness
        )
        server = state_of(cluster).share(FollowedServer)
        self.reflector: Reflector[V] = Reflector(
            cluster.list_watch(
                scope.resource,
                namespace=scope.namespace,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
                uid_range=scope.uid_range,
                metadata_only=settings.memory == "metadata",
            ),
            make_sink(settings.queue, self.sink, selective=scope.is_selective),
            view=cast("type[V] | None", settings.model),
            strip_managed_fields=settings.memory != "raw",
            compact=settings.memory == "compact",
            transform=settings.transform,
            options=context.options,
            absent=settings.absent,
            server=server,
            journal=journal,
            on_change=self._on_change,
            on_suspicion=self._on_suspicion,
            on_large=caches.on_large_object,
            turn=context.turn,
        )
        self.freshness.follow(self.reflector, on_missed_state=self.sink.on_missed_state)
        self.auditor: Auditor = Auditor(
            self.name,
            self.reflector.list_watch,
            self.indexer,
            reflector=self.reflector,
            request_budget=server.request_budget,
            options=context.options,
            journal=journal,
            period_seconds=settings.audit_period_seconds,
        )

    @property
    def has_synced(self) -> bool:
        """Whether it has held everything at least once."""
        return self.sink.has_synced

    @property
    def has_failed(self) -> bool:
        """Whether it can sync only after a change on the server."""
        return self.reflector.state is ReflectorState.FAILED or self.reflector.fails_sync

    @property
    def is_refused(self) -> bool:
        """Whether it has not synced, because the server refuses its list for missing rights."""
        return self.reflector.state is ReflectorState.FORBIDDEN and not self.has_synced

    @property
    def state(self) -> ReflectorState:
        """The state of its reflector."""
        return self.reflector.state

    @property
    def announces(self) -> bool:
        """Whether its first list is announced one by one: others of the informer came before."""
        return self._caches.is_several

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is taken over begins a new epoch of the server's history."""
        return self.reflector.is_resetting

    def on_synced(self) -> None:
        """Record that the first list is in the cache, and again that it has been announced."""
        began_at, self._began_at = self._began_at, None
        if began_at is not None:
            self._context.metrics.synced(self._context.lifecycle.now() - began_at)
        self._caches.recheck_nowait()

    def on_crash(self, error: Exception) -> None:
        """End the informer because of a bug."""
        self._context.lifecycle.break_nowait(error)

    def _on_change(self) -> None:
        self.freshness.check_epoch()
        self.auditor.on_state_change()
        reflector = self.reflector
        self._states.report(
            reflector.state, reflector.state_reason, attempts=reflector.status().attempts
        )
        if self.has_failed or self.is_refused:
            self._caches.recheck_nowait()

    def _on_suspicion(self, reason: str) -> None:
        self.auditor.suspect_nowait(reason)

    def age_seconds(self) -> float | None:
        """Return how long ago the cache was last proven; None if never."""
        now, proven_at = self._context.lifecycle.now(), self.reflector.read_proof()
        if self._suspends.look(now):  # most connections are dead then, and do not show it
            self.reflector.want_age(_AFTER_SUSPEND_SECONDS)
        return None if proven_at is None else now - proven_at + self._suspends.since(proven_at)

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        if self.state is ReflectorState.WATCHING:
            return ""
        age = self.age_seconds()
        never = "taken as empty" if self.has_synced else "never synced"
        since = never if age is None else f"last proven {age:.0f} s ago"
        reason = self.reflector.status().reason
        return f"{self.state.value}, {since}{': ' if reason else ''}{reason}"

    def counts(self) -> dict[tuple[str, ...], int]:
        """Return what was counted so far, by name and details; from any thread."""
        return {
            **self.reflector.counts(),
            **self.auditor.counts.detailed(),
            ("own_writes_dropped",): self.freshness.overlay.statistics().dropped,
        }

    def status(self) -> NamespaceStatus:
        """Return its status; callable from any thread."""
        facts, arrived_at = self.reflector.status(), self.reflector.liveness().last_arrival_at
        now, refused_at = self._context.lifecycle.now(), self.reflector.proof_refused_at
        return NamespaceStatus(
            follows=self.name,
            namespace=self.scope.namespace,
            has_synced=self.has_synced,
            objects=len(self.indexer),
            position=self.freshness.shown_position,
            state=facts.state,
            age_seconds=self.age_seconds(),
            reason=facts.reason,
            attempts=facts.attempts,
            last_error=facts.last_error,
            loads=facts.loads,
            epoch=self.freshness.epoch,
            proof_refused_seconds=None if refused_at is None else now - refused_at,
            silent_seconds=None if arrived_at is None else now - arrived_at,
            is_provable=self.reflector.is_provable,
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow until it is cancelled or stopped.

        Cancellation:
            Ends it; the cache stays as it is.
        """
        try:
            async with anyio.create_task_group() as group:
                self._cancel_scope = group.cancel_scope
                self._began_at = self._context.lifecycle.now()
                if self._is_stopped:
                    group.cancel_scope.cancel()
                self.auditor.begin_nowait(group)
                await run_until_cancelled(self.reflector.run, task_status=task_status)
        finally:
            self.ended.set()

    def stop_nowait(self) -> None:
        """Begin to end; `ended` is set when no task runs any more."""
        self._is_stopped = True
        if self._cancel_scope is not None:
            self._cancel_scope.cancel()

    def forget_nowait(self) -> None:
        """Wake all waiters and drop own writes: the cache is no longer read."""
        self.freshness.close_nowait(f"namespace {self.scope.namespace} is no longer followed")
        self.freshness.overlay.clear()
