"""Event handlers: one function of an event, three functions by kind, or an object with all three.

Each may be plain (it runs on the event loop and must not block), asynchronous, or marked by
`in_thread`. A handler that cannot be called is refused when it is registered, with its name and the
shape that it should have.
"""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast, final

from typing_extensions import TypeVar as DefaultedTypeVar

from pyinformer._runtime.tasks import (
    WorkerThreads,
    check_callable,
    is_asynchronous,
    mark_in_thread,
    name_of,
)
from pyinformer.errors import invalid_handler
from pyinformer.objects import Added, Event, KubeObject, Updated, V

_V_contra = DefaultedTypeVar("_V_contra", default=None, contravariant=True)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class ResourceEventHandler(Protocol[_V_contra]):
    """An object whose methods are called for each change; they may be asynchronous."""

    @abstractmethod
    def on_add(self, obj: KubeObject[_V_contra], /) -> object:
        """Handle an object that appeared, or that was there already."""
        ...

    @abstractmethod
    def on_update(self, old: KubeObject[_V_contra], new: KubeObject[_V_contra], /) -> object:
        """Handle an object that changed; at a resync both are the same."""
        ...

    @abstractmethod
    def on_delete(self, obj: KubeObject[_V_contra], /) -> object:
        """Handle an object that disappeared, in the last state that was seen."""
        ...


EventFunction: TypeAlias = Callable[[Event[V]], object]
ObjectFunction: TypeAlias = Callable[[KubeObject[V]], object]
UpdateFunction: TypeAlias = Callable[[KubeObject[V], KubeObject[V]], object]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[V]):
    """A checked handler."""

    name: str
    """The name in logs and status; by default the function's module and qualified name."""
    call: Callable[[Event[V]], object]
    """Calls it with an event; an awaitable result must be awaited."""

    @classmethod
    def of(
        cls,
        handler: EventFunction[V] | ResourceEventHandler[V] | None = None,
        *,
        on_add: ObjectFunction[V] | None = None,
        on_update: UpdateFunction[V] | None = None,
        on_delete: ObjectFunction[V] | None = None,
        name: str | None = None,
    ) -> Handler[V]:
        """Return the handler of a user's arguments.

        Args:
            handler: one function of an event, or an object with all three methods.
            on_add: called with an object that appeared.
            on_update: called with the old and the new object.
            on_delete: called with the last known state.
            name: the name in logs and status; None takes the function's own.

        Raises:
            InvalidTypeError: there is no function, there are too many, or one cannot be called.
        """
        given = {"on_add": on_add, "on_update": on_update, "on_delete": on_delete}
        parts = {part: function for part, function in given.items() if function is not None}
        if handler is None:
            return cls._of_parts(parts, name)
        if parts:
            extra = " and ".join(parts)
            reason = f"pass either one function of an event, or {extra}"
            raise invalid_handler(name_of(handler), reason)
        methods = {part: getattr(handler, part, None) for part in given}
        if any(methods.values()) and not inspect.isfunction(handler):
            return cls._of_object(handler, methods, name)
        check_callable(handler, "handler(event)", 1)
        function = cast("EventFunction[V]", handler)
        return cls(name=name or name_of(handler), call=function)

    @classmethod
    def _of_object(
        cls, handler: object, methods: Mapping[str, object], name: str | None
    ) -> Handler[V]:
        missing = [part for part, method in methods.items() if method is None]
        if isinstance(handler, type):
            reason = "it is a class; pass an instance"
            raise invalid_handler(name_of(handler), reason)
        if missing:
            reason = f"it has no {' and no '.join(missing)}; a handler object has all three"
            raise invalid_handler(name_of(handler), reason)
        return cls._of_parts(methods, name or name_of(handler))

    @classmethod
    def _of_parts(cls, parts: Mapping[str, object], name: str | None) -> Handler[V]:
        if not parts:
            reason = "pass handler(event), on_add, on_update or on_delete"
            raise invalid_handler("None", reason)
        for part, function in parts.items():
            check_callable(function, *_SHAPES[part])
        call: Callable[[Event[V]], object] = _by_kind(
            cast("ObjectFunction[V]", parts.get("on_add", _ignore)),
            cast("UpdateFunction[V]", parts.get("on_update", _ignore)),
            cast("ObjectFunction[V]", parts.get("on_delete", _ignore)),
        )
        return cls(name=name or name_of(next(iter(parts.values()))), call=call)


_SHAPES = {
    "on_add": ("on_add(obj)", 1),
    "on_update": ("on_update(old, new)", 2),
    "on_delete": ("on_delete(obj)", 1),
}


def _ignore(*_: object) -> None:
    """Stand in for a part that the user did not give."""


def _by_kind(
    on_add: ObjectFunction[V], on_update: UpdateFunction[V], on_delete: ObjectFunction[V]
) -> Callable[[Event[V]], object]:
    def call(event: Event[V]) -> object:
        if isinstance(event, Updated):
            return on_update(event.old, event.new)
        if isinstance(event, Added):
            return on_add(event.object)
        return on_delete(event.last_known)

    return call


def in_thread(function: Callable[_P, _R]) -> Callable[_P, Awaitable[_R]]:
    """Make an event handler of a function that blocks.

    The calls run one after the other, in order, in a thread that belongs to this function; other
    handlers do not wait for them. A thread cannot be interrupted: when the handler is removed, the
    call in flight is waited for up to the grace, and then abandoned.

    Args:
        function: a plain function with the parameters of `handler(event)`, or of `on_add`,
            `on_update` or `on_delete`. If a decorator hides that it is `async def`, its coroutine
            runs on the event loop.

    Returns:
        An asynchronous function that calls it in the thread.

    Raises:
        InvalidTypeError: it is not a plain function.
    """
    if not callable(function):
        reason = f"in_thread needs a plain function, got {type(function).__name__}"
        raise invalid_handler(name_of(function), reason)
    if is_asynchronous(function):
        reason = "it is asynchronous already; pass it without in_thread"
        raise invalid_handler(name_of(function), reason)
    threads = WorkerThreads(name_of(function))

    @functools.wraps(function, updated=())
    async def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function in its thread, and await here what only a loop can await."""
        result = await threads.run(functools.partial(function, *args, **kwargs))
        return await result if inspect.isawaitable(result) else result

    mark_in_thread(run)
    return run
