"""The interface between a controller and its sources, and between a source and its informer.

A source decides in the step of the event, before events are merged, so it misses no transition. It
enqueues at once: requests wait only in the controller's queue.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, final

from pyinformer._runtime.tasks import LogExceptions
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import Event, V, check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinformer.cache.informer import Receiver
    from pyinformer.cache.store import IndexFunction, Lister
    from pyinformer.controller.sources._request import Reason, Request, RequestId

_PERIOD_MIN_SECONDS: Final = 0.001  # a shorter period would leave the loop no time for other tasks


class Enqueue(Protocol):
    """The function that a source calls with each request, on the event loop; it never raises."""

    @abstractmethod
    def __call__(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Put a request into the queue, with the reason for it."""
        ...


class SourceCore(Protocol[V]):
    """What a source needs of an informer's core."""

    def attach_receiver(self, receiver: Receiver[V]) -> None:
        """Pass existing objects and every event to a receiver."""
        ...

    def detach_receiver(self, receiver: Receiver[V]) -> None:
        """Pass no further events to a receiver."""
        ...

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function with each namespace that is complete in the cache, or gone."""
        ...

    @property
    def is_chosen_by_labels(self) -> bool:
        """Whether a selector chooses its namespaces, each of which joins when it has synced."""
        ...

    def is_gone(self, namespace: str) -> bool:
        """Return whether a namespace is known not to exist."""
        ...


class SourceInformer(Protocol[V]):
    """What a source needs of an informer; every SharedInformer has it."""

    @property
    @abstractmethod
    def scope(self) -> object:
        """What it follows; its text names the source."""
        ...

    @property
    @abstractmethod
    def lister(self) -> Lister[V]:
        """Reads its cache."""
        ...

    @property
    @abstractmethod
    def _core(self) -> SourceCore[V]: ...

    @abstractmethod
    def add_index(self, name: str, by: IndexFunction) -> None:
        """Add an index to its cache."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How a source behaves.

    Raises:
        InvalidArgumentError: the period is invalid.
    """

    resync_period_seconds: float = 0.0
    """How often every object is requested without an event, spread over that time; 0, the default,
    for never: a resync repairs nothing that an informer could have missed."""
    cluster: str = ""
    """The name of the cluster that requests carry; empty if there is only one."""
    controller: str = ""
    """The name of the controller, for the logs of failures."""
    log_exceptions: LogExceptions = "classes"
    """What logs show of errors of the user's functions; `full` shows their texts."""
    rng: random.Random = field(default_factory=random.Random)
    """Spreads the first resyncs of several sources and processes."""

    def __post_init__(self) -> None:
        check_seconds("resync_period_seconds", self.resync_period_seconds)
        if self.resync_period_seconds:
            check_period("resync_period_seconds", self.resync_period_seconds)


def check_period(argument: str, period_seconds: float) -> None:
    """Refuse a period that is too short.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    check_seconds(argument, period_seconds)
    if period_seconds < _PERIOD_MIN_SECONDS:
        reason = f"must be at least {_PERIOD_MIN_SECONDS}, got {period_seconds!r}"
        raise InvalidArgumentError(argument, reason)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """The state of one source; holds no object content."""

    name: str
    has_synced: bool
    """Whether every request of the initial list was enqueued."""
    waiting: int = 0
    """Objects of the initial list that `run` has not handled yet."""
    events: int
    """Events that arrived; the beats of a timer."""
    filtered: int = 0
    """Events, and objects of the initial list, that the predicate dropped."""
    unchanged: int = 0
    """Updates that were dropped because the resource version was unchanged."""
    enqueued: int
    """Requests that were enqueued, including those that the queue merged."""
    resyncs: int = 0
    """Objects that were requested by a resync."""
    failures: int
    """Calls of the user's functions that raised or returned an invalid value."""
    refused: int = 0
    """Owner references with an invalid name, which make no request."""
    last_failure: str | None
    """The function, the type of its last error and where it was raised; None without a failure."""


class Source(Protocol):
    """Makes requests for a controller."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The source's name in reasons, logs and status."""
        ...

    @property
    @abstractmethod
    def informer(self) -> SourceInformer[object] | None:
        """The informer whose events it reads; None for a timer."""
        ...

    @property
    @abstractmethod
    def has_synced(self) -> bool:
        """Whether every request of the initial list was enqueued; cached is not enough."""
        ...

    @abstractmethod
    async def wait_synced(self) -> None:
        """Wait until `run` has enqueued every request of the initial list.

        Cancellation:
            Safe.
        """
        ...

    @abstractmethod
    def attach(self, enqueue: Enqueue) -> None:
        """Begin to enqueue requests; on the running loop, once.

        Raises:
            LifecycleError: it was attached before.
        """
        ...

    @abstractmethod
    async def run(self) -> None:
        """Enqueue requests that no event causes: the initial list, resyncs, timers.

        Cancellation:
            The way to stop it.
        """
        ...

    @abstractmethod
    def detach(self) -> None:
        """Enqueue no further requests. A second call does nothing."""
        ...

    @abstractmethod
    def requests_for(self, event: Event[object]) -> list[Request]:
        """Return the requests that an event would make, without enqueuing them."""
        ...

    @abstractmethod
    def replay(self, wanted: Callable[[RequestId], bool]) -> Iterator[None]:
        """Enqueue again what was requested for what exists, if it is wanted; a step for each.

        Replicas that share work call it for the requests that they take over.

        Args:
            wanted: returns whether a request, by its key and cluster, is enqueued.
        """
        ...

    @abstractmethod
    def status(self) -> SourceStatus:
        """Return the source's state."""
        ...
