"""HTTP/1.1 to one API server: requests, streams, deadlines and typed errors."""

from pyinformer.transport.http._body import LEAST_BYTES_PER_SECOND, Body, PushBody, read_bounded
from pyinformer.transport.http._connection import Connection, Query
from pyinformer.transport.http._errors import failure_reason, network_errors
from pyinformer.transport.http._options import ConnectionOptions
from pyinformer.transport.http._request_metrics import RequestMetrics, as_retry
from pyinformer.transport.http._resolver import with_zone_index
from pyinformer.transport.http._server_warnings import OnWarning
from pyinformer.transport.http._session import send_once
from pyinformer.transport.http._session_connection import (
    SessionConnection,
    SessionSource,
    SessionTimeouts,
)
from pyinformer.transport.http._url import name_for_tls, request_url

__all__ = [
    "LEAST_BYTES_PER_SECOND",
    "Body",
    "Connection",
    "ConnectionOptions",
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
