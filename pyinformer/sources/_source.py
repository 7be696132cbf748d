"""What feeds a controller: the protocol of a source, and what a source asks of an informer.

What enters are events of informers and the passing of time; what leaves are requests, each with
the reason for it. A source decides in the step of the event, before anything is merged, so no
transition is missed; and it calls back at once, so nothing waits anywhere but in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

from pyinformer.apimachinery import Event, V, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.informer import Receiver
    from pyinformer.sources._request import Reason, Request
    from pyinformer.store import IndexFunction, Lister


class Enqueue(Protocol):
    """Where a source's requests go. It is called on the event loop and never raises."""

    def __call__(self, request: Request, reason: Reason, *, priority: int) -> None:
        """Take one request, and why it was made."""
        ...


class SourceCore(Protocol[V]):
    """What a source asks of the core of an informer."""

    def attach_receiver(self, receiver: Receiver[V]) -> None:
        """Feed a receiver what exists, and every change."""
        ...

    def detach_receiver(self, receiver: Receiver[V]) -> None:
        """Stop feeding a receiver."""
        ...

    def on_namespace_settled(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call a function for each namespace that was announced or is gone."""
        ...


class SourceInformer(Protocol[V]):
    """What a source asks of an informer; every SharedInformer has it."""

    @property
    def scope(self) -> object:
        """What it follows; its text names the source."""
        ...

    @property
    def lister(self) -> Lister[V]:
        """Reads its cache."""
        ...

    @property
    def _core(self) -> SourceCore[V]: ...

    def add_index(self, name: str, by: IndexFunction) -> None:
        """Add an index to its cache."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How one source is doing; holds no object content."""

    name: str
    has_synced: bool
    """Every request of the initial list was enqueued."""
    waiting: int
    """Objects of the initial list that `run` has not come to yet."""
    events: int
    """Events of real changes that arrived."""
    filtered: int
    """Events, and objects of the initial list, that the predicate dropped."""
    unchanged: int
    """Updates that were dropped because the resource version was the old one."""
    enqueued: int
    """Requests that were handed to the queue, whatever they were merged with there."""
    resyncs: int
    """Objects that were reminded of, because the controller asked for it."""
    failures: int
    """Calls of a predicate, a mapping or a timer's function that raised or returned nonsense."""
    refused: int = 0
    """Owner references whose name no object can have: they make no request."""
    last_failure: str | None
    """The function, the type of its last error and where it was raised; None if none was."""


class Source(Protocol):
    """Something that makes requests."""

    @property
    def name(self) -> str:
        """Names it in reasons, logs and status."""
        ...

    @property
    def informer(self) -> SourceInformer[View | None] | None:
        """The informer that feeds it; None for a timer."""
        ...

    @property
    def has_synced(self) -> bool:
        """Whether every request of the initial list was enqueued, not merely cached."""
        ...

    async def wait_synced(self) -> None:
        """Wait until every request of the initial list was enqueued, which `run` does.

        Cancellation:
            Safe.
        """
        ...

    def attach(self, enqueue: Enqueue) -> None:
        """Begin to feed; on the running loop.

        Raises:
            LifecycleError: it is attached already, or was.
        """
        ...

    async def run(self) -> None:
        """Enqueue what is not the consequence of an event: the initial list, reminders, timers.

        Cancellation:
            The way to stop it.
        """
        ...

    def detach(self) -> None:
        """Feed nothing any more, from this moment. A second call does nothing."""
        ...

    def requests_for(self, event: Event[View | None]) -> list[Request]:
        """Return what an event would enqueue, without enqueuing it."""
        ...

    def status(self) -> SourceStatus:
        """Return how it is doing."""
        ...
