"""A proxy between a program and its API server, which records every request.

It can break connections, stop answering, and edit the lines of watches, as an old or a broken
server would have sent them. It adds the credentials of the server.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, final
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

_HEAD_BYTES = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER of zero seconds: close() sends RST
_OWN_HEADERS = frozenset({"host", "connection", "accept-encoding", "authorization"})
_GONE = (
    OSError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)

LineEditor: TypeAlias = Callable[[bytes], tuple[bytes, bool]]
"""Receives a line of a watch; returns the line to send, and whether the stream ends after it."""


@final
@dataclass(frozen=True, slots=True)
class Upstream:
    """The address and the credentials of the server behind a proxy."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    """None for plain HTTP."""
    token: str = field(default="", repr=False)


@final
@dataclass(slots=True, eq=False)
class Exchange:
    """A request that a proxy has forwarded."""

    method: str
    path: str
    query: Mapping[str, str]
    is_loading: bool = False
    """Whether the complete state is being sent now: a list, or the beginning of a watch."""

    @property
    def is_load(self) -> bool:
        """Whether it requests the complete state: a list, or a watch that begins with one."""
        return self.verb == "list" or self.query.get("sendInitialEvents") == "true"

    @property
    def verb(self) -> str:
        """`watch`, `list`, `probe` (one object at most, `/livez`), or the method in lower case."""
        if self.query.get("watch") in ("true", "True", "1"):
            return "watch"
        if self.method != "GET":
            return self.method.lower()
        if self.path == "/livez":
            return "probe"
        if self.query.get("limit") == "1" or "metadata.name" in self.query.get("fieldSelector", ""):
            return "probe"
        return "list"

    @property
    def resource_version(self) -> str:
        """The requested resource version, or ""."""
        return self.query.get("resourceVersion", "")


@final
class Proxy:
    """A running proxy; made by `run_proxy`.

    Attributes:
        edit: edits the lines of watches; None forwards them unchanged.
        answers_after_seconds: how long every request waits before it is forwarded.
        arrived: how many requests have arrived, including those that wait for an answer.
        exchanges: the requests forwarded since the last `reset`, oldest first.
        most_loads_at_once: the largest number of simultaneous loads since then.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.edit: LineEditor | None = None
        self.answers_after_seconds: float = 0.0
        self.arrived: int = 0
        self.exchanges: list[Exchange] = []
        self.most_loads_at_once: int = 0
        self.port: int = 0
        self._upstream = upstream
        self._answering: dict[anyio.CancelScope, Exchange | None] = {}
        self._is_dead = False
        self._is_answering = anyio.Event()
        self._is_answering.set()

    @property
    def url(self) -> str:
        """The URL on which the proxy listens."""
        return f"http://127.0.0.1:{self.port}"

    def of(self, verb: str) -> list[Exchange]:
        """Return the requests of one verb, oldest first."""
        return [one for one in self.exchanges if one.verb == verb]

    def reset(self) -> None:
        """Forget the recorded requests."""
        self.exchanges = []
        self.most_loads_at_once = 0

    def loads(self) -> int:
        """Return how many requests were for the complete state."""
        return sum(one.is_load for one in self.exchanges)

    def open_watches(self) -> int:
        """Return how many watches are open now."""
        return sum(one is not None and one.verb == "watch" for one in self._answering.values())

    def reset_connections(self) -> None:
        """Reset every connection."""
        for scope in tuple(self._answering):
            scope.cancel()

    def disconnect(self) -> None:
        """Reset every connection, and every new one, until `resume`."""
        self._is_dead = True
        self.reset_connections()

    def pause(self) -> None:
        """Accept connections, but hold every request until `resume`."""
        self._is_answering = anyio.Event()

    def resume(self) -> None:
        """Forward requests again."""
        self._is_dead = False
        self._is_answering.set()

    async def serve(self, client: SocketStream) -> None:
        """Forward the one request of a connection.

        Cancellation:
            Closes the connection.
        """
        async with client:
            with anyio.CancelScope() as scope:
                self._answering[scope] = None
                try:
                    if not self._is_dead:
                        await self._answer_until_gone(client, scope)
                finally:
                    del self._answering[scope]
            if scope.cancelled_caught or self._is_dead:
                raw = client.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def _answer_until_gone(self, client: SocketStream, scope: anyio.CancelScope) -> None:
        with contextlib.suppress(*_GONE):
            exchange, request = await self._read(BufferedByteReceiveStream(client))
            self.arrived += 1
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_at_end, client, tasks.cancel_scope)
                with contextlib.suppress(*_GONE):
                    await self._is_answering.wait()
                    self._record(exchange, scope)
                    await anyio.sleep(self.answers_after_seconds)
                    async with await self._connect() as server:
                        await server.send(request)
                        await self._pass_back(server, client, exchange)
                tasks.cancel_scope.cancel()

    async def _connect(self) -> ByteStream:
        upstream = self._upstream
        if upstream.context is None:
            return await anyio.connect_tcp(upstream.host, upstream.port)
        return await anyio.connect_tcp(
            upstream.host,
            upstream.port,
            ssl_context=upstream.context,
            tls_standard_compatible=False,  # kube-apiserver closes without close_notify
        )

    async def _read(self, reader: BufferedByteReceiveStream) -> tuple[Exchange, bytes]:
        """Read a request; return its record, and the bytes to send to the server."""
        head = (await reader.receive_until(b"\r\n\r\n", _HEAD_BYTES)).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = [line.partition(":") for line in lines]
        kept = [f"{name}:{value}" for name, _, value in headers if name.lower() not in _OWN_HEADERS]
        length = next((int(value) for name, _, value in headers if _is_length(name)), 0)
        body = await reader.receive_exactly(length) if length else b""
        own = [f"Host: {self._upstream.host}:{self._upstream.port}", "Connection: close"]
        if self._upstream.token:
            own.append(f"Authorization: Bearer {self._upstream.token}")
        request = "\r\n".join([first, *own, *kept, "", ""]).encode("latin-1") + body
        method, target, _ = first.split(" ", 2)
        url = urlsplit(target)
        return Exchange(method, url.path, dict(parse_qsl(url.query))), request

    def _record(self, exchange: Exchange, scope: anyio.CancelScope) -> None:
        self.exchanges.append(exchange)
        self._answering[scope] = exchange
        exchange.is_loading = exchange.is_load
        loading = sum(one is not None and one.is_loading for one in self._answering.values())
        self.most_loads_at_once = max(self.most_loads_at_once, loading)

    async def _pass_back(self, server: ByteStream, client: ByteStream, exchange: Exchange) -> None:
        reader = BufferedByteReceiveStream(server)
        head = await reader.receive_until(b"\r\n\r\n", _HEAD_BYTES)
        await client.send(head + b"\r\n\r\n")
        is_chunked = b"transfer-encoding: chunked" in head.lower()
        if exchange.verb == "watch" and is_chunked:
            await self._pass_lines(reader, client, exchange)
            return
        async for data in reader:
            await client.send(data)

    async def _pass_lines(
        self, reader: BufferedByteReceiveStream, client: ByteStream, exchange: Exchange
    ) -> None:
        """Forward a chunked response line by line, edited."""
        waiting = b""
        while size := int(await reader.receive_until(b"\r\n", _HEAD_BYTES), 16):
            waiting += (await reader.receive_exactly(size + 2))[:-2]
            *lines, waiting = waiting.split(b"\n")
            for line in lines:
                exchange.is_loading &= b'"k8s.io/initial-events-end"' not in line
                edited, is_last = self.edit(line) if self.edit else (line, False)
                await client.send(_chunk(edited + b"\n"))
                if is_last:
                    await client.send(_chunk(b""))
                    return
        await client.send(_chunk(waiting) if waiting else b"")
        await client.send(_chunk(b""))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _is_length(name: str) -> bool:
    return name.lower() == "content-length"


async def _cancel_at_end(client: ByteStream, scope: anyio.CancelScope) -> None:
    """Cancel a response when its client has disconnected."""
    with contextlib.suppress(*_GONE):
        while True:
            await client.receive()
    scope.cancel()


@asynccontextmanager
async def run_proxy(upstream: Upstream) -> AsyncIterator[Proxy]:
    """Run a proxy until the block is left.

    Cancellation:
        Closes the proxy.
    """
    proxy = Proxy(upstream)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        proxy.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
        tasks.start_soon(listener.serve, proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()
