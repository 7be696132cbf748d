"""The connection to an API server: configuration, credentials, lists, watches and typed errors.

Only this package imports kubernetes_asyncio. Importing it loads neither that nor aiohttp; a
kubeconfig's auth provider and the first request do.
"""

from pyinformer.transport._connection_protocol import ConnectionProtocol, NetworkConnection
from pyinformer.transport._discovery import (
    APIResource,
    Group,
    check_count,
    decode_groups,
    decode_resources,
    near_kinds,
    near_resources,
    table_of,
)
from pyinformer.transport._frames import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    MODIFIED_PREFIX,
    read_bookmark,
    read_error,
    read_frame,
    read_frame_head,
    read_frame_slowly,
)
from pyinformer.transport._lines import MAX_LINE_BYTES, LineSplitter
from pyinformer.transport._list_watch import ListWatch
from pyinformer.transport._status import NO_SERVER_BEHIND, status_error, status_error_from_object
from pyinformer.transport._write_guard import CURRENT_GUARD, WriteGuard, check_guard, record_write
from pyinformer.transport.config import (
    ClusterConfig,
    Credentials,
    KubeconfigPolicy,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
    check_policy,
    find_config,
    in_cluster_config,
)
from pyinformer.transport.http import (
    LEAST_BYTES_PER_SECOND,
    USER_AGENT_NAME,
    Body,
    Connection,
    ConnectionOptions,
    PushBody,
    Query,
    SessionConnection,
    SessionSource,
    SessionTimeouts,
    network_errors,
    read_bounded,
)
from pyinformer.transport.list_parser import ListMetadata, ListSplitter

__all__ = [
    "ADDED",
    "BOOKMARK",
    "CURRENT_GUARD",
    "DELETED",
    "ERROR",
    "LEAST_BYTES_PER_SECOND",
    "MAX_LINE_BYTES",
    "MODIFIED",
    "MODIFIED_PREFIX",
    "NO_SERVER_BEHIND",
    "USER_AGENT_NAME",
    "APIResource",
    "Body",
    "ClusterConfig",
    "Connection",
    "ConnectionOptions",
    "ConnectionProtocol",
    "Credentials",
    "Group",
    "KubeconfigPolicy",
    "LineSplitter",
    "ListMetadata",
    "ListSplitter",
    "ListWatch",
    "NetworkConnection",
    "NoCredentials",
    "PushBody",
    "Query",
    "SessionConnection",
    "SessionSource",
    "SessionTimeouts",
    "StaticCredentials",
    "TokenFileCredentials",
    "WriteGuard",
    "check_count",
    "check_guard",
    "check_policy",
    "decode_groups",
    "decode_resources",
    "find_config",
    "in_cluster_config",
    "near_kinds",
    "near_resources",
    "network_errors",
    "read_bookmark",
    "read_bounded",
    "read_error",
    "read_frame",
    "read_frame_head",
    "read_frame_slowly",
    "record_write",
    "status_error",
    "status_error_from_object",
    "table_of",
]
