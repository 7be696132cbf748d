"""Read the response of a watch or a list directly from the socket: the hot path of every informer.

The socket writes into one buffer that is reused, and complete chunks are passed on in place, within
the callback that received them: nothing is copied, and no task is woken. llhttp parses the head,
and every body that is not framed in the usual way. Without a reader the buffer fills up, then the
socket is paused, and so the server has to wait.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast, final

import anyio.lowlevel

from pyinformer.client.transport.http._chunked_encoding_parser import OnPiece, scan_chunks
from pyinformer.client.transport.http._server_warnings import WARNING_HEADER
from pyinformer.errors import InformerError, ProtocolError, RequestTimeoutError, TransportError

if TYPE_CHECKING:
    from httptools import HttpResponseParser
    from multidict import CIMultiDict

# Each iteration of the loop costs as much as some events, and each read of a full socket wakes its
# server: a busy watch gets a buffer for 80 pods, as long as processing it is short. Small objects,
# and users' functions that run for each, make it long; then the buffer gets smaller.
_LEAST_BYTES: Final = 64 << 10
_MOST_BYTES: Final = 512 << 10
_SHORT_TURN_SECONDS: Final = 0.004
_LONG_TURN_SECONDS: Final = 0.010
_SMALL_READS: Final = 64  # after so many in a row the buffer shrinks
_MAX_HEAD_BYTES: Final = _LEAST_BYTES  # normal ones have one or two KiB
_head_end = re.compile(rb"\n\r?\n").search
_PROTOCOL: Final = b"HTTP/"
_WARNING: Final = WARNING_HEADER.lower().encode()
_FIRST_FINAL: Final = 200
_MOST_INFORMATIONAL: Final = 16  # responses such as 103; servers send one or two


@final
class WatchResponse(asyncio.BufferedProtocol):
    """The response of one watch or list: its head, then its body piece by piece.

    Args:
        url: the URL of the request without its query, for errors.
        on_closed: called when the connection is closed, by either side.
        now: the loop's clock; None for that of the loop that connects it.
    """

    def __init__(
        self,
        url: str,
        on_closed: Callable[[WatchResponse], None],
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        from httptools import HttpParserError
        from multidict import CIMultiDict

        self.spacing_seconds: float = 0.0
        """The pause between two reads while much arrives; 0 reads at once."""
        self.status = 0
        self.received_bytes = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.url = url
        self._on_closed = on_closed
        self._now = now or float
        self._has_clock = now is not None
        self._parser = self._new_parser()
        self._not_http: type[Exception] = HttpParserError
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_LEAST_BYTES)
        self._view = memoryview(self._buffer)  # under TLS a slice of a bytearray would be a copy
        self._filled = 0  # how many bytes of the buffer have arrived and were not processed
        self._small_reads = 0
        self._turn_began: float | None = None  # at the first large read of this loop iteration
        self._loop_reads_on = False  # it reads several times in one iteration
        self._pieces: list[bytes] = []  # parsed, and not read yet
        self._scans = False  # the buffer begins with a chunk of the usual shape, as far as known
        self._take: OnPiece | None = None
        self._on_turn: Callable[[], bool] = _always
        self._head_size = 0
        self._informational = 0
        self._is_paused = False
        self._is_pulled = False  # by read(), which empties the buffer in a later iteration
        self._has_head = False
        self._has_ended = False
        self._keeps_alive = False  # the server allows another request on the connection
        self._is_closed = False
        self._error: InformerError | None = None
        self._failure: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    def _new_parser(self) -> HttpResponseParser:
        from httptools import HttpResponseParser

        parser = HttpResponseParser(self)
        # As lenient as aiohttp, which reads other responses.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    @property
    def can_take_another(self) -> bool:
        """Whether the connection can carry another request: the body was read to its end."""
        is_read = self._has_ended and not self._filled and not self._pieces
        return is_read and self._keeps_alive and not self.is_unconnected and self._error is None

    def begin_again(self, url: str) -> None:
        """Forget the response that was read, before another request is sent.

        Args:
            url: the URL of that request without its query, for errors.
        """
        self.url = url
        self.status = 0
        self.headers.clear()
        self._parser = self._new_parser()
        self._head_size = self._informational = 0
        self._scans = self._has_head = self._has_ended = self._keeps_alive = False
        self._is_pulled = False
        self._resume()

    @property
    def is_unconnected(self) -> bool:
        """Whether there is no open connection: none was made, or it is closed."""
        return self._transport is None

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_encoded(self) -> bool:
        """Whether the body is compressed or otherwise encoded, although that was not requested."""
        return self.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            TransportError: the connection was lost before the end of the head.
            ProtocolError: the response is not HTTP.

        Cancellation:
            Safe; the connection stays open.
        """
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def deliver(
        self, take: OnPiece, on_turn: Callable[[], bool], *, spacing_seconds: float = 0.0
    ) -> None:
        """Pass the body to a callback as it arrives, from within the loop's own callbacks.

        Args:
            take: called with each piece, in order.
            on_turn: called when the bytes that arrived are used up; returns whether to continue.
            spacing_seconds: the pause between two reads while much arrives.

        Raises:
            TransportError: the connection was lost before the end of the body.
            ProtocolError: the response is not HTTP.
            BaseException: what `take` or `on_turn` raised; `take` is not called again.

        Cancellation:
            Safe; `take` is not called any more, and later bytes wait for the next reader.
        """
        self._take, self._on_turn = take, on_turn
        self.spacing_seconds = spacing_seconds
        try:
            self._advance()
            while self._take is not None:
                if self._error is not None:
                    raise self._error
                if self._has_ended:
                    return
                self._resume()
                await self._wait()
            if self._failure is not None:
                raise self._failure
        finally:
            self._take, self._failure = None, None

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; `b""` at its end.

        Raises:
            TransportError: the connection was lost before the end of the body.
            ProtocolError: the response is not HTTP.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        # A slow server may need longer for a chunk than the reader of a list waits for its bytes.
        self._scans = False
        self._is_pulled = True
        self._advance()
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return b""
            self._resume()
            await self._wait()
            self._advance()
        pieces, self._pieces = self._pieces, []
        self._resume()
        return b"".join(pieces)

    def expire(self, waited_seconds: float) -> None:
        """End the body with an error, for the current read and for later ones."""
        reason = f"still open {waited_seconds:g} s after it began"
        self.fail(RequestTimeoutError(self.url, reason, waited_seconds=waited_seconds))

    def fail(self, error: InformerError) -> None:
        """Close the connection, and end the body with an error behind what has arrived."""
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
        """Close the connection at once; bytes that were not read are lost."""
        self._pieces.clear()
        self._filled = 0
        self.fail(TransportError(self.url, "the connection was lost: the client closed it"))

    def abandon(self) -> None:
        """Release a connection that was cancelled between its handshake and its caller.

        uvloop closes such a connection and does not report it.
        """
        self.close()
        self._transport = None
        self._is_closed = True
        self._on_closed(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the connection (called by the event loop)."""
        if self._is_closed:
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not derive from it
        if not self._has_clock:
            self._now = asyncio.get_running_loop().time

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the free part of the buffer (called by the event loop)."""
        del sizehint
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Process bytes from the socket (called by the event loop)."""
        self._filled += nbytes
        self.received_bytes += nbytes
        is_full = self._filled == len(self._buffer)
        is_busy = is_full or nbytes >= _LEAST_BYTES
        began = self._now() if is_busy else 0.0
        if self._take is not None or not self._has_head:
            self._advance()
        if self._take is None or self._has_ended or self._error is not None:
            if self._filled == len(self._buffer):
                self._make_room()
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

    def _make_room(self) -> None:
        """Grow a full buffer that read() is going to empty, else pause.

        Pausing costs more than reading 64 KiB, and a list has thousands of them.
        """
        if self._is_pulled:
            self._resize(2 * len(self._buffer))
        if self._filled == len(self._buffer):
            self._pause()

    def _spend_since(self, began: float) -> None:
        """Pause reading in this iteration of the loop if its reads have taken too long.

        Under TLS, `WatchTransport` passes on all that it has received, a full buffer at a time,
        and nothing else runs in between. Without TLS, it reads once per iteration.
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
        """Grow a full buffer that was processed quickly; shrink one that was not."""
        self._small_reads = 0
        if turn_seconds < _SHORT_TURN_SECONDS:
            self._resize(2 * len(self._buffer))
        elif turn_seconds > _LONG_TURN_SECONDS:
            self._resize(max(_LEAST_BYTES, len(self._buffer) // 2))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the body or fail it (called by the event loop)."""
        self._transport = None
        self._is_closed = True
        self._on_closed(self)
        self._advance()
        if self._has_head and not self._is_sized and exc is None:
            self._has_ended = True  # a body without a length ends with its connection, if not reset
        if not self._has_ended and self._error is None:
            words = str(exc) if exc is not None and str(exc) else "the server closed it"
            self._error = TransportError(self.url, f"the connection was lost: {words}")
        self._wake()

    def on_message_begin(self) -> None:
        """Reject a response that was not requested (called by the parser)."""
        if self._has_ended:
            self._keeps_alive = False  # its rest must not answer the next request

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header (called by the parser)."""
        if self._has_ended:
            return  # of another response, which was not requested
        self._head_size += len(name) + len(value)
        if self._head_size > _MAX_HEAD_BYTES:
            self._refuse_head()
            return
        if name.lower() == _WARNING:  # there may be several; aiohttp decodes headers like this
            self.headers.add(WARNING_HEADER, value.decode("utf-8", "surrogateescape"))
            return
        self.headers[name.decode("latin-1")] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Store the status (called by the parser)."""
        if self._has_ended:
            return
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL:
            self.headers.clear()  # informational; the final response follows
            self._informational += 1
            if self._informational > _MOST_INFORMATIONAL:
                reason = f"over {_MOST_INFORMATIONAL} informational answers before the final one"
                self.fail(ProtocolError(self.url, reason))
            return
        self.status = status
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body (called by the parser)."""
        if not self._has_ended:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Mark the body as complete (called by the parser)."""
        if self._has_head and not self._has_ended:
            self._keeps_alive = self._parser.should_keep_alive()
        self._has_ended = self._has_head

    @property
    def _is_sized(self) -> bool:
        return "transfer-encoding" in self.headers or "content-length" in self.headers

    def _advance(self) -> None:
        """Process the buffer; pass its pieces on, or keep them for the next read."""
        has_news = bool(self._filled or self._pieces)
        try:
            while not self._has_head and self._parse_head():
                pass
            if self._pieces:
                self._push_pieces()
            if self._scans:
                take, filled = self._take or self._collect, self._filled
                position, is_usual = scan_chunks(self._buffer, 0, filled, take)
                if filled != self._filled:
                    self._scans = False  # `take` has closed this, and what was left is dropped
                elif position == filled and is_usual and not self._is_closed:
                    self._filled = 0  # whole chunks have arrived, as nearly always
                else:
                    self._keep_chunk(position, is_usual=is_usual)
            if self._has_head and not self._scans and self._filled:
                self._feed(self._filled)
                self._push_pieces()
            if has_news and self._take is not None and not self._on_turn():
                self._stop()
        except BaseException as error:
            self._failure = error  # of `take`: raised by deliver(), and no piece is passed twice
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
                self._feed(self._filled)  # the parser reports what is wrong
            if self._filled >= _MAX_HEAD_BYTES:
                self._refuse_head()
            return False
        end = found.end()
        head = self._buffer[:end]
        is_plain = b"\n" not in head.replace(b"\r\n", b"")  # else the parser reads everything
        self._feed(end)
        is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._scans = is_plain and is_chunked and self._has_head and not self._has_ended
        return self._filled > 0 and self._error is None

    def _keep_chunk(self, position: int, *, is_usual: bool) -> None:
        """Keep a part of a chunk; the parser reads unusual ones, and those over the buffer."""
        self._keep_from(position)
        is_stuck = self._filled == len(self._buffer)
        if is_stuck:
            self._resize(2 * self._filled)
            is_stuck = self._filled == len(self._buffer)
        self._scans = is_usual and not is_stuck and not self._is_closed

    def _feed(self, stop: int) -> None:
        """Give the parser the next bytes; it has seen all bytes before except complete chunks."""
        data = bytes(self._view[:stop])
        self._keep_from(stop)
        try:
            self._parser.feed_data(data)
        except self._not_http as error:
            self.fail(ProtocolError(self.url, f"the answer is not HTTP: {error}"))

    def _keep_from(self, position: int) -> None:
        """Move the remaining bytes to the front of the buffer."""
        left = self._filled - position
        if position and left:
            self._buffer[:left] = self._buffer[position : self._filled]
        self._filled = left

    def _resize(self, size: int) -> None:
        """Resize the buffer within its limits; keep its bytes, and as much room behind them."""
        size = max(self._filled, min(max(size, 2 * self._filled), _MOST_BYTES))
        if size != len(self._buffer):
            buffer = bytearray(size)
            buffer[: self._filled] = self._view[: self._filled]
            self._buffer, self._view, self._small_reads = buffer, memoryview(buffer), 0

    def _collect(self, data: bytes | bytearray, start: int, stop: int) -> None:
        self._pieces.append(bytes(memoryview(data)[start:stop]))

    def _push_pieces(self) -> None:
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

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        # anyio never cancels a task that is woken in every iteration of the loop while it waits.
        await anyio.lowlevel.checkpoint_if_cancelled()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _always() -> bool:
    return True
