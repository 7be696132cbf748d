"""Kubernetes informers for Python: list, watch, cache, index, and call handlers.

Start with `connect()` and `SharedInformerFactory`; `pyinformer.testing` has servers for tests.

What every informer needs is loaded with the package. Controllers, operators, leader election, the
blocking API and the other namespaces are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer import errors as errors
from pyinformer._late_names import late_getattr
from pyinformer._version import __version__ as __version__
from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    ObjectMeta,
    Updated,
    View,
    diff,
    redacted,
)
from pyinformer.cluster import Cluster, ClusterPool, connect, create_or_update, retry_on_conflict
from pyinformer.errors import (
    APIStatusError,
    CacheNotSyncedError,
    CacheSyncTimeoutError,
    ConflictError,
    ForbiddenError,
    InformerError,
    NotFoundError,
    RetryAfter,
    StaleCacheError,
    TerminalError,
    TransportError,
)
from pyinformer.informer import (
    ResourceEventHandler,
    SharedInformer,
    SharedInformerFactory,
    in_thread,
    wait_for_cache_sync,
)
from pyinformer.store import Lister

if TYPE_CHECKING:
    from pyinformer import blocking as blocking
    from pyinformer import cache as cache
    from pyinformer import config as config
    from pyinformer import controllerutil as controllerutil
    from pyinformer import crd as crd
    from pyinformer import health as health
    from pyinformer import leaderelection as leaderelection
    from pyinformer import metrics as metrics
    from pyinformer import predicates as predicates
    from pyinformer import sources as sources
    from pyinformer import status as status
    from pyinformer import workqueue as workqueue
    from pyinformer.audit import MutationDetector
    from pyinformer.blocking import run_in_thread
    from pyinformer.controller import (
        Controller,
        ControllerGroup,
        ControllerOptions,
        Reconcile,
        Result,
    )
    from pyinformer.leaderelection import LeaderElection, LeaderElector
    from pyinformer.operator import Operator, OperatorRun
    from pyinformer.sources import Request

_NAMESPACES = (
    "blocking",
    "cache",
    "config",
    "controllerutil",
    "crd",
    "health",
    "leaderelection",
    "metrics",
    "predicates",
    "sources",
    "status",
    "workqueue",
)
_HOMES = {
    **{name: name for name in _NAMESPACES},
    "Controller": "controller",
    "ControllerGroup": "controller",
    "ControllerOptions": "controller",
    "LeaderElection": "leaderelection",
    "LeaderElector": "leaderelection",
    "MutationDetector": "audit",
    "Operator": "operator",
    "OperatorRun": "operator",
    "Reconcile": "controller",
    "Request": "sources",
    "Result": "controller",
    "run_in_thread": "blocking",
}

__all__ = [
    "APIStatusError",
    "Added",
    "CacheNotSyncedError",
    "CacheSyncTimeoutError",
    "Cluster",
    "ClusterPool",
    "ConflictError",
    "Controller",
    "ControllerGroup",
    "ControllerOptions",
    "Deleted",
    "Event",
    "ForbiddenError",
    "GroupVersionResource",
    "InformerError",
    "JSONObject",
    "KubeObject",
    "LeaderElection",
    "LeaderElector",
    "Lister",
    "MutationDetector",
    "NotFoundError",
    "ObjectMeta",
    "Operator",
    "OperatorRun",
    "Reconcile",
    "Request",
    "ResourceEventHandler",
    "Result",
    "RetryAfter",
    "SharedInformer",
    "SharedInformerFactory",
    "StaleCacheError",
    "TerminalError",
    "TransportError",
    "Updated",
    "View",
    "connect",
    "create_or_update",
    "diff",
    "in_thread",
    "redacted",
    "retry_on_conflict",
    "run_in_thread",
    "wait_for_cache_sync",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
