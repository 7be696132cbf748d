"""The environment of a scene: a running server, and the few ways in which programs meet it.

In goes an embedded or a real API server; out come namespaces that nobody else uses, proxies, and
what the library logs meanwhile. Scenes cannot tell which server they got.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit

import anyio

from pyinformer._logging import get_logger
from pyinformer.apimachinery import JSONObject
from pyinformer.cli.scenes._proxy import Proxy, Upstream, run_proxy
from pyinformer.cluster import Cluster, connect
from pyinformer.transport import ClusterConfig

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer

_POLL_SECONDS = 0.02


@final
class Environment:
    """What a scene is played on.

    Args:
        api: the running server.

    Attributes:
        api: its calls arrange what is in the cluster; they are the same for both servers.
    """

    def __init__(self, api: APIServer | KubeAPIServer) -> None:
        self.api = api

    @property
    def upstream(self) -> Upstream:
        """How the server is reached from a proxy."""
        url = urlsplit(self.api.url)
        host, port = str(url.hostname), url.port or 443
        token = getattr(self.api, "token", "")
        if url.scheme == "http":
            return Upstream(host, port)
        return Upstream(host, port, ssl.create_default_context(cafile=str(self.api.ca_file)), token)

    def namespace(self) -> str:
        """Make a namespace that no other scene knows, and return its name."""
        name = f"scene-{secrets.token_hex(4)}"
        self.api.ensure_namespace(name)
        return name

    async def forget_history(self) -> None:
        """Let the server return as a new process, which knows nothing of what has been.

        Cancellation:
            Waits for the restart first.
        """
        from pyinformer.testing import APIServer

        if isinstance(self.api, APIServer):
            self.api.restart(keep_history=False)
        else:
            await anyio.to_thread.run_sync(self.api.restart)

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        """Take a backup of the server's data, and return what puts it back.

        Cancellation:
            Waits for the backup first.
        """
        restore = await anyio.to_thread.run_sync(self._save)

        async def put_back() -> None:
            """Bring the backup back."""
            await anyio.to_thread.run_sync(restore)

        return put_back

    def _save(self) -> Callable[[], None]:
        from pyinformer.testing import APIServer

        if isinstance(self.api, APIServer):
            return partial(self.api.restore, self.api.save())
        return partial(self.api.restore, self.api.save())

    def uids(self, plural: str, namespace: str) -> dict[str, str]:
        """Return the uid of each object of a namespace, by name, as the server has them."""
        listed = self.api.list("v1", plural, namespace)
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in listed}

    def proxy(self) -> AbstractAsyncContextManager[Proxy]:
        """Return a proxy of this server's, to be entered."""
        return run_proxy(self.upstream)


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Cluster]:
    """Connect ours to the server behind a proxy.

    Cancellation:
        Closes the connection.
    """
    async with connect(config=ClusterConfig(server=proxy.url)) as cluster:
        yield cluster


def service(name: str, namespace: str, **labels: str) -> JSONObject:
    """Return a headless Service, which needs no address from the server's range."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, **labels}},
        "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]},
    }


async def wait_until(condition: Callable[[], object], *, timeout_seconds: float) -> bool:
    """Wait for something that cannot notify.

    Returns:
        Whether it came true in time: a scene that waits in vain has a fact to report, not an error.

    Cancellation:
        Safe.
    """
    with anyio.move_on_after(timeout_seconds):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(_POLL_SECONDS)
    return bool(condition())


@contextmanager
def capture_logs() -> Iterator[Counter[str]]:
    """Collect what the library logs at WARNING and above, instead of letting it be printed.

    Yields:
        How often each line was logged, the level before it.
    """
    logger, counter = get_logger("pyinformer").logger, _LogCounter()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(counter)
    try:
        yield counter.lines
    finally:
        logger.removeHandler(counter)
        logger.propagate = propagated


@final
class _LogCounter(logging.Handler):
    """Counts lines."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line, but for the watchdog's: the loop is shared with the plain program."""
        if record.name == "pyinformer.tasks":
            return
        self.lines[f"{record.levelname} {record.getMessage()}"] += 1
