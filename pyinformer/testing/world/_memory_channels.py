"""A conversation of numbered channels between two tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import final


@final
class _Pipe:
    """The messages of one direction."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._has_ended = False
        self._changed = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._changed.is_set()

    def put(self, message: bytes) -> None:
        if not self._has_ended:
            self._messages.append(message)
            self._changed.set()

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def get(self) -> bytes | None:
        while not self._messages:
            if self._has_ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        if not (self._messages or self._has_ended):
            self._changed.clear()
        return message


@final
class MemoryChannels:
    """One end of a conversation.

    Args:
        incoming: what it receives.
        outgoing: what it sends.
    """

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self.protocol: str = ""
        """The protocol that the server has chosen."""
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be received, at both ends."""
        return self._incoming.is_empty and self._outgoing.is_empty

    async def receive(self) -> bytes | None:
        """Wait for the next message; None at the end.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        return await self._incoming.get()

    async def send(self, data: bytes) -> None:
        """Send a message.

        Cancellation:
            Safe.
        """
        self._outgoing.put(data)
        await asyncio.sleep(0)  # other tasks run meanwhile, as with a network

    async def end(self) -> None:
        """End the conversation at both ends; what was sent can still be received.

        Cancellation:
            Safe.
        """
        self._incoming.end()
        self._outgoing.end()


def memory_channels() -> tuple[MemoryChannels, MemoryChannels]:
    """Return the two ends of a conversation."""
    one, other = _Pipe(), _Pipe()
    return MemoryChannels(one, other), MemoryChannels(other, one)
