"""Blocking methods made from asynchronous ones, so that the two cannot drift apart.

A blocking class only declares each method: the signature and a summary, for type checkers and
editors. The decorators here add the implementation and the docstring of the original, without its
section on cancellation. tests/blocking/test_parity.py compares the signatures.
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
_AWAITS = re.compile(r"\bawait (?=[a-z_.]+\()|\basync (?=with |for )")  # in examples


class SyncProxy(Generic[T_co]):
    """The base of blocking twins: an asynchronous object, and the thread that runs its loop.

    Args:
        thread: runs the event loop of the asynchronous object.
        asynchronous: the object whose methods are called.
    """

    def __init__(self, thread: LoopThread, asynchronous: T_co) -> None:
        self._thread = thread
        self.asynchronous: T_co = asynchronous
        """The asynchronous object, for use on the event loop: by `runner.call`, for example."""


def synchronous(original: Callable[..., Any]) -> Callable[[F], F]:
    """Implement a blocking method: run `original` on the loop and wait for its result.

    Args:
        original: a method of the asynchronous class. A synchronous one runs on the loop, too, since
            only the loop's thread may change the loop's objects.

    Returns:
        A decorator; the body of the decorated function never runs.
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
    """Implement a method by calling `original` in the caller's thread; it must be thread-safe.

    Returns:
        A decorator; the body of the decorated function never runs.
    """

    def decorate(declared: F) -> F:
        name = original.__name__

        @functools.wraps(declared)
        def call(self: SyncProxy[Any], /, *args: object, **kwargs: object) -> object:
            self._thread.refuse_other_process()  # which has a copy that is not updated
            return getattr(self.asynchronous, name)(*args, **kwargs)

        return cast("F", documented_as(original)(call))

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
