"""The embedded server itself: HTTP on loopback, in a thread with its own event loop."""

from pyinformer.testing.apiserver.server._apiserver import APIServer
from pyinformer.testing.apiserver.server._faulty_response import (
    Response,
    ResponseCut,
    cut_transport,
)
from pyinformer.testing.apiserver.server._server_replica import ServerReplica
from pyinformer.testing.apiserver.server._thread import ServerThread

__all__ = [
    "APIServer",
    "Response",
    "ResponseCut",
    "ServerReplica",
    "ServerThread",
    "cut_transport",
]
