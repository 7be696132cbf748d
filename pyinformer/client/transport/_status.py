"""Build the error for a refused request, or for an ERROR event of a watch.

The body of a response may be a Status, other JSON, a proxy's HTML, plain text or empty: the HTTP
status code alone decides the class of the error. The server's message is shortened and redacted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

import msgspec

from pyinformer._known_tokens import without_tokens
from pyinformer.client.transport._refusal_causes import refusal_causes
from pyinformer.client.transport._request_path import RequestPath
from pyinformer.errors import (
    APIStatusError,
    ApplyConflictError,
    ConflictError,
    FieldConflict,
    ForbiddenError,
    status_error_class,
)
from pyinformer.objects import (
    REDACTED,
    JSONObject,
    JSONValue,
    decoder_of,
    redacted_words,
    without_quotes,
)

MAX_MESSAGE_CHARS: Final = 500
NO_SERVER_BEHIND: Final = frozenset({502, 503, 504})
"""From a load balancer without a server, or from kube-apiserver for an absent aggregated API."""
_CLIENT_ERRORS: Final = range(400, 500)
_NOT_OF_THE_REQUEST: Final = frozenset({401, 429})  # of the credentials, and of the load

_MAX_RETRY_AFTER_DIGITS = 9  # three decades: a longer number is not meant as seconds
_MAX_RETRY_AFTER_SECONDS = 10**_MAX_RETRY_AFTER_DIGITS
_STATUS_CODES = range(100, 1000)
_INTERNAL_SERVER_ERROR = 500
_of_secrets = re.compile(
    r"(?:^| )secrets\.v1$|/api/v1/(?:namespaces/[^/]+/)?secrets(?:[/?]|$)"
).search
_REFUSALS = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429, 504})
_READS: Final = ("list ", "watch ", "GET ")  # whose errors the log shows
_FIELD_MANAGER_CONFLICT = "FieldManagerConflict"
_MANAGER = re.compile(r'"(?:[^"\\]|\\.)*+"')  # conflict with "kubectl" using apps/v1
# An authorizer's refusal names a User, or has no reason; that of quotas, of terminating namespaces
# and of webhooks has one.
_by_admission: Final = re.compile(r' is forbidden: (?!User ")\S').search
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_MAX_FAILURE_BYTES = 64 << 10  # a Status is short, and larger objects are not searched
_decode_object = decoder_of(JSONObject)
_decode_text = decoder_of(str, skims=True)


def is_refusal(status: int) -> bool:
    """Return whether a request is refused, and one of another form may be answered.

    All of 4xx but the statuses for credentials and load: gateways have rules of their own.
    """
    return status in _CLIENT_ERRORS and status not in _NOT_OF_THE_REQUEST


def status_error(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    request: str = "",
    needed: str = "",
    path: str = "",
) -> APIStatusError:
    """Return the error for a response that is not a success.

    Args:
        status: the HTTP status code.
        headers: the headers of the response, whose names are case-insensitive.
        body: the body of the response, or the part of it that was read.
        request: the request, for the error: `list pods.v1`.
        needed: the RBAC rule that the request needs, for the error if it is missing. Only a Status
            is an authorizer's refusal: a page is a gateway's, which no Role helps against.
        path: the path of the request, without a query; empty if the request has no object.
    """
    fields = _status_fields(body)
    return _error(
        status,
        fields,
        message=_message(fields, body),
        request=request,
        retry_after_seconds=parse_retry_after(headers.get("Retry-After"), headers.get("Date")),
        needed=needed if fields.get("kind") == "Status" else "",
        path=path,
    )


def status_error_from_object(
    status_object: JSONValue, *, request: str = "", path: str = ""
) -> APIStatusError:
    """Return the error for the object of a watch's ERROR event.

    Args:
        status_object: the decoded object, normally a Status; without a usable code it counts as
            status 500.
        request: the request, for the error: `watch pods.v1`.
        path: the path of the request, without a query; empty if the request has no object.
    """
    fields = _mapping(status_object)
    code = fields.get("code")
    status = code if isinstance(code, int) and code in _STATUS_CODES else _INTERNAL_SERVER_ERROR
    return _error(status, fields, message=_message(fields), request=request, path=path)


def refuse_failure(body: bytes, *, method: str, path: str) -> None:
    """Refuse the body of a success that says that the request has failed.

    Args:
        body: the whole body.
        method: the method of the request.
        path: its path, without a query.

    Raises:
        APIStatusError: the body is a Status whose status is Failure.

    Source:
        client-go rest/request.go, Result.Into.
    """
    if len(body) > _MAX_FAILURE_BYTES or b'"Failure"' not in body or b'"Status"' not in body:
        return
    fields = _status_fields(body)
    if fields.get("kind") == "Status" and fields.get("status") == "Failure":
        raise status_error_from_object(fields, request=f"{method} {path}", path=path)


def _error(
    status: int,
    fields: JSONObject,
    *,
    message: str,
    request: str,
    retry_after_seconds: float | None = None,
    needed: str = "",
    path: str = "",
) -> APIStatusError:
    """Return the error for the fields of a Status; what a header says comes before its details."""
    details = _mapping(fields.get("details"))
    causes = _causes(details)
    kind = status_error_class(status, causes)
    conflicts = _field_conflicts(details) if kind is ConflictError else ()
    if retry_after_seconds is None:
        retry_after_seconds = _seconds(details.get("retryAfterSeconds"))
    return (ApplyConflictError if conflicts else kind)(
        status=status,
        reason=_text(fields.get("reason")),
        message=_redacted(message, status, request),
        request=request,
        causes=causes,
        retry_after_seconds=retry_after_seconds,
        needed=needed if kind is ForbiddenError and not _by_admission(message) else "",
        conflicts=conflicts,
        names_object=_names_object(details, path),
        refusal_causes=refusal_causes(details, fields.get("message")),
    )


def _names_object(details: JSONObject, path: str) -> bool:
    """Return whether the details of a Status name the object of a request.

    A proxy to other clusters answers with a Status that names its own object, such as the cluster.
    A POST into a namespace is about that namespace, which may not exist.
    """
    asked = RequestPath.of(path)
    if asked is None:
        return False
    group, plural, name = asked.group, asked.resource, asked.name
    if not name:
        group, plural, name = "", "namespaces", asked.namespace
    if not name or details.get("name") != unquote(name):
        return False
    if named := details.get("group"):  # as kind, extension servers write `user`, `User` or `users`
        return bool(named == group)
    # Of the core group, whose kinds are plurals, also of a subresource: pods/ephemeralcontainers.
    # Simple servers leave the group out.
    kind = _text(details.get("kind")).partition("/")[0]
    return kind in {"", plural}


def parse_retry_after(
    value: str | None, date: str | None = None, *, wall_now: datetime | None = None
) -> float | None:
    """Read a Retry-After header.

    Args:
        value: the header: a number of seconds, or an HTTP date.
        date: the response's Date header, from which a date is measured: the clocks may differ.
        wall_now: the time to measure from without a Date header; None for the clock.

    Returns:
        Seconds, never negative; None if the header is missing or malformed.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MAX_RETRY_AFTER_DIGITS else None
    then = _http_date(text)
    if then is None:
        return None
    start = _http_date(date or "") or wall_now or datetime.now(UTC)
    return max(0.0, (then - start).total_seconds())


