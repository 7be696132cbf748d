"""A turn of a watch: the reading of bytes that arrived, until their last event is applied."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final


@final
class Turn:
    """The calls to make when all events that arrived at once are applied.

    Handlers that are idle are called then, within the callback that has read the socket. Waking
    their tasks would take another iteration of the event loop, a fifth of the cost of a lone event.
    The reader opens the turn before it applies an event, and must end it before it waits.
    """

    __slots__ = ("calls", "is_open")

    def __init__(self) -> None:
        self.is_open: bool = False
        """Whether the turn has begun, so that it will end."""
        self.calls: deque[Callable[[], None]] = deque()
        """What is called at its end; more may be added while it is open."""

    def end(self) -> None:
        """End the turn and make its calls; a call that raises ends them until the next `end`."""
        self.is_open = False
        calls = self.calls
        while calls:
            calls.popleft()()
