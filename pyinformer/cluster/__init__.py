"""One API server as a program sees it: how it is found, read and written, and what is shared."""

from pyinformer.cluster._bodies import Body
from pyinformer.cluster._catalogue import APIResource
from pyinformer.cluster._cluster import Cluster
from pyinformer.cluster._connect import connect
from pyinformer.cluster._discovery import Discovery
from pyinformer.cluster._options import WriteOptions
from pyinformer.cluster._pool import ClusterPool
from pyinformer.cluster._pool_options import ClusterPoolOptions
from pyinformer.cluster._pooled import PooledClusterStatus
from pyinformer.cluster._sender import WriteStatistics
from pyinformer.cluster._upserts import Upserted, create_or_update, retry_on_conflict
from pyinformer.cluster._write_observer import WriteObserver

__all__ = [
    "APIResource",
    "Body",
    "Cluster",
    "ClusterPool",
    "ClusterPoolOptions",
    "Discovery",
    "PooledClusterStatus",
    "Upserted",
    "WriteObserver",
    "WriteOptions",
    "WriteStatistics",
    "connect",
    "create_or_update",
    "retry_on_conflict",
]
