"""A connection without a server: every request raises LifecycleError at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

from pyinformer.cluster import Cluster
from pyinformer.errors import LifecycleError
from pyinformer.transport import Body, ClusterConfig, Query

_SERVER: Final = "http://nowhere.invalid"  # a name that no resolver can find
_REASON: Final = "a synced_informer() has no server: use a World, or the apiserver fixture"


@final
class OfflineConnection:
    """A ConnectionProtocol that refuses every request."""

    def __init__(self) -> None:
        self._config = ClusterConfig(server=_SERVER, source="testing.synced_informer")

    @property
    def config(self) -> ClusterConfig:
        """A configuration without a reachable server."""
        return self._config

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Refuse a request.

        Raises:
            LifecycleError: always.

        Cancellation:
            It never waits.
        """
        raise LifecycleError(_REASON)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AsyncIterator[Body]:
        """Refuse a list or a watch.

        Raises:
            LifecycleError: always.

        Cancellation:
            It never waits.
        """
        raise LifecycleError(_REASON)
        yield

    async def aclose(self) -> None:
        """Do nothing.

        Cancellation:
            It never waits.
        """


def offline_cluster() -> Cluster:
    """Return a cluster that refuses every request."""
    connection = OfflineConnection()
    return Cluster(connection.config, connection=connection)
