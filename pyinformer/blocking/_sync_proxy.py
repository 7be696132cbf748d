"""Blocking methods made from asynchronous ones, so that the two cannot drift apart.

A blocking class only names each method. Its parameters, its result and its docstring, without the
section on cancellation, are those of the original, for type checkers as well.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

_CANCELLATION = re.compile(r"\n\nCancellation:\n(?: .*(?:\n|$)|\n(?= ))*")
_AWAITS = re.compile(r"\bawait (?=[a-z_.]+\()|\basync (?=with |for )")  # in examples


class LoopCalls(Protocol):
    """The calls from threads to an event loop, as a LoopThread or a TaskCalls makes them."""

    @property
    def is_closed(self) -> bool:
        """Whether no call is accepted any more."""
        ...

    def call(
        self, work: Callable[[], Awaitable[R]], *, undo: Callable[[], object] | None = None
    ) -> R:
        """Run an asynchronous function on the loop and wait for its result."""
        ...

    def do(self, step: Callable[[], R]) -> R:
        """Run a synchronous function on the loop and wait for its result."""
        ...

    def enter(self, lifetime: AbstractAsyncContextManager[R]) -> R:
        """Enter an asynchronous context manager; it is exited with the calls' owner at last."""
        ...

    def adopt(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close this with the calls' owner, unless it was closed before. On the loop."""
        ...

    def leave(
        self,
        lifetime: AbstractAsyncContextManager[object],
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Exit what was entered; do nothing if the owner is closed."""
        ...

    def close_on_exit(self, lifetime: object, close: Callable[[], Awaitable[object]]) -> None:
        """Close what was adopted; do nothing if the owner is closed."""
        ...

    def refuse_other_process(self) -> None:
        """Raise in a forked child."""
        ...


async def enter_on_loop(calls: LoopCalls, lifetime: AbstractAsyncContextManager[R]) -> R:
    """Enter an asynchronous context manager on the loop; the owner of the calls exits it at last.

    Args:
        calls: of the loop that this runs on.
        lifetime: what is entered.

    Cancellation:
        As that of the context manager's entry.
    """
    value = await lifetime.__aenter__()
    calls.adopt(lifetime, partial(lifetime.__aexit__, None, None, None))
    return value


class SyncProxy(Generic[T_co]):
    """The base of blocking twins: an asynchronous object, and the way to its event loop.

    Args:
        thread: makes the calls to the event loop of the asynchronous object.
        asynchronous: the object whose methods are called.
    """

    def __init__(self, thread: LoopCalls, asynchronous: T_co) -> None:
        self._thread = thread
        self.asynchronous: T_co = asynchronous
        """The asynchronous object, for use on the event loop: by `runner.call`, for example."""


def synchronous(
    original: Callable[Concatenate[T, P], Awaitable[R]],
) -> Callable[Concatenate[SyncProxy[T], P], R]:
    """Return a blocking method: it runs `original` on the loop and waits for its result.

    Args:
        original: an asynchronous method of the asynchronous class.
    """

    @same_face(original)
    def call(self: SyncProxy[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.call(lambda: original(self.asynchronous, *args, **kwargs))

    return call


def on_loop(
    original: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[SyncProxy[T], P], R]:
    """Return a blocking method: it calls `original` on the loop and waits for its result.

    Args:
        original: a synchronous method; only the loop's thread may change the loop's objects.
    """

    @same_face(original)
    def call(self: SyncProxy[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.do(lambda: original(self.asynchronous, *args, **kwargs))

    return call


def direct(
    original: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[SyncProxy[T], P], R]:
    """Return a method that calls `original` in the caller's thread; it must be thread-safe."""

    @same_face(original)
    def call(self: SyncProxy[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._thread.refuse_other_process()  # which has a copy that is not updated
        return original(self.asynchronous, *args, **kwargs)

    return call


def same_face(original: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the name, the docstring and the signature of `original`."""

    def decorate(function: F) -> F:
        function.__name__ = original.__name__
        function.__annotations__ = original.__annotations__
        function.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]  # PEP 362
        return documented_as(original)(function)

    return decorate


def with_arguments_of(original: Callable[..., Any], *, skipped: int = 1) -> Callable[[F], F]:
    """Show a method with the arguments of `original`, but for its first ones.

    Args:
        original: the function that the method calls.
        skipped: how many arguments the method itself provides.
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        given = list(inspect.signature(original).parameters.values())[skipped:]
        parameters = [next(iter(own.parameters.values())), *given]
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # PEP 362
        return function

    return decorate


def documented_as(original: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the docstring of `original`, without its section on cancellation."""

    def decorate(function: F) -> F:
        function.__doc__ = blocking_doc(original)
        return function

    return decorate


def blocking_doc(original: Callable[..., Any]) -> str:
    """Return a function's docstring without the section on cancellation and without `await`."""
    doc = _CANCELLATION.sub("\n\n", f"{inspect.getdoc(original) or ''}\n").strip()
    return _AWAITS.sub("", doc)
