"""Faults for tests of programs that follow an API server: of the network, of requests, of etcd."""

from pyinformer.testing.faults._catalogue import CATALOGUE, Kind, Part, Program, Servers
from pyinformer.testing.faults._changing_facts import ChangingFacts
from pyinformer.testing.faults._etcd_relay import EtcdRelay
from pyinformer.testing.faults._fault_lab import FaultLab
from pyinformer.testing.faults._fault_proxy import FaultProxy, ServerAddress, Upstream
from pyinformer.testing.faults._schedule import FaultSchedule, TimedFault

__all__ = [
    "CATALOGUE",
    "ChangingFacts",
    "EtcdRelay",
    "FaultLab",
    "FaultProxy",
    "FaultSchedule",
    "Kind",
    "Part",
    "Program",
    "ServerAddress",
    "Servers",
    "TimedFault",
    "Upstream",
]
