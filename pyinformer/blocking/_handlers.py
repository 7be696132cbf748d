"""Event handlers that may block: each runs in its own thread, in order, never on the loop.

Functions that are asynchronous, or marked by `in_thread`, are left as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar, cast

from pyinformer._runtime.tasks import is_asynchronous
from pyinformer.cache.informer import in_thread
from pyinformer.errors import LifecycleError

F = TypeVar("F", bound=Callable[..., object])

PARTS = ("on_add", "on_update", "on_delete")


def threaded(function: F | None) -> F | None:
    """Return a handler's function, marked to be called in its own thread.

    An argument that cannot be called is returned as it is: `add_event_handler` refuses it.
    """
    if function is None or not callable(function) or is_asynchronous(function):
        return function

    @functools.wraps(function, updated=())
    def run(*args: object) -> object:
        try:
            return function(*args)
        except SystemExit as error:  # on the loop it would end the thread without a message
            raise LifecycleError(
                "a handler called sys.exit(), which ends a program only from its main thread"
            ) from error

    return cast("F", in_thread(run))


class ThreadedHandler:
    """The methods of a handler object, each marked to be called in the handler's own thread.

    Args:
        handler: has on_add, on_update and on_delete.
    """

    def __init__(self, handler: object) -> None:
        self.on_add: Callable[..., object] | None = threaded(getattr(handler, "on_add", None))
        self.on_update: Callable[..., object] | None = threaded(getattr(handler, "on_update", None))
        self.on_delete: Callable[..., object] | None = threaded(getattr(handler, "on_delete", None))


def threaded_handler(handler: object) -> object:
    """Return a handler, a function of an event or an object with methods, for use on the loop."""
    if handler is None:
        return None
    is_object = any(hasattr(handler, part) for part in PARTS)
    if not is_object or inspect.isfunction(handler) or isinstance(handler, type):
        return threaded(cast("Callable[..., object]", handler))
    if all(callable(getattr(handler, part, None)) for part in PARTS):
        return ThreadedHandler(handler)
    return handler  # add_event_handler refuses it and names the missing methods
