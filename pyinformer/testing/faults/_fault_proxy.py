"""A proxy between a program and an API server that breaks connections as a network does.

It passes bytes on, TLS included, and reads none of them. With `reads_requests` it ends TLS itself,
and a fault script chooses the requests that get a faulty answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, final
from urllib.parse import urlsplit

import anyio

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_integer, check_seconds
from pyinformer.testing._leak_free_listener import serve_connections
from pyinformer.testing._tls import kubeconfig_text, write_private
from pyinformer.testing.apiserver.requests import FaultScript, RequestRecord
from pyinformer.testing.apiserver.server import cut_transport
from pyinformer.testing.faults._loop_thread import LoopThread
from pyinformer.testing.faults._request_proxy import RequestProxy

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 16 * 1024
_HTTPS_PORT, _HTTP_PORT = 443, 80
_DRIPS_PER_SECOND: Final = 20  # a slow link delivers small pieces, not one a second
_BACKLOG: Final = 1024


class Upstream(Protocol):
    """The server behind a proxy: `APIServer`, `KubeAPIServer`, `ServerAddress`, another proxy."""

    @property
    def url(self) -> str:
        """The base URL."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """The file of the CA certificates to trust; None for plain HTTP."""
        ...

    @property
    def token(self) -> str | None:
        """The bearer token of the administrator; None if the server asks for none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """An API server that the test kit did not start, such as one of a kind cluster."""

    url: str
    """The base URL."""

    ca_file: Path | None = None
    """The file of the CA certificates to trust; None for plain HTTP."""

    token: str | None = None
    """A bearer token; None if the server asks for none."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """How bytes pass, in both directions."""

    delay_seconds: float = 0.0
    join_seconds: float = 0.0
    split_bytes: int | None = None
    bytes_per_second: int | None = None

    def pieces(self, data: bytes) -> Sequence[bytes]:
        """Return what is written at once, piece by piece."""
        size = self.split_bytes or len(data)
        if self.bytes_per_second is not None:
            size = min(size, max(1, self.bytes_per_second // _DRIPS_PER_SECOND))
        return [data[begin : begin + size] for begin in range(0, len(data), size)]


@dataclass(eq=False, slots=True)
class _Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    left: int | None
    """How many bytes of the server may still pass; None is all."""
    held: anyio.Event | None = None
    """What the server sends waits for this event; None passes it."""
    is_half_open: bool = False
    """The server's half is gone, and the client does not notice."""

    def cut(self, *, reset: bool) -> None:
        """Break both halves at once."""
        cut_transport(self.client.transport, reset=reset)
        cut_transport(self.server.transport, reset=reset)

    def resume(self) -> None:
        """Pass on what was held."""
        if self.held is not None:
            self.held.set()
            self.held = None


