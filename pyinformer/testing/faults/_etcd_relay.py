"""A relay between a kube-apiserver and its etcd that holds watches back, and delays or fails reads.

It reads the frames of HTTP/2 and, of each call, the first message that the client sends: whether
that is a watch or a range, and of which keys. Nothing else is decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, final

import anyio

from pyinformer.errors import LifecycleError
from pyinformer.objects import check_seconds
from pyinformer.testing._leak_free_listener import serve_connections
from pyinformer.testing.faults._loop_thread import LoopThread

_HOST: Final = "127.0.0.1"
_PREFACE_BYTES: Final = 24  # `PRI * HTTP/2.0 ...`, which a client sends first
_HEAD_BYTES: Final = 9
_DATA, _RST_STREAM = 0, 3
_PADDED: Final = 0x8
_INTERNAL_ERROR, _CANCEL = 2, 8
_GRPC_PREFIX_BYTES: Final = 5
_LENGTH_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_EVERYTHING: Final = "/registry/"
_MOST_CALLS: Final = 10_000  # of one connection; the oldest are forgotten, but for watches

_Kind: TypeAlias = Literal["watch", "range", "other"]


@dataclass(slots=True)
class _Call:
    """One stream of a connection."""

    kind: _Kind
    keys: list[str] = field(default_factory=list)

    def has(self, prefix: str | None) -> bool:
        """Return whether it is about a key with a prefix."""
        return prefix is not None and any(key.startswith(prefix) for key in self.keys)


@dataclass(eq=False, slots=True)
class _Link:
    """One connection of a kube-apiserver."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    calls: dict[int, _Call] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)

    def call(self, stream: int, frame: bytes) -> _Call:
        """Return what a stream is, of which the client sends a frame with data."""
        known = self.calls.get(stream)
        if known is not None and known.kind != "watch":
            return known
        call = _call_of(frame)
        if known is not None:  # it watches further keys, or ends a watch
            known.keys += call.keys
            return known
        if len(self.calls) > _MOST_CALLS:
            self.calls = {n: one for n, one in self.calls.items() if one.kind == "watch"}
        return self.calls.setdefault(stream, call)


