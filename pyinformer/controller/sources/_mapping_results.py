"""From the answer of a user's mapping function to requests.

An invalid entry raises a typed error, but only when the other entries were taken.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pyinformer._runtime.tasks import check_plain, refuse_awaitable
from pyinformer.controller.sources._request import Request
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import KubeObject, V

Keys: TypeAlias = "str | Request | Iterable[str | Request] | None"
"""Requests, or keys `namespace/name` or `name`; one, several, or None."""

MappingFunction: TypeAlias = Callable[[KubeObject[V]], Keys]
"""Returns the requests that an object concerns. It runs on the event loop in the step of the event,
for the old and for the new state: it must be quick and pure, and may be a generator function. If it
raises, what it yielded before counts."""


def check_mapping(mapping: object) -> None:
    """Refuse what cannot be a mapping function.

    Raises:
        InvalidTypeError: it cannot be called, or is asynchronous.
    """
    check_plain(mapping, "mapping(obj)", 1, may_generate=True)


def collect(found: Keys, cluster: str, into: dict[Request, None]) -> None:
    """Add the requests that a user's function returned.

    Args:
        found: its answer.
        cluster: the cluster of plain keys.
        into: receives the requests; those that are in it already stay first.

    Raises:
        InvalidTypeError: the answer, or a part of it, is neither a key nor a request.
        InvalidArgumentError: a key is invalid.
    """
    if found is None:
        return
    if isinstance(found, str | Request):
        into[request_of(found, cluster)] = None
        return
    refuse_awaitable(found, "mapping")
    if not isinstance(found, Iterable) or isinstance(found, Mapping | bytes | bytearray):
        reason = f"must return keys, requests or None, not {type(found).__name__}"
        raise InvalidTypeError("mapping", reason)
    first_error: InvalidTypeError | InvalidArgumentError | None = None
    for each in found:
        try:
            into[request_of(each, cluster)] = None
        except (InvalidTypeError, InvalidArgumentError) as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def request_of(item: str | Request, cluster: str = "") -> Request:
    """Return a request for a key, or the request itself.

    Args:
        item: `namespace/name`, `name`, or a request, which keeps its cluster.
        cluster: the cluster of a plain key.

    Raises:
        InvalidTypeError: it is neither.
        InvalidArgumentError: the key is invalid.
    """
    if isinstance(item, Request):
        return item
    if not isinstance(item, str):
        reason = f"must be 'namespace/name', 'name' or a Request, not {type(item).__name__}"
        raise InvalidTypeError("key", reason)
    return Request(item, cluster)
