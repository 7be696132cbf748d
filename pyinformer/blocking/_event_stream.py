"""The events of an informer as a plain iterator, for a thread that may block.

What enters is the asynchronous stream; what leaves are its events, in order and unmerged, taken
from the loop several at a time, since each visit there costs more than an event does. What was
taken is kept here: no timeout and no Ctrl-C loses an event.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, final

import anyio

from pyinformer.apimachinery import Event, LifecycleError, V

if TYPE_CHECKING:
    from pyinformer.blocking._loop_thread import LoopThread
    from pyinformer.informer import EventStream

AT_A_TIME: Final = 128  # a visit to the loop costs fifty times what taking an event does


@final
class BlockingEventStream(Generic[V]):
    """Made by `informer.events()`: `with pods.events() as events: for event in events: ...`.

    It may be left by `break`, by Ctrl-C, and by `pyinformer.blocking.timeout`; it ends when the
    informer is closed, or the runner. Up to 128 events beyond `max_events` may wait in it.

    Args:
        thread: the loop.
        stream: the stream there.
        is_coalesced: what waits is merged by key, so that nothing is taken before its time.
    """

    def __init__(
        self, thread: LoopThread, stream: EventStream[V], *, is_coalesced: bool = False
    ) -> None:
        self._thread = thread
        self._at_a_time = 1 if is_coalesced else AT_A_TIME
        self._stream = stream
        self._taken: deque[Event[V]] = deque()
        self._was_entered = False

    def __enter__(self) -> Self:
        self._thread.enter(self._stream)
        self._was_entered = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._taken.clear()
        self._thread.leave(self._stream, exc_type, exc, traceback)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event[V]:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                if not self._has_more():
                    raise StopIteration from None

    def _has_more(self) -> bool:
        """Wait for more, and tell whether it came."""
        if not self._was_entered:
            raise LifecycleError("enter the stream first: with informer.events() as events")
        try:
            return self._thread.call(self._take)
        except LifecycleError:
            if self._thread.is_closed:  # and with it the informer: an end like any other
                return False
            raise

    async def _take(self) -> bool:
        """Wait for an event, and take those behind it that are there; tell whether one came."""
        try:
            self._taken.append(await anext(self._stream))
            with anyio.CancelScope() as at_once:
                at_once.cancel()  # a step that would wait ends, and has taken nothing
                while len(self._taken) < self._at_a_time:
                    self._taken.append(await anext(self._stream))
        except StopAsyncIteration:
            return bool(self._taken)
        except Exception:
            if not self._taken:
                raise
        return True  # an error is raised again at the next step, behind what came before it
