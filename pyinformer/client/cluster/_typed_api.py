"""The typed classes of kubernetes_asyncio, or of kubernetes.aio, on the connection of a cluster.

None of the two is imported: the class that a program passes leads to the rest of its package. They
call the REST client of their package, in whose place ours sends through the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, final
from urllib.parse import parse_qsl

from pyinformer._runtime.tasks import is_asynchronous
from pyinformer.client.cluster._json_conversion import encode_body, json_of
from pyinformer.client.cluster._request_checks import check_deletion, check_query, check_request
from pyinformer.client.transport import RawResponse
from pyinformer.errors import (
    APIStatusError,
    InvalidArgumentError,
    InvalidTypeError,
    UnauthorizedError,
)
from pyinformer.objects import check_seconds, check_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests
    from pyinformer.client.cluster._write_path import WritePath
    from pyinformer.client.transport import Query

T = TypeVar("T")

_VERBS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML
_FALSE: Final = ("", "0", "false")  # all other texts are true for a server
_STREAMS: Final = {
    "watch": "follow the resource with an informer, or one object with its wait_for()",
    "follow": "follow the log with cluster.logs(follow=True)",
}
_NO_STREAM: Final = (
    "must be True: follow a resource with an informer, and a log with cluster.logs(); the raw text"
    " of a response is what cluster.request() returns"
)


def typed_api(api_class: type[T], requests: RateLimitedRequests, writes: WritePath) -> T:
    """Return an object of a typed class that sends through a cluster; see `Cluster.api`.

    Raises:
        InvalidTypeError: it is not a class of one of the packages.
    """
    made: Any = _package_of(api_class)
    client = object.__new__(made.ApiClient)  # its constructor would open a session of its own
    client.configuration = made.Configuration(host=requests.server)
    client.pool_threads = 1
    client.default_headers = {}
    client.cookie = None
    client.client_side_validation = client.configuration.client_side_validation
    client.rest_client = TypedRest(requests, writes, made.ApiException)
    make: Callable[[object], T] = api_class
    return make(client)


def _package_of(api_class: object) -> ModuleType:
    """Return the module of the ApiClient that a class was generated for.

    Raises:
        InvalidTypeError: there is none, or it blocks.
    """
    shown = "must be a class of kubernetes_asyncio.client, such as CoreV1Api"
    if not isinstance(api_class, type):
        raise InvalidTypeError("api_class", f"{shown}, got {type(api_class).__name__}")
    for base in api_class.__mro__:
        client = getattr(sys.modules.get(base.__module__), "ApiClient", None)
        if not base.__name__.endswith("Api") or not isinstance(client, type):
            continue
        if not is_asynchronous(getattr(client, "close", None)):
            reason = (
                f"{shown}, or of kubernetes.aio.client: {api_class.__module__} blocks its thread,"
                " and the event loop with it"
            )
            raise InvalidTypeError("api_class", reason)
        return sys.modules[client.__module__]
    raise InvalidTypeError("api_class", f"{shown}, got the class {api_class.__name__}")


@final
class TypedResponse:
    """A response as the generated classes read it.

    Args:
        status: the HTTP status.
        received: the response.
    """

    def __init__(self, status: int, received: RawResponse) -> None:
        from multidict import CIMultiDict

        self.status = status
        self.reason: str = _phrase(status)
        self.data: bytes | str = received.body
        self.headers: Mapping[str, str] = CIMultiDict(received.headers)

    async def read(self) -> bytes | str:
        """Return the body, which has arrived.

        Cancellation:
            Safe.
        """
        return self.data

    def getheaders(self) -> Mapping[str, str]:
        """Return the headers."""
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return a header."""
        return self.headers.get(name, default)

    @property
    def response(self) -> NoReturn:
        """Refuse to hand out a response of aiohttp."""
        raise InvalidArgumentError("_preload_content", _NO_STREAM)


