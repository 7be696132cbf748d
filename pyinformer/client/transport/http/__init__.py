"""HTTP/1.1 to one API server: requests, streams, deadlines and typed errors."""

from pyinformer.client.transport.http._aiohttp_session import send_once
from pyinformer.client.transport.http._body import (
    LEAST_BYTES_PER_SECOND,
    Body,
    PushBody,
    read_bounded,
)
from pyinformer.client.transport.http._connection import Connection, Query
from pyinformer.client.transport.http._errors import failure_reason, network_errors
from pyinformer.client.transport.http._options import ConnectionOptions, ConnectionTimeouts
from pyinformer.client.transport.http._request_metrics import RequestMetrics, as_retry
from pyinformer.client.transport.http._resolver import with_zone_index
from pyinformer.client.transport.http._server_url import name_for_tls, request_url
from pyinformer.client.transport.http._server_warnings import OnWarning
from pyinformer.client.transport.http._session_connection import (
    SessionConnection,
    SessionSource,
    SessionTimeouts,
)

__all__ = [
    "LEAST_BYTES_PER_SECOND",
    "Body",
    "Connection",
    "ConnectionOptions",
    "ConnectionTimeouts",
    "OnWarning",
    "PushBody",
    "Query",
    "RequestMetrics",
    "SessionConnection",
    "SessionSource",
    "SessionTimeouts",
    "as_retry",
    "failure_reason",
    "name_for_tls",
    "network_errors",
    "read_bounded",
    "request_url",
    "send_once",
    "with_zone_index",
]
