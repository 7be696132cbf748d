"""`TypedInformer`: an informer whose lister, handlers and events have models of the user's own.

It is a view of a SharedInformer: both have one cache and one watch, and so have several models of
one resource. An object that does not fit the model is an error where it is read as one, and affects
no other object.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast, final

from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    KubeObject,
    Updated,
    check_model,
    check_type,
)
from pyinformer.errors import InvalidArgumentError, ModelMismatchError
from pyinformer.informer._core import core_of
from pyinformer.informer._shared_informer import SharedInformer
from pyinformer.informer.delivery import Delivery, EventStream, Handler, Registration
from pyinformer.store import IndexFunction, Models, TypedLister
from pyinformer.tasks import LogExceptions, check_callable, check_plain

if TYPE_CHECKING:
    from pyinformer.store import IndexValue

M = TypeVar("M")
_M_contra = TypeVar("_M_contra", contravariant=True)

UnreadableEventFunction: TypeAlias = Callable[[Event, ModelMismatchError], object]
"""Called in place of a handler with an event whose object does not fit the model, and the error."""


class TypedEventHandler(Protocol[_M_contra]):
    """An object whose methods are called for each change with models; they may be asynchronous."""

    @abstractmethod
    def on_add(self, obj: _M_contra, /) -> object:
        """Handle an object that appeared, that was there already, or that fits the model again."""
        ...

    @abstractmethod
    def on_update(self, old: _M_contra, new: _M_contra, /) -> object:
        """Handle an object that changed; at a resync both are the same."""
        ...

    @abstractmethod
    def on_delete(self, obj: _M_contra, /) -> object:
        """Handle an object that disappeared, in the last state that was seen."""
        ...


@final
class TypedEvent(Generic[M]):
    """An event with its objects as models, which are decoded when they are read.

    Args:
        event: an Added, Updated or Deleted.
        lister: decodes its objects.
    """

    __slots__ = ("_lister", "event")

    def __init__(self, event: Event[Any], lister: TypedLister[M]) -> None:
        self.event: Event[Any] = event
        """The event with the KubeObjects: `match change.event: case Deleted(): ...`."""
        self._lister = lister

    @property
    def key(self) -> str:
        """The object's key, `namespace/name`, or `name` if it is cluster-scoped."""
        return self.event.key

    @property
    def object(self) -> M:
        """The newest state: what was added, the state after an update, or the last known one.

        Raises:
            ModelMismatchError: the object does not fit the model.
        """
        return self._lister.of(_newest(self.event))

    @property
    def old(self) -> M | None:
        """The state before an update; None for other events.

        Raises:
            ModelMismatchError: that state does not fit the model.
        """
        return self._lister.of(self.event.old) if isinstance(self.event, Updated) else None

    def __repr__(self) -> str:
        return f"<TypedEvent {type(self.event).__name__} {self.key}>"