@final
class TypedRest:
    """What the generated classes call in place of the REST client of their package.

    Args:
        requests: sends reads.
        writes: sends writes, and shows them to the caches of the process.
        refusal: the ApiException of the package.
    """

    def __init__(
        self, requests: RateLimitedRequests, writes: WritePath, refusal: type[Exception]
    ) -> None:
        self._requests = requests
        self._writes = writes
        self._refusal = refusal

    async def close(self) -> None:
        """Do nothing: the connection belongs to the cluster.

        Cancellation:
            Safe.
        """

    def __getattr__(self, name: str) -> Callable[..., Awaitable[TypedResponse]]:
        """Return the function of an HTTP method."""
        if name in _VERBS:
            return partial(self.request, name)
        raise AttributeError(name)

    async def request(
        self,
        method: str,
        url: str,
        *,
        query_params: Sequence[tuple[str, object]] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        post_params: object = None,
        _preload_content: bool = True,
        _request_timeout: object = None,
    ) -> TypedResponse:
        """Send a request.

        Raises:
            ApiException: the server refused; of the package of the caller.
            InformerError: anything else.

        Cancellation:
            A read is dropped. A write may have been carried out or not, unless it still waits for
            the rate limit.
        """
        if not _preload_content:
            raise InvalidArgumentError("_preload_content", _NO_STREAM)
        path, query = self._place(url, query_params or ())
        own = dict(headers or {})
        _check_headers(own)
        kind = _content_type(method, own, body)
        check_request(method, path, kind)
        check_query(query)
        check_deletion(method, query)
        sends = self._requests.exchange if method == "GET" else self._writes.exchange
        received = RawResponse()
        content = None if body is None or method == "GET" else _encoded(body, kind)
        if content is not None:
            own["Content-Type"] = kind
        try:
            await sends(
                method,
                path,
                query=query,
                headers=own,
                body=content,
                timeout_seconds=_seconds(_request_timeout),
                received=received,
            )
        except UnauthorizedError:  # of the login, which every request shares
            raise
        except APIStatusError as error:
            raise self._refused(TypedResponse(error.status, received)) from error
        return TypedResponse(received.status, received)

    def _place(self, url: str, query_params: Sequence[tuple[str, object]]) -> tuple[str, Query]:
        """Return the path and the query of a request.

        Raises:
            InvalidArgumentError: it is of another server, or its response would have no end.
        """
        server = self._requests.server
        target = url.removeprefix(server)
        if target == url or not target.startswith("/"):
            reason = f"must lead to {server}: connect() to another server for its requests"
            raise InvalidArgumentError("_host", reason)
        path, _, text = target.partition("?")
        pairs = [*parse_qsl(text, keep_blank_values=True), *query_params]
        query = tuple((name, _query_text(value)) for name, value in pairs)
        for name, value in query:
            if name in _STREAMS and value.lower() not in _FALSE:
                reason = f"must not be set, since its response has no end: {_STREAMS[name]}"
                raise InvalidArgumentError(name, reason)
        return path, query

    def _refused(self, response: TypedResponse) -> Exception:
        """Return the package's error for a refusal."""
        make: Any = getattr(self._refusal, "from_response", None)
        if make is None:
            kind: Callable[..., Exception] = self._refusal
            return kind(http_resp=response)
        text = response.data
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        try:
            make(http_resp=response, body=text, data=None)
        except self._refusal as error:  # it raises the class of the status
            return error
        return self._refusal()


def _content_type(method: str, headers: dict[str, str], body: object) -> str:
    """Return the format of a body, and take it out of the headers."""
    given = [headers.pop(name) for name in tuple(headers) if name.lower() == "content-type"]
    kind = str(given[0]) if given else _JSON
    # What the packages name first; only a list is one.
    is_merged = method == "PATCH" and kind == _JSON_PATCH and not isinstance(body, list)
    return _STRATEGIC_PATCH if is_merged else kind


def _encoded(body: Any, kind: str) -> bytes:  # noqa: ANN401 - what the package has made of a model
    if "json" in kind.lower() or kind == _APPLY_PATCH:
        return encode_body(json_of(body, "body"))
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes):
        return body
    reason = f"must be bytes or text for {kind}, got {type(body).__name__}"
    raise InvalidTypeError("body", reason)


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check_headers(headers: Mapping[str, object]) -> None:
    """Refuse headers that no request can have.

    Raises:
        InvalidTypeError: a name or a value is not a text.
        InvalidArgumentError: one of them has characters that would end it.
    """
    for one in (*headers, *headers.values()):
        check_text("_headers", one)
        if not str(one).isprintable():
            raise InvalidArgumentError("_headers", "must have no control characters")


def _seconds(timeout: object) -> float | None:
    """Return how long a request may take: of a pair, connecting and the rest together.

    Raises:
        InvalidArgumentError: it is not a time.
    """
    if hasattr(timeout, "total"):  # an aiohttp.ClientTimeout
        given: Any = timeout
        timeout = (given.connect, given.sock_read) if given.total is None else given.total
    parts = timeout if isinstance(timeout, tuple) else (timeout,)
    if len(parts) > 2:  # noqa: PLR2004
        reason = f"must be seconds, a pair of them or an aiohttp.ClientTimeout, got {timeout!r:.80}"
        raise InvalidArgumentError("_request_timeout", reason)
    for each in filter(None, parts):
        check_seconds("_request_timeout", each)
    return float(sum(filter(None, parts))) or None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
