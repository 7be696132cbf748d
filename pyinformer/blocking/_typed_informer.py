"""The blocking twins of TypedInformer and TypedEventStream. The TypedLister is the same."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, final

from pyinformer.blocking._event_stream import BlockingEventStream
from pyinformer.blocking._handlers import threaded, threaded_handler
from pyinformer.blocking._informer import BlockingInformer, BlockingRegistration
from pyinformer.blocking._proxy import SyncProxy, on_loop, synchronous
from pyinformer.informer import TypedEvent, TypedInformer
from pyinformer.store import TypedLister
from pyinformer.tasks import LogExceptions, name_of

if TYPE_CHECKING:
    from pyinformer.blocking._proxy import LoopCalls
    from pyinformer.informer import Delivery, TypedEventHandler, UnreadableEventFunction

M = TypeVar("M")


@final
class BlockingTypedEventStream(Generic[M]):
    """Iterates over events with models: `with deployments.events() as events: for event in events`.

    Args:
        events: the events of the informer.
        lister: decodes the models.
    """

    def __init__(self, events: BlockingEventStream[Any], lister: TypedLister[M]) -> None:
        self._events = events
        self._lister = lister

    def __enter__(self) -> Self:
        self._events.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.__exit__(exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TypedEvent[M]:
        return TypedEvent(next(self._events), self._lister)


@final
class BlockingTypedInformer(SyncProxy[TypedInformer[M]]):
    """Reads an informer as models: `factory.informer("apps/v1", "deployments", model=Deployment)`.

    Args:
        thread: runs its event loop.
        asynchronous: the typed informer on that loop.
        informer: the blocking twin of its informer.
    """

    def __init__(
        self,
        thread: LoopCalls,
        asynchronous: TypedInformer[M],
        informer: BlockingInformer[Any],
    ) -> None:
        super().__init__(thread, asynchronous)
        self.informer: BlockingInformer[Any] = informer
        """The informer itself, whose lister and handlers have KubeObjects."""

    @property
    def name(self) -> str:
        """What is followed, and in which cluster if that has a name."""
        return self.asynchronous.name

    @property
    def model(self) -> type[M]:
        """The class of the models."""
        return self.asynchronous.model

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once, in each namespace."""
        return self.asynchronous.has_synced

    @property
    def lister(self) -> TypedLister[M]:
        """Reads the cache as models, and own writes that it does not hold yet; from any thread.

        Raises:
            LifecycleError: this is a forked child, whose copy of the cache is not updated.
        """
        self._thread.refuse_other_process()
        return self.asynchronous.lister

    def add_event_handler(
        self,
        handler: Callable[[TypedEvent[M]], object] | TypedEventHandler[M] | None = None,
        *,
        on_add: Callable[[M], object] | None = None,
        on_update: Callable[[M, M], object] | None = None,
        on_delete: Callable[[M], object] | None = None,
        on_unreadable: UnreadableEventFunction | None = None,
        name: str | None = None,
        mailbox_size: int = 1024,
        resync_period_seconds: float = 0.0,
        log_exceptions: LogExceptions = "classes",
    ) -> BlockingRegistration[Any]:
        """Call a handler with models for everything that exists, and then for every change.

        Each handler runs in its own thread, one call at a time and in order, and may block. Objects
        are decoded on the event loop. Otherwise as `TypedInformer.add_event_handler`.

        Args:
            handler: one function of a TypedEvent, or an object with on_add, on_update and
                on_delete.
            on_add: called with an object that appeared, or fits the model again.
            on_update: called with the old and the new object.
            on_delete: called with the last known state.
            on_unreadable: called with the Added, Updated or Deleted of an object that does not fit
                the model, and the error.
            name: the name in logs and status; None takes the handler's own.
            mailbox_size: events kept in order; beyond that, new ones are merged per key.
            resync_period_seconds: how often to be called for every object; 0 for never.
            log_exceptions: what logs show of an error that the handler raises.

        Raises:
            InvalidTypeError: the handler cannot be called.
            InvalidArgumentError: a number is out of range; or `on_unreadable` was given with a
                function of an event.
            LifecycleError: the informer is closed.
        """
        given: Any = threaded_handler(handler)
        if name is None and handler is not None:
            name = name_of(handler)

        def add() -> BlockingRegistration[Any]:
            registration = self.asynchronous.add_event_handler(
                given,
                on_add=threaded(on_add),
                on_update=threaded(on_update),
                on_delete=threaded(on_delete),
                on_unreadable=threaded(on_unreadable),
                name=name,
                mailbox_size=mailbox_size,
                resync_period_seconds=resync_period_seconds,
                log_exceptions=log_exceptions,
            )
            return BlockingRegistration(self._thread, registration)

        return self._thread.do(add)

    def events(
        self,
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
    ) -> BlockingTypedEventStream[M]:
        """Return the events as an iterator; the arguments are those of `BlockingInformer.events`.

        Raises:
            InvalidArgumentError: max_events is less than 1, or the delivery is unknown.
            InvalidTypeError: max_events is not an integer, or initial is not a bool.
            LifecycleError: the informer is closed; entering the stream may raise it, too.
        """
        events = self.informer.events(initial=initial, delivery=delivery, max_events=max_events)
        return BlockingTypedEventStream(events, self.asynchronous.lister)

    add_index: Final = on_loop(TypedInformer[M].add_index)
    """Add an index to the cache, which `lister.objects` shows, too."""

    wait_for: Final = synchronous(TypedInformer[M].wait_for)
    """Wait until an object is as wanted; otherwise as `SharedInformer.wait_for`."""

    wait_for_cache_sync: Final = synchronous(TypedInformer.wait_for_cache_sync)
    """Wait until the cache has held everything at least once."""

    def __repr__(self) -> str:
        return f"<BlockingTypedInformer of {self.name} as {self.model.__name__}>"