@final
class EtcdRelay:
    """The relay, in a thread of its own.

        with EtcdRelay() as relay, KubeAPIServer(etcd_relays=[relay]) as server:
            relay.hold("/registry/configmaps/")

    Every method may be called from any thread. A kube-apiserver keeps an object of the core group
    at `/registry/<resource>/<namespace>/<name>`, others below `/registry/<group>/<resource>/`. To
    hold everything delays its definitions and its RBAC too.
    """

    def __init__(self) -> None:
        self.port: int = 0
        """The port on loopback on which it listens."""
        self._target: int | None = None
        self._holds: str | None = None
        self._fails: str | None = None
        self._delays: tuple[str | None, float] = (None, 0.0)
        self._struck = 0
        self._links: set[_Link] = set()
        self._thread = LoopThread("pyinformer-etcd-relay", self._main)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.stop()

    def attach(self, port: int) -> int:
        """Relay to this port of loopback from now on; called by KubeAPIServer.

        Returns:
            The port on which the relay listens.

        Raises:
            LifecycleError: the relay does not run.
        """
        self._thread.call(lambda: setattr(self, "_target", port))
        return self.port

    @property
    def held(self) -> int:
        """How many frames wait."""
        return self._thread.call(lambda: sum(len(link.held) for link in self._links))

    @property
    def struck(self) -> int:
        """How many ranges it has delayed or failed."""
        return self._struck

    def watched(self) -> frozenset[str]:
        """Return the first key of each watch that is open or has been."""

        def read() -> frozenset[str]:
            calls = [call for link in self._links for call in link.calls.values()]
            return frozenset(key for call in calls if call.kind == "watch" for key in call.keys)

        return self._thread.call(read)

    def hold(self, prefix: str = _EVERYTHING) -> None:
        """Keep from the kube-apiserver what etcd's watches of these keys send, until `release`.

        A gRPC stream with several watches is held if one of them is of these keys.
        """
        self._thread.call(lambda: setattr(self, "_holds", prefix))

    def release(self) -> None:
        """Pass on what was held, and everything after it."""

        def apply() -> None:
            self._holds = None
            for link in self._links:
                link.client.write(b"".join(link.held))
                link.held.clear()

        self._thread.call(apply)

    def delay_ranges(self, seconds: float, prefix: str = _EVERYTHING) -> None:
        """Pass each read of these keys so much later, until `heal`."""
        check_seconds("seconds", seconds)
        self._thread.call(lambda: setattr(self, "_delays", (prefix, seconds)))

    def fail_ranges(self, prefix: str = _EVERYTHING) -> None:
        """Answer each read of these keys with an internal error, until `heal`."""
        self._thread.call(lambda: setattr(self, "_fails", prefix))

    def heal(self) -> None:
        """End every fault."""

        def apply() -> None:
            self._fails = None
            self._delays = (None, 0.0)

        self._thread.call(apply)
        self.release()

    async def _main(self, ready: Callable[[], None]) -> None:
        accepting = socket.create_server((_HOST, self.port))
        self.port = accepting.getsockname()[1]
        await serve_connections(accepting, self._serve, ready)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._target is None:
                raise LifecycleError("the relay knows no etcd: pass it to KubeAPIServer")
            from_etcd, to_etcd = await asyncio.open_connection(_HOST, self._target)
        except (OSError, LifecycleError):  # a kube-apiserver outlives its etcd for a moment
            writer.transport.abort()
            return
        except BaseException:
            writer.transport.abort()
            raise
        link = _Link(writer, to_etcd)
        self._links.add(link)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._to_etcd, group, link, reader)
                group.start_soon(self._from_etcd, group, link, from_etcd)
        finally:
            self._links.discard(link)
            for one in (writer, to_etcd):
                one.transport.abort()

    async def _to_etcd(
        self, group: anyio.abc.TaskGroup, link: _Link, reader: asyncio.StreamReader
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            link.server.write(await reader.readexactly(_PREFACE_BYTES))
            while True:
                kind, stream, frame = await _frame(reader)
                is_range = kind == _DATA and link.call(stream, frame).kind == "range"
                if is_range and link.calls[stream].has(self._fails):
                    self._struck += 1
                    link.client.write(_reset(stream, _INTERNAL_ERROR))
                    link.server.write(_reset(stream, _CANCEL))
                elif is_range and link.calls[stream].has(self._delays[0]):
                    self._struck += 1
                    group.start_soon(self._pass_later, link, frame, self._delays[1])
                else:
                    link.server.write(frame)
                await link.server.drain()
        group.cancel_scope.cancel()

    @staticmethod
    async def _pass_later(link: _Link, frame: bytes, seconds: float) -> None:
        await anyio.sleep(seconds)
        link.server.write(frame)

    async def _from_etcd(
        self, group: anyio.abc.TaskGroup, link: _Link, reader: asyncio.StreamReader
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, stream, frame = await _frame(reader)
                call = link.calls.get(stream)
                is_watch = kind == _DATA and call is not None and call.kind == "watch"
                if is_watch and call is not None and call.has(self._holds):
                    link.held.append(frame)
                else:
                    link.client.write(frame)
                    await link.client.drain()
        group.cancel_scope.cancel()


async def _frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Read a frame; return its type, its stream and all of its bytes."""
    head = await reader.readexactly(_HEAD_BYTES)
    body = await reader.readexactly(int.from_bytes(head[:3]))
    return head[3], int.from_bytes(head[5:9]) & 0x7FFFFFFF, head + body


def _reset(stream: int, code: int) -> bytes:
    """Return the frame that ends a stream with an error."""
    return b"\0\0\4%c\0%b%b" % (_RST_STREAM, stream.to_bytes(4), code.to_bytes(4))


def _call_of(frame: bytes) -> _Call:
    """Return what the message in a client's first DATA frame asks for.

    Both a watch and a range begin with field 1: of the one it is a message that begins with the
    key, of the other the key itself.
    """
    body = frame[_HEAD_BYTES:]
    if frame[4] & _PADDED:
        body = body[1 : len(body) - body[0]]
    first = next(_fields(body[_GRPC_PREFIX_BYTES:]), (0, b""))
    if first[0] != 1:
        return _Call("other")
    inner = next(_fields(first[1]), (0, b""))
    if inner[0] == 1 and inner[1].startswith(b"/"):
        return _Call("watch", [inner[1].decode(errors="replace")])
    if first[1].startswith(b"/"):
        return _Call("range", [first[1].decode(errors="replace")])
    return _Call("other")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message in the format of protobuf, numbers without their value."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _number(message, at)
        elif kind == 0:
            _, at = _number(message, at)
            size = 0
        else:
            size = _FIXED_BYTES.get(kind, len(message))
        yield tag >> 3, message[at : at + size]
        at += size


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length; return it, and where it ends."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that another byte follows
            break
    return value, at
