"""`SharedInformer`: one resource followed, cached, indexed and handed to any number of handlers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Generic, Unpack, final

import anyio

from pyinformer._runtime.tasks import (
    DEFAULT_GRACE_SECONDS,
    LogExceptions,
    Startable,
    check_log_exceptions,
    loop_time,
)
from pyinformer.cache.audit import MutationDetector
from pyinformer.cache.informer._auditor import audit_all, joint_report
from pyinformer.cache.informer._barrier import WriteTarget
from pyinformer.cache.informer._cache_sync import wait_for_cache_sync
from pyinformer.cache.informer._informer_parts import InformerCore
from pyinformer.cache.informer._settings import (
    DEFAULT_MAX_BYTES,
    InformerOptions,
    InformerSettings,
    Scope,
    check_readable,
    check_safeguards,
    checked_namespaces,
    requested,
)
from pyinformer.cache.informer.delivery import (
    Delivery,
    EventFunction,
    EventStream,
    Handler,
    ObjectFunction,
    Registration,
    ResourceEventHandler,
    UpdateFunction,
)
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client.cluster import check_cluster
from pyinformer.errors import (
    InformerConflictError,
    InvalidArgumentError,
    LifecycleError,
    StaleCacheError,
)
from pyinformer.objects import (
    V,
    check_integer,
    check_seconds,
    check_text,
    check_type,
)
from pyinformer.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from os import PathLike

    from anyio.abc import TaskStatus

    from pyinformer.cache.audit import AuditReport
    from pyinformer.cache.informer._explain import Explanation
    from pyinformer.cache.informer._key_waits import Predicate
    from pyinformer.cache.informer._namespace_cache import NamespaceCache
    from pyinformer.cache.informer._recording import Recording
    from pyinformer.cache.informer._state_changes import StateChange
    from pyinformer.cache.informer._status import InformerStatus
    from pyinformer.cache.reflector import ReflectorState, StaleObject
    from pyinformer.cache.store import IndexFunction, Lister
    from pyinformer.client.cluster import Cluster
    from pyinformer.errors import InformerError
    from pyinformer.objects import DiagnosticJournal, KubeObject


_ARGUMENTS: Final = ("mutation_detector", "options", "metrics", "grace_seconds")


def informer_of(core: InformerCore[V]) -> SharedInformer[V]:
    """Return the informer with these parts, whose arguments were checked before."""
    informer: SharedInformer[V] = SharedInformer.__new__(SharedInformer)
    informer._put_together(core)  # noqa: SLF001 - of the same module
    return informer


@final
class SharedInformer(Startable, Generic[V]):
    """Follows one resource in one scope.

    A factory makes informers and shares them. One of your own is used as a context manager:
    `async with SharedInformer(cluster, "v1", "pods") as pods`.

    Args:
        cluster: the server.
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name, as in its URL.
        model: what the `view` of each object is: see `SharedInformerFactory.informer`.
        mutation_detector: checks what readers share; None for a detector of its own.
        options: how the reflector talks to the server.
        metrics: where its figures go while it runs; None for the cluster's metrics.
        grace_seconds: how long closing waits for handlers.
        **how: what it follows, and how it keeps that: see InformerOptions.

    Raises:
        InvalidArgumentError: an argument that cannot work.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidTypeError: objects cannot be decoded to the model, readers could change a view, or
            an option does not exist.

    Source:
        client-go tools/cache/shared_informer.go.
    """

    def __init__(
        self,
        cluster: Cluster,
        api_version: str,
        plural: str,
        *,
        model: type[V] | None = None,
        mutation_detector: MutationDetector | None = None,
        options: ReflectorOptions | None = None,
        metrics: Metrics | None = None,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        **how: Unpack[InformerOptions],
    ) -> None:
        check_seconds("grace_seconds", grace_seconds)
        check_safeguards(options, mutation_detector)
        check_cluster(cluster)
        scope, settings = requested((api_version, plural), how, model=model, beside=_ARGUMENTS)
        self._put_together(
            InformerCore(
                cluster,
                scope,
                settings,
                options=options,
                metrics=cluster.metrics if metrics is None else metrics,
                grace_seconds=grace_seconds,
                mutation_detector=mutation_detector,
            )
        )

    def _put_together(self, core: InformerCore[V]) -> None:
        self._core: InformerCore[V] = core
        self.lister: Lister[V] = core.lister
        """Reads the cache, and own writes that it does not hold yet; usable from any thread."""

    @property
    def name(self) -> str:
        """What is followed, and in which cluster if that has a name: `eu: pods.v1 in shop`."""
        return self._core.caches.name

    @property
    def scope(self) -> Scope:
        """What is followed, with the namespaces as they are now."""
        return self._core.caches.scope

    @property
    def settings(self) -> InformerSettings:
        """How objects are kept."""
        return self._core.context.settings

    @property
    def cluster(self) -> Cluster:
        """The server; reads show writes through this cluster at once."""
        return self._core.context.cluster

    @property
    def journal(self) -> DiagnosticJournal:
        """What happened lately, in sentences; each of several namespaces has its own journal."""
        return self._core.caches.journal

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once, in each namespace."""
        return self._core.caches.has_synced

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has neither been closed nor crashed."""
        return self._core.lifecycle.is_running

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it cannot be started again."""
        return self._core.lifecycle.is_closed

    @property
    def crash(self) -> InformerError | None:
        """The bug of pyinformer that ended it; None unless that happened."""
        return self._core.lifecycle.crash

    @property
    def state(self) -> ReflectorState:
        """What it does now; `status()` says why, and `on_state_change` reports changes.

        With several namespaces it is the state of the namespace with the worst state, or of the
        selection of namespaces if that is worse.
        """
        return self._core.introspection.state

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        return self._core.introspection.staleness

    @property
    def observed_resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list.

        Of several namespaces it is that of the one that is furthest behind.
        """
        return self._core.introspection.observed_resource_version

    @property
    def last_event_at(self) -> float | None:
        """When the last change arrived, on the event loop's clock; None if none did."""
        return self._core.introspection.last_event_at

    @property
    def last_bookmark_at(self) -> float | None:
        """When the last bookmark arrived, on the event loop's clock; None if none did."""
        return self._core.introspection.last_bookmark_at

    def age_seconds(self) -> float | None:
        """Return how long ago the cache certainly held what the server had; None if never.

        It counts from a request that was sent: the first one of the last load, or a later list of
        one object whose version the cache has reached. A change or a bookmark does not renew it.
        A quiet resource that is asked for its age is up to two minutes old, or four if etcd does
        not notify of progress; the first call after minutes may show more. Of several namespaces it
        is the largest age. Callable from any thread.
        """
        return self._core.introspection.age_seconds()

    @property
    def mutation_detector(self) -> MutationDetector:
        """Checks what the readers of this informer share."""
        return self._core.mutation_guard.detector

    @property
    def abandoned_handlers(self) -> tuple[str, ...]:
        """The handlers that were cancelled, did not end in time, and still run."""
        return self._core.processor.abandoned

    def status(self, *, with_journal: bool = False) -> InformerStatus:
        """Return a frozen record of its condition, without object content; from any thread.

        Args:
            with_journal: add what happened lately.
        """
        return self._core.introspection.status(with_journal=with_journal)

    def on_state_change(self, callback: Callable[[StateChange], object]) -> Callable[[], None]:
        """Call a function at each change of state, on the event loop; it must not block.

        Each namespace has a state of its own, and the change names it.

        Returns:
            A function that ends it.

        Raises:
            InvalidTypeError: it cannot be called.
        """
        return self._core.context.state_callbacks.add(callback)

    def explain(self, key: str) -> Explanation:
        """Explain in sentences why the cache shows what it shows of a key.

        The sentences cover the scope, the selectors, the state, how the object came and which
        handler was called for it. The server is not asked, and no object's content is shown.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is not a string.
            InvalidArgumentError: it is not a key.
        """
        return self._core.explainer(key).explain(key)

    async def explain_live(self, key: str) -> Explanation:
        """Explain the same as `explain`, and what the server has of the key now.

        This sends a list of one object, and a GET if it is not in this informer's scope. What the
        server refuses is in the explanation.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is not a string.
            InvalidArgumentError: it is not a key.
            LifecycleError: it is called from another event loop than the informer's.

        Cancellation:
            Safe.
        """
        self._core.lifecycle.loop.check()
        return await self._core.explainer(key).explain_live(key)

    @property
    def namespaces(self) -> AbstractSet[str] | None:
        """The namespaces that are followed now, as an immutable set; None for all of them."""
        return self._core.caches.namespaces

    async def set_namespaces(self, namespaces: Iterable[str]) -> None:
        """Follow exactly these namespaces from now on.

        Namespaces that were followed before are not disturbed. A new one is loaded, and its objects
        are reported as additions; until then reads of everything raise, reads of other namespaces
        do not, and `wait_for_cache_sync` waits for it. One that is not named any more is stopped;
        its objects leave the cache, and handlers get deletions with `may_still_exist`. This returns
        when that is done; caches of new namespaces may still be empty. If several callers set the
        namespaces at once, the last one decides.

        Args:
            namespaces: all that are wanted; may be empty.

        Raises:
            InvalidArgumentError: one of them is not a namespace; or the informer follows all
                namespaces, or those that a selector chooses.
            InformerConflictError: a factory has handed the informer out in several places.
            LifecycleError: the informer is closed, or runs in another event loop.
            InternalError: the informer crashed.

        Cancellation:
            Ends only the wait: the change is still made.
        """
        core, caches = self._core, self._core.caches
        core.lifecycle.check_usable()
        wanted = checked_namespaces(namespaces, may_be_none=True)
        if wanted is None or caches.is_everywhere or core.selection is not None:
            raise InvalidArgumentError("namespaces", self._why_fixed(wanted))
        if len(core.call_sites) > 1:
            raise InformerConflictError(
                informer=str(self.scope),
                option="namespaces",
                first_call_site=core.call_sites[0],
                second_call_site=core.call_sites[1],
            )
        caches.set_wanted(wanted)
        await caches.wait_applied()
        if caches.is_outdated:
            core.lifecycle.check_running()

    def _why_fixed(self, wanted: frozenset[str] | None) -> str:
        if wanted is None:
            return "None would follow all of them: ask for another informer"
        if self._core.selection is not None:
            chosen = self.scope.namespace_selector
            return f"{self.name} follows those that {chosen} chooses: change their labels"
        return f"{self.name} follows all of them by a single watch: ask for another informer"

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to the cache, at any time; cached objects are indexed at once.

        This is one step of the event loop, so add the indexes of a large cache before the start. A
        hundred thousand objects take a tenth of a second, or a third if the view lacks the path.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of an object.

        Raises:
            InvalidArgumentError: the name is taken; or the path cannot be parsed, or is outside of
                the metadata where only that is kept.
            LifecycleError: the informer runs in another event loop.
        """
        self._core.lifecycle.loop.check()
        check_readable(self.settings.memory, by)
        self._core.caches.add_index(name, by)

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last state of an object that could be read, if the cached one cannot.

        Such an object is cached with a `problem`; this is its state before, marked as stale.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if the cached object is readable or gone, or no readable state is remembered.

        Raises:
            InvalidTypeError: the key is not a string.
        """
        check_text("key", key)
        cache = self._core.caches.of(key)
        return None if cache is None else cache.reflector.last_good(key)

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
        """Call a handler for everything that exists, and then for every change.

        Handlers can be added before the informer is started, while it runs, and while it syncs. A
        plain function runs on the event loop and must not block; mark it by `in_thread` if it does.
        Each handler has a mailbox of its own; a slow or failing one does not affect others.

        Args:
            handler: one function of an event, or an object with on_add, on_update and on_delete.
            on_add: called with an object that appeared.
            on_update: called with the old and the new object.
            on_delete: called with the last known state.
            name: the name in logs and status; None takes the handler's own.
            mailbox_size: events kept in order; beyond that, new ones are merged per key.
            resync_period_seconds: how often to be called for every object; 0 for never.
            log_exceptions: what logs show of an error that the handler raises: `classes`, which
                hides its text because that may quote an object, or `full`, with the text and the
                traceback. One line per minute is logged for each kind of error.

        Raises:
            InvalidTypeError: the handler cannot be called.
            InvalidArgumentError: a number is out of range.
            LifecycleError: the informer is closed, or was started in another event loop.
        """
        self._core.lifecycle.check_usable()
        check_seconds("resync_period_seconds", resync_period_seconds)
        check_integer("mailbox_size", mailbox_size)
        check_log_exceptions(log_exceptions)
        checked = Handler.of(
            handler, on_add=on_add, on_update=on_update, on_delete=on_delete, name=name
        )
        return self._core.processor.add(
            self._core.mutation_guard.checked(checked),
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
        )

    async def remove_event_handler(
        self, registration: Registration[V], *, grace_seconds: float = DEFAULT_GRACE_SECONDS
    ) -> None:
        """Stop calling a handler; the same as `registration.remove()`.

        Raises:
            InvalidArgumentError: the registration is another informer's, or the grace is not a
                duration.
            InvalidTypeError: it is not a registration.
            LifecycleError: the informer runs in another event loop; nothing was removed.

        Cancellation:
            Takes effect when the wait is over; the handler is removed in any case.
        """
        check_type("registration", registration, Registration)
        if not registration.is_of(self._core.processor):
            reason = f"that of {registration.name} is not one of {self.name}"
            raise InvalidArgumentError("registration", reason)
        await registration.remove(grace_seconds=grace_seconds)

    def events(
        self, *, initial: bool = True, delivery: Delivery = "every_event", max_events: int = 1024
    ) -> EventStream[V]:
        """Return the events as a stream: `async with pods.events() as events: async for ...`.

        It begins with an Added for every object that exists. No event is dropped silently: a
        consumer that falls behind gets an error, or has asked for merged events.

        Args:
            initial: False for only what happens after the stream is entered, or after the first
                sync if that comes later; a namespace that is followed later is left out likewise.
            delivery: `every_event` in order; a consumer that is `max_events` behind gets
                EventStreamOverflowError instead of a gap. `coalesced` merges what waits for a key:
                additions and updates become the latest state, an object that came and went
                disappears, and an object that was replaced by another of its name is a deletion and
                an addition. At most these two events wait for each key that is cached, or whose
                deletion the consumer has not taken.
            max_events: how many events may wait, the initial list not counted; without effect on
                `coalesced`.

        Raises:
            InvalidArgumentError: max_events is less than 1, or the delivery is unknown.
            InvalidTypeError: max_events is not an integer, or initial is not a bool.
            LifecycleError: the informer is closed; raised when entering the stream, too.
        """
        self._core.lifecycle.refuse_if_closed()
        return EventStream(
            self._core.processor,
            initial=initial,
            delivery=delivery,
            max_events=max_events,
            check=self._core.mutation_guard.check_nowait,
        )

    async def wait_until(
        self,
        resource_version: str | None,
        *,
        key: str | None = None,
        uid: str | None = None,
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until the cache itself, which feeds every handler, has reached a write.

        The lister shows own writes at once; this is for handlers, and for writes of other
        processes. The wait ends when the cache's position has reached the version, when the object
        under `key` has, or after a second when a list of that key in this informer's scope shows
        what the cache holds, so that a write that the selector excludes does not time out. Where
        versions of two objects do not compare, only that object and such a list count. A write of
        this process needs no key; any other write without a key is proven only by the position,
        which moves once a minute on a quiet resource. A key of a namespace that is not followed
        returns at once, and so does a write that changed nothing.

        Args:
            resource_version: the version in a write's response; None for a deletion, which ends
                when the object with this `uid` is no longer cached under this `key`.
            key: `namespace/name`, or `name` if cluster-scoped.
            uid: which object of that name was deleted, or written: without it, versions of two
                objects of one name are compared.
            timeout_seconds: how long to wait.

        Raises:
            StaleCacheError: the cache did not get there in time, or a new epoch of the server's
                history has begun, in which the write may not exist.
            LifecycleError: it was not started, or was closed.
            InternalError: the informer crashed.
            InvalidArgumentError: there is nothing to wait for, or the timeout is not a duration.
            InvalidTypeError: the version, the key or the uid is not a string.
            CacheMutatedError: the mutation detector is in mode `debug`, and found a mutation.

        Cancellation:
            Safe.
        """
        self._core.mutation_guard.check_nowait()
        target = WriteTarget.of(resource_version, key, uid)
        check_seconds("timeout_seconds", timeout_seconds)
        self._core.lifecycle.check_running()
        until = loop_time() + timeout_seconds
        caches = self._core.caches
        if not caches.is_known:
            await self._wait_known(target, timeout_seconds)
        concerned = self._concerned(target)
        for cache in concerned:
            left = max(0.0, until - loop_time())
            try:
                await cache.freshness.wait_until(target, timeout_seconds=left)
            except LifecycleError:
                # One of several namespaces was dropped: the write may be in any other.
                if len(concerned) == 1 or cache in caches.all or not self.is_running:
                    raise

    async def _wait_known(self, target: WriteTarget, timeout_seconds: float) -> None:
        """Wait until it is known whether the namespace of a write is followed."""
        with anyio.move_on_after(timeout_seconds):
            await self._core.caches.known.wait()
        self._core.lifecycle.check_running()
        if not self._core.caches.is_known:
            state, last_error = self._core.introspection.reflector_state()
            raise StaleCacheError(
                informer=self.name,
                wanted=str(target),
                position="",
                waited_seconds=timeout_seconds,
                state=state,
                reason=last_error or "",
            )

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Return whether `wait_until` would return at once.

        Raises:
            InvalidArgumentError: there is nothing to wait for.
        """
        target = WriteTarget.of(resource_version, key, uid)
        concerned = self._concerned(target)
        return self._core.caches.is_known and all(
            one.freshness.has_seen(target) for one in concerned
        )

    def _concerned(self, target: WriteTarget) -> tuple[NamespaceCache[V], ...]:
        """Return the caches that a write may change: one if its key is known, else all."""
        written = self._core.context.recent_writes.at(target.version)
        key = target.key or (None if written is None else written.key)
        if key is None:
            return self._core.caches.all
        cache = self._core.caches.of(key)
        return () if cache is None else (cache,)

    async def wait_for(
        self, key: str, predicate: Predicate[V], *, timeout_seconds: float = 30.0
    ) -> KubeObject[V] | None:
        """Wait until an object is as wanted: `await pods.wait_for(key, lambda pod: pod is None)`.

        The predicate is called at once, and then at each change of what the lister shows of the
        key: events of the cache, and own writes before their events come. It runs on the event
        loop, in the step of the change, and must not block; what it raises is raised here. It is
        not called before the first sync, which is waited for, too. A list that replaces the cache
        is one change, whatever happened before it.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            predicate: a plain function of the object, or of None where there is none, so a deletion
                can be waited for.
            timeout_seconds: how long to wait, the first sync included.

        Returns:
            The object that the predicate accepted; None if it accepted that there is none.

        Raises:
            WaitTimeoutError: it accepted nothing in time; says what is cached under the key.
            CacheSyncTimeoutError: the first sync cannot happen without a change on the server,
                which ends the wait at once; it says why.
            NotCachedError: the namespace is not followed.
            LifecycleError: it was not started, or was closed meanwhile.
            InternalError: the informer crashed.
            InvalidArgumentError: the timeout is not a duration.
            InvalidTypeError: the key is not a string, or the predicate is not a plain function of
                one object.
            CacheMutatedError: the mutation detector is in mode `debug`, and found a mutation.

        Cancellation:
            Safe.
        """
        self._core.mutation_guard.check_nowait()
        self._core.lifecycle.check_running()
        return await self._core.key_waits.wait(key, predicate, timeout_seconds=timeout_seconds)

    @property
    def last_audit(self) -> AuditReport | None:
        """What the newest comparison with the server has found; None before the first."""
        reports = [cache.auditor.last_report for cache in self._core.caches.all]
        return joint_report(self.name, [one for one in reports if one is not None])

    async def audit(self, *, timeout_seconds: float = 60.0) -> AuditReport:
        """Compare the cache with what the server had at the cache's own resource version.

        Only identities are listed, in pages, and nothing waits for it. Differences are logged and
        repaired by a complete list, which handlers see like any other. An audit waits until the
        watch runs; one without a verdict says why in its report, at once where the resource is
        absent or forbidden, or its versions do not compare.

        Args:
            timeout_seconds: how long it may take; a longer one has no verdict.

        Raises:
            LifecycleError: it was not started, or is closed, also meanwhile.
            InternalError: the informer crashed.
            InvalidArgumentError: the timeout is not a duration.

        Cancellation:
            Safe; the request is dropped, and nothing is repaired.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._core.lifecycle.check_running()
        caches, unknown = self._core.caches, ""
        if not caches.is_known:
            state, last_error = self._core.introspection.reflector_state()
            unknown = f"its namespaces are not known: {state}, {last_error or 'no error'}"
        members = [(one.auditor, one.ended) for one in caches.all]
        report = await audit_all(
            self.name, members, timeout_seconds=timeout_seconds, unknown=unknown
        )
        self._core.lifecycle.check_running()
        return report

    def record(
        self,
        path: str | PathLike[str],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        redact: str | Iterable[str] = (),
    ) -> Recording:
        """Return a recording of what it receives: `async with pods.record("incident.jsonl")`.

        `pyinformer.testing.replay` gives it to an informer again, with the same cache and the same
        calls of handlers. It may begin at any time: that of a running informer begins with a
        snapshot of the cache. Values of Secrets and annotations with a copy of what was applied are
        hidden; everything else of the objects is in the file, which only its owner can read.

        Args:
            path: a file that does not exist yet. One that gets half of max_bytes is renamed, to
                `incident.1.jsonl`, and replaces the one before; each can be replayed by itself.
            max_bytes: how much both files may have together; at least 1 MiB, and more than four
                times the content of the cache.
            redact: further kinds, such as `ConfigMap`, of which only metadata is kept; texts in
                other fields are replaced by others of their size.

        Raises:
            InvalidArgumentError: max_bytes is too small, or a kind is not a name.
            InvalidTypeError: the path, max_bytes or `redact` is of another type.
        """
        from pyinformer.cache.informer._recording import Recording  # noqa: PLC0415 - few programs record

        return Recording(self._core, path, max_bytes=max_bytes, redact=redact)

    async def start(self) -> None:
        """Begin to list and watch; a second call does nothing.

        Raises:
            LifecycleError: the informer was closed and cannot be started again; or it was started,
                or its cluster opened, in another event loop.

        Cancellation:
            What was started is stopped, and the informer is closed.
        """
        await self._core.start()

    async def wait_for_cache_sync(
        self, *, timeout_seconds: float = 30.0, fail_fast: bool = False
    ) -> None:
        """Wait until the cache has held everything at least once.

        Args:
            timeout_seconds: how long to wait at most.
            fail_fast: end the wait as soon as the server refuses for missing rights (403). By
                default it continues: rights are often granted a moment after the start.

        Raises:
            CacheSyncTimeoutError: it did not in time, gave up or was refused; the error says why.
            LifecycleError: it was not started, was closed, or runs in another event loop.
            InternalError: the informer crashed.
            InvalidArgumentError: the timeout is not a duration, or `fail_fast` not a bool.
            CacheMutatedError: the mutation detector is in mode `debug`, and found a mutation.

        Cancellation:
            Safe; the informer continues.
        """
        self._core.lifecycle.loop.check()
        self._core.mutation_guard.check_nowait()
        await wait_for_cache_sync(self, timeout_seconds=timeout_seconds, fail_fast=fail_fast)

    async def aclose(self) -> None:
        """Stop the watch, then the handlers: each is cancelled once and awaited up to a grace.

        The cache stays readable as it was. A second call only waits.

        Raises:
            InternalError: the informer had crashed.
            LifecycleError: it runs in another event loop; nothing was stopped.

        Cancellation:
            Takes effect when everything has ended, which the grace bounds.
        """
        await self._core.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start, report that, and run until it ends: `await task_group.start(informer.run)`.

        Raises:
            InternalError: the informer crashed.

        Cancellation:
            Stops it as aclose() does.
        """
        async with self:
            task_status.started()
            await self._core.lifecycle.wait_ended()

    def __repr__(self) -> str:
        return f"<SharedInformer of {self.name}>"
