"""What an answer is given to, however it travels: HTTP, or a hand-over in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyinformer.testing.apiserver.requests.failures import Failure


class Reply(Protocol):
    """One answer: `send` or `fail`, or `start`, any number of `write` and `finish`."""

    async def begin_faulty(self) -> bool:
        """Do what the fault script wants instead of answering.

        Returns:
            Whether that was the whole answer.

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
    ) -> None:
        """Answer with a whole body.

        Args:
            status: the HTTP status.
            body: its pieces.
            content_type: its type.
            headers: further headers.
            length: its length in bytes if known.

        Cancellation:
            Safe; the client is gone then.
        """
        ...

    async def start(self, status: int) -> None:
        """Send the head.

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
        """End the body properly.

        Cancellation:
            Safe; the client is gone then.
        """
        ...
