"""Who is reading at this moment, and a look at what was read after each step of a handler.

A handler enters, and a check to be made; what leaves is the same handler, with the check after the
call, or, if it is asynchronous, each time it gives way to the event loop. What the check raises is
raised where the handler waits: in the line after which it changed what it should only have read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Generic, TypeVar, final

from pyinformer.informer._handlers import Handler

if TYPE_CHECKING:
    from pyinformer.apimachinery import Event, V

_T = TypeVar("_T")

_RECENT = 256  # reads that are looked at again after each step


@final
class Reader(Generic[_T]):
    """A handler, or everybody who is none, with what it has read lately.

    Args:
        name: the handler's; empty for everybody else.
    """

    __slots__ = ("name", "recent")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.recent: deque[_T] = deque(maxlen=_RECENT)


reading: ContextVar[Reader[object] | None] = ContextVar("pyinformer_reading", default=None)
"""The handler in whose call, or in whose tasks and threads, this runs."""


def checked_handler(
    handler: Handler[V], reader: Reader[object], check: Callable[[], None]
) -> Handler[V]:
    """Return a handler whose every step is followed by a check.

    Args:
        handler: what to call.
        reader: what `reading` says during its steps.
        check: raises what the handler is to hear.
    """

    def call(event: Event[V]) -> object:
        before = reading.set(reader)
        try:
            result = handler.call(event)
        finally:
            reading.reset(before)
        if isawaitable(result):
            return _Steps(result, reader, check)
        check()
        return result

    return Handler(name=handler.name, call=call)


@final
class _Steps(Awaitable[object]):
    def __init__(
        self, result: Awaitable[object], reader: Reader[object], check: Callable[[], None]
    ) -> None:
        self._result = result
        self._reader = reader
        self._check = check

    def __await__(self) -> Generator[object, object, object]:
        steps = self._result.__await__()
        problem: BaseException | None = None
        while True:
            before = reading.set(self._reader)
            try:
                waits_for = _step(steps, problem)
            except StopIteration as end:
                reading.reset(before)
                self._check()
                return end.value
            except BaseException:
                reading.reset(before)
                raise
            reading.reset(before)
            problem = self._problem()
            if problem is None:
                problem = yield from _wait(waits_for)

    def _problem(self) -> Exception | None:
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - raised again, where the handler waits
            return error
        return None


def _step(steps: Generator[object, object, object], problem: BaseException | None) -> object:
    return next(steps) if problem is None else steps.throw(problem)


def _wait(waits_for: object) -> Generator[object, object, BaseException | None]:
    """Wait for what the handler waits for; return what was raised there, to be passed on."""
    try:
        yield waits_for
    except BaseException as error:  # noqa: BLE001 - a cancellation, mostly: it is the handler's
        return error
    return None
