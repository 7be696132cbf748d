"""The API server of a scene, and how programs connect to it.

A scene cannot distinguish the embedded server from a real one.
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

from pyinformer._runtime.escaping_loggers import logger_named
from pyinformer.cli.scenes._proxy import Proxy, Upstream, run_proxy
from pyinformer.client.cluster import Cluster, connect
from pyinformer.client.transport import ClusterConfig
from pyinformer.objects import JSONObject

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer

_POLL_SECONDS = 0.02


@final
class SceneServer:
    """The server on which a scene is played.

    Args:
        api: the running server.

    Attributes:
        api: the server; its methods create objects, and are the same for both kinds of server.
    """

    def __init__(self, api: APIServer | KubeAPIServer) -> None:
        self.api = api

    @property
    def upstream(self) -> Upstream:
        """The address and the credentials of the server, for a proxy."""
        url = urlsplit(self.api.url)
        host, port = str(url.hostname), url.port or 443
        token = getattr(self.api, "token", "")
        if url.scheme == "http":
            return Upstream(host, port)
        return Upstream(host, port, ssl.create_default_context(cafile=str(self.api.ca_file)), token)

    def namespace(self) -> str:
        """Create a namespace that no other scene uses, and return its name."""
        name = f"scene-{secrets.token_hex(4)}"
        self.api.ensure_namespace(name)
        return name

    async def forget_history(self) -> None:
        """Restart the server without its watch history.

        Cancellation:
            Waits for the restart first.
        """
        from pyinformer.testing import APIServer

        if isinstance(self.api, APIServer):
            self.api.restart(keep_history=False)
        else:
            await anyio.to_thread.run_sync(self.api.restart)

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        """Back up the data of the server, and return a function that restores it.

        Cancellation:
            Waits for the backup first.
        """
        restore = await anyio.to_thread.run_sync(self._save)

        async def put_back() -> None:
            """Restore the backup."""
            await anyio.to_thread.run_sync(restore)

        return put_back

    def _save(self) -> Callable[[], None]:
        from pyinformer.testing import APIServer

        if isinstance(self.api, APIServer):
            return partial(self.api.restore, self.api.save())
        return partial(self.api.restore, self.api.save())

    def uids(self, plural: str, namespace: str) -> dict[str, str]:
        """Return the uid of each object of a namespace on the server, by name."""
        listed = self.api.list("v1", plural, namespace)
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in listed}

    def proxy(self) -> AbstractAsyncContextManager[Proxy]:
        """Return a new proxy to this server, as a context manager."""
        return run_proxy(self.upstream)


@asynccontextmanager
async def connected(proxy: Proxy) -> AsyncIterator[Cluster]:
    """Connect pyinformer to the server through a proxy.

    Cancellation:
        Closes the connection.
    """
    async with connect(config=ClusterConfig(server=proxy.url)) as cluster:
        yield cluster


def service(name: str, namespace: str, **labels: str) -> JSONObject:
    """Return a headless Service, which needs no cluster IP."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, **labels}},
        "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]},
    }


async def wait_until(condition: Callable[[], object], *, timeout_seconds: float) -> bool:
    """Poll a condition until it is true or the time is over.

    Returns:
        Whether it became true in time. A scene reports a timeout as a fact, not as an error.

    Cancellation:
        Safe.
    """
    with anyio.move_on_after(timeout_seconds):
        while not condition():  # noqa: ASYNC110 - the condition cannot notify
            await anyio.sleep(_POLL_SECONDS)
    return bool(condition())


@contextmanager
def capture_logs() -> Iterator[Counter[str]]:
    """Collect the library's logs at WARNING and above, instead of printing them.

    Yields:
        How often each line was logged; a line begins with its level.
    """
    logger, counter = logger_named("pyinformer"), _LogCounter()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(counter)
    try:
        yield counter.lines
    finally:
        logger.removeHandler(counter)
        logger.propagate = propagated


@final
class _LogCounter(logging.Handler):
    """Counts log lines."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line, except those of the watchdog: the plain program shares the loop."""
        if record.name == "pyinformer.telemetry":
            return
        self.lines[f"{record.levelname} {record.getMessage()}"] += 1
