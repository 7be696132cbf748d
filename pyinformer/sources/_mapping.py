"""From what a user's mapping function returned to requests.

What enters may be a key, a request, many of them, or None; what leaves is a set of requests in the
order in which they came. What is nonsense is refused by a typed error, after all the rest of the
answer was taken: one bad key costs no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pyinformer.apimachinery import (
    InvalidArgumentError,
    InvalidTypeError,
    KubeObject,
    V,
)
from pyinformer.sources._predicates import check_plain
from pyinformer.sources._request import Request

Keys: TypeAlias = "str | Request | Iterable[str | Request] | None"
"""Requests, or keys `namespace/name` or `name`; one, several, or None."""

MappingFunction: TypeAlias = Callable[[KubeObject[V]], Keys]
"""Says which requests an object concerns. It runs on the event loop in the step of the event, for
the old and for the new state: it must be quick, pure, and may be a generator function. If it
raises, what it gave before counts."""


def check_mapping(mapping: object) -> None:
    """Refuse what cannot be a mapping function.

    Raises:
        InvalidTypeError: it could not be called, or would have to be awaited.
    """
    check_plain(mapping, "mapping(obj)", 1, may_generate=True)


def collect(found: Keys, cluster: str, into: dict[Request, None]) -> None:
    """Take over what a function of the user's returned.

    Args:
        found: its answer.
        cluster: the cluster of requests that are only keys.
        into: where the requests go; what is there already stays first.

    Raises:
        InvalidTypeError: the answer, or some of it, is neither key nor request.
        InvalidArgumentError: a key is none.
    """
    if found is None:
        return
    if isinstance(found, str | Request):
        into[request_of(found, cluster)] = None
        return
    _refuse_what_is_no_answer(found)
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
        item: `namespace/name`, `name`, or a request, whose cluster stays.
        cluster: the cluster of what is only a key.

    Raises:
        InvalidTypeError: it is neither.
        InvalidArgumentError: the key is none.
    """
    if isinstance(item, Request):
        return item
    if not isinstance(item, str):
        reason = f"is 'namespace/name', 'name' or a Request, not {type(item).__name__}"
        raise InvalidTypeError("key", reason)
    return Request(item, cluster)


def _refuse_what_is_no_answer(found: object) -> None:
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise InvalidTypeError("mapping", "would have to be awaited; it decides in one step")
    if not isinstance(found, Iterable) or isinstance(found, Mapping | bytes | bytearray):
        reason = f"returns keys, requests or None, not {type(found).__name__}"
        raise InvalidTypeError("mapping", reason)
