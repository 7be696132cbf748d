"""A cancellation that no caller asked for, as a library below may leave, is never a silent end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from pyinformer import Cluster, SharedInformer
from pyinformer.client.transport import ClusterConfig, Connection
from pyinformer.errors import InternalError
from tests.cache.informer.clusters import HURRIED
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.client.transport import Body, ConnectionProtocol
    from pyinformer.testing import APIServer


class Straying:
    """A connection whose watches end with a cancellation that no caller has requested."""

    def __init__(self, beyond: Connection) -> None:
        self.beyond = beyond

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beyond, name)

    @asynccontextmanager
    async def stream(self, path: str, query: Any = (), **options: Any) -> AsyncIterator[Body]:
        """Open a list, or stray."""
        if options["watch"]:
            raise asyncio.CancelledError
        async with self.beyond.stream(path, query, **options) as body:
            yield body


async def test_an_informer_that_is_cancelled_by_nobody_crashes(apiserver: APIServer) -> None:
    config = ClusterConfig(server=apiserver.url)
    connection = cast("ConnectionProtocol", Straying(Connection(config)))
    async with Cluster(config, connection=connection) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", options=HURRIED)
        with pytest.raises(InternalError, match="was cancelled, and no caller asked for it"):
            async with pods:
                await until(lambda: pods.crash)
        assert isinstance(pods.crash, InternalError)
