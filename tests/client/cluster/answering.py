"""A connection that answers every request at once, and records when it was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import ClusterConfig, NoCredentials
from tests.waiting import now

if TYPE_CHECKING:
    from typing import Any

    from pyinformer.client.transport import ConnectionProtocol


class Answering:
    """The other end of a connection."""

    def __init__(self, server: str = "http://h") -> None:
        self.config = ClusterConfig(server=server, credentials=NoCredentials())
        self.left: list[tuple[float, str]] = []

    async def request(self, method: str, path: str, **_: object) -> bytes:
        """Record the request, and answer."""
        self.left.append((now(), path))
        return method.encode()

    def cluster(self, **options: Any) -> Cluster:
        """Return a cluster that sends its requests here."""
        return Cluster(self.config, connection=cast("ConnectionProtocol", self), **options)
