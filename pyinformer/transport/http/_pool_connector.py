"""The pool of connections for requests: none is used again that received bytes while it was idle.

Such bytes answer no request: a load balancer sends a 408 before it closes an idle connection.
aiohttp would return them as the response to the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


@final
class PoolConnector(aiohttp.TCPConnector):
    """A pool whose idle connections are checked before they carry another request.

    Source:
        Go net/http transport.go, persistConn.readLoopPeekFailLocked.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        """Return an idle connection on which nothing waits to be read, or None.

        Cancellation:
            Safe; the connection is returned to the pool or closed.
        """
        while (found := await super()._get(key, traces)) is not None:
            if found.protocol is not None and not found.protocol.should_close:
                return found
            found.close()
        return None
