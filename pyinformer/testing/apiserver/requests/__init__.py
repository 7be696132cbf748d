"""Requests to the embedded server: parsed, recorded, refused, or failed by the fault script."""

from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.requests._body_edits import BodyEdit, Edit
from pyinformer.testing.apiserver.requests._faults import Cut, Fault, FaultScript, scripted_failure
from pyinformer.testing.apiserver.requests._interceptors import (
    InterceptedRequest,
    Interception,
    Interceptor,
    Interceptors,
)
from pyinformer.testing.apiserver.requests._list_options import (
    ListOptions,
    check_options,
    parse_number,
    parse_options,
    parse_revision,
)
from pyinformer.testing.apiserver.requests._protobuf import PROTOBUF, json_of
from pyinformer.testing.apiserver.requests._request_log import (
    RequestLog,
    RequestPredicate,
    RequestRecord,
)
from pyinformer.testing.apiserver.requests._response_writer import ResponseWriter, ServerChannels
from pyinformer.testing.apiserver.requests._routing import Route, parse_route
from pyinformer.testing.apiserver.requests._write_parameters import (
    Reviewer,
    WriteParameters,
    parse_write_parameters,
)
from pyinformer.testing.apiserver.requests.failures import Failure, resource_version_too_large

__all__ = [
    "PROTOBUF",
    "BodyEdit",
    "Cut",
    "Edit",
    "Failure",
    "Fault",
    "FaultScript",
    "InterceptedRequest",
    "Interception",
    "Interceptor",
    "Interceptors",
    "ListOptions",
    "RequestLog",
    "RequestPredicate",
    "RequestRecord",
    "ResponseWriter",
    "Reviewer",
    "Route",
    "ServerChannels",
    "WriteParameters",
    "check_options",
    "failures",
    "json_of",
    "parse_number",
    "parse_options",
    "parse_revision",
    "parse_route",
    "parse_write_parameters",
    "resource_version_too_large",
    "scripted_failure",
]
