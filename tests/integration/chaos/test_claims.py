"""A storm counts the sockets of its program, and only those."""

from __future__ import annotations

import socket
from contextlib import closing

from tests.integration.chaos.claims import held, sockets_to


async def test_only_open_connections_to_the_port_are_counted() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        before = sockets_to(port)
        with closing(socket.create_connection(("127.0.0.1", port))):
            accepted = server.accept()[0]
            during = sockets_to(port)
            accepted.close()
            half_closed = held("rest", port).sockets  # the client has not closed its end
        after = sockets_to(port)

    assert (before, during, half_closed, after) == (0, 1, 1, 0)


async def test_memory_is_recorded() -> None:
    assert held("baseline", 1).rss_bytes > 1 << 20
