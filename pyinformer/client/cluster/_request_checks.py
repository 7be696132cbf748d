"""The checks of requests that a program words itself."""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyinformer.client.cluster._targets import check_no_stream
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_encodable, check_iterable, check_text

if TYPE_CHECKING:
    from pyinformer.client.transport import Query

_SELECTORS: Final = ("labelSelector", "fieldSelector")
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_is_quoted_path: Final = re.compile(r"/(?!(?:.*/)?\.{1,2}(?:/|$))[!-\"$->@-~]*").fullmatch
_is_media_type: Final = re.compile(r"[ -~]+").fullmatch


def check_not_empty(argument: str, given: object, selector: str) -> None:
    """Refuse a selector that is given and selects everything, where objects are deleted.

    Raises:
        InvalidArgumentError: it does.
    """
    if given is not None and not selector:
        reason = (
            f"{given!r} selects all objects: to delete them all, pass None, or leave the selector"
            " out; nothing was deleted"
        )
        raise InvalidArgumentError(argument, reason)


def check_request(method: str, path: str, content_type: str) -> None:
    """Raise if a request cannot be sent as it is.

    Raises:
        InvalidArgumentError: its method or its path is not one that a server serves, or the format
            cannot be the value of a header.
    """
    check_text("path", path)
    check_text("content_type", content_type)
    if method not in _METHODS:
        raise InvalidArgumentError(
            "method", f"must be one of {', '.join(_METHODS)}, got {method!r}"
        )
    if not _is_quoted_path(path):
        reason = f"must begin with '/', be quoted, and have no query and no '..', got {path!r}"
        raise InvalidArgumentError("path", reason)
    if not _is_media_type(content_type):
        raise InvalidArgumentError(
            "content_type", f"must be one such as 'application/json', got {content_type!r}"
        )
    check_no_stream(path)


def check_query(query: Query) -> None:
    """Refuse a query that is not pairs of texts.

    Raises:
        InvalidTypeError: it is not.
        InvalidArgumentError: one of them is not Unicode.
    """
    shown = "pairs of names and values, which are texts"
    if isinstance(query, Mapping):
        raise InvalidTypeError("query", f"must be {shown}: pass tuple(query.items())")
    check_iterable("query", query, shown=shown)
    for pair in query:
        if not (isinstance(pair, tuple | list) and [type(one) for one in pair] == [str, str]):
            raise InvalidTypeError("query", f"must be {shown}, got {type(pair).__name__}")
        for text in pair:
            check_encodable("query", text)


def check_deletion(method: str, query: Query) -> None:
    """Refuse to delete with a selector that is given and selects everything.

    Raises:
        InvalidArgumentError: it is a deletion, and a selector is empty.
    """
    if method == "DELETE":
        for name, value in query:
            if name in _SELECTORS:
                check_not_empty("query", f"{name}={value}", value.strip())
