"""A socket that carries a guarded write refuses each send after the end of the term."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from pyinformer.client.transport.http._guarded_socket import GuardedSocket, socket_of
from pyinformer.client.transport.http._last_write_check import Fence
from pyinformer.errors import FencedError
from tests.waiting import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Guard:
    is_shut = False

    def check(self) -> None:
        if self.is_shut:
            raise FencedError(lease="ops/db", reason="the test has shut it")

    def on_end(self, _cut_off: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def record_write(self, resource: str, resource_version: str) -> None:
        """Ignore it."""

    def record_refusal(self, lease: str) -> None:
        """Ignore it."""


@pytest.fixture
def pair() -> Iterator[tuple[GuardedSocket, socket.socket]]:
    """A socket and its peer."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        GuardedSocket(socket.AF_INET, socket.SOCK_STREAM, 0) as sock,
    ):
        sock.connect(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            yield sock, peer


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda sock, data: sock.send(data), id="send"),
        pytest.param(lambda sock, data: sock.sendmsg([data]), id="sendmsg"),
    ],
)
async def test_each_send_is_checked_while_the_socket_carries_a_guarded_write(
    pair: tuple[GuardedSocket, socket.socket], send: Callable[[GuardedSocket, bytes], int]
) -> None:
    (sock, peer), guard = pair, _Guard()
    sock.fence = fence = Fence(guard, anyio.CancelScope())
    assert send(sock, b"in time") == len("in time")
    guard.is_shut = True
    with pytest.raises(ConnectionAbortedError, match="shut it"):
        send(sock, b"too late")
    assert isinstance(fence.refusal, FencedError)
    sock.fence = None
    send(sock, b", other")
    sock.shutdown(socket.SHUT_WR)
    with peer.makefile("rb") as received:
        assert received.read() == b"in time, other"


async def test_the_socket_of_a_transport_is_found_until_it_is_closed(
    pair: tuple[GuardedSocket, socket.socket],
) -> None:
    sock, peer = pair
    loop = asyncio.get_running_loop()
    ours, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
    theirs, _ = await loop.create_connection(asyncio.Protocol, sock=peer)
    try:
        assert socket_of(ours) is sock
        assert socket_of(theirs) is None
        assert socket_of(None) is None
    finally:
        ours.abort()
        theirs.abort()
        await settle()
    assert socket_of(ours) is None
