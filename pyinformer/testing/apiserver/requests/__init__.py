"""Requests to the embedded server: parsed, recorded, refused, or failed by the fault script."""

from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.requests._faults import Cut, Fault, FaultScript, scripted_failure
from pyinformer.testing.apiserver.requests._journal import Journal, RequestPredicate, RequestRecord
from pyinformer.testing.apiserver.requests._protobuf import PROTOBUF, json_of
from pyinformer.testing.apiserver.requests._query import (
    ListOptions,
    check_options,
    parse_number,
    parse_options,
    parse_revision,
)
from pyinformer.testing.apiserver.requests._reply import Reply
from pyinformer.testing.apiserver.requests._routing import Route, parse_route
from pyinformer.testing.apiserver.requests._write_options import WriteOptions, parse_write_options
from pyinformer.testing.apiserver.requests.failures import Failure, resource_version_too_large

__all__ = [
    "PROTOBUF",
    "Cut",
    "Failure",
    "Fault",
    "FaultScript",
    "Journal",
    "ListOptions",
    "Reply",
    "RequestPredicate",
    "RequestRecord",
    "Route",
    "WriteOptions",
    "check_options",
    "failures",
    "json_of",
    "parse_number",
    "parse_options",
    "parse_revision",
    "parse_route",
    "parse_write_options",
    "resource_version_too_large",
    "scripted_failure",
]
