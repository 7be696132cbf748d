"""Kubernetes informers for Python: list, watch, cache, index, and call handlers.

Start with `connect()` and `SharedInformerFactory`; `pyinformer.testing` has servers for tests.

Objects and errors are loaded with the package. All else is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer import errors as errors
from pyinformer import objects as objects
from pyinformer._runtime.late_names import late_getattr
from pyinformer._version import __version__ as __version__
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
from pyinformer.objects import (
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

if TYPE_CHECKING:
    from pyinformer import admission as admission
    from pyinformer import blocking as blocking
    from pyinformer import cache as cache
    from pyinformer import children as children
    from pyinformer import client as client
    from pyinformer import controller as controller
    from pyinformer import fleet as fleet
    from pyinformer import leaderelection as leaderelection
    from pyinformer import operator as operator
    from pyinformer import policies as policies
    from pyinformer import readiness as readiness
    from pyinformer import sharding as sharding
    from pyinformer import telemetry as telemetry
    from pyinformer import workqueue as workqueue
    from pyinformer.admission import Denied, Review, Webhooks
    from pyinformer.blocking import run_in_thread
    from pyinformer.cache import (
        Lister,
        MutationDetector,
        ResourceEventHandler,
        SharedInformer,
        SharedInformerFactory,
        in_thread,
        wait_for_cache_sync,
    )
    from pyinformer.client import Cluster, ClusterPool, connect, create_or_update, retry_on_conflict
    from pyinformer.controller import (
        Controller,
        ControllerGroup,
        ControllerOptions,
        Reconcile,
        Request,
        Result,
    )
    from pyinformer.fleet import Fleet as Fleet
    from pyinformer.leaderelection import LeaderElection, LeaderElector
    from pyinformer.operator import Operator, OperatorRun
    from pyinformer.sharding import Buckets, Shard

_NAMESPACES = (
    "admission",
    "blocking",
    "cache",
    "children",
    "client",
    "controller",
    "fleet",
    "leaderelection",
    "operator",
    "policies",
    "readiness",
    "sharding",
    "telemetry",
    "workqueue",
)
_HOMES = {
    **{name: name for name in _NAMESPACES},
    "Buckets": "sharding",
    "Cluster": "client",
    "ClusterPool": "client",
    "Controller": "controller",
    "ControllerGroup": "controller",
    "ControllerOptions": "controller",
    "Denied": "admission",
    "Fleet": "fleet",
    "LeaderElection": "leaderelection",
    "LeaderElector": "leaderelection",
    "Lister": "cache",
    "MutationDetector": "cache",
    "Operator": "operator",
    "OperatorRun": "operator",
    "Reconcile": "controller",
    "Request": "controller",
    "ResourceEventHandler": "cache",
    "Result": "controller",
    "Review": "admission",
    "Shard": "sharding",
    "SharedInformer": "cache",
    "SharedInformerFactory": "cache",
    "Webhooks": "admission",
    "connect": "client",
    "create_or_update": "client",
    "in_thread": "cache",
    "retry_on_conflict": "client",
    "run_in_thread": "blocking",
    "wait_for_cache_sync": "cache",
}

__all__ = [
    "APIStatusError",
    "Added",
    "Buckets",
    "CacheNotSyncedError",
    "CacheSyncTimeoutError",
    "Cluster",
    "ClusterPool",
    "ConflictError",
    "Controller",
    "ControllerGroup",
    "ControllerOptions",
    "Deleted",
    "Denied",
    "Event",
    "Fleet",
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
    "Review",
    "Shard",
    "SharedInformer",
    "SharedInformerFactory",
    "StaleCacheError",
    "TerminalError",
    "TransportError",
    "Updated",
    "View",
    "Webhooks",
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
