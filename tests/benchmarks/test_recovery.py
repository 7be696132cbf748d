"""The recovery benchmark's own parts: its proxy, and what it makes of figures."""

from __future__ import annotations

import asyncio

from benchmarks.recovery.__main__ import SCENES, Proxy, rows
from tests.client.transport.serving import always, response, serving


def test_a_row_has_the_median_the_range_and_how_often_it_took_two_seconds_at_most() -> None:
    assert rows("away", {"ours": [0.5, 2.0, 9.0]}) == "| away | ours | 2.0 | 0.5 to 9.0 | 2 of 3 |"
    assert set(SCENES) == {"faults", "away", "restart", "stall"}


async def test_the_proxy_passes_refuses_and_breaks_off() -> None:
    async with serving(always(response(b"x" * 5000))) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            assert len(await asked(port)) > 5000
            proxy.refuses = True
            assert await asked(port) == b""
            proxy.heal()
            assert len(await asked(port)) > 5000
            proxy.cut()


async def asked(port: int) -> bytes:
    """Ask by way of the proxy, and return what arrives."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        data = b""
        while len(data) < 5000 and (part := await reader.read(1 << 14)):
            data += part
    except OSError:
        return b""
    writer.transport.abort()
    return data
