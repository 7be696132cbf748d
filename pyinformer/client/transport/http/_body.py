"""The body of one response, read as it arrives.

Pieces are small enough that handling one does not hold up the event loop. A body that is cut off is
an error, and a body that is not read to its end has its connection closed.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol, final, runtime_checkable

import anyio.lowlevel

from pyinformer.client.transport.http._errors import network_errors, translate
from pyinformer.errors import InformerError, RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp

    from pyinformer.client.transport.http._chunked_encoding_parser import OnPiece
    from pyinformer.client.transport.http._watch_response import WatchResponse

# Some dozen events, far below 25 ms of work. From 128 KiB on, malloc maps fresh pages for each
# buffer, which costs a third more per event.
_READ_BYTES = 64 << 10

LEAST_BYTES_PER_SECOND: Final = 16 << 10
"""The slowest rate that a server may send at: half of what 256 kbit/s carry. Every limit on the
total time of a body grows by a second for each so many bytes that arrived."""


class Body(Protocol):
    """The body of one response, as it arrives."""

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived so far."""
        ...

    async def read(self) -> bytes:
        """Wait for the next bytes of the body.

        Returns:
            Some bytes, as they arrived; `b""` at the end of the body, again and again.

        Raises:
            TransportError: the connection was lost before the end of the body.
            RequestTimeoutError: a list was silent or slow for too long, or a watch outlived its
                deadline.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        ...

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for the current read and for later ones."""
        ...

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""
        ...


@runtime_checkable
class PushBody(Protocol):
    """A body that passes its bytes to a callback, from within the callbacks of the event loop."""

    async def deliver(
        self, take: OnPiece, on_turn: Callable[[], bool], *, spacing_seconds: float = 0.0
    ) -> None:
        """Pass the body to a callback as it arrives.

        Args:
            take: called with each piece, in order.
            on_turn: called when the bytes that arrived are used up; returns whether to continue.
            spacing_seconds: the pause between two reads while much arrives, so that each brings
                more; the first bytes after a longer silence do not wait. 0 reads at once.

        Raises:
            TransportError: as `Body.read`.
            BaseException: what `take` or `on_turn` raised.

        Cancellation:
            Safe; `take` is not called any more, and later bytes wait for the next reader.
        """
        ...


