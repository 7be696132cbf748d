"""How a cluster is reached: its address, credentials, and options of connections and requests."""

from pyinformer.cluster import Body, ClusterPoolOptions, Discovery, WriteObserver, WriteOptions
from pyinformer.reflector import RequestBudget, RequestBudgetOptions
from pyinformer.transport import (
    ClusterConfig,
    ConnectionOptions,
    Credentials,
    KubeconfigPolicy,
    SessionConnection,
    SessionSource,
    SessionTimeouts,
)

__all__ = [
    "Body",
    "ClusterConfig",
    "ClusterPoolOptions",
    "ConnectionOptions",
    "Credentials",
    "Discovery",
    "KubeconfigPolicy",
    "RequestBudget",
    "RequestBudgetOptions",
    "SessionConnection",
    "SessionSource",
    "SessionTimeouts",
    "WriteObserver",
    "WriteOptions",
]