@final
class TypedEventStream(Generic[M]):
    """The events of a typed informer: `async with deployments.events() as events`.

    Args:
        events: the stream of the informer.
        lister: decodes the objects.
    """

    def __init__(self, events: EventStream[Any], lister: TypedLister[M]) -> None:
        self._events = events
        self._lister = lister

    async def __aenter__(self) -> Self:
        await self._events.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._events.__aexit__(exc_type, exc, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TypedEvent[M]:
        return TypedEvent(await anext(self._events), self._lister)


@final
class TypedInformer(Generic[M]):
    """Reads an informer as models: `factory.informer("apps/v1", "deployments", model=Deployment)`.

    Lister, handlers, event streams, waits and index functions have models. Everything else, such as
    `status()` and `wait_until`, is that of `informer`. Further views of one informer are made by
    calling this class: `TypedInformer(deployments, Other)`. Objects are decoded once for each
    version, whatever reads them, if the model cannot be changed; of other models, each reader gets
    its own.

    Args:
        informer: follows the resource.
        model: a msgspec Struct, a dataclass, a pydantic model, or a model of the
            kubernetes_asyncio or kubernetes client. If it is frozen, and so are the classes of its
            fields, all readers share the instances.

    Raises:
        InvalidTypeError: an object cannot be decoded into the model.
        InvalidArgumentError: the informer keeps only metadata.
        LifecycleError: the informer is closed, or runs in another event loop.
    """

    def __init__(self, informer: SharedInformer[Any], model: type[M]) -> None:
        check_type("informer", informer, SharedInformer)
        check_typed(model, informer.settings.memory)
        core = core_of(informer)
        core.lifecycle.check_usable()
        self.informer: SharedInformer[Any] = informer
        """The informer itself, whose lister and handlers have KubeObjects."""
        models = core.models.get(model)
        if models is None:
            shown = partial(informer.lister.get, allow_unsynced=True)
            models = core.models[model] = Models(model, shown)
            core.caches.attach(models, preload=False)
        self._models: Models[M] = cast("Models[M]", models)
        self.lister: TypedLister[M] = TypedLister(informer.lister, self._models)
        """Reads the cache as models, and own writes that it does not hold yet; from any thread."""

    @property
    def name(self) -> str:
        """What is followed, and in which cluster if that has a name."""
        return self.informer.name

    @property
    def model(self) -> type[M]:
        """The class of the models."""
        return self._models.model

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once, in each namespace."""
        return self.informer.has_synced

    def add_index(
        self, name: str, by: str | Callable[[M], IndexValue | Iterable[IndexValue] | None]
    ) -> None:
        """Add an index to the cache, which `lister.objects` shows, too.

        A function gets the model, so each object is decoded when it arrives: a path costs less. An
        object that does not fit the model is in no bucket.

        Args:
            name: the name to read it by.
            by: a field path such as `"spec.nodeName"`, or a pure function of a model.

        Raises:
            InvalidArgumentError: the name is taken; or the path cannot be parsed.
            LifecycleError: the informer runs in another event loop.
        """
        if not isinstance(by, str):
            check_plain(by, "index(model)", 1, may_generate=True)
        self.informer.add_index(name, by if isinstance(by, str) else self._index_function(by))

    def _index_function(self, by: Callable[[M], Any]) -> IndexFunction:
        of_arriving = self._models.of_arriving
        return lambda obj: by(of_arriving(obj))

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
    ) -> Registration[Any]:
        """Call a handler with models for everything that exists, and then for every change.

        The functions are not called for a state that does not fit the model: `on_unreadable` is,
        or the call counts as failed, which is logged and in the status. If the state before an
        update does not fit, `on_add` is called with the new one. A function of an event is called
        for all of them, and its reads raise. Otherwise as `SharedInformer.add_event_handler`.

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
            LifecycleError: the informer is closed, or was started in another event loop.
        """
        given: Any = handler
        parts: dict[str, Any] = {"on_add": on_add, "on_update": on_update, "on_delete": on_delete}
        checked: Handler[Any] = Handler.of(given, **parts, name=name)
        if given is not None:
            parts = {part: getattr(given, part, None) for part in parts}
        if on_unreadable is not None:
            check_callable(on_unreadable, "on_unreadable(event, error)", 2)
        call: Callable[[Event[Any]], object]
        if inspect.isfunction(given) or not any(parts.values()):
            if on_unreadable is not None:
                reason = "is for on_add, on_update and on_delete; a function of an event gets all"
                raise InvalidArgumentError("on_unreadable", reason)
            call = self._event_call(given)
        else:
            call = _ModelCalls(self._models, parts, on_unreadable).call
        return self.informer.add_event_handler(
            call,
            name=checked.name,
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
        )

    def _event_call(
        self, handler: Callable[[TypedEvent[M]], object]
    ) -> Callable[[Event[Any]], object]:
        return lambda event: handler(TypedEvent(event, self.lister))

    def events(
        self, *, initial: bool = True, delivery: Delivery = "every_event", max_events: int = 1024
    ) -> TypedEventStream[M]:
        """Return the events as a stream; the arguments are those of `SharedInformer.events`.

        Raises:
            InvalidArgumentError: max_events is less than 1, or the delivery is unknown.
            InvalidTypeError: max_events is not an integer, or initial is not a bool.
            LifecycleError: the informer is closed; raised when entering the stream, too.
        """
        events = self.informer.events(initial=initial, delivery=delivery, max_events=max_events)
        return TypedEventStream(events, self.lister)

    async def wait_for(
        self, key: str, predicate: Callable[[M | None], object], *, timeout_seconds: float = 30.0
    ) -> M | None:
        """Wait until an object is as wanted; otherwise as `SharedInformer.wait_for`.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            predicate: a plain function of the model, or of None where there is no object.
            timeout_seconds: how long to wait, the first sync included.

        Returns:
            The model that the predicate accepted; None if it accepted that there is none.

        Raises:
            ModelMismatchError: the object does not fit the model.
            WaitTimeoutError: the predicate accepted nothing in time.
            CacheSyncTimeoutError: the first sync cannot happen without a change on the server.
            NotCachedError: the namespace is not followed.
            LifecycleError: it was not started, or was closed meanwhile.
            InternalError: the informer crashed.
            InvalidArgumentError: the timeout is not a duration.
            InvalidTypeError: the key is not a string, or the predicate is not a plain function of
                one model.

        Cancellation:
            Safe.
        """
        if predicate is not bool:  # which accepts any object
            check_plain(predicate, "predicate(model_or_none)", 1)
        accepts = self._predicate(predicate)
        found = await self.informer.wait_for(key, accepts, timeout_seconds=timeout_seconds)
        return None if found is None else self._models.of(found)

    def _predicate(
        self, predicate: Callable[[M | None], object]
    ) -> Callable[[KubeObject[Any] | None], object]:
        of = self._models.of
        return lambda obj: predicate(None if obj is None else of(obj))

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

        Cancellation:
            Safe; the informer continues.
        """
        await self.informer.wait_for_cache_sync(
            timeout_seconds=timeout_seconds, fail_fast=fail_fast
        )

    def __repr__(self) -> str:
        return f"<TypedInformer of {self.name} as {self.model.__name__}>"


@final
class _ModelCalls(Generic[M]):
    """Calls a handler's functions with models.

    Args:
        models: decodes the objects.
        parts: on_add, on_update and on_delete; None for one that was not given.
        on_unreadable: called for a state that does not fit; None to raise.
    """

    def __init__(
        self,
        models: Models[M],
        parts: dict[str, Any],
        on_unreadable: UnreadableEventFunction | None,
    ) -> None:
        self._models = models
        self._on_add = parts["on_add"] or _ignore
        self._on_update = parts["on_update"] or _ignore
        self._on_delete = parts["on_delete"] or _ignore
        self._on_unreadable = on_unreadable

    def call(self, event: Event[Any]) -> object:
        """Call the function of the event.

        Raises:
            ModelMismatchError: the newest state does not fit, and there is no `on_unreadable`.
        """
        try:
            new = self._models.of(_newest(event))
        except ModelMismatchError as error:
            if self._on_unreadable is None:
                raise
            return self._on_unreadable(event, error)
        if isinstance(event, Deleted):
            return self._on_delete(new)
        if isinstance(event, Added):
            return self._on_add(new)
        try:
            old = self._models.of(event.old)
        except ModelMismatchError:
            return self._on_add(new)
        return self._on_update(old, new)


def _ignore(*_: object) -> None:
    """Stand in for a part that the user did not give."""


def _newest(event: Event[Any]) -> KubeObject[Any]:
    if isinstance(event, Updated):
        return event.new
    return event.object if isinstance(event, Added) else event.last_known


def check_typed(model: type[object], memory: str | None) -> None:
    """Refuse a model that objects cannot be decoded into.

    Raises:
        InvalidTypeError: an object cannot be decoded into it.
        InvalidArgumentError: there are only metadata.
    """
    check_model(model)
    if memory == "metadata":
        reason = (
            "needs whole objects, which memory='metadata' does not keep; leave the model out and"
            " read obj.metadata, or ask for the informer with another `memory`"
        )
        raise InvalidArgumentError("model", reason)
