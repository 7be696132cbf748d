"""An informer as a source: every event becomes requests in the step in which it happens.

What enters are the informer's events and its initial list; what leaves are requests. Changes of a
key leave in their order: one that happens before its object of the initial list was looked at has
that looked at first. Functions of the user's run behind a fence; the list is worked off in slices.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, cast, final

import anyio

from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    InvalidArgumentError,
    KubeObject,
    LifecycleError,
    Updated,
    V,
    View,
    check_seconds,
)
from pyinformer.informer import Scope, core_of
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.sources._fence import SourceFence
from pyinformer.sources._left import LeftKeys
from pyinformer.sources._pacing import PacedRounds
from pyinformer.sources._predicates import PredicateFunction, check_plain, verdict
from pyinformer.sources._pump import pump
from pyinformer.sources._reasons import (
    is_reminder,
    reason_of_event,
    reason_of_initial,
    reason_of_resync,
)
from pyinformer.sources._request import Reason
from pyinformer.sources._source import SourceStatus
from pyinformer.tasks import LogExceptions
from pyinformer.workqueue import LOW_PRIORITY

if TYPE_CHECKING:
    from pyinformer.sources._request import Request
    from pyinformer.sources._source import Enqueue, SourceInformer

_PERIOD_MIN_SECONDS: Final = 0.001  # below, reminding would be all that the loop does

_State: TypeAlias = tuple[KubeObject[V] | None, KubeObject[V] | None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How a source of an informer's events behaves."""

    initial_priority: int = LOW_PRIORITY
    """Of requests made by the initial list: below real events, so that these need not wait."""
    resync_priority: int = LOW_PRIORITY
    """Of requests made by reminders."""
    resync_period_seconds: float = 0.0
    """How often to be reminded of every object, spread over that time; 0 for never, the default:
    reminders heal nothing that an informer could have missed."""
    include_unchanged: bool = False
    """Also take updates whose resource version is the old one, as reminders."""
    controller: str = ""
    """The name of the controller, for logs and metrics of what fails."""
    log_exceptions: LogExceptions = "classes"
    """What logs show of errors that a predicate or a mapping raises; `full` shows their texts."""

    def __post_init__(self) -> None:
        check_seconds("resync_period_seconds", self.resync_period_seconds)
        if 0 < self.resync_period_seconds < _PERIOD_MIN_SECONDS:
            reason = f"{self.resync_period_seconds!r} is too short; {_PERIOD_MIN_SECONDS} is the"
            raise InvalidArgumentError("resync_period_seconds", f"{reason} least, 0 is never")


