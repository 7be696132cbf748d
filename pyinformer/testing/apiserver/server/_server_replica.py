"""A second address of an embedded server, with a watch cache that may lag.

It behaves as another kube-apiserver of the same etcd: writes and consistent reads are current,
while lists from the cache and watches are as far as this replica has got.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import final

from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.testing.apiserver.handler import Backend
from pyinformer.testing.apiserver.server._http_handler import HTTPHandler
from pyinformer.testing.apiserver.server._thread import ServerThread
from pyinformer.testing.apiserver.storage import LaggingWatchCache, Storage

_HOST = "127.0.0.1"


@final
class ServerReplica:
    """A replica of an embedded server; `APIServer(replicas=3).replicas` are two of them.

    It starts and stops with its server, and shares everything with it but the address, the
    connections and the watch cache.
    """

    def __init__(
        self,
        backend: Backend,
        storage: Storage,
        *,
        ssl_context: ssl.SSLContext | None,
        kubeconfig: Callable[[str, str | None], str],
    ) -> None:
        self._follower = LaggingWatchCache(backend.storage, storage)
        self._scheme = "http" if ssl_context is None else "https"
        self._kubeconfig = kubeconfig
        self._port = 0
        self._thread = ServerThread(
            HTTPHandler(replace(backend, cached=storage)).handle,
            ssl_context=ssl_context,
            tick=lambda: None,
            tick_seconds=0.0,
        )

    @property
    def url(self) -> str:
        """The base URL of this replica.

        Raises:
            LifecycleError: the server has not been started.
        """
        if not self._port:
            message = "the replica has no URL before its server was started"
            raise LifecycleError(message)
        return f"{self._scheme}://{_HOST}:{self._port}"

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a kubeconfig for this replica; see `APIServer.kubeconfig`."""
        return self._kubeconfig(self.url, token)

    def hold(self) -> None:
        """Stop applying changes: the watch cache of this replica stays as it is."""
        self._follower.hold()

    def release(self, changes: int | None = None) -> None:
        """Apply the changes that `hold` kept back.

        Args:
            changes: how many to apply, oldest first, before it holds again; None applies all, and
                every later change at once.

        Raises:
            InvalidArgumentError: a negative number.
        """
        if changes is not None and changes < 0:
            raise InvalidArgumentError("changes", "must not be negative")
        self._follower.release(changes)

    @property
    def lag(self) -> int:
        """The number of changes that it has not applied."""
        return self._follower.lag

    @property
    def resource_version(self) -> str:
        """The resource version of its watch cache."""
        return str(self._follower.storage.revision)

    @property
    def open_watches(self) -> int:
        """The number of watches that are open here."""
        return len(self._follower.storage.subscriptions())

    def wait_for_watches(self, count: int, *, timeout_seconds: float = 10.0) -> None:
        """Block until exactly this number of watches is open here.

        Raises:
            TimeoutError: the number was not reached in time.
        """
        self._follower.storage.wait_for_subscriptions(count, timeout_seconds)

    def drop_connections(self, *, reset: bool = True) -> None:
        """Cut every open connection with RST, or with FIN inside a body."""
        self._thread.cut(reset=reset)

    def end_watches(self) -> None:
        """End every watch that is open here normally, as at its timeout."""
        storage = self._follower.storage
        with storage.lock:
            for subscription in storage.subscriptions():
                subscription.end()

    def restart(self, *, keep_history: bool) -> None:
        """Cut every connection, and listen at the same address again; as `APIServer.restart`.

        Args:
            keep_history: False forgets the watch windows: a watch at an older position gets 410.
        """
        self._thread.close_port()
        self._thread.cut(reset=True)
        if not keep_history:
            self._follower.storage.forget(history=False)
        self._thread.listen()

    def start(self) -> None:
        """Listen; called by the server."""
        self._port = self._thread.start(self._port)

    def stop(self) -> None:
        """Stop listening; called by the server."""
        self._thread.stop()
