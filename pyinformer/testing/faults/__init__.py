"""Faults for tests of programs that follow an API server: of the network, of requests, of etcd."""

from pyinformer.testing.faults._fault_proxy import FaultProxy, ServerAddress, Upstream

__all__ = [
    "FaultProxy",
    "ServerAddress",
    "Upstream",
]
