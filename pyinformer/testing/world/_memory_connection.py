"""A connection without a network: requests go to a request handler in the same event loop.

Answers, streams and errors are those of a real Connection. A stream can be held, so that caches do
not receive changes, and it knows whether its reader has taken everything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from pyinformer._runtime.tasks import UserTasks
from pyinformer.client.transport import (
    Body,
    Channels,
    ClusterConfig,
    Query,
    RawResponse,
    check_guard,
    status_error,
)
from pyinformer.errors import APIStatusError, LifecycleError, RequestTimeoutError, TransportError
from pyinformer.objects import decoder_of
from pyinformer.testing.apiserver.handler import HandlerCall, RequestHandler
from pyinformer.testing.apiserver.requests import Failure, Fault, failures, scripted_failure
from pyinformer.testing.world._memory_channels import MemoryChannels, memory_channels

NAME_HEADER: Final = "x-created-name"
"""The header under which the record of a create has the name of the object."""

_SERVER: Final = "http://world.invalid"  # a name that no resolver can find
_FIRST_SUCCESS: Final = 200
_FIRST_NO_SUCCESS: Final = 300
_GRACE_SECONDS: Final = 5.0
_SWITCHING_PROTOCOLS: Final = 101
_JSON: Final = "application/json"


@final
class MemoryBody:
    """The body of one answer, as the transport's Body."""

    def __init__(self) -> None:
        self.received_bytes: int = 0
        """The number of bytes received so far."""
        self._pieces: deque[bytes] = deque()
        self._has_ended = False
        self._error: TransportError | None = None
        self._is_held = False
        self._is_awaited = False
        self._changed = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether its reader has taken everything that is not held, and waits for more."""
        return self._is_awaited and not self._changed.is_set()

    def put(self, data: bytes) -> None:
        """Append bytes to the body."""
        if data:
            self.received_bytes += len(data)
            self._pieces.append(data)
            self._changed.set()

    def end(self) -> None:
        """End the body normally."""
        self._has_ended = True
        self._changed.set()

    def fail(self, error: TransportError) -> None:
        """End the body at once with an error."""
        self._error = self._error or error
        self._changed.set()

    def hold(self, *, held: bool) -> None:
        """Hold new bytes back from the reader, or release all of them."""
        self._is_held = held
        self._changed.set()

    async def read(self) -> bytes:
        """Wait for the next bytes; `b""` at the end.

        Cancellation:
            Safe; a cancelled read takes nothing.
        """
        while True:
            self._changed.clear()
            if self._error is not None:
                raise self._error
            if self._pieces and not self._is_held:
                taken = b"".join(self._pieces)
                self._pieces.clear()
                return taken
            if self._has_ended and not self._is_held:
                return b""
            self._is_awaited = True
            try:
                await self._changed.wait()
            finally:
                self._is_awaited = False

    async def whole(self) -> bytes:
        """Wait for the end of the body and return all of it.

        Cancellation:
            Safe; the bytes read so far are lost.
        """
        parts: list[bytes] = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    def expire(self, waited_seconds: float) -> None:
        """End the body with the error of an exceeded time limit."""
        reason = f"still open {waited_seconds:g} s after it began"
        self.fail(RequestTimeoutError(_SERVER, reason, waited_seconds=waited_seconds))

    def close(self) -> None:
        """Do nothing: the writer ends with the stream."""


@final
class _MemoryResponseWriter:
    """A ResponseWriter that fills a MemoryBody, or is one end of a conversation."""

    def __init__(self, body: MemoryBody, offered: Sequence[str] = ()) -> None:
        self.body = body
        self.channels, self._of_server = memory_channels()
        self._offered = offered
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.started = asyncio.Event()
        self._fault: Fault | None = None
        self._answered: Callable[[int], None] = lambda _: None

    def expect(self, fault: Fault | None, answered: Callable[[int], None]) -> _MemoryResponseWriter:
        self._fault = fault
        self._answered = answered
        return self

    async def begin_faulty(self) -> bool:
        fault = self._fault
        if fault is None:
            return False
        if fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)
        if fault.refuse:
            self._lose()
        elif fault.body is not None:
            await self.send(fault.status or _FIRST_SUCCESS, [fault.body])
        elif fault.status is not None:
            await self.fail(scripted_failure(fault, fault.status))
        else:
            return False
        return True

    def _lose(self) -> None:
        """Break the connection off."""
        self.body.fail(TransportError(_SERVER, "the connection was lost: a fault of the test"))
        self.started.set()

    async def fail(self, failure: Failure) -> None:
        seconds = failure.retry_after_seconds
        headers = {} if seconds is None else {"Retry-After": str(seconds)}
        await self.send(failure.code, [failure.body()], headers=headers)

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
        self.headers = {"Content-Type": content_type, **(headers or {})}
        await self.start(status)
        for piece in body:
            await self.write(piece)
        await self.finish()

    async def upgrade(self, protocols: Sequence[str]) -> MemoryChannels:
        if not self._offered:
            raise failures.no_upgrade()
        common = [one for one in self._offered if one in protocols]
        if not common:
            raise failures.unknown_protocols(self._offered, protocols)
        self.channels.protocol = self._of_server.protocol = common[0]
        await self.start(_SWITCHING_PROTOCOLS)
        return self._of_server

    async def start(self, status: int, *, content_type: str = "application/json") -> None:
        self.status = status
        self._answered(status)
        self.started.set()

    async def write(self, data: bytes) -> None:
        cut = None if self._fault is None else self._fault.cut_after_bytes
        if isinstance(cut, int) and self.body.received_bytes + len(data) >= cut:
            self._lose()
        else:
            self.body.put(data)

    async def finish(self) -> None:
        self.body.end()

    @property
    def is_success(self) -> bool:
        is_success = _FIRST_SUCCESS <= self.status < _FIRST_NO_SUCCESS
        return is_success or self.status == _SWITCHING_PROTOCOLS

    async def refusal(self, request: str) -> APIStatusError:
        """Return the typed error of a refusal."""
        text = await self.body.whole()
        return status_error(self.status, self.headers, text, request=request)


@final
class MemoryConnection:
    """A ConnectionProtocol to a RequestHandler in the same loop.

    Args:
        handler: answers the requests.
        on_request: called with every request and the status and the body of its answer.
    """

    def __init__(
        self,
        handler: RequestHandler,
        on_request: Callable[[HandlerCall, int, bytes], Awaitable[None]],
    ) -> None:
        self._handler = handler
        self._on_request = on_request
        self._watches: set[MemoryBody] = set()
        self._channels: set[MemoryChannels] = set()
        self._tasks = UserTasks()
        self._under_way = 0
        self._is_closed = False
        self._config = ClusterConfig(server=_SERVER, source="testing.World")

    @property
    def config(self) -> ClusterConfig:
        """A configuration without a reachable server."""
        return self._config

    @property
    def open_watches(self) -> int:
        """The number of open watches."""
        return len(self._watches)

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, and the readers of all watches wait."""
        if self._under_way or not all(body.is_idle for body in self._watches):
            return False
        return all(one.is_idle for one in self._channels)

    def hold(self, *, held: bool) -> None:
        """Hold new events back from the open watches, or release all of them."""
        for body in self._watches:
            body.hold(held=held)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Answer a request.

        Raises:
            APIStatusError: the server refuses it.
            FencedError: a write belongs to a term of leader election that is over.
            LifecycleError: the connection is closed.

        Cancellation:
            Before the request is carried out or after it, never between.
        """
        headers = {"Content-Type": content_type}
        if accept:
            headers["Accept"] = accept
        return await self.exchange(method, path, query=query, headers=headers, body=body)

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_seconds: float | None = None,
        received: RawResponse | None = None,
    ) -> bytes:
        """Answer a request with headers; see Connection.exchange.

        Raises:
            InformerError: as `request`.

        Cancellation:
            Before the request is carried out or after it, never between.
        """
        self._check_open()
        self._under_way += 1
        try:
            await asyncio.sleep(0)  # other tasks run meanwhile, as with a network
            if method != "GET":
                check_guard()
            content = body or b""
            content_type = headers.get("Content-Type", _JSON)
            accept = headers.get("Accept", "")
            call = _call(method, path, query, content, content_type, accept=accept)
            reply = _MemoryResponseWriter(MemoryBody())
            await self._handler.serve(call, reply.expect)
            try:
                answer = await reply.body.whole()
            except TransportError:
                if reply.status:  # it was answered, and the answer was lost
                    await self._on_request(call, reply.status, b"")
                raise
            await self._on_request(call, reply.status, answer)
            if received is not None:
                received.status, received.headers = reply.status, reply.headers
                received.body = answer
            if not reply.is_success:
                what = f"{method} {path}"
                raise status_error(reply.status, reply.headers, answer, request=what, path=path)
            await asyncio.sleep(0)
            return answer
        finally:
            self._under_way -= 1

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AsyncIterator[Body]:
        """Answer a list or a watch.

        Raises:
            APIStatusError: the server refuses it.
            LifecycleError: the connection is closed.

        Cancellation:
            Safe; the stream ends.
        """
        self._check_open()
        body = MemoryBody()
        reply = _MemoryResponseWriter(body)
        call = _call("GET", path, query, b"", "", accept=accept)
        task = self._tasks.spawn(f"answer to GET {path}", self._serve(call, reply))
        try:
            await self._begun(reply, what or f"GET {path}")
            if watch:
                self._watches.add(body)
            yield body
        finally:
            self._watches.discard(body)
            task.cancel_once()

    @asynccontextmanager
    async def channels(
        self, path: str, query: Query = (), *, protocols: Sequence[str]
    ) -> AsyncIterator[Channels]:
        """Answer with a conversation; see Connection.channels.

        Raises:
            APIStatusError: the server refuses it.
            FencedError: it belongs to a term of leader election that is over.
            LifecycleError: the connection is closed.

        Cancellation:
            Safe; the conversation ends.
        """
        self._check_open()
        check_guard()
        reply = _MemoryResponseWriter(MemoryBody(), protocols)
        call = _call("GET", path, query, b"", "")
        task = self._tasks.spawn(f"answer to GET {path}", self._serve(call, reply))
        try:
            await self._begun(reply, f"GET {path}")
            self._channels.add(reply.channels)
            yield reply.channels
        finally:
            self._channels.discard(reply.channels)
            await reply.channels.end()
            task.cancel_once()

    async def _serve(self, call: HandlerCall, reply: _MemoryResponseWriter) -> None:
        try:
            await self._handler.serve(call, reply.expect)
        finally:
            reply.body.end()
            reply.started.set()

    async def _begun(self, reply: _MemoryResponseWriter, request: str) -> None:
        self._under_way += 1
        try:
            await reply.started.wait()
            if not reply.is_success:
                raise await reply.refusal(request)
        finally:
            self._under_way -= 1

    async def aclose(self) -> None:
        """End every stream with an error.

        Cancellation:
            Takes effect when the streams have ended, within a grace period.
        """
        self._is_closed = True
        for body in tuple(self._watches):
            body.fail(TransportError(_SERVER, "the connection was lost: closed by aclose()"))
        await self._tasks.stop(_GRACE_SECONDS)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LifecycleError(f"the connection to {_SERVER} is closed")


def _call(
    method: str, path: str, query: Query, content: bytes, content_type: str, *, accept: str = ""
) -> HandlerCall:
    async def read() -> bytes:
        return content

    return HandlerCall(
        method=method,
        raw_path=path,
        path=unquote(path),
        query=dict(query),
        headers={
            "user-agent": "pyinformer",
            "accept": accept,
            "content-type": content_type,
            NAME_HEADER: _created_name(method, content),
        },
        content_type=content_type,
        read=read,
        command=tuple(value for name, value in query if name == "command"),
    )


def _created_name(method: str, content: bytes) -> str:
    """Return the name of the object of a create, which its path does not have."""
    if method != "POST":
        return ""
    try:
        return _decode_named(content).metadata.name
    except msgspec.DecodeError:
        return ""


class _NamedMeta(Struct):
    name: str = ""


class _Named(Struct):
    metadata: _NamedMeta = msgspec.field(default_factory=_NamedMeta)


_decode_named = decoder_of(_Named, skims=True)
