"""A connection whose watches lose single events, as a server with a broken cache does.

It passes everything through, except the lines that it is set to lose or to hold back. A loss does
not cause an error or a gap in the versions.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.client import ClusterConfig
    from pyinformer.client.transport import Body, Query


@dataclass(eq=False)
class Loss:
    """An event that is lost, once."""

    type: str
    name: str
    happened: asyncio.Event = field(default_factory=asyncio.Event)


class _LossyBody:
    """A watch's body, line by line."""

    def __init__(self, body: Body, lossy: LossyConnection) -> None:
        self._body = body
        self._lossy = lossy
        self._rest = b""

    @property
    def received_bytes(self) -> int:
        """How much has arrived so far."""
        return self._body.received_bytes

    async def read(self) -> bytes:
        """Wait for the next lines that are not lost; nothing at the end."""
        while True:
            await self._lossy.flows.wait()
            arrived = b"" if b"\n" in self._rest else await self._body.read()
            if not arrived and b"\n" not in self._rest:
                return b""
            lines = (self._rest + arrived).split(b"\n")
            self._rest = lines.pop()
            kept: list[bytes] = []
            for number, line in enumerate(lines):
                if self._lossy.loses(line):
                    continue
                kept.append(line + b"\n")
                if self._lossy.stops_behind(line):
                    self._rest = b"\n".join([*lines[number + 1 :], self._rest])
                    break
            if kept:
                return b"".join(kept)

    def expire(self, waited_seconds: float) -> None:
        """End the body."""
        self._body.expire(waited_seconds)

    def close(self) -> None:
        """Close the body."""
        self._body.close()


class LossyConnection:
    """A connection on top of another one, which loses events of watches.

    Attributes:
        flows: watches deliver while this is set.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._connection = Connection(config)
        self._losses: list[Loss] = []
        self._stop_behind = ""
        self.flows = asyncio.Event()
        self.flows.set()

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self._connection.config

    def lose(self, event_type: str, name: str) -> Loss:
        """Lose the next event of this type about an object of this name."""
        loss = Loss(event_type, name)
        self._losses.append(loss)
        return loss

    def stop_behind(self, event_type: str) -> None:
        """Deliver one event of this type, and nothing after it until `flows` is set."""
        self._stop_behind = event_type

    def loses(self, line: bytes) -> bool:
        """Return whether a line is lost."""
        if not self._losses or not line:
            return False
        event = json.loads(line)
        metadata = event["object"].get("metadata", {})
        for loss in self._losses:
            if (loss.type, loss.name) == (event["type"], metadata.get("name")):
                self._losses.remove(loss)
                loss.happened.set()
                return True
        return False

    def stops_behind(self, line: bytes) -> bool:
        """Return whether the lines after this one are held back."""
        if not self._stop_behind or json.loads(line)["type"] != self._stop_behind:
            return False
        self._stop_behind = ""
        self.flows.clear()
        return True

    @asynccontextmanager
    async def stream(self, path: str, query: Query = (), **options: Any) -> AsyncIterator[Body]:
        """Open a stream."""
        async with self._connection.stream(path, query, **options) as body:
            yield _LossyBody(body, self) if ("watch", "true") in tuple(query) else body

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Send a request."""
        return await self._connection.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            timeout_seconds=timeout_seconds,
            accept=accept,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        self.flows.set()
        await self._connection.aclose()


@asynccontextmanager
async def lossy_cluster(config: ClusterConfig) -> AsyncIterator[tuple[Cluster, LossyConnection]]:
    """Connect by way of such a connection."""
    lossy = LossyConnection(config)
    async with Cluster(config, connection=lossy) as cluster:
        yield cluster, lossy
