"""The API server: its address and credentials, and the requests that are sent to it.

`transport` sends requests and reads what comes back; `cluster` is what a program calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr

if TYPE_CHECKING:
    from pyinformer.client.cluster import (
        APIResource,
        Body,
        Cluster,
        ClusterPool,
        Discovery,
        ExecResult,
        LogStream,
        ObjectList,
        PooledClusterStatus,
        Upserted,
        WriteObserver,
        WriteOptions,
        WriteStatistics,
        connect,
        create_or_update,
        retry_on_conflict,
    )
    from pyinformer.client.transport import (
        ClientConfiguration,
        ClusterConfig,
        ConfiguredClient,
        ConnectionOptions,
        Credentials,
        ForeignClient,
        KubeconfigPolicy,
        ListWatch,
        SessionConnection,
        SessionSource,
        SessionTimeouts,
        config_from_client,
    )

# Loaded when they are first used: a room of the wing can be used without the others.
_HOMES = {
    "APIResource": "cluster",
    "Body": "cluster",
    "ClientConfiguration": "transport",
    "Cluster": "cluster",
    "ClusterConfig": "transport",
    "ClusterPool": "cluster",
    "ConfiguredClient": "transport",
    "ConnectionOptions": "transport",
    "Credentials": "transport",
    "Discovery": "cluster",
    "ExecResult": "cluster",
    "ForeignClient": "transport",
    "KubeconfigPolicy": "transport",
    "ListWatch": "transport",
    "LogStream": "cluster",
    "ObjectList": "cluster",
    "PooledClusterStatus": "cluster",
    "SessionConnection": "transport",
    "SessionSource": "transport",
    "SessionTimeouts": "transport",
    "Upserted": "cluster",
    "WriteObserver": "cluster",
    "WriteOptions": "cluster",
    "WriteStatistics": "cluster",
    "config_from_client": "transport",
    "connect": "cluster",
    "create_or_update": "cluster",
    "retry_on_conflict": "cluster",
}

__all__ = [
    "APIResource",
    "Body",
    "ClientConfiguration",
    "Cluster",
    "ClusterConfig",
    "ClusterPool",
    "ConfiguredClient",
    "ConnectionOptions",
    "Credentials",
    "Discovery",
    "ExecResult",
    "ForeignClient",
    "KubeconfigPolicy",
    "ListWatch",
    "LogStream",
    "ObjectList",
    "PooledClusterStatus",
    "SessionConnection",
    "SessionSource",
    "SessionTimeouts",
    "Upserted",
    "WriteObserver",
    "WriteOptions",
    "WriteStatistics",
    "config_from_client",
    "connect",
    "create_or_update",
    "retry_on_conflict",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