@final
class FaultProxy:
    """A proxy in front of an API server, in a thread of its own.

        with APIServer() as server, FaultProxy(server) as proxy:
            ... proxy.url, proxy.kubeconfig() ...
            proxy.refuse()
            ...
            proxy.heal()

    Every method may be called from any thread and from inside a running event loop; it blocks
    briefly. Faults stay until `heal`, or until the method that ends them.

    Attributes:
        faults: the fault script of the requests; it has an effect with `reads_requests`.
    """

    def __init__(
        self,
        server: Upstream,
        *,
        ports: Sequence[int] = (),
        reads_requests: bool = False,
        host: str = _HOST,
        port: int = 0,
        seed: int = 0,
    ) -> None:
        """Describe a proxy.

        Args:
            server: the server; it must run before the proxy is started.
            ports: the ports of several servers on the server's host, which get the connections in
                turn; a port without a listener is passed over. Empty is that of `server`.
            reads_requests: whether TLS ends here, for `faults`, `expire_token` and `requests`.
                Clients then have to trust `ca_file` of the proxy (needs `trustme`). Connections
                that change their protocol, such as `exec`, do not pass.
            host: the address on which it listens.
            port: the port on which it listens; 0 takes any free one.
            seed: the seed of the fault script.
        """
        self.faults: FaultScript = FaultScript(seed)
        self._upstream = server
        self._ports = tuple(ports)
        self._reads_requests = reads_requests
        self._host = host
        self._port = port
        self._thread = LoopThread("pyinformer-fault-proxy", self._main)
        self._http: RequestProxy | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._target_host = _HOST
        self._targets: Sequence[tuple[str, int]] = ()
        self._shape = _Shape()
        self._cut_after: Callable[[], int] | None = None
        self._refuses = False
        self._stalls = False
        self._open: set[_Link] = set()
        self._connections = self._passed = self._cuts = 0

    def start(self) -> None:
        """Listen.

        Raises:
            InvalidArgumentError: `reads_requests` needs `trustme`, which is not installed.
            LifecycleError: the server has not been started, or the proxy already runs.
            OSError: the port is not available.
        """
        parts = urlsplit(self._upstream.url)
        host = self._target_host = parts.hostname or _HOST
        own_port = parts.port or (_HTTPS_PORT if parts.scheme == "https" else _HTTP_PORT)
        self._targets = tuple((host, port) for port in self._ports or (own_port,))
        if self._reads_requests:
            self._http = RequestProxy(self._upstream, self.faults, ports=self._ports)
            self._targets = ((_HOST, self._http.start()),)
        self._thread.start()

    def stop(self) -> None:
        """Cut every connection and stop listening; idempotent."""
        self.faults.release()
        self._thread.stop()
        if self._http is not None:
            self._http.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The server's address by way of this proxy."""
        return f"{urlsplit(self._upstream.url).scheme}://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._port

    @property
    def ca_file(self) -> Path | None:
        """The file of the CA certificates that clients must trust; None for plain HTTP."""
        pem = None if self._http is None else self._http.ca_pem
        if pem is None:
            return self._upstream.ca_file
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pyinformer-proxy-ca-")
        path = Path(self._folder.name, "ca.pem")
        if not path.exists() or path.read_bytes() != pem:
            write_private(path, pem.decode("ascii"))
        return path

    @property
    def token(self) -> str | None:
        """A bearer token that the proxy accepts now; None if the server asks for none."""
        return self._upstream.token if self._http is None else self._http.token

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a kubeconfig for the server by way of this proxy, as YAML.

        Args:
            token: the bearer token in it; None is `token`.
        """
        ca_file = self.ca_file
        pem = None if ca_file is None else ca_file.read_bytes()
        return kubeconfig_text(self.url, ca_pem=pem, token=token or self.token)

    def write_kubeconfig(self, path: str | Path, token: str | None = None) -> Path:
        """Write `kubeconfig()` to a file that only its owner can read, and return its path."""
        return write_private(Path(path), self.kubeconfig(token))

    @property
    def connections(self) -> int:
        """How many connections it has accepted."""
        return self._connections

    @property
    def passed(self) -> int:
        """How many of them have reached a server."""
        return self._passed

    @property
    def cuts(self) -> int:
        """How many connections it has broken."""
        return self._cuts

    @property
    def open(self) -> int:
        """How many connections are open now, half-open ones included."""
        return len(self._open)

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """The requests that it has read, oldest first; empty without `reads_requests`."""
        return () if self._http is None else self._http.requests

    @property
    def reads_requests(self) -> bool:
        """Whether TLS ends here, so that faults of requests have an effect."""
        return self._reads_requests

    def use_ports(self, ports: Sequence[int]) -> None:
        """Pass later connections to these ports of the server's host, in turn."""
        targets = [(self._target_host, port) for port in ports]
        self._thread.call(lambda: setattr(self, "_targets", targets))

    def cut(self, *, reset: bool = True) -> None:
        """Break every open connection, with RST, or else with FIN inside of a response."""
        self._thread.call(lambda: self._cut(reset=reset))

    def cut_after(self, size: int | Callable[[], int]) -> None:
        """Break each connection after so many more bytes of the server, those of later ones too.

        Args:
            size: the number of bytes, at least 1, or what draws it for each connection.
        """
        if isinstance(size, int):
            check_integer("size", size)
        draw = partial(int, size) if isinstance(size, int) else size

        def apply() -> None:
            self._cut_after = draw
            for link in self._open:
                link.left = draw()

        self._thread.call(apply)

    def cut_open_after(self, size: int) -> None:
        """Break each connection that is open now after so many more bytes of the server."""
        check_integer("size", size)

        def apply() -> None:
            for link in self._open:
                link.left = size

        self._thread.call(apply)

    def refuse(self) -> None:
        """Break every open connection, and every new one at once, until `accept`."""

        def apply() -> None:
            self._refuses = True
            self._cut(reset=True)

        self._thread.call(apply)

    def accept(self) -> None:
        """Accept connections again."""
        self._thread.call(lambda: setattr(self, "_refuses", False))

    def stall(self, *, new: bool = True) -> None:
        """Keep from clients what the server sends, until `resume`; what they send passes.

        Args:
            new: whether connections that are opened later stall as well.
        """

        def apply() -> None:
            self._stalls = new
            for link in self._open:
                link.held = link.held or anyio.Event()

        self._thread.call(apply)

    def resume(self) -> None:
        """Pass on everything that was held, and what comes after it."""

        def apply() -> None:
            self._stalls = False
            for link in self._open:
                link.resume()

        self._thread.call(apply)

    def half_open(self) -> None:
        """Close the server's half of every open connection; the client does not notice.

        The client's half stays open, and what it sends is discarded. Later connections pass.
        """

        def apply() -> None:
            for link in self._open:
                link.is_half_open = True
                link.resume()
                link.server.transport.abort()

        self._thread.call(apply)

    def drip(self, *, bytes_per_second: int) -> None:
        """Pass at most so many bytes a second, per connection and direction."""
        check_integer("bytes_per_second", bytes_per_second)
        self._reshape(lambda shape: replace(shape, bytes_per_second=bytes_per_second))

    def delay(self, seconds: float) -> None:
        """Pass each piece that arrives so much later."""
        check_seconds("seconds", seconds)
        self._reshape(lambda shape: replace(shape, delay_seconds=seconds))

    def split(self, size: int) -> None:
        """Pass at most so many bytes in one write."""
        check_integer("size", size)
        self._reshape(lambda shape: replace(shape, split_bytes=size))

    def join(self, seconds: float) -> None:
        """Pass what arrives within so many seconds in one write."""
        check_seconds("seconds", seconds)
        self._reshape(lambda shape: replace(shape, join_seconds=seconds))

    def expire_token(self) -> str | None:
        """Answer 401 to the token that is valid now, and return a new one, as `token` does.

        Raises:
            InvalidArgumentError: the proxy does not read requests.
        """
        if self._http is None:
            raise InvalidArgumentError("reads_requests", "must be True to expire a token")
        return self._http.expire_token()

    def renew_certificate(self) -> bytes | None:
        """Show later connections a certificate of a new authority, which `ca_file` has then.

        Open connections stay.

        Returns:
            The certificate to trust, in PEM; None for plain HTTP.

        Raises:
            InvalidArgumentError: the proxy does not read requests.
        """
        if self._http is None:
            raise InvalidArgumentError("reads_requests", "must be True to renew the certificate")
        return self._http.renew_certificate()

    def heal(self) -> None:
        """End every fault, those of the script included; half-open connections stay so."""
        self.heal_requests()
        self.heal_network()

    def heal_requests(self) -> None:
        """Remove all faults of the script, and continue the responses that it holds."""
        self.faults.clear()
        self.faults.release()

    def heal_network(self) -> None:
        """End the faults of the network; half-open connections stay so."""

        def apply() -> None:
            self._refuses = self._stalls = False
            self._cut_after = None
            self._shape = _Shape()
            for link in self._open:
                link.left = None
                link.resume()

        self._thread.call(apply)

    def _reshape(self, change: Callable[[_Shape], _Shape]) -> None:
        self._thread.call(lambda: setattr(self, "_shape", change(self._shape)))

    def _cut(self, *, reset: bool) -> None:
        for link in tuple(self._open):
            link.cut(reset=reset)
            self._cuts += 1

    async def _main(self, ready: Callable[[], None]) -> None:
        accepting = socket.create_server((self._host, self._port), backlog=_BACKLOG)
        self._port = accepting.getsockname()[1]
        await serve_connections(accepting, self._serve, ready)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        target = None
        try:
            target = None if self._refuses else await self._reach_a_server()
            if target is not None and self._refuses:  # since the server was called
                target[1].close()
                target = None
        finally:
            if target is None:
                cut_transport(writer.transport, reset=True)
        if target is None:
            return
        from_server, to_server = target
        self._passed += 1
        link = _Link(writer, to_server, self._cut_after() if self._cut_after else None)
        if self._stalls:
            link.held = anyio.Event()
        for one in (writer, to_server):  # what was passed is not lost by what comes after it
            one.transport.set_write_buffer_limits(0)
        self._open.add(link)
        try:
            async with anyio.create_task_group() as group:
                scope = group.cancel_scope
                group.start_soon(self._to_server, scope, link, reader)
                group.start_soon(self._to_client, scope, link, from_server)
        finally:
            self._open.discard(link)
            link.cut(reset=False)

    async def _to_server(
        self, scope: anyio.CancelScope, link: _Link, reader: asyncio.StreamReader
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if link.is_half_open:
                    continue
                with contextlib.suppress(OSError):  # the answers say how it ended
                    await self._pass(await self._joined(reader, data), link.server)
        scope.cancel()

    async def _to_client(
        self, scope: anyio.CancelScope, link: _Link, reader: asyncio.StreamReader
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                data = await self._joined(reader, data)
                while link.held is not None:
                    await link.held.wait()
                if link.left is None:
                    await self._pass(data, link.client)
                    continue
                passed = data[: link.left]
                link.left -= len(passed)
                await self._pass(passed, link.client)
                if link.left == 0:
                    self._cuts += 1
                    break
        if link.is_half_open:
            await anyio.sleep_forever()  # until the client ends it
        scope.cancel()

    async def _joined(self, reader: asyncio.StreamReader, data: bytes) -> bytes:
        """Wait for what is to pass together with a piece."""
        if not self._shape.join_seconds:
            return data
        await anyio.sleep(self._shape.join_seconds)
        with anyio.move_on_after(0):
            data += await reader.read(_CHUNK_BYTES)
        return data

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        shape = self._shape
        if shape.delay_seconds:
            await anyio.sleep(shape.delay_seconds)
        for piece in shape.pieces(data):
            writer.write(piece)
            await writer.drain()
            if self._shape.bytes_per_second is not None:
                await anyio.sleep(len(piece) / self._shape.bytes_per_second)

    async def _reach_a_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the servers in turn, and pass over those that do not listen."""
        turn = self._connections % len(self._targets)
        for host, port in (*self._targets[turn:], *self._targets[:turn]):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(host, port)
        return None