class InformerSource(ABC, Generic[V]):
    """Turns the events of one informer into requests. Constructing it starts nothing.

    Args:
        informer: whose events.
        name: names the source in reasons, logs and status.
        cluster: the name of the informer's cluster; requests carry it.
        predicate: drops changes that do not matter, the initial list's included.
        options: priorities and reminders.
        metrics: where failures are counted.
        rng: spreads the first reminders of several sources and processes.

    Raises:
        InvalidTypeError: the predicate could not be called, or would have to be awaited.
    """

    def __init__(
        self,
        informer: SourceInformer[V],
        *,
        name: str,
        cluster: str = "",
        predicate: PredicateFunction[V] | None = None,
        options: SourceOptions | None = None,
        metrics: Metrics = NO_METRICS,
        rng: random.Random | None = None,
    ) -> None:
        if predicate is not None:
            check_plain(predicate, "predicate(old, new)", 2)
        self.informer: SourceInformer[V] = informer
        """The informer that feeds it."""
        self.name: str = name
        """Names it in reasons, logs and status."""
        self.cluster: str = cluster
        """The name of the informer's cluster."""
        self._options = options or SourceOptions()
        self._rng = rng or random.Random()
        self._predicate = predicate
        self._predicate_fence = SourceFence(
            name,
            "predicate",
            predicate,
            consequence="the change counts",
            metrics=metrics,
            controller=self._options.controller,
            log_exceptions=self._options.log_exceptions,
        )
        self._enqueue: Enqueue | None = None
        self._was_attached = False
        self._initial: list[KubeObject[V]] = []  # the last leaves first
        self._left: LeftKeys = LeftKeys(name)
        self._stop_asking: Callable[[], None] = _do_nothing
        self._looked_at: set[str] = set()  # while there is an initial list: the keys that are done
        self._list_complete = anyio.Event()
        self._synced = anyio.Event()
        self._events = self._filtered = self._unchanged = self._enqueued = self._resyncs = 0
        self._refused = 0

    @abstractmethod
    def _collect(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> Collection[Request]:
        """Return the requests of a change, or of what exists; never raise."""

    def _failures(self) -> tuple[SourceFence, ...]:
        return (self._predicate_fence,)

    @property
    def has_synced(self) -> bool:
        """Whether every request of the initial list was enqueued, not merely cached."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until every request of the initial list was enqueued, which `run` does.

        Cancellation:
            Safe.
        """
        await self._synced.wait()

    def attach(self, enqueue: Enqueue) -> None:
        """Begin to feed; on the running loop, once.

        Args:
            enqueue: where the requests go.

        Raises:
            LifecycleError: it is attached already, or was; or the informer is closed.
        """
        if self._was_attached:
            raise LifecycleError(f"the source {self.name} was attached before: make a new one")
        self._check_ready()
        self._was_attached = True
        self._enqueue = enqueue
        try:
            core_of(self.informer).attach_receiver(self)
        except LifecycleError:
            self._enqueue = None
            raise
        self._stop_asking = core_of(self.informer).on_namespace_settled(self._namespace_settled)

    def _check_ready(self) -> None:
        """Raise if there is something to be set before events may come."""

    def detach(self) -> None:
        """Feed nothing any more, from this moment. A second call does nothing."""
        if self._enqueue is not None:
            self._enqueue = None
            self._initial = []
            self._stop_asking()
            core_of(self.informer).detach_receiver(self)

    def put_nowait(self, event: Event[V]) -> None:
        """Take one event: what it means is enqueued when this returns."""
        if self._enqueue is None:  # in the middle of a list's differences
            return
        if self._initial:
            self._look_first(event)
        self._events += 1
        change = self._change_of(event)
        if change is None:
            self._unchanged += 1
        elif not self._passes(*change):
            self._filtered += 1
        elif self._has_left(event):
            self._filtered += 1
            self._left.keep(event.key, self._collect(*change))
        elif isinstance(event, Added) and event.is_in_initial_list:  # of a namespace that came late
            reason = reason_of_initial(self.name, event.object)
            self._hand_over(self._collect(*change), reason, self._options.initial_priority)
        else:
            reason = reason_of_event(self.name, event)
            low = reason.event == "resync"
            self._hand_over(
                self._collect(*change), reason, self._options.resync_priority if low else 0
            )

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what the cache holds already, to be worked off by `run`."""
        if self._enqueue is not None:
            self._initial = list(objects)[::-1]

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Take note that reads showed a state that no event tells of, and show it no more.

        Whoever acted on it is woken: an object that this process made and somebody else deleted
        while the watch was down is in no list, neither before nor after.
        """
        if self._enqueue is None or self._is_outside(was._key):
            return
        told = () if now is None else self._collect(None, now)
        unheard = [request for request in self._collect(was, None) if request not in told]
        version = was.metadata.resource_version
        reason = Reason(self.name, "superseded", key=was._key, resource_version=version)
        self._hand_over(unheard, reason, 0)

    def on_initial_list_complete(self) -> None:
        """Take note that all that existed has been put in."""
        self._list_complete.set()

    async def run(self) -> None:
        """Enqueue the initial list when it is there, then remind of everything if so configured.

        Cancellation:
            The way to stop it; between two objects.
        """
        await self._list_complete.wait()
        await pump(self._step_initial)
        self._synced.set()
        if self._options.resync_period_seconds > 0:
            await self._remind_for_ever(self._options.resync_period_seconds)
        await anyio.sleep_forever()

    def requests_for(self, event: Event[View | None]) -> list[Request]:
        """Return what an event would enqueue, without enqueuing it."""
        change = self._change_of(cast("Event[V]", event))
        if change is None or not self._passes(*change):
            return []
        return list(self._collect(*change))

    def status(self) -> SourceStatus:
        """Return how it is doing."""
        fences = self._failures()
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
            failures=sum(fence.failures for fence in fences),
            last_failure=next((f.last_failure for f in fences if f.last_failure), None),
        )

    def _change_of(self, event: Event[V]) -> _State[V] | None:
        """Return the old and the new state; None for an update that changes nothing."""
        if isinstance(event, Updated):
            same = is_reminder(event)
            return None if same and not self._options.include_unchanged else (event.old, event.new)
        if isinstance(event, Added):
            return None, event.object
        return event.last_known, None

    def _has_left(self, event: Event[V]) -> bool:
        """Tell whether an object left the cache with its namespace, and may exist on the server."""
        if not (isinstance(event, Deleted) and event.may_still_exist):
            return False
        if self._is_outside(event.key):
            return True
        self._left_selector(event.last_known)
        return False

    def _left_selector(self, obj: KubeObject[V]) -> None:
        """Record that an object does not match the informer's selector any more, or is gone."""

    def keep(self, request: Request) -> None:
        """Keep a request whose namespace is not followed, until it is followed again or gone."""
        self._left.keep(str(request.key), (request,))

    def _namespace_settled(self, namespace: str) -> None:
        """Request what was cached when the namespace was left, and does not exist any more."""
        for key, requests in self._left.take(namespace).items():
            if self.informer.lister.get(key, allow_unsynced=True) is None:
                self._hand_over(requests, Reason(self.name, "deleted", key=key), 0)

    def _is_outside(self, key: str) -> bool:
        """Tell whether the namespace of a key is followed no more."""
        scope = self.informer.scope
        return isinstance(scope, Scope) and not scope.covers(key.rpartition("/")[0])

    def _passes(self, old: KubeObject[V] | None, new: KubeObject[V] | None) -> bool:
        predicate = self._predicate
        if predicate is None:
            return True
        known = new or old
        key = "" if known is None else known._key
        return self._predicate_fence.call(key, verdict, predicate, old, new) is not False

    def _hand_over(self, requests: Collection[Request], reason: Reason, priority: int) -> None:
        if self._enqueue is None:  # a function of the user's detached it
            return
        for request in requests:
            self._enqueue(request, reason, priority=priority)
        self._enqueued += len(requests)

    def _look_first(self, event: Event[V]) -> None:
        """Work off a key's object of the initial list before its first event.

        The state that the event replaces is that object: no table by key has to be built.
        """
        key = event.key
        if key in self._looked_at:
            return
        self._looked_at.add(key)
        if not isinstance(event, Added):
            self._put_initial(event.old if isinstance(event, Updated) else event.last_known)

    def _step_initial(self, _now: float) -> bool:
        if not self._initial:
            self._looked_at = set()
            return False
        obj = self._initial.pop()
        if obj._key not in self._looked_at:
            self._looked_at.add(obj._key)
            self._put_initial(obj)
        return True

    def _put_initial(self, obj: KubeObject[V]) -> None:
        if self._passes(None, obj):
            requests = self._collect(None, obj)
            reason = reason_of_initial(self.name, obj)
            self._hand_over(requests, reason, self._options.initial_priority)
        else:
            self._filtered += 1

    async def _remind_for_ever(self, period_seconds: float) -> None:
        lister = self.informer.lister
        rounds = PacedRounds(
            period_seconds,
            first_at=anyio.current_time() + self._rng.uniform(0.0, period_seconds),
            keys=lambda: lister.keys(allow_unsynced=True),
        )

        def step(now: float) -> bool:
            key = rounds.take(now)
            if key is not None:
                self._remind(lister.get(key, allow_unsynced=True))
            return key is not None

        while True:
            await anyio.sleep_until(rounds.wake_at())
            await pump(step)

    def _remind(self, obj: KubeObject[V] | None) -> None:
        # To a predicate it looks as in the initial list: nothing has changed, and it is here.
        if obj is None or not self._passes(None, obj):
            return
        self._resyncs += 1
        reason = reason_of_resync(self.name, obj)
        self._hand_over(self._collect(obj, obj), reason, self._options.resync_priority)


def _do_nothing() -> None:
    """Stand for what has not begun."""
