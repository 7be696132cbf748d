"""Kubernetes informers for Python: list, watch, cache, index, and call handlers.

Start with `connect()` and `SharedInformerFactory`; `pyinformer.testing` has servers for tests.
"""

from pyinformer import blocking as blocking
from pyinformer import cache as cache
from pyinformer import config as config
from pyinformer import controllerutil as controllerutil
from pyinformer import crd as crd
from pyinformer import errors as errors
from pyinformer import health as health
from pyinformer import leaderelection as leaderelection
from pyinformer import metrics as metrics
from pyinformer import predicates as predicates
from pyinformer import sources as sources
from pyinformer import status as status
from pyinformer import workqueue as workqueue
from pyinformer._version import __version__ as __version__
from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    GroupVersionKind,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    ObjectKey,
    ObjectMeta,
    Updated,
    View,
    diff,
    redacted,
)
from pyinformer.audit import MutationDetector
from pyinformer.blocking import run_in_thread
from pyinformer.cluster import Cluster, ClusterPool, connect, create_or_update, retry_on_conflict
from pyinformer.controller import Controller, ControllerGroup, ControllerOptions, Reconcile, Result
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
from pyinformer.leaderelection import LeaderElection, LeaderElector
from pyinformer.operator import Operator, OperatorRun
from pyinformer.sources import Request
from pyinformer.store import Lister, NamespaceLister

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
    "GroupVersionKind",
    "GroupVersionResource",
    "InformerError",
    "JSONObject",
    "KubeObject",
    "LeaderElection",
    "LeaderElector",
    "Lister",
    "MutationDetector",
    "NamespaceLister",
    "NotFoundError",
    "ObjectKey",
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
