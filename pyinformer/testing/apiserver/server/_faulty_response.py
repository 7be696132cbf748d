"""One HTTP response, with the scripted fault of its request applied.

Each piece of the body is written as one chunk. `ResponseCut` ends the handling of a request whose
connection was cut on purpose.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from aiohttp import HttpVersion11, WSMsgType, web

from pyinformer.testing.apiserver.requests import (
    BodyEdit,
    Cut,
    Failure,
    Fault,
    FaultScript,
    failures,
    scripted_failure,
)

_JSON = "application/json"
_SWITCHING_PROTOCOLS = 101
_MOST_WARNINGS = 64
_LONGEST_WARNING = 256  # characters, as in kube-apiserver
_OF_ONE_REQUEST = frozenset({"resourceVersion", "resourceVersionMatch", "timeoutSeconds"})
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER, zero seconds: closing sends RST


def _warning(text: str) -> str:
    """Return the value of a Warning header, as Kubernetes writes it."""
    quoted = text[:_LONGEST_WARNING].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _list_target(request: web.Request) -> str:
    """Return what a list is of: its path and query, at whatever version it is wanted."""
    query = sorted(pair for pair in request.query.items() if pair[0] not in _OF_ONE_REQUEST)
    return str((request.path, query))


class ResponseCut(Exception):  # noqa: N818 - it ends a request and is never reported
    """The response was broken off on purpose."""


def cut_transport(transport: asyncio.BaseTransport | None, *, reset: bool) -> None:
    """Cut a connection with RST, or with FIN inside the current response."""
    if not isinstance(transport, asyncio.WriteTransport):
        return
    raw = transport.get_extra_info("socket")
    if reset and raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()


class WebSocketChannels:
    """A conversation over a WebSocket.

    Args:
        socket: the WebSocket, which is open.
    """

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    @property
    def protocol(self) -> str:
        """The protocol that was agreed on."""
        return self._socket.ws_protocol or ""

    async def receive(self) -> bytes | None:
        """Wait for the next binary message; None when the client is gone.

        Cancellation:
            Safe; a cancelled call takes nothing.
        """
        message = await self._socket.receive()
        data: bytes | None = message.data if message.type is WSMsgType.BINARY else None
        return data

    async def send(self, data: bytes) -> None:
        """Send a message.

        Raises:
            ConnectionResetError: the client is gone.

        Cancellation:
            Safe; the client is gone then.
        """
        await self._socket.send_bytes(data)

    async def end(self) -> None:
        """Close the WebSocket.

        Cancellation:
            Safe; the client is gone then.
        """
        await self._socket.close()


class Response:
    """The answer to one HTTP request.

    Args:
        request: aiohttp's request.
        fault: the fault of this request, or None.
        script: holds a response that stalls.
        answered: called with the HTTP status when it is sent.
    """

    def __init__(
        self,
        request: web.Request,
        fault: Fault | None,
        script: FaultScript,
        answered: Callable[[int], None],
    ) -> None:
        self._request = request
        self._fault = fault or Fault()
        self._script = script
        self._answered = answered
        self._stream: web.StreamResponse | None = None
        self._sent = 0
        self._warnings: tuple[str, ...] = ()
        stall, cut = self._fault.stall_after_bytes, self._fault.cut_after_bytes
        self._stall_at = stall if isinstance(stall, int) else None
        self._cut_at = cut if isinstance(cut, int) else None
        self._edit: BodyEdit | None = None
        if self._fault.edit is not None:
            is_watch_list = request.query.get("sendInitialEvents") == "true"
            self._edit = BodyEdit(
                self._fault.edit,
                has_initial_events=is_watch_list,
                first=partial(script.first_list, _list_target(request)),
            )

    async def begin_faulty(self) -> bool:
        """Carry out the fault, if there is one.

        Returns:
            Whether the fault was the whole response.

        Raises:
            ResponseCut: the connection was cut.

        Cancellation:
            Safe; the client is gone then.
        """
        fault = self._fault
        if fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)
        if fault.hang:
            await self._script.hold()
        if fault.refuse:
            self._break("reset")
        if fault.body is not None:
            status = fault.status or 200
            await self.send(status, [fault.body], content_type=fault.content_type)
        elif fault.status is not None:
            await self.fail(scripted_failure(fault, fault.status))
        return self._stream is not None

    async def fail(self, failure: Failure) -> None:
        """Answer with a Status.

        Cancellation:
            Safe; the client is gone then.
        """
        seconds = failure.retry_after_seconds
        headers = {} if seconds is None else {"Retry-After": str(seconds)}
        body = failure.body()
        warnings = failure.warnings
        await self.send(failure.code, [body], headers=headers, length=len(body), warnings=warnings)

    async def upgrade(self, protocols: Sequence[str]) -> WebSocketChannels:
        """Answer with a WebSocket.

        Raises:
            Failure: the client does not ask for one, or speaks none of the protocols.

        Cancellation:
            Safe; the client is gone then.
        """
        if self._request.headers.get("Upgrade", "").lower() != "websocket":
            raise failures.no_upgrade()
        offered = (
            self._request.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").split(",")
        )
        if not set(offered) & set(protocols):
            raise failures.unknown_protocols(offered, protocols)
        socket = web.WebSocketResponse(protocols=protocols, compress=False)
        self._stream = socket
        self._answered(_SWITCHING_PROTOCOLS)
        await socket.prepare(self._request)
        return WebSocketChannels(socket)

    async def send(
        self,
        status: int,
        body: Iterable[bytes],
        *,
        content_type: str = _JSON,
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
            length: the length of the body in bytes; None sends it in chunks.
            warnings: what the client is warned of: one header `Warning` each.

        Cancellation:
            Safe; the client is gone then.
        """
        self._warnings = tuple(map(_warning, filter(str.isprintable, warnings)))[:_MOST_WARNINGS]
        await self.start(status, content_type=content_type, headers=headers, length=length)
        for piece in body:
            await self.write(piece)
        await self.finish()

    async def start(
        self,
        status: int,
        *,
        content_type: str = _JSON,
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Send the status, the headers, and the frames that the fault injects.

        Cancellation:
            Safe; the client is gone then.
        """
        stream = web.StreamResponse(status=status, headers={"Cache-Control": "no-cache, private"})
        stream.headers.update(headers or {})
        stream.headers.extend([("Warning", one) for one in self._warnings])
        stream.headers["Content-Type"] = content_type
        fault = self._fault
        is_faulty = self._cut_at is not None or self._stall_at is not None or fault.frames
        if fault.gzip_members:
            stream.headers["Content-Encoding"] = "gzip"
        if fault.changes_body:
            length = None
        if self._request.version < HttpVersion11 and (length is None or is_faulty):
            stream.force_close()  # its end is that of the connection, as Go has it
        elif length is None or is_faulty:
            stream.enable_chunked_encoding()
        else:
            stream.content_length = length
        self._stream = stream
        self._answered(status)
        await stream.prepare(self._request)
        transport = self._request.transport
        if is_faulty and transport is not None:
            transport.set_write_buffer_limits(0)  # a cut must not discard earlier bytes
        for frame in (b"", *fault.frames):
            await self._write(frame)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body as one chunk.

        Raises:
            ResponseCut: the fault ended the response.

        Cancellation:
            Safe; the client is gone then.
        """
        await self._write(data if self._edit is None else self._edit.feed(data))

    async def _write(self, data: bytes) -> None:
        if data and self._fault.gzip_members:
            data = gzip.compress(data)
        if self._stall_at is not None and self._reaches(self._stall_at, data):
            data = await self._write_until(self._stall_at, data)
            self._stall_at = None
            await self._script.hold()
        if self._cut_at is not None and self._reaches(self._cut_at, data):
            if self._fault.cut == "chunk":
                await self._write_half(self._cut_at, data)
            else:
                await self._write_until(self._cut_at, data)
            if self._fault.cut == "end":
                await self._stream_end()
            self._break(self._fault.cut)
        await self._write_plainly(data)

    @property
    def begun(self) -> web.StreamResponse | None:
        """The aiohttp response; None before its head is sent."""
        return self._stream

    async def finish(self) -> None:
        """End the body normally.

        Cancellation:
            Safe; the client is gone then.
        """
        if self._edit is not None:
            await self._write(self._edit.finish())
        await self._stream_end()

    async def _stream_end(self) -> None:
        if self._stream is None:
            raise ResponseCut
        await self._stream.write_eof()

    def _reaches(self, offset: int, data: bytes) -> bool:
        return self._sent <= offset <= self._sent + len(data)

    async def _write_until(self, offset: int, data: bytes) -> bytes:
        split = offset - self._sent
        await self._write_plainly(data[:split])
        return data[split:]

    async def _write_half(self, offset: int, data: bytes) -> None:
        """Announce a chunk, and send only the bytes before the offset."""
        transport = self._request.transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(b"%x\r\n%b" % (max(len(data), 1), data[: offset - self._sent]))

    async def _write_plainly(self, data: bytes) -> None:
        if data and self._stream is not None and self._request.method != "HEAD":
            await self._stream.write(data)
            self._sent += len(data)

    def _break(self, cut: Cut) -> None:
        if cut != "end":
            cut_transport(self._request.transport, reset=cut == "reset")
        raise ResponseCut
