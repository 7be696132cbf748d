"""Faults for tests of programs that follow an API server: of the network, of requests, of etcd."""

from pyinformer.testing.faults._etcd_relay import EtcdRelay
from pyinformer.testing.faults._fault_proxy import FaultProxy, ServerAddress, Upstream

__all__ = [
    "EtcdRelay",
    "FaultProxy",
    "ServerAddress",
    "Upstream",
]
