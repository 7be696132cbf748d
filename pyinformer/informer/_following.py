"""What follows one resource: the stations behind an informer, put together, and what they tell.

A scope and settings enter; a lister that any thread may read leaves, and every change, to whoever
receives it in its own step. Each station keeps its own promises; here is what one tells the others,
in the order in which they begin and end. Handlers and lifetimes are the informer's, on top of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import anyio

from pyinformer.apimachinery import InformerError, Journal, LifecycleError, V, check_seconds
from pyinformer.audit import AuditReport, MutationDetector
from pyinformer.informer._audience import Audience
from pyinformer.informer._auditing import Auditor
from pyinformer.informer._barrier import Wanted
from pyinformer.informer._distribution import Distribution, Receiver
from pyinformer.informer._freshness import Freshness
from pyinformer.informer._insight import Insight
from pyinformer.informer._lifetime import Lifetime
from pyinformer.informer._metadata_only import check_readable
from pyinformer.informer._queued_sink import sink_of
from pyinformer.informer._readiness import CacheReadiness
from pyinformer.informer._scope import InformerSettings, Scope
from pyinformer.informer._sharing import Sharing
from pyinformer.informer._state_changes import StateChanges
from pyinformer.informer._wait_for import KeyWaits, Predicate
from pyinformer.metrics import Metrics
from pyinformer.reflector import Reflector, ReflectorOptions, ReflectorState, StaleObject
from pyinformer.store import Indexer, IndexFunction, Lister

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import KubeObject
    from pyinformer.cluster import Cluster


class Following(Insight[V]):
    """One resource in one scope, cached.

    Args:
        cluster: the server.
        scope: what is followed.
        settings: how it is kept.
        options: how the server is talked to.
        metrics: where occurrences are counted.
        grace_seconds: how long closing waits for handlers.
        mutation_detector: watches over what is shared; one of its own if None.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Scope,
        settings: InformerSettings,
        *,
        options: ReflectorOptions | None,
        metrics: Metrics,
        grace_seconds: float,
        mutation_detector: MutationDetector | None = None,
    ) -> None:
        self.scope: Scope = scope
        self.settings: InformerSettings = settings
        view = cast("type[V] | None", settings.projection)
        selective = scope.is_selective
        self.cluster: Cluster = cluster
        """The server that it follows, through which own writes are read at once."""
        self._grace_seconds = grace_seconds
        self.name: str = f"{cluster.name}: {scope}" if cluster.name else str(scope)
        """What it follows, and of which cluster if that has a name: `eu: pods.v1 in shop`."""
        self.journal: Journal = Journal()
        """What happened to it lately, in words."""
        self._states = StateChanges(self.name, absence_is_fine=settings.absent == "optional")
        self._indexer: Indexer[V] = Indexer(view)
        self._freshness: Freshness[V] = Freshness(
            cluster,
            self.scope,
            self.settings,
            self._indexer,
            reflector=lambda: self._reflector,
            on_unheard=lambda was, now: self._distribution.unheard_nowait(was, now),  # noqa: PLW0108 - made later
            check_running=self._check_running,
            on_shown=lambda key: self._key_waits.look_nowait(key),  # noqa: PLW0108 - made later
        )
        self._distribution = Distribution(
            self._indexer,
            on_synced=self._synced,
            on_crash=self._broken,
            selective=selective,
            freshness=self._freshness,
            may_go_back=lambda: self._reflector.is_resetting,
        )
        self._audience: Audience[V] = Audience(
            self.name, self._distribution, self._indexer.list, on_crash=self._broken
        )
        self._sharing: Sharing[V] = Sharing(
            self.name,
            self._indexer,
            is_decoded=settings.sharing == "decoded",
            detector=mutation_detector,
            shown=lambda key: self.lister.get(key, allow_unsynced=True),
            handlers=lambda: self._audience.handler_names,
            metrics=metrics,
        )
        if self._sharing.decoded is not None:  # before the handlers: what they read is the newest
            self._distribution.attach(self._sharing.decoded)
        self._reflector: Reflector[V] = Reflector(
            cluster.list_watch(
                self.scope.resource,
                namespace=self.scope.namespace,
                label_selector=self.scope.label_selector,
                field_selector=self.scope.field_selector,
                metadata_only=settings.memory == "metadata",
            ),
            sink_of(settings.queue, self._distribution, selective=selective),
            projection=view,
            strip_managed_fields=settings.memory != "raw",
            compact=settings.memory == "compact",
            transform=settings.transform,
            options=options,
            absent=settings.absent,
            watch_list_memory=cluster.watch_list_memory,
            lineage=cluster.lineage,
            admission=cluster.admission,
            journal=self.journal,
            metrics=metrics,
            on_change=self._reflector_changed,
            on_suspicion=self._suspected,
        )
        self._auditor = Auditor(
            self.name,
            self._reflector.list_watch,
            self._indexer,
            reflector=self._reflector,
            admission=cluster.admission,
            options=options,
            metrics=metrics,
            journal=self.journal,
            period_seconds=settings.audit_period_seconds,
        )
        self.lister: Lister[V] = Lister(
            self._indexer,
            resource=str(self.scope.resource),
            readiness=CacheReadiness(self),
            overlay=self._freshness.overlay,
            decoded=self._sharing.decoded,
        )
        """Reads the cache, and own writes that it has not heard of yet; from any thread."""
        self._key_waits: KeyWaits[V] = KeyWaits(
            self,
            attach=lambda waits: self._distribution.attach(waits, preload=False),
            detach=self._distribution.detach,
        )
        self.settled: anyio.Event = anyio.Event()
        """Is set when the cache has synced, or never will."""
        self.on_crash: Callable[[], None] | None = None
        """Is called when it has crashed; for the factory."""
        self._lifetime = Lifetime(
            self.name,
            self._begin,
            self._finish,
            on_end=self._ended,
            grace_seconds=grace_seconds,
        )

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it cannot be started again."""
        return self._lifetime.is_closed

    @property
    def mutation_detector(self) -> MutationDetector:
        """Watches over what the readers of this informer share."""
        return self._sharing.detector

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to the cache, at any time; what is cached is indexed at once.

        That is one step of the event loop: add indexes before the start where the cache is large.
        A hundred thousand objects take it a tenth of a second, a third if the path is in no view.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object.

        Raises:
            InvalidArgumentError: the name is taken, or metadata is all that is kept and the path
                is outside of it.
            InvalidPathError: the path cannot be read.
        """
        check_readable(self.settings.memory, by)
        self._indexer.add_index(name, by)

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last state of an object that could be read, if the cached one cannot.

        Such an object is cached with a `problem`; this is its state before, marked as stale.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if what is cached is good, or gone, or was never good as far as is remembered.
        """
        return self._reflector.last_good(key)

    def attach_receiver(self, receiver: Receiver[V]) -> None:
        """Tell a receiver of what exists and of every change, in the step of the event itself.

        This is for controllers, which decide before anything is merged. What a receiver raises
        ends the informer, and the time it takes everybody waits: others add an event handler.

        Args:
            receiver: is told on the event loop; if the cache has synced, at once of what exists.

        Raises:
            LifecycleError: the informer is closed.
        """
        self._lifetime.refuse_if_closed()
        self._distribution.attach(receiver)

    def detach_receiver(self, receiver: Receiver[V]) -> None:
        """Tell a receiver nothing any more; one that was never attached is no error.

        A list that is being compared at this moment still tells it the rest of the differences.
        """
        self._distribution.detach(receiver)

    async def wait_until(
        self,
        resource_version: str | None,
        *,
        key: str | None = None,
        uid: str | None = None,
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until the cache itself, and so every handler's source, has reached a write.

        The lister shows own writes at once; this is for what goes by events, and for writes of
        others. It ends when the cache's position has reached the version, when the object under
        `key` has, or after a second when a list of that key in this informer's scope shows what
        the cache holds, so that a write that the selector keeps out does not time out. A write of
        this process needs no key, the informer remembers it; anything else is proven only by the
        position, which a quiet resource moves once a minute. A key of a namespace that the
        informer does not follow returns at once, and so does a write that changed nothing.

        Args:
            resource_version: what a write's response says; None for a deletion, which ends when
                the object with this `uid` is no longer cached under this `key`.
            key: `namespace/name`, or `name` if cluster-scoped.
            uid: which object of that name was deleted.
            timeout_seconds: how long to wait.

        Raises:
            StaleCacheError: the cache did not get there in time, or a new epoch of the server's
                history has begun, in which the write may not exist.
            LifecycleError: it was not started, or was closed.
            InternalError: something inside crashed.
            InvalidArgumentError: there is nothing to wait for, or the timeout is no duration.
            InvalidTypeError: the version, the key or the uid is no text.
            CacheMutatedError: the mutation detector is in `debug` mode, and found one.

        Cancellation:
            Safe.
        """
        self._sharing.check_nowait()
        wanted = Wanted.of(resource_version, key, uid)
        await self._freshness.wait_until(wanted, timeout_seconds=timeout_seconds)

    async def wait_for(
        self,
        key: str,
        predicate: Predicate[V],
        *,
        timeout_seconds: float = 30.0,
    ) -> KubeObject[V] | None:
        """Wait until an object is as wanted: `await pods.wait_for(key, lambda pod: pod is None)`.

        The predicate is asked at once, and then at each change of what the lister shows of the key:
        events of the cache, and own writes before their events come. It runs on the loop, in the
        step of the change, and must not block; what it raises comes out of here as it is. Before
        the first sync nobody is asked: that is waited for, too. A list that is taken over as a
        whole is one change, whatever happened before it.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            predicate: a plain function of the object, or of None where there is none; so a
                deletion can be waited for.
            timeout_seconds: how long to wait, the first sync included.

        Returns:
            The object that the predicate accepted; None if it accepted that there is none.

        Raises:
            WaitTimeoutError: it accepted nothing in time; says what is cached under the key.
            NotCachedError: the namespace is not followed.
            LifecycleError: it was not started, or was closed meanwhile.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is negative or no number.
            InvalidTypeError: the key is no text.
            InvalidHandlerError: the predicate cannot be called with one object, or is a coroutine
                function.
            CacheMutatedError: the mutation detector is in `debug` mode, and found one.

        Cancellation:
            Safe.
        """
        self._sharing.check_nowait()
        self._check_running()
        return await self._key_waits.wait(key, predicate, timeout_seconds=timeout_seconds)

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Tell whether `wait_until` would return at once.

        Raises:
            InvalidArgumentError: there is nothing to wait for.
        """
        return self._freshness.has_seen(Wanted.of(resource_version, key, uid))

    @property
    def last_audit(self) -> AuditReport | None:
        """What the newest comparison with the server has found; None before the first."""
        return self._auditor.last_report

    async def audit(self, *, timeout_seconds: float = 60.0) -> AuditReport:
        """Compare the cache with what the server had at the cache's own resource version.

        Only identities are listed, in pages, and nothing is held up by it. What differs is logged
        and repaired by a complete list, of which handlers hear as of every other. An audit waits
        until the watch runs; one that cannot be concluded says so in its report, and why: at once
        where the resource is absent or forbidden, or its versions cannot be compared.

        Args:
            timeout_seconds: how long it may take; longer ones are inconclusive.

        Raises:
            LifecycleError: it was not started, or was closed.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is no duration.

        Cancellation:
            Safe; the request is dropped, and nothing is repaired.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._check_running()
        return await self._auditor.audit(timeout_seconds=timeout_seconds)

    async def _begin(self, group: TaskGroup) -> None:
        self._freshness.open_nowait()
        self._audience.start_nowait(group)
        group.start_soon(self._sharing.run)
        await group.start(self._reflector.run)
        group.start_soon(self._auditor.run)

    async def _finish(self) -> None:
        await self._audience.aclose(self._grace_seconds)

    def _broken(self, error: BaseException) -> None:
        self._lifetime.break_nowait(error)

    def _synced(self) -> None:
        self.settled.set()

    def _check_running(self) -> None:
        if self.crash is not None:
            raise self.crash
        if not self.is_running:
            raise LifecycleError(f"the informer of {self.name} is not running: start it first")

    def _reflector_changed(self) -> None:
        self._freshness.check_epoch()
        self._auditor.changed_nowait()
        status = self._reflector.status()
        self._states.tell(status.state, status.reason, attempts=status.attempts)
        if self._reflector.state is ReflectorState.FAILED or self._reflector.fails_sync:
            self.settled.set()

    def _suspected(self, reason: str) -> None:
        """Take note that what is cached should be compared with the server."""
        self._auditor.suspect_nowait(reason)

    def _ended(self, error: InformerError | None) -> None:
        self.settled.set()
        self._freshness.close_nowait()
        self._key_waits.end_nowait(error)
        self._audience.end_streams_nowait(error)
        if error is not None and self.on_crash is not None:
            self.on_crash()