def _http_date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment is None:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _status_fields(body: bytes) -> JSONObject:
    try:
        return _decode_object(body)
    except _UNREADABLE:
        return {}


def _message(fields: JSONObject, body: bytes = b"") -> str:
    words = _text(fields.get("message"))
    if not words and not fields:
        # Credentials are removed before the text is shortened: no part of one is left.
        words = " ".join(without_tokens(body.decode("utf-8", "replace")).split())
    return words[:MAX_MESSAGE_CHARS]


def _redacted(words: str, status: int, request: str) -> str:
    """Return a server's message without what it may quote: it appears in logs and health pages."""
    kind = kind_of_request(request)
    if not kind:
        fails_to_read = status not in _REFUSALS and request.startswith(_READS)
        return redacted_words(without_quotes(words) if fails_to_read else words)
    # The message of a refusal is about the request; that of a failure may be about an object.
    return redacted_words(words, kind=kind) if status in _REFUSALS or not words else REDACTED


def kind_of_request(request: str) -> str:
    """Return `Secret` if a request is about Secrets, and an empty text otherwise.

    Args:
        request: as errors name it, or its path.
    """
    return "Secret" if _of_secrets(request) else ""


def _mapping(value: JSONValue) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _text(value: JSONValue) -> str:
    return without_tokens(value) if isinstance(value, str) else ""


def _field_conflicts(details: JSONObject) -> tuple[FieldConflict, ...]:
    causes = details.get("causes")
    found = map(_mapping, causes if isinstance(causes, list) else ())
    return tuple(
        FieldConflict(_text(cause.get("field")), _manager(_text(cause.get("message"))))
        for cause in found
        if cause.get("reason") == _FIELD_MANAGER_CONFLICT
    )


def _manager(message: str) -> str:
    quoted = _MANAGER.search(message, 0, MAX_MESSAGE_CHARS)  # each quote may begin a search
    try:
        return _decode_text(quoted[0]) if quoted else ""
    except (msgspec.DecodeError, UnicodeError):  # quoted as Go does, not as JSON
        return quoted[0][1:-1] if quoted else ""


def _causes(details: JSONObject) -> tuple[str, ...]:
    causes = details.get("causes")
    found = causes if isinstance(causes, list) else []
    return tuple(filter(None, (_text(_mapping(cause).get("reason")) for cause in found)))


def _seconds(value: JSONValue) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < _MAX_RETRY_AFTER_SECONDS else None
