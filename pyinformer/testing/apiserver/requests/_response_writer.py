"""The interface through which a handler answers, over HTTP or in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pyinformer.testing.apiserver.requests.failures import Failure


class ServerChannels(Protocol):
    """A conversation with a client, in messages of numbered channels."""

    @property
    def protocol(self) -> str:
        """The protocol of the conversation."""
        ...

    async def receive(self) -> bytes | None:
        """Wait for the next message; None when the client is gone.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Send a message.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def end(self) -> None:
        """End the conversation.

        Cancellation:
            Safe; the client is gone then.
        """
        ...


class ResponseWriter(Protocol):
    """One answer: `send`, `fail`, `upgrade`, or `start` with some `write` and a `finish`."""

    async def begin_faulty(self) -> bool:
        """Carry out the scripted fault of this request, if it has one.

        Returns:
            Whether the fault was the whole answer.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def fail(self, failure: Failure) -> None:
        """Answer with a Status.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def send(
        self,
        status: int,
        body: Iterable[bytes],
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """Send a whole answer.

        Args:
            status: the HTTP status.
            body: the pieces of the body.
            content_type: the media type of the body.
            headers: further headers.
            length: the length of the body in bytes, if known.
            warnings: what the client is warned of: one header `Warning` each.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def upgrade(self, protocols: Sequence[str]) -> ServerChannels:
        """Answer with a conversation.

        Args:
            protocols: those that the server speaks; the first that the client offers is used.

        Raises:
            Failure: the client does not ask for a conversation, or speaks none of the protocols.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def start(self, status: int, *, content_type: str = "application/json") -> None:
        """Send the status and the headers.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of the body.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def finish(self) -> None:
        """End the body normally.

        Cancellation:
            Safe; the client is gone then.
        """
        ...
