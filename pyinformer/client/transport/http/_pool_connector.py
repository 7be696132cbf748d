"""The pool of connections for requests: none is used again that received bytes while it was idle.

Such bytes answer no request: a load balancer sends a 408 before it closes an idle connection.
aiohttp would return them as the response to the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import anyio

from pyinformer.client.transport.aborting_connector import AbortingConnector
from pyinformer.client.transport.http._resolver import with_zone_index
from pyinformer.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiohttp
    from aiohttp.abc import ResolveResult
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from pyinformer.client.transport.http._dialer import Dialer
    from pyinformer.client.transport.http._last_write_check import Fence


@final
class PoolConnector(AbortingConnector):
    """A pool whose idle connections are checked before they carry another request.

    Args:
        dialer: makes sockets and looks up hosts.
        limit: how many connections; 0 for no limit.
        fence: checked when a connection exists and nothing was sent; None for no check.

    Source:
        Go net/http transport.go, persistConn.readLoopPeekFailLocked.
    """

    def __init__(self, dialer: Dialer, *, limit: int, fence: Fence | None = None) -> None:
        super().__init__(
            limit=limit,
            socket_factory=dialer.new_socket,
            resolver=dialer.resolver.for_aiohttp(),
        )
        self._connect_seconds = dialer.timeout_seconds
        self._fence = fence

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp calls it
    ) -> Connection:
        """Return a connection of the pool, or a new one.

        Raises:
            TimeoutError: there is none in time.
            FencedError: the request may not leave.

        Cancellation:
            Safe; a new connection is closed.
        """
        with anyio.fail_after(self._connect_seconds):
            found = await super().connect(req, traces, timeout)
        if self._fence is not None:
            try:
                self._fence.leave_by(found.transport)
            except FencedError:
                found.close()
                raise
        return found

    async def _resolve_host(
        self, host: str, port: int, traces: Sequence[Trace] | None = None
    ) -> list[ResolveResult]:
        """Return the addresses of a host; an IPv6 address may have a zone.

        Raises:
            OSError: the name is unknown, or the lookup failed.

        Cancellation:
            Safe; see `Resolver.addresses`.
        """
        return await super()._resolve_host(with_zone_index(host), port, traces)

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
