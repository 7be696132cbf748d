"""One more address of an embedded server, whose reads may be of the past.

What enters are a test's wishes about its lag, from any thread; what leaves is a URL that behaves as
a second kube-apiserver over the same etcd: writes and consistent reads are those of the server
itself, lists from the cache and watches are as far as this replica has got.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import final

from pyinformer.apimachinery import InvalidArgumentError, LifecycleError
from pyinformer.testing.apiserver.handler import Backend
from pyinformer.testing.apiserver.server._http import HTTPHandler
from pyinformer.testing.apiserver.server._thread import ServerThread
from pyinformer.testing.apiserver.storage import Follower, Storage

_HOST = "127.0.0.1"


@final
class ServerReplica:
    """A replica of an embedded server; `APIServer(replicas=3).replicas` are two of them.

    It starts and stops with its server, and shares with it everything but the address, the
    connections and what its watch cache has heard of.
    """

    def __init__(
        self,
        backend: Backend,
        storage: Storage,
        *,
        ssl_context: ssl.SSLContext | None,
        kubeconfig: Callable[[str, str | None], str],
    ) -> None:
        self._follower = Follower(backend.storage, storage)
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
        """Where it listens.

        Raises:
            LifecycleError: the server was never started.
        """
        if not self._port:
            message = "the replica has no URL before its server was started"
            raise LifecycleError(message)
        return f"{self._scheme}://{_HOST}:{self._port}"

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a kubeconfig for this replica; see `APIServer.kubeconfig`."""
        return self._kubeconfig(self.url, token)

    def hold(self) -> None:
        """Hear of nothing from now on: what this replica shows of its cache stays as it is."""
        self._follower.hold()

    def release(self, changes: int | None = None) -> None:
        """Hear of what was missed.

        Args:
            changes: how many, oldest first, and stay behind after them; None hears of all, and
                from then on of everything at once.

        Raises:
            InvalidArgumentError: a negative number.
        """
        if changes is not None and changes < 0:
            raise InvalidArgumentError("changes", "must not be negative")
        self._follower.release(changes)

    @property
    def lag(self) -> int:
        """How many changes it has not heard of."""
        return self._follower.lag

    @property
    def resource_version(self) -> str:
        """How far it has got."""
        return str(self._follower.storage.revision)

    @property
    def open_watches(self) -> int:
        """How many watches are open here."""
        return len(self._follower.storage.subscriptions())

    def wait_for_watches(self, count: int, *, timeout_seconds: float = 10.0) -> None:
        """Block until exactly so many watches are open here.

        Raises:
            TimeoutError: there were not in time.
        """
        self._follower.storage.wait_for_subscriptions(count, timeout_seconds)

    def drop_connections(self, *, reset: bool = True) -> None:
        """Cut every open connection: with RST, or with FIN in the middle of a body."""
        self._thread.cut(reset=reset)

    def end_watches(self) -> None:
        """End every watch that is open here cleanly, as at its timeout."""
        storage = self._follower.storage
        with storage.lock:
            for subscription in storage.subscriptions():
                subscription.end()

    def restart(self, *, keep_history: bool) -> None:
        """Come back at the same address, with every connection cut; as `APIServer.restart`.

        Args:
            keep_history: False forgets the watch windows: a watch at an older position gets 410.
        """
        self._thread.close_port()
        self._thread.cut(reset=True)
        if not keep_history:
            self._follower.storage.forget(history=False)
        self._thread.listen()

    def start(self) -> None:
        """Listen; for the server."""
        self._port = self._thread.start(self._port)

    def stop(self) -> None:
        """Stop listening; for the server."""
        self._thread.stop()
