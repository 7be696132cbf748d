"""The events of an informer as a bounded asynchronous iterator.

No event is dropped silently. A consumer that falls too far behind gets what was buffered before the
overflow and then an error, at that step and every later one; or it has asked for merged events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar, final, get_args

import anyio

from pyinformer._runtime.tasks import BUDGET_SECONDS
from pyinformer.cache.informer.delivery._mailbox import EventQueue, Mailbox
from pyinformer.errors import (
    EventStreamOverflowError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
)
from pyinformer.objects import Added, Event, KubeObject, V, check_choice

_STEPS_PER_CLOCK_READ = 16
_In = TypeVar("_In", contravariant=True)

Delivery: TypeAlias = Literal["every_event", "coalesced"]
"""Every event in order, or merged per key: what changed since the consumer's last event of it."""


class StreamOwner(Protocol[_In]):
    """The informer's side of a stream."""

    @property
    def informer(self) -> str:
        """The informer's name, for errors."""
        ...

    def attach_stream(self, stream: EventStream[_In]) -> None:
        """Feed a stream from now on, and preload it if it wants the initial list."""
        ...

    def detach_stream(self, stream: EventStream[_In]) -> None:
        """Stop feeding a stream."""
        ...

    def check_loop(self) -> None:
        """Raise for a caller in another event loop."""
        ...


@final
class EventStream(Generic[V]):
    """The events of one informer: `async with informer.events() as events: async for event in ...`.

    Args:
        owner: feeds the stream while it is open.
        initial: whether the stream begins with the objects that exist.
        delivery: every event, or events merged per key.
        max_events: how many events may wait, the initial list not counted; merged events need no
            such bound.
        check: called at each step; what it raises reaches the consumer.

    Raises:
        InvalidArgumentError: max_events is less than 1, or the delivery is unknown.
        InvalidTypeError: max_events is not an integer, or initial is not a bool.
    """

    def __init__(
        self,
        owner: StreamOwner[V],
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
        check: Callable[[], None] | None = None,
    ) -> None:
        if not isinstance(initial, bool):
            raise InvalidTypeError("initial", f"must be True or False, got {initial!r}")
        check_choice("delivery", delivery, get_args(Delivery))
        if not isinstance(max_events, int) or isinstance(max_events, bool):
            raise InvalidTypeError("max_events", f"must be an integer, got {max_events!r}")
        if max_events < 1:
            raise InvalidArgumentError("max_events", f"must be an integer >= 1, got {max_events}")
        self._buffer: Mailbox[V] | EventQueue[V] = (
            Mailbox(merges_at_once=True) if delivery == "coalesced" else EventQueue(max_events)
        )
        self.wants_initial: bool = initial
        """Whether the stream begins with the objects that exist."""
        self._owner = owner
        self._max_events = max_events
        self._check = check
        self._is_open = False
        self._has_ended = False
        self._error: BaseException | None = None
        self._changed = anyio.Event()
        self._steps = 0
        self._turn_began_at = 0.0

    def put_nowait(self, event: Event[V]) -> None:
        """Add one event."""
        if self._has_ended:
            return
        if not self.wants_initial and isinstance(event, Added) and event.is_in_initial_list:
            return
        self._buffer.put_nowait(event)
        self._changed.set()

    def preload_nowait(self, objects: Collection[KubeObject[V]]) -> None:
        """Add the objects that exist already, before any event, as the initial list."""
        if self.wants_initial and not self._has_ended:
            self._buffer.preload_nowait(objects)
            self._changed.set()

    def on_missed_state(self, was: KubeObject[V], now: KubeObject[V] | None) -> None:
        """Do nothing: a stream yields only states that were in the cache."""

    def on_initial_list_complete(self) -> None:
        """Do nothing: each event says whether it is of the initial list."""

    def end_nowait(self, error: BaseException | None = None) -> None:
        """End the iteration after the buffered events: the informer stops.

        Args:
            error: raised at each step after the end; None just ends the iteration.
        """
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._changed.set()

    async def __aenter__(self) -> Self:
        if self._is_open or self._has_ended:
            raise LifecycleError("an event stream can be entered once: call events() again")
        self._is_open = True
        self._owner.attach_stream(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        self.end_nowait()
        self._buffer.close_nowait()
        self._owner.detach_stream(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event[V]:
        if not (self._is_open or self._has_ended):
            raise LifecycleError("enter the stream first: async with informer.events() as events")
        if self._check is not None:
            self._check()
        await self._yield_now_and_then()
        while True:
            event = self._buffer.take_nowait()
            if event is not None:
                return event
            if self._buffer.overflowed:
                raise EventStreamOverflowError(
                    informer=self._owner.informer, limit=self._max_events
                )
            if self._has_ended:
                raise StopAsyncIteration if self._error is None else self._error
            await self._wait()

    async def _wait(self) -> None:
        self._owner.check_loop()
        if self._changed.is_set():  # else another consumer waits on it already
            self._changed = anyio.Event()
        await self._changed.wait()
        self._steps = 0

    async def _yield_now_and_then(self) -> None:
        """Yield to other tasks before anything is taken, so that a cancellation loses nothing."""
        if self._steps == 0:
            self._turn_began_at = asyncio.get_running_loop().time()
        self._steps += 1
        if self._steps % _STEPS_PER_CLOCK_READ == 0:
            now = asyncio.get_running_loop().time()
            if now - self._turn_began_at >= BUDGET_SECONDS:
                self._steps = 0
                await asyncio.sleep(0)
