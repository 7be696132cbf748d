"""The floor of receiving with asyncio: TLS alone, and a count of the newlines of a watch.

Cache: none. A callback of the loop reads the socket once, decrypts through `ssl.MemoryBIO` into a
buffer that is used again, and counts. No HTTP, no JSON, no handler, no recovery of any kind.
`floor.c` does the same with a blocking read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from benchmarks.harness.phases import Phases, Workload

_ROOM_BYTES = 256 * 1024
_WATCH = (
    "/api/v1/pods?watch=1&resourceVersion=0&sendInitialEvents=false"
    "&resourceVersionMatch=NotOlderThan"
)
"""From now on, without the pods that exist."""


def watch_request(workload: Workload) -> bytes:
    """Return the request for the updates of all pods, as it is sent."""
    lines = [
        f"GET {_WATCH} HTTP/1.1",
        f"Host: {urlsplit(workload.url).netloc}",
        "Accept: application/json",
        *([f"Authorization: Bearer {workload.token}"] if workload.token else []),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


async def run(phases: Phases) -> None:
    """Receive the updates until the stream ends, which is an error.

    Cancellation:
        Closes the connection.
    """
    phases.begin()
    connection = _connected(phases.workload)
    phases.synced(0)
    with connection.socket:
        loop = asyncio.get_running_loop()
        has_ended = asyncio.Event()
        connection.socket.setblocking(False)
        loop.add_reader(connection.socket, _receiving(connection, has_ended))
        try:
            await phases.release_updates()
            await has_ended.wait()
        finally:
            loop.remove_reader(connection.socket)
    raise RuntimeError("the watch has ended")


@dataclass(frozen=True, slots=True)
class _Connection:
    """A socket, and the TLS through which its bytes go."""

    socket: socket.socket
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO


def _connected(workload: Workload) -> _Connection:
    """Ask for the watch, and wait for the beginning of the answer."""
    target = urlsplit(workload.url)
    connected = socket.create_connection((target.hostname, target.port))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=workload.ca_file)
    tls = context.wrap_bio(incoming, outgoing, server_hostname=target.hostname)
    answer = b""
    is_asked = False
    while not answer:
        try:
            if not is_asked:
                tls.do_handshake()
                tls.write(watch_request(workload))
                is_asked = True
                connected.sendall(outgoing.read())
            answer = tls.read(_ROOM_BYTES)
        except ssl.SSLWantReadError:
            connected.sendall(outgoing.read())
            incoming.write(connected.recv(_ROOM_BYTES))
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"the server does not serve the watch: {answer!r}")
    return _Connection(connected, tls, incoming)


def _receiving(connection: _Connection, has_ended: asyncio.Event) -> Callable[[], None]:
    """Return what is called when there is something to receive; what it needs is at hand."""
    encrypted, plain = memoryview(bytearray(_ROOM_BYTES)), bytearray(_ROOM_BYTES)
    receive, put = connection.socket.recv_into, connection.incoming.write
    incoming = connection.incoming
    # With a buffer it returns a length, which typeshed does not know.
    decrypt = cast("Callable[[int, memoryview], int]", connection.tls.read)
    into = memoryview(plain)
    lines = 0

    def read() -> None:
        nonlocal lines
        received = receive(encrypted)
        if not received:
            has_ended.set()
            return
        put(encrypted[:received])
        length = 0
        try:
            while incoming.pending:
                length += decrypt(_ROOM_BYTES - length, into[length:])
        except ssl.SSLWantReadError:  # the rest of a record is on its way
            pass
        lines += plain.count(b"\n", 0, length)

    return read
