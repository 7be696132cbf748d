"""Connect a test to a test server, embedded or real, with the server's certificate and token."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, final

from pyinformer.client.cluster import connect
from pyinformer.client.transport import ClusterConfig, NoCredentials, StaticCredentials

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster, WriteOptions
    from pyinformer.client.transport import ConnectionOptions
    from pyinformer.testing.apiserver.server import APIServer
    from pyinformer.testing.faults import FaultProxy
    from pyinformer.testing.kube_apiserver import KubeAPIServer


@final
class Connector:
    """Connects to a test server; the `cluster` fixture is a Connector.

        async def test_pods(apiserver, cluster):
            async with cluster() as connected:
                await connected.create(pod)
            assert apiserver.list("v1", "pods")

    Calling it is synchronous; only the `async with` in the test needs an event loop, so it works
    with every plugin for asynchronous tests, and without one.

    Args:
        default: returns the server to connect to if the call names none.
    """

    def __init__(self, default: Callable[[], APIServer | KubeAPIServer]) -> None:
        self._default = default

    def __call__(
        self,
        server: APIServer | KubeAPIServer | FaultProxy | None = None,
        *,
        token: str | None = None,
        namespace: str = "default",
        name: str = "",
        options: ConnectionOptions | None = None,
        write_options: WriteOptions | None = None,
    ) -> AbstractAsyncContextManager[Cluster]:
        """Return a connection: `async with cluster() as connected`.

        Args:
            server: the server, or a proxy in front of one; None is the embedded one of this test,
                which is started if needed.
            token: the user's bearer token; None is the first of the server, the administrator's.
            namespace: that of the connection, as the pod's in a cluster: where the Lease of a
                leader election is.
            name: the name of the cluster, if there are several.
            options: how many connections it uses, and what reads them.
            write_options: the rate limit and the retries of writes.

        Raises:
            LifecycleError: the server has not been started.
        """
        chosen = self._default() if server is None else server
        value = token or chosen.token
        config = ClusterConfig(
            server=chosen.url,
            ca_file=None if chosen.ca_file is None else str(chosen.ca_file),
            credentials=StaticCredentials.bearer(value) if value else NoCredentials(),
            namespace=namespace,
            source="the cluster fixture",
        )
        return connect(config=config, name=name, options=options, write_options=write_options)
