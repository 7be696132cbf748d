"""The events of an informer as an asynchronous iterator with a bound.

What enters are the objects that existed when the stream was opened, unless nobody wants them, and
every event after that; what leaves is the same, in order and unmerged, or merged per key. A
consumer of unmerged events that falls too far behind gets an error instead of a gap: what was
buffered before the overflow is delivered first, then the error is raised, at that and every further
step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Generic, Self, final

import anyio

from pyinformer.apimachinery import (
    Added,
    Event,
    EventStreamOverflowError,
    InvalidTypeError,
    KubeObject,
    LifecycleError,
    V,
)
from pyinformer.informer._stream_buffers import Buffer, Delivery, buffer_of

_BUDGET_SECONDS = 0.004  # a consumer that never waits lets others run this often
_STEPS_PER_LOOK = 16  # at the clock


@final
class EventStream(Generic[V]):
    """Made by `informer.events()`; use it as `async with ... as events: async for event in events`.

    Args:
        informer: names the informer in errors.
        initial: whether it begins with what exists.
        delivery: each event, or of each key what has become of it.
        max_events: how many events may wait, what existed at the beginning not counted; events that
            are merged per key need no such bound.
        attach: is called when the stream is entered; registers it and preloads it.
        detach: is called once when it is left.
        check: is called at each step, and raises what the consumer is to hear.
        check_loop: is called before each wait, and refuses callers in another event loop.

    Raises:
        InvalidArgumentError: max_events is less than 1, or there is no such delivery.
        InvalidTypeError: max_events is no whole number, or initial no bool.
    """

    def __init__(
        self,
        informer: str,
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
        attach: Callable[[EventStream[V]], None],
        detach: Callable[[EventStream[V]], None],
        check: Callable[[], None] | None = None,
        check_loop: Callable[[], None] = lambda: None,
    ) -> None:
        if not isinstance(initial, bool):
            raise InvalidTypeError("initial", f"is True or False, not {initial!r}")
        self._buffer: Buffer[V] = buffer_of(delivery, max_events)
        self.wants_initial: bool = initial
        """Whether it is told of what exists already."""
        self._informer = informer
        self._max_events = max_events
        self._attach = attach
        self._detach = detach
        self._check = check
        self._check_loop = check_loop
        self._is_open = False
        self._has_ended = False
        self._error: BaseException | None = None
        self._overflowed = False
        self._something = anyio.Event()
        self._steps = 0
        self._turn_began_at = 0.0

    def put_nowait(self, event: Event[V]) -> None:
        """Take one event; after an overflow, nothing any more."""
        if self._overflowed or self._has_ended:
            return
        if not self.wants_initial and isinstance(event, Added) and event.is_in_initial_list:
            return
        self._overflowed = not self._buffer.put_nowait(event)
        self._something.set()

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Take what the cache holds already, as additions of the initial list.

        Args:
            objects: the cache's content; before anything else is put in.
        """
        if self.wants_initial and not self._has_ended:
            self._buffer.preload_nowait(objects)
            self._something.set()

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Do nothing: streams tell of what the cache held, and of nothing else."""

    def on_initial_list_complete(self) -> None:
        """Do nothing: each event says whether it is of the initial list."""

    def end_nowait(self, error: BaseException | None = None) -> None:
        """Let the iteration end after what is buffered: the informer stops.

        Args:
            error: is raised there instead, at every step from then on.
        """
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._something.set()

    async def __aenter__(self) -> Self:
        if self._is_open or self._has_ended:
            raise LifecycleError("an event stream is entered once; ask for a new one")
        self._is_open = True
        self._attach(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self.end_nowait()
        self._buffer.clear_nowait()
        self._detach(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[V]:
        if not (self._is_open or self._has_ended):
            raise LifecycleError("enter the stream first: async with informer.events() as events")
        if self._check is not None:
            self._check()
        await self._let_others_run()
        while True:
            event = self._buffer.take_nowait()
            if event is not None:
                return event
            if self._overflowed:
                raise EventStreamOverflowError(informer=self._informer, limit=self._max_events)
            if self._has_ended:
                raise StopAsyncIteration if self._error is None else self._error
            await self._wait()

    async def _wait(self) -> None:
        self._check_loop()
        if self._something.is_set():  # else others wait for this one already
            self._something = anyio.Event()
        await self._something.wait()
        self._steps = 0

    async def _let_others_run(self) -> None:
        """Suspend at times, before anything is taken, so that a cancellation loses nothing."""
        if self._steps == 0:
            self._turn_began_at = asyncio.get_running_loop().time()
        self._steps += 1
        if self._steps % _STEPS_PER_LOOK == 0:
            now = asyncio.get_running_loop().time()
            if now - self._turn_began_at >= _BUDGET_SECONDS:
                self._steps = 0
                await asyncio.sleep(0)
