"""What makes a method that waits of one that is awaited, so that the two cannot drift apart.

An asynchronous method enters; what leaves runs it on the loop and waits. The blocking class only
declares it: the signature for type checkers, and one sentence. Everything else of the docstring is
taken from the original, without what it says of cancellation. tests/blocking compares the rest.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from pyinformer.blocking._loop_thread import LoopThread

T_co = TypeVar("T_co", covariant=True)
F = TypeVar("F", bound=Callable[..., object])

_CANCELLATION = re.compile(r"\n\nCancellation:\n(?: .*(?:\n|$)|\n(?= ))*")
_AWAITS = re.compile(r"\bawait (?=[a-z_.]+\()|\basync (?=with |for )")  # in what it shows


class SyncProxy(Generic[T_co]):
    """The blocking face of something asynchronous.

    Args:
        thread: the loop that it lives on.
        asynchronous: what it is the face of.
    """

    def __init__(self, thread: LoopThread, asynchronous: T_co) -> None:
        self._thread = thread
        self.asynchronous: T_co = asynchronous
        """The same as it is on the event loop, to be used there: by `runner.call`, for example."""


def synchronous(original: Callable[..., Any]) -> Callable[[F], F]:
    """Let a method do what `original` does, on the loop, and wait for it.

    Args:
        original: a method of what the face is of. A plain one is called on the loop, too: the
            loop's objects are changed by its own thread only.

    Returns:
        A decorator; the body of what it decorates is never run.
    """

    def decorate(declared: F) -> F:
        name = original.__name__

        @functools.wraps(declared)
        def call(self: SyncProxy[Any], /, *args: object, **kwargs: object) -> object:
            method = getattr(self.asynchronous, name)
            return self._thread.call(functools.partial(method, *args, **kwargs))

        return cast("F", documented_as(original)(call))

    return decorate


def direct(original: Callable[..., Any]) -> Callable[[F], F]:
    """Let a method be the `original`, called in the caller's thread: it may be called from any.

    Returns:
        A decorator; the body of what it decorates is never run.
    """

    def decorate(declared: F) -> F:
        name = original.__name__

        @functools.wraps(declared)
        def call(self: SyncProxy[Any], /, *args: object, **kwargs: object) -> object:
            self._thread.refuse_other_process()  # where nothing is kept up to date
            return getattr(self.asynchronous, name)(*args, **kwargs)

        return cast("F", documented_as(original)(call))

    return decorate


def documented_as(original: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the docstring of another one, without what it says of cancellation."""

    def decorate(function: F) -> F:
        function.__doc__ = blocking_doc(original)
        return function

    return decorate


def blocking_doc(original: Callable[..., Any]) -> str:
    """Return a function's docstring without the section on cancellation, and without its awaits."""
    doc = _CANCELLATION.sub("\n\n", f"{inspect.getdoc(original) or ''}\n").strip()
    return _AWAITS.sub("", doc)
