"""The public test kit: an embedded Kubernetes API server, a real one, and a World without any.

Nothing here is loaded by `import pyinformer`, and each name loads its own modules when it is first
used, so that a test of the embedded server needs none of what builds the real one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinformer.testing._access import Token
    from pyinformer.testing._apiserver import APIServer
    from pyinformer.testing._connector import Connector
    from pyinformer.testing._etcd import SavedEtcd
    from pyinformer.testing._faults import Fault, FaultScript
    from pyinformer.testing._journal import RequestRecord
    from pyinformer.testing._kube_apiserver import KubeAPIServer, StaticToken
    from pyinformer.testing._server_replica import ServerReplica
    from pyinformer.testing._storage import SavedState
    from pyinformer.testing._synced_informer import SyncedInformer, synced_informer
    from pyinformer.testing._world import World
    from pyinformer.testing._write_log import WriteRecord

_HOMES = {
    "APIServer": "_apiserver",
    "Connector": "_connector",
    "Fault": "_faults",
    "FaultScript": "_faults",
    "KubeAPIServer": "_kube_apiserver",
    "RequestRecord": "_journal",
    "SavedEtcd": "_etcd",
    "SavedState": "_storage",
    "ServerReplica": "_server_replica",
    "StaticToken": "_kube_apiserver",
    "SyncedInformer": "_synced_informer",
    "Token": "_access",
    "World": "_world",
    "WriteRecord": "_write_log",
    "synced_informer": "_synced_informer",
}

__all__ = [
    "APIServer",
    "Connector",
    "Fault",
    "FaultScript",
    "KubeAPIServer",
    "RequestRecord",
    "SavedEtcd",
    "SavedState",
    "ServerReplica",
    "StaticToken",
    "SyncedInformer",
    "Token",
    "World",
    "WriteRecord",
    "synced_informer",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