@final
class ReadTimeouts:
    """How long the reads of one body may wait: each, and all of them together.

    Args:
        url: the URL of the request, without its query.
        idle_seconds: how long the server may send nothing; None for no limit.
        total_seconds: how long the reads may wait in all, and a second more for each
            `LEAST_BYTES_PER_SECOND` that arrived; None for no limit.
    """

    def __init__(
        self, url: str, *, idle_seconds: float | None, total_seconds: float | None = None
    ) -> None:
        self._url = url
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._total_seconds = math.inf if total_seconds is None else total_seconds
        self._waited_seconds = 0.0
        self._now = asyncio.get_running_loop().time
        self.received_bytes: int = 0
        """How many bytes have arrived so far."""

    async def read(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read once, and count what arrived.

        Raises:
            RequestTimeoutError: nothing arrived for too long, or the body is too slow.

        Cancellation:
            That of `read`.
        """
        earned_seconds = self.received_bytes / LEAST_BYTES_PER_SECOND
        left_seconds = self._total_seconds + earned_seconds - self._waited_seconds
        seconds = min(self._idle_seconds, left_seconds)
        began = self._now()
        data: bytes | None = None
        with anyio.move_on_after(seconds):
            data = await read()
        self._waited_seconds += self._now() - began
        if data is None:
            raise self._error(is_slow=left_seconds < self._idle_seconds)
        self.received_bytes += len(data)
        return data

    def _error(self, *, is_slow: bool) -> RequestTimeoutError:
        if not is_slow:
            waited = self._idle_seconds
            reason = f"no answer within {waited:g} s"
            return RequestTimeoutError(self._url, reason, waited_seconds=waited)
        waited = self._waited_seconds
        reason = f"the body arrives too slowly: {self.received_bytes} bytes within {waited:.1f} s"
        return RequestTimeoutError(self._url, reason, waited_seconds=waited)


@final
class ListBody:
    """The body of a list that is read from the socket.

    Args:
        response: the response, its head read.
        timeouts: how long the reads may wait.
        on_left: called when the body is closed, with the response: it closes the connection, or
            keeps it for another list.
    """

    def __init__(
        self,
        response: WatchResponse,
        timeouts: ReadTimeouts,
        on_left: Callable[[WatchResponse], None],
    ) -> None:
        self._response = response
        self._timeouts = timeouts
        self._on_left = on_left
        self._rest = b""
        self._offset = 0
        self._is_left = False

    @property
    def received_bytes(self) -> int:
        """How many bytes of the body have arrived so far."""
        return self._timeouts.received_bytes

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; see Body.read.

        Returns:
            At most 64 KiB, as they arrived; `b""` at the end of the body, again and again.

        Raises:
            TransportError: the connection was lost before the end of the body.
            RequestTimeoutError: the server was silent or slow for too long.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        if self._offset >= len(self._rest):
            self._rest, self._offset = await self._timeouts.read(self._response.read), 0
        piece = self._rest
        if len(piece) > _READ_BYTES:
            piece = piece[self._offset : self._offset + _READ_BYTES]
        self._offset += len(piece)
        return piece

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for the current read and for later ones."""
        self._response.expire(waited_seconds)

    def close(self) -> None:
        """Leave the connection: it is closed, unless the body was read to its end."""
        if not self._is_left:
            self._is_left = True
            self._on_left(self._response)


@final
class AiohttpBody:
    """The body of a response of aiohttp.

    Args:
        response: the response, its headers read.
        url: the URL of the request, without its query.
        idle_seconds: how long the server may send nothing; None for no limit.
        total_seconds: how long the reads may wait in all, and a second more for each
            `LEAST_BYTES_PER_SECOND` that arrived; None for no limit.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        url: str,
        *,
        idle_seconds: float | None,
        total_seconds: float | None = None,
    ) -> None:
        self._response = response
        self._content = response.content
        self._url = url
        self._idle_seconds = idle_seconds or 0.0
        self._timeouts = ReadTimeouts(url, idle_seconds=idle_seconds, total_seconds=total_seconds)
        self._failures: tuple[type[Exception], ...] = (*network_errors(), RuntimeError)
        self._has_ended = False

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived so far."""
        return self._timeouts.received_bytes

    async def read(self) -> bytes:
        """Wait for the next bytes of the body.

        Returns:
            At most 64 KiB, as they arrived; `b""` at the end of the body, again and again.

        Raises:
            TransportError: the connection was lost before the end of the body.
            RequestTimeoutError: a list was silent or slow for too long, or a watch outlived its
                deadline.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        if self._has_ended:
            return b""
        try:
            data = await self._timeouts.read(self._read_once)
        except self._failures as error:
            if isinstance(error, InformerError):  # of the timeouts, or from expire()
                raise
            raise translate(error, self._url, waited_seconds=self._idle_seconds) from error
        if not data:
            self._has_ended = True
        return data

    def _read_once(self) -> Awaitable[bytes]:
        return self._content.read(_READ_BYTES)

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for the current read and for later ones."""
        reason = f"still open {waited_seconds:g} s after it began"
        error = RequestTimeoutError(self._url, reason, waited_seconds=waited_seconds)
        self._content.set_exception(error)
        self._response.close()

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""
        self._response.close()


async def read_bounded(body: Body, limit: int) -> bytes:
    """Read a body to its end, or until it is longer than the limit.

    Raises:
        TransportError: as `Body.read`.

    Cancellation:
        Safe; what was read is lost.
    """
    parts: list[bytes] = []
    size = 0
    while size <= limit and (part := await body.read()):
        parts.append(part)
        size += len(part)
        await anyio.lowlevel.checkpoint_if_cancelled()  # under a flood no read ever waits
    return b"".join(parts)
