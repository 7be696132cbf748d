"""The blocking twins of SharedInformer and Registration.

Handlers may block: each runs in its own thread. The Lister is the one of the asynchronous informer.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer._runtime.tasks import DEFAULT_GRACE_SECONDS, LogExceptions, name_of
from pyinformer.blocking._event_stream import BlockingEventStream
from pyinformer.blocking._handlers import threaded, threaded_handler
from pyinformer.blocking._recording import BlockingRecording
from pyinformer.blocking._sync_proxy import SyncProxy, direct, documented_as, on_loop, synchronous
from pyinformer.cache.audit import AuditReport, MutationDetector
from pyinformer.cache.informer import (
    DEFAULT_MAX_BYTES,
    EventFunction,
    InformerSettings,
    ObjectFunction,
    Registration,
    ResourceEventHandler,
    Scope,
    SharedInformer,
    UpdateFunction,
)
from pyinformer.cache.reflector import ReflectorState
from pyinformer.cache.store import Lister
from pyinformer.errors import InformerError
from pyinformer.objects import DiagnosticJournal, V, check_type

if TYPE_CHECKING:
    from pyinformer.cache.informer import Delivery


@final
class BlockingRegistration(SyncProxy[Registration[V]]):
    """A handler of an informer, to wait for or to remove; made by `add_event_handler`.

    Args:
        thread: runs its event loop.
        asynchronous: the registration on that loop.
    """

    @property
    def name(self) -> str:
        """The handler's name."""
        return self.asynchronous.name

    @property
    def has_synced(self) -> bool:
        """Whether the handler was called for every object that existed when it was added."""
        return self.asynchronous.has_synced

    wait_synced: Final = synchronous(Registration.wait_synced)
    """Wait until the handler was called for every object that existed when it was added."""

    remove: Final = synchronous(Registration.remove)
    """Stop calling the handler at once, and wait for the call in flight."""

    def __repr__(self) -> str:
        return f"<BlockingRegistration of {self.name}>"


