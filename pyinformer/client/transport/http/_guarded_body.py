"""A request body for aiohttp that is checked in the step in which it is written to the socket.

A module of its own, since it loads aiohttp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from aiohttp.payload import BytesPayload

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter

    from pyinformer.client.transport.http._last_write_check import Fence


@final
class FencedBody(BytesPayload):
    """The body of a guarded write.

    Args:
        content: the body.
        fence: decides when it is written.
    """

    def __init__(self, content: bytes, fence: Fence) -> None:
        super().__init__(content)
        self._fence = fence

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        """Write the body, if it may leave now; aiohttp has buffered the headers until here.

        Raises:
            FencedError: it may not; the connection is closed without a byte of the request.

        Cancellation:
            A part of the body may have left.
        """
        self._fence.leave_by(getattr(writer, "transport", None))
        await super().write_with_length(writer, content_length)
