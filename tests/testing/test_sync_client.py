"""The kit's client when its server dies between connect and handshake."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import struct
import threading
import warnings
from typing import Any

import pytest

from pyinformer.errors import TransportError
from pyinformer.testing.kube_apiserver._sync_client import SyncClient

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Late(ssl.SSLContext):
    """Wraps a connected socket only after its peer has reset the connection."""

    reset = threading.Event()

    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket."""
        with contextlib.suppress(OSError):
            sock.getpeername()
            assert self.reset.wait(timeout=100)
        return super().wrap_socket(sock, *args, **options)


def test_a_connection_that_is_reset_while_it_opens_leaves_no_socket() -> None:
    """When a server is killed, the reset comes between the connection and the handshake."""
    context = Late(ssl.PROTOCOL_TLS_CLIENT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        resetting = threading.Thread(target=_reset, args=(listener, context.reset))
        resetting.start()
        client = SyncClient(port=listener.getsockname()[1], token="any", context=context)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(TransportError):
                client.request("GET", "/version")
            gc.collect()
        resetting.join()
    assert [str(one.message) for one in caught] == []


def _reset(listener: socket.socket, reset: threading.Event) -> None:
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    accepted.close()
    reset.set()