@final
class BlockingInformer(SyncProxy[SharedInformer[V]]):
    """Follows one resource in one scope; made and shared by a factory: `factory.informer(...)`.

    Args:
        thread: runs its event loop.
        asynchronous: the informer on that loop.
    """

    @property
    def name(self) -> str:
        """What is followed, and in which cluster if that has a name: `eu: pods.v1 in shop`."""
        return self.asynchronous.name

    @property
    def scope(self) -> Scope:
        """What is followed, with the namespaces as they are now."""
        return self.asynchronous.scope

    @property
    def settings(self) -> InformerSettings:
        """How objects are kept."""
        return self.asynchronous.settings

    @property
    def journal(self) -> DiagnosticJournal:
        """What happened lately, in sentences; each of several namespaces has its own journal."""
        return self.asynchronous.journal

    @property
    def lister(self) -> Lister[V]:
        """Reads the cache, and own writes that the watch has not delivered yet; from any thread.

        Raises:
            LifecycleError: this is a forked child, whose copy of the cache is not updated.
        """
        self._thread.refuse_other_process()
        return self.asynchronous.lister

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once, in each namespace."""
        return self.asynchronous.has_synced

    @property
    def namespaces(self) -> AbstractSet[str] | None:
        """The namespaces that are followed now, as an immutable set; None for all of them."""
        return self.asynchronous.namespaces

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has neither been closed nor crashed."""
        return self.asynchronous.is_running

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it cannot be started again."""
        return self.asynchronous.is_closed

    @property
    def crash(self) -> InformerError | None:
        """The bug of pyinformer that ended it; None unless that happened."""
        return self.asynchronous.crash

    @property
    def state(self) -> ReflectorState:
        """What it does now; `status()` says why, and `on_state_change` reports changes."""
        return self.asynchronous.state

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        return self.asynchronous.staleness

    @property
    def observed_resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list."""
        return self.asynchronous.observed_resource_version

    @property
    def last_event_at(self) -> float | None:
        """When the last change arrived, on the event loop's clock; None if none did."""
        return self.asynchronous.last_event_at

    @property
    def last_bookmark_at(self) -> float | None:
        """When the last bookmark arrived, on the event loop's clock; None if none did."""
        return self.asynchronous.last_bookmark_at

    @property
    def last_audit(self) -> AuditReport | None:
        """What the newest comparison with the server has found; None before the first."""
        return self.asynchronous.last_audit

    @property
    def mutation_detector(self) -> MutationDetector:
        """Checks what the readers of this informer share."""
        return self.asynchronous.mutation_detector

    @property
    def abandoned_handlers(self) -> tuple[str, ...]:
        """The handlers that were cancelled, did not end in time, and still run."""
        return self.asynchronous.abandoned_handlers

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
    ) -> BlockingRegistration[V]:
        """Call a handler for everything that exists, and then for every change.

        Handlers can be added before the informer is started, while it runs, and while it syncs.
        Each handler runs in its own thread, one call at a time and in order. It may block, and make
        blocking calls. An asynchronous function runs on the event loop. Each handler has its own
        mailbox, so a slow or failing one does not affect the others.

        Args:
            handler: one function of an event, or an object with on_add, on_update and on_delete.
            on_add: called with an object that appeared.
            on_update: called with the old and the new object.
            on_delete: called with the last known state.
            name: its name in logs and status; None for the name of the function or class.
            mailbox_size: how many events are kept in order; further ones are merged per key.
            resync_period_seconds: how often on_update is called for every object; 0 for never.
            log_exceptions: what logs show of an error that the handler raises: `classes` hides its
                text, which may quote an object; `full` shows the text and the calls. One line per
                minute is logged for each kind of error.

        Raises:
            InvalidTypeError: the handler cannot be called.
            InvalidArgumentError: a number is negative.
            LifecycleError: the informer is closed.
        """
        given: Any = threaded_handler(handler)
        if name is None and handler is not None:
            name = name_of(handler)

        def add() -> BlockingRegistration[V]:
            registration = self.asynchronous.add_event_handler(
                given,
                on_add=threaded(on_add),
                on_update=threaded(on_update),
                on_delete=threaded(on_delete),
                name=name,
                mailbox_size=mailbox_size,
                resync_period_seconds=resync_period_seconds,
                log_exceptions=log_exceptions,
            )
            return BlockingRegistration(self._thread, registration)

        return self._thread.do(add)

    @documented_as(SharedInformer.remove_event_handler)
    def remove_event_handler(
        self,
        registration: BlockingRegistration[V],
        *,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None:
        """Stop calling a handler; the same as `registration.remove()`."""
        check_type("registration", registration, BlockingRegistration)
        original = registration.asynchronous
        self._thread.call(
            lambda: self.asynchronous.remove_event_handler(original, grace_seconds=grace_seconds)
        )

    def events(
        self,
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
    ) -> BlockingEventStream[V]:
        """Return the events as an iterator: `with pods.events() as events: for event in events`.

        `break`, Ctrl-C and `pyinformer.blocking.timeout` may end the loop.

        Args:
            initial: begin with an Added for every existing object.
            delivery: `every_event`, or `coalesced`, which merges the waiting events of each key.
            max_events: how many events may wait with `every_event`; with more, the consumer gets
                EventStreamOverflowError instead of a gap.

        Raises:
            InvalidArgumentError: max_events is less than 1, or the delivery is unknown.
            InvalidTypeError: max_events is not an integer, or initial is not a bool.
            LifecycleError: the informer is closed; entering the stream may raise it, too.
        """
        stream = self._thread.do(
            lambda: self.asynchronous.events(
                initial=initial, delivery=delivery, max_events=max_events
            )
        )
        return BlockingEventStream(self._thread, stream, is_coalesced=delivery == "coalesced")

    @documented_as(SharedInformer.record)
    def record(
        self,
        path: str | PathLike[str],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        redact: str | Iterable[str] = (),
    ) -> BlockingRecording:
        """Return a recording of what it receives: `with pods.record("incident.jsonl")`."""
        return BlockingRecording(
            self._thread, self.asynchronous.record(path, max_bytes=max_bytes, redact=redact)
        )

    add_index: Final = on_loop(SharedInformer.add_index)
    """Add an index to the cache, at any time; cached objects are indexed at once."""

    on_state_change: Final = on_loop(SharedInformer.on_state_change)
    """Call a function at each change of state, on the event loop; it must not block."""

    set_namespaces: Final = synchronous(SharedInformer.set_namespaces)
    """Follow exactly these namespaces from now on."""

    start: Final = synchronous(SharedInformer.start)
    """Begin to list and watch; a second call does nothing."""

    wait_for_cache_sync: Final = synchronous(SharedInformer.wait_for_cache_sync)
    """Wait until the cache has held everything at least once."""

    wait_until: Final = synchronous(SharedInformer.wait_until)
    """Wait until the cache itself, which feeds every handler, has reached a write."""

    wait_for: Final = synchronous(SharedInformer[V].wait_for)  # [V]: its result has the view
    """Wait until an object is as wanted: `pods.wait_for(key, lambda pod: pod is None)`."""

    audit: Final = synchronous(SharedInformer.audit)
    """Compare the cache with what the server had at the cache's own resource version."""

    explain_live: Final = synchronous(SharedInformer.explain_live)
    """Explain the same as `explain`, and what the server has of the key now."""

    explain: Final = direct(SharedInformer.explain)
    """Explain in sentences why the cache shows what it shows of a key."""

    status: Final = direct(SharedInformer.status)
    """Return a frozen record of its condition, without object content; from any thread."""

    age_seconds: Final = direct(SharedInformer.age_seconds)
    """Return how long ago the cache certainly held what the server had; None if never."""

    last_good: Final = on_loop(SharedInformer[V].last_good)
    """Return the last state of an object that could be read, if the cached one cannot."""

    has_seen: Final = on_loop(SharedInformer.has_seen)
    """Return whether `wait_until` would return at once."""

    @documented_as(SharedInformer.aclose)
    def close(self) -> None:
        """Stop the watch, then the handlers: each is cancelled once and awaited up to a grace."""
        self._thread.close_on_exit(self.asynchronous, self.asynchronous.aclose)

    def __repr__(self) -> str:
        return f"<BlockingInformer of {self.name}>"
