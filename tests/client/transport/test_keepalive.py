"""Sockets of watches and of all others ask for keepalive; limits without a meaning are refused."""

from __future__ import annotations

import math
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from pyinformer.client.transport import ClusterConfig, ConnectionOptions
from pyinformer.errors import InvalidArgumentError
from tests.client.transport.serving import CHUNKED, always, chunk, connected, serving

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

pytestmark = pytest.mark.every_loop

linux = pytest.mark.skipif(sys.platform != "linux", reason="names the options of Linux")


def settings(sock: socket.socket) -> tuple[int, ...]:
    """Return the socket's options: idle, interval, probes, and milliseconds unacknowledged."""
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    return tuple(sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names)


@pytest.mark.covers("client-go rest: TestReconnectBrokenTCP")
@linux
@pytest.mark.parametrize("kind", ["watch", "watch-by-proxy", "list"])
async def test_every_stream_has_a_socket_with_keepalive(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []

    async with serving(always(CHUNKED + chunk(b"{}"))) as server:
        config = ClusterConfig(server=server.url)
        if kind == "watch-by-proxy":  # such a watch is left to aiohttp
            config = ClusterConfig(server="http://server.example", proxy_url=server.url)
        async with connected("", config=config) as connection:
            dialer = connection._dialer
            new_socket = dialer.new_socket

            def recording(address: AddrInfoType) -> socket.socket:
                made.append(sock := new_socket(address))
                return sock

            monkeypatch.setattr(dialer, "new_socket", recording)
            async with connection.stream("/a", watch=kind != "list") as body:
                assert await body.read() == b"{}"
                assert [settings(sock) for sock in made] == [(10, 5, 3, 22_500)]
                assert all(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for sock in made)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_request_connections", 0),
        ("max_request_connections", 2.5),
        ("max_request_connections", math.inf),
        ("max_request_connections", True),
    ],
)
def test_values_without_a_meaning_are_refused(option: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=option):
        ConnectionOptions(**{option: value})  # type: ignore[arg-type] # one of them is an int
