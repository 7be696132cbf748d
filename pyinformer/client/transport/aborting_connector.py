"""A pool whose connections end at once: the end of TLS would wait for the peer's.

asyncio waits up to 30 s for it. A server that stands still, which is why most requests are given
up, never sends it; until then the socket stays open, and an event loop that ends leaves it behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey


class AbortingConnector(aiohttp.TCPConnector):
    """A connector that closes what cannot be used again without a word to the peer.

    Source:
        Go crypto/tls conn.go, Conn.Close: it does not wait for the peer either.
    """

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        """Return a connection to the pool, or end it."""
        ends = should_close or protocol.should_close
        if ends and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=ends)
