"""An informer: one resource followed, cached, indexed, and told to any number of handlers.

What enters are the user's handlers, indexes and wishes; what leaves is a lister that any thread may
read, and every change, to each handler by itself. This is the face: the stations behind it are put
together here, and each of them keeps its own promises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast, final, overload

import anyio

from pyinformer.apimachinery import (
    FieldSelector,
    InformerError,
    InvalidArgumentError,
    LabelSelector,
    LifecycleError,
    Transform,
    V,
    View,
    check_seconds,
)
from pyinformer.informer._audience import Audience
from pyinformer.informer._barrier import Wanted
from pyinformer.informer._distribution import Distribution, Receiver
from pyinformer.informer._event_stream import EventStream
from pyinformer.informer._freshness import Freshness
from pyinformer.informer._handlers import (
    EventFunction,
    Handler,
    ObjectFunction,
    ResourceEventHandler,
    UpdateFunction,
)
from pyinformer.informer._lifetime import Lifetime
from pyinformer.informer._queued_sink import sink_of
from pyinformer.informer._readiness import CacheReadiness
from pyinformer.informer._registration import Registration
from pyinformer.informer._scope import (
    InformerSettings,
    Memory,
    QueueKind,
    Scope,
    Selector,
)
from pyinformer.informer._status import InformerStatus
from pyinformer.informer._waiting import wait_for_cache_sync
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector import Reflector, ReflectorOptions, ReflectorState
from pyinformer.store import Indexer, IndexFunction, Lister
from pyinformer.tasks import DEFAULT_GRACE_SECONDS, close_behind

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.cluster import Cluster

VW = TypeVar("VW", bound=View)


@final
class SharedInformer(Generic[V]):
    """Follows one resource in one scope.

    A factory makes and shares informers; one by itself is used as a lifetime of its own:
    `async with SharedInformer(cluster, "v1", "pods") as pods`.

    Args:
        cluster: the server.
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name, as in its URL.
        namespaces: one namespace, or None for all of them.
        label_selector: as text or as a mapping; None for all objects.
        field_selector: as text or as a mapping; None for all objects.
        projection: the view to decode with each object.
        memory: what is kept of each object.
        transform: your change to each object before it is kept.
        queue: what stands between the wire and the cache.
        options: how the server is talked to.
        metrics: where occurrences are counted.
        grace_seconds: how long closing waits for handlers.

    Raises:
        InvalidArgumentError: an argument that cannot work.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidViewError: the projection could be mutated, or cannot be decoded.

    Source:
        client-go tools/cache/shared_informer.go.
    """

    @overload
    def __init__(
        self: SharedInformer[None],
        cluster: Cluster,
        api_version: str,
        plural: str,
        *,
        namespaces: str | Sequence[str] | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: None = None,
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        options: ReflectorOptions | None = None,
        metrics: Metrics = NO_METRICS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None: ...
    @overload
    def __init__(
        self: SharedInformer[VW],
        cluster: Cluster,
        api_version: str,
        plural: str,
        *,
        namespaces: str | Sequence[str] | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: type[VW],
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        options: ReflectorOptions | None = None,
        metrics: Metrics = NO_METRICS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None: ...
    def __init__(
        self,
        cluster: Cluster,
        api_version: str,
        plural: str,
        *,
        namespaces: str | Sequence[str] | None = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: type[View] | None = None,
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        options: ReflectorOptions | None = None,
        metrics: Metrics = NO_METRICS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None:
        check_seconds("grace_seconds", grace_seconds)
        self.scope: Scope = Scope.of(
            api_version, plural, namespaces, label_selector, field_selector
        )
        self.settings: InformerSettings = InformerSettings(
            projection=projection, memory=memory, transform=transform, queue=queue
        )
        view = cast("type[V] | None", projection)
        selective = self.scope.is_selective
        self.cluster: Cluster = cluster
        """The server that it follows, through which own writes are read at once."""
        self._grace_seconds = grace_seconds
        self._indexer: Indexer[V] = Indexer(view)
        self._freshness: Freshness[V] = Freshness(
            cluster,
            self.scope,
            self.settings,
            self._indexer,
            reflector=lambda: self._reflector,
            check_running=self._check_running,
        )
        self._distribution = Distribution(
            self._indexer,
            on_synced=self._synced,
            on_crash=self._broken,
            selective=selective,
            freshness=self._freshness,
        )
        self._audience: Audience[V] = Audience(
            str(self.scope), self._distribution, self._indexer.list, on_crash=self._broken
        )
        self._reflector: Reflector[V] = Reflector(
            cluster.list_watch(
                self.scope.resource,
                namespace=self.scope.namespace,
                label_selector=self.scope.label_selector,
                field_selector=self.scope.field_selector,
            ),
            sink_of(queue, self._distribution, selective=selective),
            projection=view,
            strip_managed_fields=memory == "strip_managed_fields",
            transform=transform,
            options=options,
            watch_list_memory=cluster.watch_list_memory,
            metrics=metrics,
            on_change=self._reflector_changed,
        )
        self.lister: Lister[V] = Lister(
            self._indexer,
            resource=str(self.scope.resource),
            readiness=CacheReadiness(self),
            overlay=self._freshness.overlay,
        )
        """Reads the cache, and own writes that it has not heard of yet; from any thread."""
        self.settled: anyio.Event = anyio.Event()
        """Is set when the cache has synced, or never will."""
        self.on_crash: Callable[[], None] | None = None
        """Is called when it has crashed; for the factory."""
        self._lifetime = Lifetime(
            str(self.scope),
            self._begin,
            self._finish,
            on_end=self._ended,
            grace_seconds=grace_seconds,
        )

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once."""
        return self._distribution.has_synced

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither closed nor broken since."""
        return self._lifetime.is_running

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it cannot be started again."""
        return self._lifetime.is_closed

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside, which would be a bug of ours; None unless that happened."""
        return self._lifetime.crash

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to the cache, at any time; what is cached is indexed at once.

        That is one step of the event loop: add indexes before the start where the cache is large.
        A hundred thousand objects take it a tenth of a second, a third if the path is in no view.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object.

        Raises:
            InvalidArgumentError: the name is taken.
            InvalidPathError: the path cannot be read.
        """
        self._indexer.add_index(name, by)

    def add_event_handler(
        self,
        handler: EventFunction[V] | ResourceEventHandler[V] | None = None,
        *,
        on_add: ObjectFunction[V] | None = None,
        on_update: UpdateFunction[V] | None = None,
        on_delete: ObjectFunction[V] | None = None,
        name: str | None = None,
        mailbox_size: int = 1024,
        resync_period_seconds: float = 0.0,
    ) -> Registration[V]:
        """Tell a handler of everything that exists, and then of every change.

        Handlers can be added before the informer is started, while it runs, and while it syncs.
        A plain function runs on the event loop and must not block: mark it by `in_thread` if it
        does. Each handler has a mailbox of its own; a slow or failing one harms nobody else.

        Args:
            handler: one function of an event, or an object with on_add, on_update and on_delete.
            on_add: called with an object that appeared.
            on_update: called with the old and the new object.
            on_delete: called with the last known state.
            name: names it in logs and status; its own name if None.
            mailbox_size: events kept in order; beyond, new ones are merged per key.
            resync_period_seconds: how often to be reminded of every object; 0 for never.

        Raises:
            InvalidHandlerError: it could not be called.
            InvalidArgumentError: a negative number.
            LifecycleError: the informer is closed.
        """
        self._lifetime.refuse_if_closed()
        check_seconds("resync_period_seconds", resync_period_seconds)
        if mailbox_size < 1:
            raise InvalidArgumentError("mailbox_size", f"{mailbox_size}; 1 is the least")
        checked = Handler.of(
            handler, on_add=on_add, on_update=on_update, on_delete=on_delete, name=name
        )
        return self._audience.add(
            checked, mailbox_size=mailbox_size, resync_period_seconds=resync_period_seconds
        )

    async def remove_event_handler(
        self, registration: Registration[V], *, grace_seconds: float = DEFAULT_GRACE_SECONDS
    ) -> None:
        """Tell a handler nothing any more; the same as `registration.remove()`.

        Raises:
            InvalidArgumentError: the registration is another informer's, or the grace is negative.

        Cancellation:
            Takes effect when the wait is over; the handler is removed in any case.
        """
        if not registration.is_of(self._audience):
            reason = f"that of {registration.name} is not one of {self.scope}"
            raise InvalidArgumentError("registration", reason)
        await registration.remove(grace_seconds=grace_seconds)

    def events(self, *, max_events: int = 1024) -> EventStream[V]:
        """Return the events as a stream: `async with pods.events() as events: async for ...`.

        It begins with an Added for everything that exists. A consumer that is `max_events` behind
        gets EventStreamOverflowError instead of a gap.

        Raises:
            InvalidArgumentError: max_events is less than 1.
            LifecycleError: the informer is closed; or at entering the stream.
        """
        self._lifetime.refuse_if_closed()
        return self._audience.stream(max_events)

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

    async def start(self) -> None:
        """Begin to list and watch; a second call does nothing.

        Raises:
            LifecycleError: the informer was closed; it cannot be started again.

        Cancellation:
            What was started is stopped, and the informer is closed.
        """
        await self._lifetime.start()

    def start_nowait(self, group: TaskGroup) -> None:
        """Begin in a task of this group; from now on it counts as started. For the factory."""
        self._lifetime.start_nowait(group)

    async def wait_for_cache_sync(self, *, timeout_seconds: float = 30.0) -> None:
        """Wait until the cache has held everything at least once.

        Raises:
            CacheSyncTimeoutError: it did not in time, or gave up; the error says why.
            LifecycleError: it was not started, or was closed.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is negative or no number.

        Cancellation:
            Safe; the informer goes on.
        """
        await wait_for_cache_sync(self, timeout_seconds=timeout_seconds)

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

        Cancellation:
            Safe.
        """
        wanted = Wanted.of(resource_version, key, uid)
        await self._freshness.wait_until(wanted, timeout_seconds=timeout_seconds)

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Tell whether `wait_until` would return at once.

        Raises:
            InvalidArgumentError: there is nothing to wait for.
        """
        return self._freshness.has_seen(Wanted.of(resource_version, key, uid))

    async def aclose(self) -> None:
        """Stop: the watch first, then the handlers, each cancelled once and awaited up to a grace.

        The cache stays readable as it was. A second call only waits.

        Raises:
            InternalError: something inside had crashed.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self.settled.set()
        self._freshness.close_nowait()
        await self.step_out()
        await self._lifetime.aclose()

    async def step_out(self) -> None:
        """Let go of the handler that this is called from: nobody may wait for its call.

        Whoever closes from inside of a handler does so first, in the handler's own task.

        Cancellation:
            It never waits.
        """
        await self._audience.step_out()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, say so, and stay until it ends: `await task_group.start(informer.run)`.

        Raises:
            InternalError: something inside crashed.

        Cancellation:
            The way to stop it: closes as aclose() does.
        """
        async with self:
            task_status.started()
            await self._lifetime.wait_ended()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await close_behind(self.aclose, exc)

    def status(self) -> InformerStatus:
        """Return how it is doing: a frozen record without object content; from any thread."""
        life = self._lifetime
        return InformerStatus(
            informer=str(self.scope),
            has_synced=self.has_synced,
            objects=len(self._indexer),
            position=self._reflector.position,
            running_seconds=life.running_seconds,
            reflector=self._reflector.status(),
            indexes=self._indexer.indexes(),
            handlers=self._audience.status(life.now()),
            own_writes=self._freshness.overlay.statistics(),
            crash=None if life.crash is None else str(life.crash),
        )

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error; from any thread."""
        status = self._reflector.status()
        return status.state.value, status.last_error

    @property
    def abandoned_handlers(self) -> tuple[str, ...]:
        """The handlers that were told to end, did not, and still run."""
        return self._audience.abandoned

    async def _begin(self, group: TaskGroup) -> None:
        self._freshness.open_nowait()
        self._audience.start_nowait(group)
        await group.start(self._reflector.run)

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
            raise LifecycleError(f"the informer of {self.scope} is not running: start it first")

    def _reflector_changed(self) -> None:
        self._freshness.check_epoch()
        if self._reflector.state is ReflectorState.FAILED:
            self.settled.set()

    def _ended(self, error: InformerError | None) -> None:
        self.settled.set()
        self._freshness.close_nowait()
        self._audience.end_streams_nowait(error)
        if error is not None and self.on_crash is not None:
            self.on_crash()

    def __repr__(self) -> str:
        return f"<SharedInformer of {self.scope}>"
