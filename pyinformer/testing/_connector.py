"""How a test comes from a server to a connection.

What enters is a test server, embedded or real; what leaves is what `pyinformer.connect()` returns,
with the certificate and the token of that server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, final

from pyinformer.cluster import connect
from pyinformer.transport import ClusterConfig, NoCredentials, StaticCredentials

if TYPE_CHECKING:
    from pyinformer.cluster import Cluster, WriteOptions
    from pyinformer.testing.apiserver.server import APIServer
    from pyinformer.testing.kube_apiserver import KubeAPIServer
    from pyinformer.transport import ConnectionOptions


@final
class Connector:
    """Connects to a server of a test; the `cluster` fixture is one.

        async def test_pods(apiserver, cluster):
            async with cluster() as connected:
                await connected.create(pod)
            assert apiserver.list("v1", "pods")

    It is synchronous up to the `async with`, which belongs to the test: so it works with every
    plugin for asynchronous tests, and with none.

    Args:
        default: returns the server to connect to if none is given.
    """

    def __init__(self, default: Callable[[], APIServer | KubeAPIServer]) -> None:
        self._default = default

    def __call__(
        self,
        server: APIServer | KubeAPIServer | None = None,
        *,
        token: str | None = None,
        name: str = "",
        options: ConnectionOptions | None = None,
        write_options: WriteOptions | None = None,
    ) -> AbstractAsyncContextManager[Cluster]:
        """Return a connection: `async with cluster() as connected`.

        Args:
            server: None is the embedded one of this test, which is started now if nobody has.
            token: of the user to come as; None is the server's first, the administrator's.
            name: what to call the cluster beside others.
            options: the bounds of the connection.
            write_options: how fast writes may leave, and how patient they are.

        Raises:
            LifecycleError: the server was never started.
        """
        chosen = self._default() if server is None else server
        value = token or chosen.token
        config = ClusterConfig(
            server=chosen.url,
            ca_file=None if chosen.ca_file is None else str(chosen.ca_file),
            credentials=StaticCredentials.bearer(value) if value else NoCredentials(),
            source="the cluster fixture",
        )
        return connect(config=config, name=name, options=options, write_options=write_options)
