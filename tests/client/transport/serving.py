"""Small servers for the tests of the transport: raw sockets with exact responses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    ConnectionOptions,
    ConnectionTimeouts,
    NoCredentials,
)
from tests.waiting import settle

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from pyinformer.client.transport import Credentials


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """The server of one test: its address, its requests, its connections."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    """How many were opened."""
    open_connections: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until(self, claim: Callable[[], bool]) -> None:
        """Wait until a condition about this server is true."""
        async with asyncio.timeout(100):
            while not claim():
                await self._changed.wait()

    def note(self) -> None:
        """Wake the tasks that wait for a condition."""
        self._changed.set()
        self._changed = asyncio.Event()


if TYPE_CHECKING:
    Answer = Callable[[Request, asyncio.StreamWriter], Coroutine[None, None, None]]


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers: dict[str, str] = {}
    for name, value in pairs:  # several headers of one name become one, as RFC 9110 allows
        known = headers.get(name.strip().lower())
        headers[name.strip().lower()] = f"{known}, {value.strip()}" if known else value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body)


async def _answer_all(
    server: Server, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of a connection until its peer closes it, even during a response."""
    while True:
        server.requests.append(request := await _read_request(reader))
        server.note()
        work = asyncio.create_task(answer(request, writer))
        gone = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return
            work.result()
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.wait({work, gone})


@asynccontextmanager
async def serving(
    answer: Answer, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Server]:
    """Run a server that hands every request to `answer`, until the block is left."""
    server = Server()
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        server.open_connections += 1
        try:
            await _answer_all(server, answer, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            server.open_connections -= 1
            server.note()
            writer.transport.abort()

    def connected_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks[asyncio.create_task(serve(reader, writer))] = writer

    listener = await asyncio.start_server(connected_to, host, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    host = f"[{host}]" if ":" in host else host
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        listener.close()
        await settle()  # a connection that was accepted just now
        for task, writer in tasks.items():
            task.cancel()
            writer.transport.abort()  # a task that has not begun never does
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def response(
    body: bytes = b"{}", *, status: int = 200, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a whole response."""
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines |= dict(headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body; an empty chunk ends the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def always(data: bytes) -> Answer:
    """Return a function that answers every request with these bytes."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


@asynccontextmanager
async def connected(
    url: str,
    *,
    credentials: Credentials | None = None,
    config: ClusterConfig | None = None,
    max_request_connections: int = 32,
    http_client: str = "direct",
    **timeouts: float,
) -> AsyncIterator[Connection]:
    """Make a connection that is closed when the block is left."""
    if config is None:
        config = ClusterConfig(server=url, credentials=credentials or NoCredentials())
    connection = Connection(
        config,
        options=ConnectionOptions(
            max_request_connections=max_request_connections,
            http_client=http_client,  # type: ignore[arg-type] # the tests' parameters are texts
        ),
        timeouts=ConnectionTimeouts(**timeouts),
    )
    try:
        yield connection
    finally:
        await connection.aclose()


@asynccontextmanager
async def cluster_with(url: str, name: str = "", /, **timeouts: float) -> AsyncIterator[Cluster]:
    """Make a cluster whose connection has other deadlines than that of a program."""
    config = ClusterConfig(server=url)
    connection = Connection(config, timeouts=ConnectionTimeouts(**timeouts))
    async with Cluster(config, name=name, connection=connection) as cluster:
        yield cluster
