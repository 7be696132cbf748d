"""The wire: bytes from an API server, split into lines and items; credentials; typed refusals.

The one door to kubernetes_asyncio. Importing this package loads neither it nor aiohttp; finding a
kubeconfig and opening the first connection do.
"""

from pyinformer.transport._body import (
    LEAST_BYTES_PER_SECOND,
    Body,
    PushBody,
    read_bounded,
)
from pyinformer.transport._config import ClusterConfig
from pyinformer.transport._connection_protocol import ConnectionProtocol, NetworkConnection
from pyinformer.transport._credentials import (
    Credentials,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from pyinformer.transport._envelope import ListMetadata
from pyinformer.transport._frames import (
    ADDED,
    BOOKMARK,
    DELETED,
    ERROR,
    MODIFIED,
    MODIFIED_PREFIX,
    Bookmark,
    read_bookmark,
    read_error,
    read_frame,
    read_frame_head,
    read_frame_slowly,
)
from pyinformer.transport._http import Connection, Query
from pyinformer.transport._in_cluster import in_cluster_config
from pyinformer.transport._items import ListSplitter, OnInvalidItem, OnItem
from pyinformer.transport._kubeconfig import KubeconfigPolicy
from pyinformer.transport._lines import MAX_LINE_BYTES, LineSplitter, OnLine
from pyinformer.transport._list_watch import ListWatch
from pyinformer.transport._locate import check_policy, find_config
from pyinformer.transport._options import ConnectionOptions
from pyinformer.transport._status import status_error, status_error_from_object

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "ERROR",
    "LEAST_BYTES_PER_SECOND",
    "MAX_LINE_BYTES",
    "MODIFIED",
    "MODIFIED_PREFIX",
    "Body",
    "Bookmark",
    "ClusterConfig",
    "Connection",
    "ConnectionOptions",
    "ConnectionProtocol",
    "Credentials",
    "KubeconfigPolicy",
    "LineSplitter",
    "ListMetadata",
    "ListSplitter",
    "ListWatch",
    "NetworkConnection",
    "NoCredentials",
    "OnInvalidItem",
    "OnItem",
    "OnLine",
    "PushBody",
    "Query",
    "StaticCredentials",
    "TokenFileCredentials",
    "check_policy",
    "find_config",
    "in_cluster_config",
    "read_bookmark",
    "read_bounded",
    "read_error",
    "read_frame",
    "read_frame_head",
    "read_frame_slowly",
    "status_error",
    "status_error_from_object",
]
