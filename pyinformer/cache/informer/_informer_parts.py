"""The parts of one informer, put together.

The core starts and ends them in order: the watches stop before the handlers, so that a handler is
never called for a change that comes after its end. Users hold a `SharedInformer`; factories,
controllers and sources reach its core through `core_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, final

from pyinformer.cache.informer._context import InformerContext
from pyinformer.cache.informer._explain import Explainer
from pyinformer.cache.informer._introspection import Introspection
from pyinformer.cache.informer._key_waits import KeyWaits
from pyinformer.cache.informer._lifecycle import InformerLifecycle
from pyinformer.cache.informer._metric_values import InformerFigures
from pyinformer.cache.informer._metrics import InformerMetrics
from pyinformer.cache.informer._mutation_guard import MutationGuard
from pyinformer.cache.informer._namespace_caches import NamespaceCaches
from pyinformer.cache.informer._namespace_selection import NamespaceSelection, labels_only
from pyinformer.cache.informer._own_writes import OwnWrites
from pyinformer.cache.informer._read_preconditions import CacheReadiness
from pyinformer.cache.informer._settings import InformerSettings, Scope
from pyinformer.cache.informer.delivery import Receiver, SharedProcessor
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.cache.store import Lister
from pyinformer.client.cluster import claim_loop
from pyinformer.objects import V
from pyinformer.telemetry.metrics import NO_METRICS
from pyinformer.telemetry.tracing import outside_reconcile

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from pyinformer.cache.audit import MutationDetector
    from pyinformer.client.cluster import Cluster
    from pyinformer.errors import InformerError
    from pyinformer.telemetry.metrics import Metrics

_Core = TypeVar("_Core", covariant=True)


class HasCore(Protocol[_Core]):
    """An informer, or its double in a test."""

    @property
    def _core(self) -> _Core: ...


def core_of(informer: HasCore[_Core]) -> _Core:
    """Return what factories, controllers and sources use of an informer."""
    return informer._core  # noqa: SLF001 - the one door to it


@final
class InformerCore(Generic[V]):
    """The parts of one informer. Constructing it starts nothing.

    Args:
        cluster: the server.
        scope: what is followed.
        settings: how it is kept.
        options: how the reflectors talk to the server.
        metrics: shows what it does while it runs.
        grace_seconds: how long closing waits for handlers.
        mutation_detector: checks what readers share; None for a detector of its own.
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
        name = scope.named_in(cluster)
        self.crash_observers: dict[Callable[[], None], None] = {}
        """Called when the informer has crashed; set by its factory and its controllers."""
        self.call_sites: list[str] = []
        """The places that a factory has handed the informer out to, each once."""
        self.on_caches_changed: Callable[[], None] | None = None
        """Called when the followed namespaces change; set while the informer is recorded."""
        self._grace_seconds = grace_seconds
        self.lifecycle: InformerLifecycle = InformerLifecycle(
            name, self, grace_seconds=grace_seconds
        )
        self.context: InformerContext[V] = InformerContext(
            cluster=cluster,
            settings=settings,
            options=options or ReflectorOptions(),
            metrics=InformerMetrics(metrics, cluster, scope),
            lifecycle=self.lifecycle,
        )
        selector = scope.namespace_selector
        self.namespaces: InformerCore[Any] | None = self._informer_of_namespaces(scope)
        """The informer of all Namespaces, if a selector chooses among them."""
        self.selection: NamespaceSelection | None = (
            None if selector is None else NamespaceSelection(selector)
        )
        self.caches: NamespaceCaches[V] = NamespaceCaches(
            self.context,
            scope,
            is_known_gone=None if self.selection is None else self.selection.is_gone,
        )
        self.processor: SharedProcessor[V] = SharedProcessor(
            name,
            self.caches,
            on_crash=self.lifecycle.break_nowait,
            check_loop=self.lifecycle.loop.check,
            turn=self.context.turn,
        )
        self.introspection: Introspection[V] = Introspection(
            self.context,
            self.caches,
            self.processor,
            selection=None if self.namespaces is None else self.namespaces.introspection,
        )
        self.mutation_guard: MutationGuard[V] = MutationGuard(
            name,
            self.caches,
            self.processor,
            is_decoded=settings.sharing == "decoded",
            detector=mutation_detector,
        )
        self.lister: Lister[V] = Lister(
            self.caches.cache,
            resource=str(scope.resource),
            readiness=CacheReadiness(self.caches, self.introspection, self.lifecycle),
            written=self.context.entries,
            decoded=self.mutation_guard.decoded,
        )
        self.key_waits: KeyWaits[V] = KeyWaits(self.caches, self.introspection, self.lister)
        self.own_writes: OwnWrites[V] = OwnWrites(
            scope,
            self.caches.overlay_of,
            settings=settings,
            recent=self.context.recent_writes,
            on_shown=self.key_waits.recheck_nowait,
        )
        if self.mutation_guard.decoded is not None:  # before the handlers: they read the newest
            self.caches.attach(self.mutation_guard.decoded)
        self.caches.report_to(self)

    def _informer_of_namespaces(self, scope: Scope) -> InformerCore[Any] | None:
        """Return the informer of all Namespaces; None if no selector chooses among them."""
        if scope.namespace_selector is None:
            return None
        audit_period_seconds = self.context.settings.audit_period_seconds
        return InformerCore(
            self.context.cluster,
            Scope.of("v1", "namespaces", None, None, None),
            InformerSettings(
                memory="metadata", transform=labels_only, audit_period_seconds=audit_period_seconds
            ),
            options=self.context.options,
            metrics=NO_METRICS,  # its state and its age are among those of this informer
            grace_seconds=self._grace_seconds,
        )

    @property
    def is_settled(self) -> bool:
        """Whether the cache has synced or never will; false again when there is more to sync."""
        return self.caches.is_settled

    def attach_receiver(self, receiver: Receiver[V]) -> None:
        """Feed a receiver what exists and every change, in the step of the event itself.

        An error that a receiver raises ends the informer, and every reader waits while it runs.

        Raises:
            LifecycleError: the informer is closed, or runs in another event loop.
        """
        self.lifecycle.check_usable()
        self.caches.attach(receiver)

    def detach_receiver(self, receiver: Receiver[V]) -> None:
        """Stop feeding a receiver; does nothing if it is not attached.

        A list whose differences are being announced at this moment still feeds it the rest.

        Raises:
            LifecycleError: the informer runs in another event loop.
        """
        self.lifecycle.loop.check(may_be_closed=True)
        self.caches.detach(receiver)

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function for each namespace that is announced or gone; see `NamespaceCaches`."""
        return self.caches.on_namespace_settled(callback)

    @property
    def is_chosen_by_labels(self) -> bool:
        """Whether a selector chooses the namespaces."""
        return self.caches.is_chosen_by_labels

    def is_gone(self, namespace: str) -> bool:
        """Return whether a namespace is known not to exist; see `NamespaceCaches`."""
        return self.caches.is_gone(namespace)

    def explainer(self, key: str) -> Explainer[V]:
        """Return the explainer of a key; see `SharedInformer.explain`."""
        cache = self.caches.of(key) if isinstance(key, str) else None
        return Explainer(
            self.context, self.caches.scope, cache, lister=self.lister, processor=self.processor
        )

    async def start(self) -> None:
        """Start everything; a second call does nothing.

        Raises:
            LifecycleError: the informer was closed, or was started in another event loop.

        Cancellation:
            What was started is stopped, and the informer is closed.
        """
        self.lifecycle.check_usable()
        claim_loop(self.context.cluster)
        with outside_reconcile():
            await self.lifecycle.start()

    def start_nowait(self, group: TaskGroup) -> None:
        """Start in a task of this group; the informer counts as started at once."""
        claim_loop(self.context.cluster)
        with outside_reconcile():
            self.lifecycle.start_nowait(group)

    async def aclose(self) -> None:
        """Stop the watches, then the handlers; see `SharedInformer.aclose`.

        Raises:
            InternalError: the informer had crashed.
            LifecycleError: it runs in another event loop; nothing was stopped.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self.lifecycle.loop.check(may_be_closed=True)
        self._release_waiters()
        self.key_waits.end_nowait()
        await self.processor.detach_current_task()
        await self.lifecycle.aclose()

    async def begin(self, group: TaskGroup) -> None:
        """Start the parts; called by the lifecycle.

        Cancellation:
            Ends what was started.
        """
        self.context.cluster.observe_writes(self.caches.scope.resource, self.own_writes)
        self.context.metrics.open(
            InformerFigures(self.introspection, self.caches, self.processor, self.mutation_guard)
        )
        self.processor.start_nowait(group, processing=self.context.metrics.processing)
        if self.mutation_guard.is_swept:
            group.start_soon(self.mutation_guard.run)
        await self.caches.begin(group)
        if self.namespaces is not None and self.selection is not None:
            self.selection.begin_nowait(self.caches)
            self.namespaces.crash_observers[self._namespaces_crashed] = None
            self.namespaces.attach_receiver(self.selection)
            self.namespaces.start_nowait(group)

    async def finish(self) -> None:
        """Stop the parts that outlive the task group; called by the lifecycle.

        Cancellation:
            Takes effect when they have ended, which the grace bounds.
        """
        if self.namespaces is not None and self.selection is not None:
            self.selection.end_nowait()
            await self.namespaces.aclose()
        await self.processor.aclose(self._grace_seconds)

    def ended(self, error: InformerError | None) -> None:
        """Release everything that waits; called by the lifecycle, maybe twice.

        Args:
            error: the crash, if that was the reason.
        """
        self._release_waiters()
        self.key_waits.end_nowait(error)
        self.caches.end_nowait()
        self.processor.end_streams_nowait(error)
        if error is None:
            self.context.metrics.close()  # a crash remains visible until it is closed
        else:
            for observer in tuple(self.crash_observers):
                observer()

    def _namespaces_crashed(self) -> None:
        crash = None if self.namespaces is None else self.namespaces.lifecycle.crash
        self.lifecycle.break_nowait(crash or RuntimeError("no reason is known"))

    def _release_waiters(self) -> None:
        """Stop observing writes and wake all waiters."""
        self.caches.close_nowait()
        self.context.cluster.forget_observer(self.caches.scope.resource, self.own_writes)

    def on_namespaces_changed(self) -> None:
        """Let readers see the namespaces that are followed now."""
        self.lifecycle.informer = self.caches.name
        self.lister.read_from_nowait(self.caches.cache)
        if self.on_caches_changed is not None:
            self.on_caches_changed()

    def on_sync_changed(self) -> None:
        """Check the waits for keys again: readers may see more."""
        self.key_waits.recheck_soon()

    def on_large_object(self) -> None:
        """Bound mailboxes by bytes, too."""
        self.processor.count_bytes_nowait()
