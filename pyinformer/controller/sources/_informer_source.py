"""Sources that read the events of an informer, each in the step in which it happens.

The changes of a key make requests in their order: before the first event of a key, its object of
the initial list is handled. The user's functions run behind a guard, and work on whole lists yields
to other tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, cast, final

import anyio

from pyinformer._runtime.tasks import check_plain, loop_time, spread
from pyinformer.cache.informer import Scope, core_of
from pyinformer.controller.sources._guarded_call import GuardedCall
from pyinformer.controller.sources._periodic_schedule import PacedRounds
from pyinformer.controller.sources._predicates import PredicateFunction, verdict
from pyinformer.controller.sources._request import Reason, ReasonEvent, request_for
from pyinformer.controller.sources._source import SourceOptions, SourceStatus
from pyinformer.controller.sources._stranded_finalizers import StrandedFinalizers
from pyinformer.controller.sources._unwatched_namespaces import LeftKeys
from pyinformer.errors import InvalidTypeError, LifecycleError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, V, check_type
from pyinformer.workqueue import LOW_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyinformer.controller.sources._request import Request, RequestId
    from pyinformer.controller.sources._source import Enqueue, SourceInformer

_MAY_WAIT: Final = frozenset({"initial", "resync"})  # real events come first

_Change: TypeAlias = tuple[KubeObject[V] | None, KubeObject[V] | None, ReasonEvent]
"""The old state, the new state, and what happened."""


def check_source_informer(informer: object) -> None:
    """Refuse what a source cannot read.

    Raises:
        InvalidTypeError: it is not an informer.
    """
    if not hasattr(informer, "scope"):
        reason = f"must be a SharedInformer, got {type(informer).__name__}"
        raise InvalidTypeError("informer", reason)


class InformerSource(ABC, Generic[V]):
    """Turns the events of one informer into requests. Constructing it starts nothing.

    Args:
        informer: the informer whose events it reads.
        name: the source's name in reasons, logs and status.
        predicate: drops changes that do not matter, also objects of the initial list.
        options: priorities, resyncs and logs.

    Raises:
        InvalidTypeError: the predicate cannot be called, or is asynchronous.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        name: str,
        predicate: PredicateFunction[V] | None,
        options: SourceOptions | None,
    ) -> None:
        if predicate is not None:
            check_plain(predicate, "predicate(old, new)", 2)
        self.informer: SourceInformer[V] = informer
        """The informer whose events it reads."""
        self.name: str = name
        """The source's name in reasons, logs and status."""
        if options is not None:
            check_type("options", options, SourceOptions)
        self._options = options or SourceOptions()
        self.cluster: str = self._options.cluster
        """The name of the informer's cluster."""
        self._predicate = predicate
        self._predicate_call = GuardedCall(
            name,
            "predicate",
            predicate,
            consequence="the change counts as one that matters",
            options=self._options,
        )
        self._enqueue: Enqueue | None = None
        self._was_attached = False
        self._initial: list[KubeObject[V]] = []  # the next is the last
        self._initial_done: set[str] = set()  # keys handled while there is an initial list
        self._left: LeftKeys = LeftKeys(name)
        self._stop_observing: Callable[[], None] | None = None
        self._list_complete = anyio.Event()
        self._synced = anyio.Event()
        self._events = self._filtered = self._unchanged = self._enqueued = self._resyncs = 0
        self._refused = 0

    @abstractmethod
    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        """Return the requests of a change, or of what exists; never raise."""

    def _calls(self) -> tuple[GuardedCall, ...]:
        return (self._predicate_call,)

    @property
    def has_synced(self) -> bool:
        """Whether every request of the initial list was enqueued; cached is not enough."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until `run` has enqueued every request of the initial list.

        Cancellation:
            Safe.
        """
        await self._synced.wait()

    def attach(self, enqueue: Enqueue) -> None:
        """Begin to enqueue requests; on the running loop, once.

        Args:
            enqueue: called with each request.

        Raises:
            LifecycleError: it was attached before, or the informer is closed.
        """
        if self._was_attached:
            raise LifecycleError(f"the source {self.name} was attached before: make a new one")
        self._check_ready()
        self._was_attached = True
        self._enqueue = enqueue
        core = core_of(self.informer)
        try:
            core.attach_receiver(self)
        except LifecycleError:
            self._enqueue = None
            raise
        self._stop_observing = core.on_namespace_settled(self._namespace_settled)
        if core.is_chosen_by_labels:
            self._list_complete.set()  # namespaces that have not synced join later, as new ones do

    def _check_ready(self) -> None:
        """Raise if a setting is missing that is needed before the first event."""

    def detach(self) -> None:
        """Enqueue no further requests. A second call does nothing."""
        if self._enqueue is not None:
            self._enqueue = None
            self._initial = []
            if self._stop_observing is not None:
                self._stop_observing()
            core_of(self.informer).detach_receiver(self)

    def put_nowait(self, event: Event[V]) -> None:
        """Enqueue the requests of one event before this returns."""
        if self._enqueue is None:  # detached in the middle of a list's differences
            return
        if self._initial:
            self._handle_initial_first(event)
        self._events += 1
        old, new, what = _change_of(event)
        if what == "resync":
            self._unchanged += 1
        elif not self._passes(old, new) or (
            isinstance(event, Deleted) and event.may_still_exist and self._defer(event)
        ):
            self._filtered += 1
        else:
            self._hand_over(self._collect(old, new), self._reason(what, new or old))

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what the cache holds already, to be handled by `run`."""
        if self._enqueue is not None:
            self._initial = list(objects)[::-1]

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Request the owners and mappings of a state that readers saw and that no event shows.

        A reconcile may have acted on it. An object that this process created, and another client
        deleted while the watch was broken, is in no list, neither before nor after.
        """
        if self._enqueue is None or self._is_outside(was._key):
            return
        known = () if now is None else self._collect(None, now)
        missed = [request for request in self._collect(was, None) if request not in known]
        self._hand_over(missed, self._reason("superseded", was))

    def on_initial_list_complete(self) -> None:
        """Record that the initial list is complete."""
        self._list_complete.set()

    async def run(self) -> None:
        """Enqueue the initial list once it is complete, then resyncs if they are configured.

        Cancellation:
            The way to stop it; between two objects.
        """
        await self._list_complete.wait()
        await spread(self._initial_steps())
        self._initial_done = set()
        self._synced.set()
        if self._options.resync_period_seconds:
            await self._resync(self._options.resync_period_seconds)
        await anyio.sleep_forever()

    def requests_for(self, event: Event[object]) -> list[Request]:
        """Return the requests that an event would make, without enqueuing them."""
        old, new, what = _change_of(cast("Event[V]", event))
        if what == "resync":
            return []
        return list(self._collect(old, new)) if self._passes(old, new) else []

    def replay(self, wanted: Callable[[RequestId], bool]) -> Iterator[None]:
        """Enqueue again what was requested for what exists, if it is wanted; a step for each."""
        lister = self.informer.lister
        for key in lister.keys(allow_unsynced=True):
            obj = lister.get(key, allow_unsynced=True)
            if obj is not None and self._passes(None, obj):
                requests = [one for one in self._collect(None, obj) if wanted(one._id)]
                self._hand_over(requests, self._reason("initial", obj))
            yield

    def status(self) -> SourceStatus:
        """Return the source's state."""
        calls = self._calls()
        return SourceStatus(
            name=self.name,
            has_synced=self.has_synced,
            waiting=len(self._initial),
            events=self._events,
            filtered=self._filtered,
            unchanged=self._unchanged,
            enqueued=self._enqueued,
            resyncs=self._resyncs,
            refused=self._refused,
            failures=sum(call.failures for call in calls),
            last_failure=next((call.last_failure for call in calls if call.last_failure), None),
        )

    def keep(self, request: Request) -> None:
        """Keep a request of a namespace that is not followed, until that is followed or gone."""
        self._left.keep(str(request.key), (request,))

    def _reason(self, what: ReasonEvent, obj: KubeObject[V] | None) -> Reason:
        if obj is None:
            return Reason(self.name, what)
        return Reason(self.name, what, obj._key, obj.metadata.resource_version)

    def _defer(self, event: Deleted[V]) -> bool:
        """Return whether an object left the cache only with its namespace: defer its requests."""
        if self._is_outside(event.key):
            self._left.keep(event.key, self._collect(event.last_known, None))
            return True
        self._left_selector(event.last_known)
        return False

    def _left_selector(self, obj: KubeObject[V]) -> None:
        """Record that an object does not match the informer's selector any more, or is gone."""

    def _namespace_settled(self, namespace: str) -> None:
        """Enqueue the deferred requests of a namespace for objects that are no longer cached."""
        for key, requests in self._left.take(namespace).items():
            if self.informer.lister.get(key, allow_unsynced=True) is None:
                self._hand_over(requests, Reason(self.name, "deleted", key=key))

    def _is_outside(self, key: str) -> bool:
        """Return whether the namespace of a key is not followed any more."""
        scope = self.informer.scope
        return isinstance(scope, Scope) and not scope.covers(key.rpartition("/")[0])

    def _passes(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> bool:
        predicate = self._predicate
        if predicate is None:
            return True
        known = new or old
        key = "" if known is None else known._key
        return self._predicate_call.call(key, verdict, predicate, old, new) is not False

    def _hand_over(self, requests: Collection[Request], reason: Reason) -> None:
        if self._enqueue is None:  # detached by one of the user's functions
            return
        priority = LOW_PRIORITY if reason.event in _MAY_WAIT else 0
        for request in requests:
            self._enqueue(request, reason, priority=priority)
        self._enqueued += len(requests)

    def _handle_initial_first(self, event: Event[V]) -> None:
        """Handle a key's object of the initial list before its first event.

        The state that the event replaces is that object, so no table by key is needed.
        """
        if event.key in self._initial_done:
            return
        self._initial_done.add(event.key)
        if not isinstance(event, Added):
            self._enqueue_existing(event.old if isinstance(event, Updated) else event.last_known)

    def _initial_steps(self) -> Iterator[None]:
        """Handle the initial list, an object at each step; events may shorten the list."""
        while self._initial:
            obj = self._initial.pop()
            if obj._key not in self._initial_done:
                self._initial_done.add(obj._key)
                self._enqueue_existing(obj)
            yield

    def _enqueue_existing(self, obj: KubeObject[V]) -> None:
        if self._passes(None, obj):
            self._hand_over(self._collect(None, obj), self._reason("initial", obj))
        else:
            self._filtered += 1

    async def _resync(self, period_seconds: float) -> None:
        lister = self.informer.lister
        rounds = PacedRounds(
            period_seconds,
            first_at=loop_time() + self._options.rng.uniform(0.0, period_seconds),
            keys=lambda: lister.keys(allow_unsynced=True),
        )

        def steps() -> Iterator[None]:
            while (key := rounds.take(loop_time())) is not None:
                self._resync_one(lister.get(key, allow_unsynced=True))
                yield

        while True:
            await anyio.sleep_until(rounds.wake_at())
            await spread(steps())

    def _resync_one(self, obj: KubeObject[V] | None) -> None:
        # The predicate gets what it gets for the initial list: the object exists, without a change.
        if obj is not None and self._passes(None, obj):
            self._resyncs += 1
            self._hand_over(self._collect(obj, obj), self._reason("resync", obj))


@final
class PrimarySource(InformerSource[V], Generic[V]):
    """Requests each object that changes.

    Args:
        informer: the informer whose events it reads.
        name: the source's name in reasons, logs and status; by default what it follows.
        own_finalizers: returns the finalizers that this process puts on objects.
        predicate: drops changes that do not matter.
        options: priorities, resyncs and logs.

    Raises:
        InvalidTypeError: the predicate cannot be called, or is asynchronous.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        name: str = "",
        own_finalizers: Callable[[], frozenset[str]] = frozenset,
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
    ) -> None:
        check_source_informer(informer)
        name = name or f"primary {informer.scope}"
        super().__init__(informer, name=name, predicate=predicate, options=options)
        self._stranded = StrandedFinalizers(name, own_finalizers)

    def _left_selector(self, obj: KubeObject[V]) -> None:
        self._stranded.left(obj)

    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        known = new or old
        return () if known is None else (request_for((known._key, self.cluster)),)


def reason_of_event(source: str, event: Event[object]) -> Reason:
    """Return the reason of the requests that an event makes.

    Args:
        source: the source's name.
        event: what happened.
    """
    old, new, what = _change_of(event)
    known = new or old
    version = "" if known is None else known.metadata.resource_version
    return Reason(source, what, event.key, version)


def _change_of(event: Event[V]) -> _Change[V]:
    if isinstance(event, Updated):
        return event.old, event.new, "resync" if _is_unchanged(event) else "updated"
    if isinstance(event, Added):  # in an initial list: of a namespace that was followed just now
        return None, event.object, "initial" if event.is_in_initial_list else "added"
    return event.last_known, None, "deleted"


def _is_unchanged(event: Updated[V]) -> bool:
    """Return whether both states are the same; after a restore a version may name two states."""
    if event.may_go_back or event.is_resync:
        return event.is_resync
    before, after = event.old.metadata, event.new.metadata
    version = after.resource_version  # empty: it cannot be compared
    return bool(version) and version == before.resource_version and after.uid == before.uid
