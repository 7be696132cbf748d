"""The way of a watch's bytes from its socket: received, decrypted and passed on in one callback.

asyncio's own transport for TLS takes twice the steps. This one also leaves a pause between the
reads of a busy watch, so that one iteration of the event loop processes several events: when it
wakes up for each of them, the wake-up costs more than the event.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport.http._watch_response import WatchResponse

RECEIVE_BYTES: Final = 256 << 10
"""How much one read takes from a socket under TLS."""

_MANY_BYTES: Final = 64 << 10
"""A read that brings so much is followed by the next one at once: the server waits for it."""

_HANDSHAKE_BYTES: Final = 64 << 10


@final
class WatchTransport(asyncio.Transport):
    """The connection of one watch: a connected socket, with or without TLS.

    A watch is idle or busy. While it is idle, the event loop reports when the socket can be read.
    When two reads follow each other within the response's `spacing_seconds`, it is busy: a timer
    reads after that time, until it finds nothing. An event of an idle watch is thus never delayed,
    and one of a busy watch by at most the spacing.

    Args:
        sock: the socket, connected and non-blocking; this object closes it.
        response: receives the bytes.
        room: `RECEIVE_BYTES` for what is received under TLS. Several transports of one event loop
            may share it: nothing stays there between two callbacks.
        context: the TLS settings; None for plain HTTP.
        server_name: the name that the certificate must have; None without TLS.

    Raises:
        NotImplementedError: the event loop cannot watch a socket, as Windows' default.
    """

    def __init__(
        self,
        sock: socket.socket,
        response: WatchResponse,
        room: memoryview,
        *,
        context: ssl.SSLContext | None,
        server_name: str | None,
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._loop.remove_reader(sock.fileno())  # raises where the loop cannot watch a socket
        self._sock = sock
        self._response = response
        self._room = room
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._tls = tls = context.wrap_bio(
                self._incoming, self._outgoing, server_hostname=server_name
            )
            # What SSLObject.read calls with a buffer, which it fills: two calls fewer for an event.
            core: Any = getattr(tls, "_sslobj", tls)
            self._tls_read: Callable[[int, memoryview], int] = core.read
        self._unsent = b""
        self._is_watched = False  # the loop reports when the socket can be read
        self._is_paused = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        self._now = self._loop.time
        # libuv reports an error of a socket once, together with the bytes before it, and then
        # never reports anything of it again.
        self._reports_errors_once = not isinstance(self._loop, asyncio.SelectorEventLoop)
        self._error: OSError | None = None  # of the socket, while there may be bytes before it

    async def open(self) -> None:
        """Make the TLS handshake, and begin to read.

        Raises:
            OSError: the handshake failed, or the connection was lost.

        Cancellation:
            The caller closes the socket.
        """
        if self._tls is not None:
            await self._shake_hands(self._tls)
        self._response.connection_made(self)
        self._resume()

    async def _shake_hands(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._send_outgoing()
            except ssl.SSLError:
                await self._send_outgoing()  # the alert says the server why
                raise
            else:
                await self._send_outgoing()
                return
            data = await self._loop.sock_recv(self._sock, _HANDSHAKE_BYTES)
            if not data:
                raise ConnectionResetError("the server closed it during the TLS handshake")
            self._incoming.write(data)

    async def _send_outgoing(self) -> None:
        if data := self._outgoing.read():
            await self._loop.sock_sendall(self._sock, data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; what the socket does not take at once follows when it can."""
        if self._is_closed:
            return
        if self._tls is None:
            self._send(bytes(data))
        else:
            self._tls.write(data)
            self._send(self._outgoing.read())

    def _send(self, data: bytes) -> None:
        self._unsent += data
        try:
            sent = self._sock.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._lose(error)
            return
        had_rest, self._unsent = len(self._unsent) > len(data), self._unsent[sent:]
        if self._unsent and not had_rest:
            self._loop.add_writer(self._sock.fileno(), self._send, b"")
        elif had_rest and not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

    def pause_reading(self) -> None:
        """Read nothing from the socket, so that the server has to wait."""
        self._is_paused = True
        self._unwatch()
        self._stop_timer()  # when it fires, what was decrypted must have been passed on

    def resume_reading(self) -> None:
        """Read again, from the next turn of the event loop on."""
        self._is_paused = False
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._is_paused or self._is_closed:
            return
        if self._tls is not None:
            self._decrypt(self._tls)
        if self._timer is None:
            self._watch()

    def _watch(self) -> None:
        if not (self._is_watched or self._is_paused or self._is_closed):
            self._is_watched = True
            self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._sock.fileno())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_readable(self) -> None:
        """Read from a watch that was idle; it is busy if the last read was a moment ago."""
        size = self._read()
        if self._reports_errors_once and self._is_watched:
            self._look_for_error()
        spacing = self._response.spacing_seconds
        if spacing and 0 < size < _MANY_BYTES:
            now = self._now()
            if now - self._read_at < spacing and not (self._is_paused or self._is_closed):
                self._unwatch()
                self._timer = self._loop.call_at(now + spacing, self._on_timer)
            self._read_at = now

    def _look_for_error(self) -> None:
        """Read on behind an error of the socket, up to the end of the bytes before it."""
        if number := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # it is reset
            self._error = OSError(number, os.strerror(number))
            self._unwatch()
            self._loop.call_soon(self._resume)

    def _on_timer(self) -> None:
        """Read from a busy watch; it is idle if nothing has arrived."""
        self._timer = None
        size = self._read()
        if self._is_paused or self._is_closed:
            return
        self._read_at = now = self._now()
        spacing = self._response.spacing_seconds
        if spacing and 0 < size < _MANY_BYTES:
            self._timer = self._loop.call_at(now + spacing, self._on_timer)
        else:
            self._watch()

    def _read(self) -> int:
        """Receive once and pass it on; return the number of bytes, 0 if none have arrived."""
        tls, response = self._tls, self._response
        try:
            if tls is None:
                size = self._sock.recv_into(response.get_buffer(-1))
            else:
                size = self._sock.recv_into(self._room)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._lose(error)
            return 0
        if not size:
            self._lose(self._error)
        elif tls is None:
            response.buffer_updated(size)
        else:
            self._incoming.write(self._room[:size])
            self._decrypt(tls)
        return size

    def _decrypt(self, tls: ssl.SSLObject) -> None:
        """Pass on what is decrypted, a full buffer at a time, until the response has no room."""
        read, incoming, response = self._tls_read, self._incoming, self._response
        has_more = bool(incoming.pending or tls.pending())
        while has_more and not (self._is_paused or self._is_closed):
            view = response.get_buffer(-1)
            room, filled, size = len(view), 0, 1
            error: OSError | None = None
            try:
                while has_more and filled < room:  # at most one record at a time
                    size = read(room - filled, view[filled:])
                    filled += size
                    has_more = size > 0 and incoming.pending > 0
            except ssl.SSLWantReadError:
                has_more = False  # the rest of a record has not arrived
            except OSError as failure:
                error, size = failure, 0
            # Of a record that was larger than the room, the rest waits in `tls`.
            has_more = has_more or (filled == room and tls.pending() > 0)
            if filled:
                response.buffer_updated(filled)
            if not size:  # the server ended the encrypted stream
                self._lose(error)
        if self._outgoing.pending and not self._is_closed:
            self._send(self._outgoing.read())

    def _lose(self, error: OSError | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._unwatch()
        self._stop_timer()
        if self._unsent:
            self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self._loop.call_soon(self._response.connection_lost, error)

    def abort(self) -> None:
        """Close the connection at once."""
        self._lose(None)
