"""Sockets have the keepalive options of their connection, those of watches and all others."""

from __future__ import annotations

import math
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.transport import ClusterConfig, ConnectionOptions
from pyinformer.transport.http._dialer import Dialer
from tests.transport.serving import CHUNKED, always, chunk, connected, serving

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

pytestmark = pytest.mark.every_loop

linux = pytest.mark.skipif(sys.platform != "linux", reason="names the options of Linux")
LOOPBACK = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))


def settings(sock: socket.socket) -> tuple[int, ...]:
    """Return the socket's options: idle, interval, probes, and milliseconds unacknowledged."""
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
    return tuple(sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names)


@linux
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, (10, 5, 3, 22_500), id="defaults"),
        pytest.param(
            {"keepalive_idle_seconds": 0.2, "keepalive_interval_seconds": 1.1},
            (1, 2, 3, 6_000),
            id="fractions",
        ),
        pytest.param(
            {
                "keepalive_idle_seconds": 32_767,
                "keepalive_interval_seconds": 32_767,
                "keepalive_probes": 127,
            },
            (32_767, 32_767, 127, 2**31 - 1),
            id="largest",
        ),
    ],
)
def test_the_options_reach_the_kernel(options: dict[str, float], expected: tuple[int, ...]) -> None:
    dialer = Dialer(ConnectionOptions(**options))  # type: ignore[arg-type] # one of them is an int
    with dialer.new_socket(LOOPBACK) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert settings(sock) == expected


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


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("keepalive_idle_seconds", 0),
        ("keepalive_idle_seconds", math.inf),
        ("keepalive_interval_seconds", -1.0),
        ("keepalive_interval_seconds", 40_000),
        ("keepalive_probes", 0),
        ("keepalive_probes", 128),
        ("keepalive_probes", 2.5),
        ("keepalive_probes", True),
        ("keepalive_probes", "3"),
        ("keepalive_idle_seconds", "10"),
        ("keepalive_idle_seconds", math.nan),
        ("connect_timeout_seconds", None),
        ("request_timeout_seconds", True),
        ("max_request_connections", 2.5),
        ("max_request_connections", math.inf),
    ],
)
def test_keepalive_values_that_no_system_supports_are_refused(option: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=option):
        ConnectionOptions(**{option: value})  # type: ignore[arg-type] # one of them is an int
