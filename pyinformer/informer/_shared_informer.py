"""An informer: one resource followed, cached, indexed, and told to any number of handlers.

What enters are the user's handlers, indexes and wishes; what leaves is a lister that any thread may
read, and every change, to each handler by itself. This is the face, its handlers and its lifetime;
the stations behind it are put together in `Following`, which is what it answers from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar, final, overload

import anyio

from pyinformer.apimachinery import (
    FieldSelector,
    InvalidArgumentError,
    LabelSelector,
    Transform,
    V,
    View,
    check_seconds,
)
from pyinformer.audit import MutationDetector
from pyinformer.cluster import claim_loop
from pyinformer.informer._cache_sync import wait_for_cache_sync
from pyinformer.informer._event_stream import EventStream
from pyinformer.informer._following import Following
from pyinformer.informer._handlers import (
    EventFunction,
    Handler,
    ObjectFunction,
    ResourceEventHandler,
    UpdateFunction,
)
from pyinformer.informer._namespace_selection import NamespaceSelection, labels_only
from pyinformer.informer._registration import Registration
from pyinformer.informer._settings import (
    InformerSettings,
    Memory,
    QueueKind,
    Scope,
    Selector,
    SharingKind,
    check_safeguards,
)
from pyinformer.informer._stream_buffers import Delivery
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector import AbsencePolicy, ReflectorOptions
from pyinformer.tasks import (
    DEFAULT_GRACE_SECONDS,
    LogExceptions,
    Startable,
    check_log_exceptions,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.cluster import Cluster

VW = TypeVar("VW", bound=View)


@final
class SharedInformer(Startable, Following[V]):
    """Follows one resource in one scope.

    A factory makes and shares informers; one by itself is used as a lifetime of its own:
    `async with SharedInformer(cluster, "v1", "pods") as pods`.

    Args:
        cluster: the server.
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name, as in its URL.
        namespaces: one namespace, several, or None for all of them.
        namespace_selector: chooses the namespaces by their labels, instead.
        label_selector: as text or as a mapping; None for all objects.
        field_selector: as text or as a mapping; None for all objects.
        projection: the view to decode with each object.
        memory: what is kept of each object: see `SharedInformerFactory.informer`.
        transform: your change to each object before it is kept.
        queue: what stands between the wire and the cache.
        sharing: `decoded` lets `lister.decoded` hand one dict to all readers; it costs memory.
        absent: what it means that the resource is not served: `wait` for it; `require` fails the
            wait for the first sync at once; `optional` is as good as empty.
        audit_period_seconds: the mean time between audits that nobody asks for; 0 for none.
        mutation_detector: watches over what is shared; one of its own if None.
        options: how the server is talked to.
        metrics: where occurrences are counted.
        grace_seconds: how long closing waits for handlers.

    Raises:
        InvalidArgumentError: an argument that cannot work.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidTypeError: the projection could be mutated, or cannot be decoded.

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
        namespaces: str | Iterable[str] | None = None,
        namespace_selector: Selector | LabelSelector = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: None = None,
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        sharing: SharingKind = "private",
        absent: AbsencePolicy = "wait",
        audit_period_seconds: float = 0.0,
        mutation_detector: MutationDetector | None = None,
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
        namespaces: str | Iterable[str] | None = None,
        namespace_selector: Selector | LabelSelector = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: type[VW],
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        sharing: SharingKind = "private",
        absent: AbsencePolicy = "wait",
        audit_period_seconds: float = 0.0,
        mutation_detector: MutationDetector | None = None,
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
        namespaces: str | Iterable[str] | None = None,
        namespace_selector: Selector | LabelSelector = None,
        label_selector: Selector | LabelSelector = None,
        field_selector: Selector | FieldSelector = None,
        projection: type[View] | None = None,
        memory: Memory = "strip_managed_fields",
        transform: Transform | None = None,
        queue: QueueKind = "direct",
        sharing: SharingKind = "private",
        absent: AbsencePolicy = "wait",
        audit_period_seconds: float = 0.0,
        mutation_detector: MutationDetector | None = None,
        options: ReflectorOptions | None = None,
        metrics: Metrics = NO_METRICS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None:
        check_seconds("grace_seconds", grace_seconds)
        check_safeguards(options, mutation_detector)
        scope = Scope.of(
            api_version,
            plural,
            namespaces,
            label_selector,
            field_selector,
            namespace_selector=namespace_selector,
        )
        selection: NamespaceSelection | None = None
        if scope.namespace_selector is not None:
            chosen = SharedInformer(
                cluster,
                "v1",
                "namespaces",
                memory="metadata",
                transform=labels_only,
                audit_period_seconds=audit_period_seconds,
                options=options,
                metrics=metrics,
                grace_seconds=grace_seconds,
            )
            selection = NamespaceSelection(chosen, scope.namespace_selector)
        super().__init__(
            cluster,
            scope,
            InformerSettings(
                projection=projection,
                memory=memory,
                transform=transform,
                queue=queue,
                sharing=sharing,
                absent=absent,
                audit_period_seconds=audit_period_seconds,
            ),
            mutation_detector=mutation_detector,
            options=options,
            metrics=metrics,
            grace_seconds=grace_seconds,
            selection=selection,
        )

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
        log_exceptions: LogExceptions = "classes",
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
            log_exceptions: what logs show of an error that the handler raises: `classes`, which
                hides its text because that may quote an object, or `full`, with the text and the
                calls. One line per minute is logged for each kind of error.

        Raises:
            InvalidTypeError: it could not be called.
            InvalidArgumentError: a negative number.
            LifecycleError: the informer is closed, or was started in another event loop.
        """
        self._lifetime.check_usable()
        check_seconds("resync_period_seconds", resync_period_seconds)
        if mailbox_size < 1:
            raise InvalidArgumentError("mailbox_size", f"{mailbox_size}; 1 is the least")
        check_log_exceptions(log_exceptions)
        checked = Handler.of(
            handler, on_add=on_add, on_update=on_update, on_delete=on_delete, name=name
        )
        return self._audience.add(
            self._sharing.checked(checked),
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
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
            reason = f"that of {registration.name} is not one of {self.name}"
            raise InvalidArgumentError("registration", reason)
        await registration.remove(grace_seconds=grace_seconds)

    def events(
        self,
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
    ) -> EventStream[V]:
        """Return the events as a stream: `async with pods.events() as events: async for ...`.

        It begins with an Added for everything that exists. Nothing is ever left out in silence: a
        consumer that falls behind gets an error, or has asked for less to hear.

        Args:
            initial: False for only what happens from the moment the stream is entered, or from the
                first sync if that comes later: nothing of the initial list then, nor of that of a
                namespace that is followed later.
            delivery: `every_event` in order; a consumer that is `max_events` behind gets
                EventStreamOverflowError instead of a gap. `coalesced` merges what waits of one key:
                additions and updates into the latest state, an object that came and went unseen
                into nothing; an object that another one of its name has replaced is a deletion
                and an addition. At most these two events wait for each key that is cached, or
                that the consumer has heard of and whose deletion it has not.
            max_events: how many events may wait, the initial list not counted; without effect on
                `coalesced`.

        Raises:
            InvalidArgumentError: max_events is less than 1, or there is no such delivery.
            InvalidTypeError: max_events is no whole number, or initial no bool.
            LifecycleError: the informer is closed; or at entering the stream.
        """
        self._lifetime.refuse_if_closed()
        return self._audience.stream(
            initial=initial,
            delivery=delivery,
            max_events=max_events,
            check=self._sharing.check_nowait,
        )

    async def start(self) -> None:
        """Begin to list and watch; a second call does nothing.

        Raises:
            LifecycleError: the informer was closed; it cannot be started again. Or it was started,
                or its cluster opened, in another event loop.

        Cancellation:
            What was started is stopped, and the informer is closed.
        """
        self._lifetime.check_usable()
        claim_loop(self.cluster)
        await self._lifetime.start()

    def start_nowait(self, group: TaskGroup) -> None:
        """Begin in a task of this group; from now on it counts as started. For the factory."""
        claim_loop(self.cluster)
        self._lifetime.start_nowait(group)

    async def wait_for_cache_sync(self, *, timeout_seconds: float = 30.0) -> None:
        """Wait until the cache has held everything at least once.

        Raises:
            CacheSyncTimeoutError: it did not in time, or gave up; the error says why.
            LifecycleError: it was not started, was closed, or runs in another event loop.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is negative or no number.
            CacheMutatedError: the mutation detector is in `debug` mode, and found one.

        Cancellation:
            Safe; the informer goes on.
        """
        self._lifetime.loop.check()
        self._sharing.check_nowait()
        await wait_for_cache_sync(self, timeout_seconds=timeout_seconds)

    async def aclose(self) -> None:
        """Stop: the watch first, then the handlers, each cancelled once and awaited up to a grace.

        The cache stays readable as it was. A second call only waits.

        Raises:
            InternalError: something inside had crashed.
            LifecycleError: it runs in another event loop; nothing was stopped.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        self._lifetime.loop.check(may_be_closed=True)
        self._let_go_nowait()
        self._key_waits.end_nowait()
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

    @property
    def abandoned_handlers(self) -> tuple[str, ...]:
        """The handlers that were told to end, did not, and still run."""
        return self._audience.abandoned

    def __repr__(self) -> str:
        return f"<SharedInformer of {self.name}>"
