"""Connect sockets to a server: names, addresses, and keepalive probes.

A peer behind a network that drops every packet never ends a stream: only missing acknowledgements
reveal it, and the kernel asks for those without any request.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, final

from pyinformer.client.transport.http._guarded_socket import GuardedSocket
from pyinformer.client.transport.http._resolver import Resolver

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

    from pyinformer.client.transport.http._pending_requests import PendingRequest
    from pyinformer.client.transport.http._request_metrics import RequestMetrics

_IDLE: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")  # the second is its name on macOS
_INTERVAL: Final = ("TCP_KEEPINTVL",)
_PROBES: Final = ("TCP_KEEPCNT",)
_USER_TIMEOUT: Final = ("TCP_USER_TIMEOUT",)
_IDLE_SECONDS: Final = 10
_INTERVAL_SECONDS: Final = 5
_MOST_PROBES: Final = 3
# Linux sends no keepalive probes while data is unacknowledged; such data is given up after the same
# time. With this option the kernel counts time instead of probes, and checks only when a probe is
# due: half an interval less than the sum, so that the check does not miss the deadline by a tick
# and wait for another interval.
_UNACKNOWLEDGED_MS: Final = round((_IDLE_SECONDS + _INTERVAL_SECONDS * (_MOST_PROBES - 0.5)) * 1000)
_SOCKET_OPTIONS: Final = (
    (_IDLE, _IDLE_SECONDS),
    (_INTERVAL, _INTERVAL_SECONDS),
    (_PROBES, _MOST_PROBES),
    (_USER_TIMEOUT, _UNACKNOWLEDGED_MS),
)
"""A peer that no packet reaches any more is noticed within 30 s (25 s typical), by no request."""
_NEXT_ADDRESS_SECONDS: Final = 0.25  # RFC 8305: a dead address must not use up the whole deadline


@final
class Dialer:
    """Connects the sockets of one connection, for watches and for all other requests.

    Args:
        timeout_seconds: how long name, TCP and TLS may take together.
        metrics: where sockets and lookups are counted; None for nowhere.
    """

    def __init__(self, timeout_seconds: float, *, metrics: RequestMetrics | None = None) -> None:
        self.timeout_seconds: float = timeout_seconds
        """How long name, TCP and TLS may take together."""
        self.resolver = Resolver(None if metrics is None else metrics.resolved)
        self.open_sockets: int = 0
        """How many sockets are open."""
        self._metrics = metrics

    def new_socket(self, address: AddrInfoType) -> socket.socket:
        """Make a socket with keepalive; options that the system lacks keep its default."""
        family, kind, protocol, _, _ = address
        sock = GuardedSocket(family, kind, protocol, self._closed)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for names, value in _SOCKET_OPTIONS:
            for name in names:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
                    break
        self.open_sockets += 1
        if self._metrics is not None:
            self._metrics.dialled()
        return sock

    def _closed(self) -> None:
        self.open_sockets -= 1

    async def connect(self, host: str, port: int, request: PendingRequest) -> socket.socket:
        """Connect a socket; several addresses are tried side by side.

        Args:
            host: a name or an address.
            port: the port.
            request: its step is set to what is waited for.

        Raises:
            OSError: the name is unknown, or no address can be reached.

        Cancellation:
            Safe; sockets are closed.
        """
        request.step = f"the address of {host}"
        addresses = await self.resolver.addresses(host, port)
        request.step = f"a connection to {host}:{port}"
        if len(addresses) == 1:
            return await self._connect_to(addresses[0])
        from aiohappyeyeballs import start_connection

        return await start_connection(
            addresses,
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
            interleave=1,
            socket_factory=self.new_socket,
        )

    async def _connect_to(self, address: AddrInfoType) -> socket.socket:
        """Connect to the only address, without loading what races several."""
        sock = self.new_socket(address)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, address[4])
        except BaseException:
            sock.close()
            raise
        return sock
