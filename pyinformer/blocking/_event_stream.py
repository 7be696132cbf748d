"""The events of an informer as a plain iterator, for threads that may block.

Several events are taken from the loop at a time, since a call to the loop costs more than an
event. They are kept here until they are returned, so no timeout and no Ctrl-C loses an event.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, final

import anyio

from pyinformer.errors import LifecycleError
from pyinformer.objects import Event, V

if TYPE_CHECKING:
    from pyinformer.blocking._sync_proxy import LoopCalls
    from pyinformer.cache.informer import EventStream

AT_A_TIME: Final = 128  # a call to the loop costs fifty times as much as taking an event


@final
class BlockingEventStream(Generic[V]):
    """Iterates over events: `with pods.events() as events: for event in events: ...`.

    Made by `informer.events()`. `break`, Ctrl-C and `pyinformer.blocking.timeout` may end the loop;
    the stream ends when the informer or the runner is closed. Up to 128 events beyond `max_events`
    may wait in it.

    Args:
        thread: runs the event loop of the informer.
        stream: the asynchronous stream on that loop.
        is_coalesced: whether waiting events are merged by key. Then events are taken one by one,
            since an event that was taken can no longer be merged.
    """

    def __init__(
        self, thread: LoopCalls, stream: EventStream[V], *, is_coalesced: bool = False
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
        """Wait for more events, and return whether there are any."""
        if not self._was_entered:
            raise LifecycleError("enter the stream first: with informer.events() as events")
        try:
            return self._thread.call(self._take)
        except LifecycleError:
            if self._thread.is_closed:  # and with it the informer: the stream has ended
                return False
            raise

    async def _take(self) -> bool:
        """Wait for an event, take those already behind it, and return whether one came."""
        try:
            self._taken.append(await anext(self._stream))
            with anyio.CancelScope() as at_once:
                at_once.cancel()  # a step that would wait is cancelled, and takes nothing
                while len(self._taken) < self._at_a_time:
                    self._taken.append(await anext(self._stream))
        except StopAsyncIteration:
            return bool(self._taken)
        except Exception:
            if not self._taken:
                raise
        return True  # the next step raises the error again, after the events before it
