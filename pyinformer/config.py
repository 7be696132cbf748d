"""How a cluster is reached: its address, credentials, and options of connections and requests."""

from pyinformer.cluster import Body, ClusterPoolOptions, Discovery, WriteObserver, WriteOptions
from pyinformer.reflector import RequestBudget, RequestBudgetOptions
from pyinformer.transport import (
    ClientConfiguration,
    ClusterConfig,
    ConfiguredClient,
    ConnectionOptions,
    Credentials,
    ForeignClient,
    KubeconfigPolicy,
    SessionConnection,
    SessionSource,
    SessionTimeouts,
    config_from_client,
)

__all__ = [
    "Body",
    "ClientConfiguration",
    "ClusterConfig",
    "ClusterPoolOptions",
    "ConfiguredClient",
    "ConnectionOptions",
    "Credentials",
    "Discovery",
    "ForeignClient",
    "KubeconfigPolicy",
    "RequestBudget",
    "RequestBudgetOptions",
    "SessionConnection",
    "SessionSource",
    "SessionTimeouts",
    "WriteObserver",
    "WriteOptions",
    "config_from_client",
]
