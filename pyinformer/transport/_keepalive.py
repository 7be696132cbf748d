"""Sockets that notice a peer that has vanished, though neither side has anything to say.

What enters are the options of a connection; what leaves makes its sockets, for watches and for
everything else. A peer behind a network that swallows every packet sends no end of a stream: only
its missing acknowledgements tell of it, and the kernel asks for them without any request.
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohappyeyeballs import AddrInfoType

    from pyinformer.transport._options import ConnectionOptions

_IDLE: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")  # the second is what macOS calls it
_INTERVAL: Final = ("TCP_KEEPINTVL",)
_PROBES: Final = ("TCP_KEEPCNT",)
_USER_TIMEOUT: Final = ("TCP_USER_TIMEOUT",)
_MAX_INT: Final = 2**31 - 1


def keepalive_sockets(options: ConnectionOptions) -> Callable[[AddrInfoType], socket.socket]:
    """Return what makes a connection's sockets.

    A system that lacks an option does without it: its own default counts then.
    """
    idle = math.ceil(options.keepalive_idle_seconds)  # the kernel counts in whole seconds
    interval = math.ceil(options.keepalive_interval_seconds)
    probes = options.keepalive_probes
    # What was sent and never acknowledged keeps Linux from probing; it is given up as soon. With
    # this option the kernel counts time instead of probes, and looks only when one is due: half an
    # interval less than the sum, so that it does not miss the end by a tick and wait for another.
    unacknowledged_ms = min(round((idle + interval * (probes - 0.5)) * 1000), _MAX_INT)
    settings = (
        (_IDLE, idle),
        (_INTERVAL, interval),
        (_PROBES, probes),
        (_USER_TIMEOUT, unacknowledged_ms),
    )

    def new_socket(address: AddrInfoType) -> socket.socket:
        """Make a socket for an address."""
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for names, value in settings:
            for name in names:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
                    break
        return sock

    return new_socket
