"""The embedded server itself: HTTP on loopback, in a thread with its own event loop."""

from pyinformer.testing.apiserver.server._apiserver import APIServer
from pyinformer.testing.apiserver.server._server_replica import ServerReplica

__all__ = [
    "APIServer",
    "ServerReplica",
]
