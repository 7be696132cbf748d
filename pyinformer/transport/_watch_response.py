"""The answer to a watch, read without a detour: bytes from the socket in, pieces of the body out.

The hot path of every informer. The socket writes into one buffer that is used again and again, and
whole chunks are handed on in place, from within the call that brought them: nothing is copied, and
no task is woken for it. llhttp parses the head, and every body that is not framed in the usual way.
Without a reader the buffer fills up, then the socket is paused, and so the server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast, final

import anyio.lowlevel

from pyinformer.apimachinery import (
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.transport._chunks import OnPiece, scan_chunks

if TYPE_CHECKING:
    from httptools import HttpResponseParser
    from multidict import CIMultiDict

# Each turn of the loop costs as much as some events do, and each read of a full socket wakes its
# server: a busy watch gets room for 80 pods at a time, if a turn with it is short. Small objects,
# and what users' own functions do with each, make a turn long; then the room gets smaller.
_LEAST_BYTES: Final = 64 << 10
_MOST_BYTES: Final = 512 << 10
_SHORT_TURN_SECONDS: Final = 0.004
_LONG_TURN_SECONDS: Final = 0.010
_SMALL_READS: Final = 64  # after so many in a row the room is given back
_MAX_HEAD_BYTES: Final = _LEAST_BYTES  # honest ones have one or two KiB
_head_end = re.compile(rb"\n\r?\n").search
_PROTOCOL: Final = b"HTTP/"
_FIRST_FINAL: Final = 200
_MOST_INFORMATIONAL: Final = 16  # answers such as 103 before the real one; servers send one or two


@final
class WatchResponse(asyncio.BufferedProtocol):
    """One response: its head once it is there, then its body piece by piece.

    Args:
        url: what was asked for, without its query; names it in errors.
        on_closed: is told when the connection is closed, whoever closed it.
        now: the loop's clock; None for that of the loop that connects it.
    """

    def __init__(
        self,
        url: str,
        on_closed: Callable[[WatchResponse], None],
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        from httptools import HttpParserError, HttpResponseParser
        from multidict import CIMultiDict

        self.status = 0
        self.received_bytes = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.url = url
        self._on_closed = on_closed
        self._now = now or float
        self._has_clock = now is not None
        self._parser: HttpResponseParser = HttpResponseParser(self)
        # As aiohttp reads lists: a resource that can be listed can be watched, too.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._not_http: type[Exception] = HttpParserError
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_LEAST_BYTES)
        self._view = memoryview(self._buffer)  # under TLS a slice of a bytearray would be a copy
        self._filled = 0  # so much of the buffer has arrived and was not looked at
        self._small_reads = 0
        self._turn_began: float | None = None  # with the first large read of this turn of the loop
        self._loop_reads_on = False  # it reads again and again before others have their turn
        self._pieces: list[bytes] = []  # looked at, and not taken
        self._scans = False  # the buffer begins with a chunk of the usual shape, as far as is known
        self._take: OnPiece | None = None
        self._on_turn: Callable[[], bool] = _go_on
        self._head_size = 0
        self._informational = 0
        self._is_paused = False
        self._has_head = False
        self._has_ended = False
        self._is_closed = False
        self._error: InformerError | None = None
        self._failure: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_unconnected(self) -> bool:
        """Whether nothing needs closing: there never was a connection, or it is closed."""
        return self._transport is None

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_encoded(self) -> bool:
        """Whether the body is compressed, or otherwise encoded, though that was not asked for."""
        return self.headers.get("content-encoding", "identity").strip().lower() != "identity"

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            TransportError: the connection was lost before.
            ProtocolError: the answer is not HTTP.

        Cancellation:
            Safe; the connection stays open.
        """
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._something()

    async def deliver(self, take: OnPiece, on_turn: Callable[[], bool]) -> None:
        """Hand on the body as it arrives, from within the loop's own callbacks.

        Args:
            take: is given each piece, in order.
            on_turn: is called when all that arrived at once was taken; returns whether to go on.

        Raises:
            TransportError: the connection was lost before the end of the body.
            ProtocolError: what arrived is not HTTP.
            BaseException: what `take` or `on_turn` raised; nothing is taken after that.

        Cancellation:
            Safe; nothing is taken from then on, and what arrives waits for the next reader.
        """
        self._take, self._on_turn = take, on_turn
        try:
            self._advance()
            while self._take is not None:
                if self._error is not None:
                    raise self._error
                if self._has_ended:
                    return
                self._resume()
                await self._something()
            if self._failure is not None:
                raise self._failure
        finally:
            self._take, self._failure = None, None

    async def pieces(self) -> list[bytes]:
        """Wait for what comes next of the body.

        Returns:
            The pieces that arrived since, none of them empty; nothing at the end of the body.

        Raises:
            TransportError: the connection was lost before the end of the body.
            ProtocolError: what arrived is not HTTP.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        self._advance()
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return []
            self._resume()
            await self._something()
            self._advance()
        pieces, self._pieces = self._pieces, []
        self._resume()
        return pieces

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; `b""` at its end.

        Raises:
            TransportError: as `pieces`.
            ProtocolError: as `pieces`.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        return b"".join(await self.pieces())

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for whoever reads it and for later reads."""
        reason = f"still open {waited_seconds:g} s after it began"
        self.fail(RequestTimeoutError(self.url, reason, waited_seconds=waited_seconds))

    def fail(self, error: InformerError) -> None:
        """End the body with an error, behind what has arrived, and close the connection."""
        if not self._has_ended and self._error is None:
            self._error = error
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def send(self, request: bytes) -> None:
        """Send the request."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Close the connection at once; what has arrived and was not read is gone."""
        self._pieces.clear()
        self._filled = 0
        self.fail(TransportError(self.url, "the connection was lost: it was closed by us"))

    def abandon(self) -> None:
        """Give up a connection that the caller of the event loop will never get.

        Cancelled between the handshake and its caller, uvloop closes it and does not report that.
        """
        self.close()
        self._transport = None
        self._is_closed = True
        self._on_closed(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection (for the event loop)."""
        if self._is_closed:
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop derive from none
        if not self._has_clock:
            self._now = asyncio.get_running_loop().time

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes belong (for the event loop)."""
        del sizehint
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take note of bytes from the socket (for the event loop)."""
        self._filled += nbytes
        self.received_bytes += nbytes
        is_full = self._filled == len(self._buffer)
        is_busy = is_full or nbytes >= _LEAST_BYTES
        began = self._now() if is_busy else 0.0
        if self._take is not None or not self._has_head:
            self._advance()
        if self._take is None or self._has_ended or self._error is not None:
            if self._filled == len(self._buffer):
                self._pause()
            self._wake()
        elif is_full:
            self._fit(self._now() - began)
        elif len(self._buffer) > _LEAST_BYTES:
            is_small = nbytes < _LEAST_BYTES
            self._small_reads = self._small_reads + 1 if is_small else 0
            if self._small_reads > _SMALL_READS:
                self._resize(_LEAST_BYTES)
        if is_busy and self._take is not None:
            self._spend_since(began)

    def _spend_since(self, began: float) -> None:
        """Let others have their turn when the reads of this one have taken long enough.

        asyncio reads once in a turn of the loop. libuv, and so uvloop, reads up to 32 times while
        the buffer gets full, and nothing else runs in between.
        """
        if self._turn_began is None:
            self._turn_began = began
            asyncio.get_running_loop().call_soon(self._end_turn)
        else:
            self._loop_reads_on = True
        if self._loop_reads_on and self._now() - self._turn_began > _SHORT_TURN_SECONDS:
            self._pause()

    def _end_turn(self) -> None:
        self._turn_began = None
        self._resume()

    def _fit(self, turn_seconds: float) -> None:
        """Make room for more where a full buffer was soon handled, for less where it was not."""
        self._small_reads = 0
        if turn_seconds < _SHORT_TURN_SECONDS:
            self._resize(2 * len(self._buffer))
        elif turn_seconds > _LONG_TURN_SECONDS:
            self._resize(max(_LEAST_BYTES, len(self._buffer) // 2))

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end (for the event loop)."""
        self._transport = None
        self._is_closed = True
        self._on_closed(self)
        self._advance()
        if self._has_head and not self._is_sized and exc is None:
            self._has_ended = True  # a body without a length ends with its connection, but no reset
        if not self._has_ended and self._error is None:
            words = str(exc) if exc is not None and str(exc) else "the server closed it"
            self._error = TransportError(self.url, f"the connection was lost: {words}")
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header (for the parser)."""
        if self._has_ended:
            return  # of another answer, which nobody asked for
        self._head_size += len(name) + len(value)
        if self._head_size > _MAX_HEAD_BYTES:
            self._refuse_head()
            return
        self.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take note that the head is complete (for the parser)."""
        if self._has_ended:
            return
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL:
            self.headers.clear()  # informational; the real answer follows
            self._informational += 1
            if self._informational > _MOST_INFORMATIONAL:
                reason = f"over {_MOST_INFORMATIONAL} informational answers before the real one"
                self.fail(ProtocolError(self.url, reason))
            return
        self.status = status
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body (for the parser)."""
        if not self._has_ended:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Take note that the body is complete (for the parser)."""
        self._has_ended = self._has_head

    @property
    def _is_sized(self) -> bool:
        return "transfer-encoding" in self.headers or "content-length" in self.headers

    def _advance(self) -> None:
        """Look at what is in the buffer; hand it on, or keep it for whoever asks."""
        has_news = bool(self._filled or self._pieces)
        try:
            while not self._has_head and self._parse_head():
                pass
            self._hand_on_pieces()
            if self._scans:
                self._scan(self._take or self._collect)
            if self._has_head and not self._scans and self._filled:
                self._feed(self._filled)
                self._hand_on_pieces()
            if has_news and self._take is not None and not self._on_turn():
                self._stop()
        except BaseException as error:
            self._failure = error  # the reader's own: raised to it, and nothing is taken twice
            self._stop()
            self.close()
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise

    def _refuse_head(self) -> None:
        self.fail(ProtocolError(self.url, f"headers of over {_MAX_HEAD_BYTES} bytes"))

    def _parse_head(self) -> bool:
        """Parse a head if there is one; return whether another may follow."""
        found = _head_end(self._buffer, 0, self._filled)
        if found is None:
            if not _PROTOCOL.startswith(self._buffer[: min(self._filled, len(_PROTOCOL))]):
                self._feed(self._filled)  # it says what is wrong
            if self._filled >= _MAX_HEAD_BYTES:
                self._refuse_head()
            return False
        end = found.end()
        is_plain = b"\n" not in self._buffer[:end].replace(
            b"\r\n", b""
        )  # else the parser reads all
        self._feed(end)
        is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._scans = is_plain and is_chunked and self._has_head and not self._has_ended
        return self._filled > 0 and self._error is None

    def _scan(self, take: OnPiece) -> None:
        """Hand on whole chunks; what is unusual, or too long for the buffer, is the parser's."""
        position, is_usual = scan_chunks(self._buffer, 0, self._filled, take)
        self._keep_from(position)
        is_stuck = self._filled == len(self._buffer)
        if is_stuck:
            self._resize(2 * self._filled)
            is_stuck = self._filled == len(self._buffer)
        self._scans = is_usual and not is_stuck and not self._is_closed

    def _feed(self, stop: int) -> None:
        """Give the parser the next bytes: it has seen all before them, but for whole chunks."""
        data = bytes(self._view[:stop])
        self._keep_from(stop)
        try:
            self._parser.feed_data(data)
        except self._not_http as error:
            self.fail(ProtocolError(self.url, f"the answer is not HTTP: {error}"))

    def _keep_from(self, position: int) -> None:
        """Move what is left to the front of the buffer."""
        left = self._filled - position
        if position and left:
            self._buffer[:left] = self._buffer[position : self._filled]
        self._filled = left

    def _resize(self, size: int) -> None:
        """Take a buffer of this size or of the size that is allowed, and keep what is in it."""
        size = max(self._filled, min(size, _MOST_BYTES))
        if size != len(self._buffer):
            buffer = bytearray(size)
            buffer[: self._filled] = self._view[: self._filled]
            self._buffer, self._view, self._small_reads = buffer, memoryview(buffer), 0

    def _collect(self, data: bytes | bytearray, start: int, stop: int) -> None:
        self._pieces.append(bytes(memoryview(data)[start:stop]))

    def _hand_on_pieces(self) -> None:
        if self._take is not None and self._pieces:
            pieces, self._pieces = self._pieces, []
            for piece in pieces:
                self._take(piece, 0, len(piece))

    def _stop(self) -> None:
        self._take = None
        self._wake()

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and self._is_paused and self._filled < len(self._buffer):
            self._is_paused = False
            self._transport.resume_reading()

    async def _something(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        # A task that each turn of the loop wakes is never cancelled by anyio while it waits.
        await anyio.lowlevel.checkpoint_if_cancelled()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _go_on() -> bool:
    return True
