"""How long the reads of a watch-list and of a watch are apart."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pyinformer.client.transport import Body, PushBody
from pyinformer.testing import APIServer
from tests.cache.reflector.running import options, put, reflecting
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.client.transport import ClusterConfig, ConnectionProtocol, Query


class NotedConnection:
    """A connection that notes with which pauses its streams are read."""

    def __init__(self, beyond: ConnectionProtocol, used: list[float]) -> None:
        self._beyond = beyond
        self._used = used

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self._beyond.config

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """Send a request.

        Cancellation:
            Safe.
        """
        return await self._beyond.request(method, path, **more)

    @asynccontextmanager
    async def stream(self, path: str, query: Query = (), **more: Any) -> AsyncIterator[Body]:
        """Open a stream."""
        async with self._beyond.stream(path, query, **more) as body:
            yield NotedBody(body, self._used)

    async def aclose(self) -> None:
        """Close it.

        Cancellation:
            Shielded.
        """
        await self._beyond.aclose()


class NotedBody:
    """The body of a stream that notes the pauses between its reads."""

    def __init__(self, beyond: Body, used: list[float]) -> None:
        self._beyond = beyond
        self._used = used

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived."""
        return self._beyond.received_bytes

    async def read(self) -> bytes:
        """Read some bytes.

        Cancellation:
            Safe.
        """
        return await self._beyond.read()

    async def deliver(
        self, take: Any, on_turn: Callable[[], bool], *, spacing_seconds: float = 0.0
    ) -> None:
        """Note the pause, and pass the body on.

        Cancellation:
            Safe.
        """
        self._used.append(spacing_seconds)
        assert isinstance(self._beyond, PushBody)
        await self._beyond.deliver(take, on_turn, spacing_seconds=spacing_seconds)

    def expire(self, waited_seconds: float) -> None:
        """End it with an error."""
        self._beyond.expire(waited_seconds)

    def close(self) -> None:
        """Close its connection."""
        self._beyond.close()


async def test_a_watch_list_is_read_with_pauses_and_the_watch_behind_it_without() -> None:
    used: list[float] = []
    with APIServer() as server:
        put(server, "a")
        async with reflecting(
            server,
            with_options=options(use_watch_list=True),
            through=lambda connection: NotedConnection(connection, used),
        ) as run:
            await run.until_equal()
            put(server, "b")
            await run.until_equal()
            await until(lambda: len(used) == 2)
    assert used == [0.005, 0.0]
