"""Sends the requests of one Cluster: writes at a bounded rate, and each of them once.

A write is sent again only after a 429, by which the server says that it did nothing. Every other
failure is raised: when a response is lost, it is unknown whether the write was carried out. A read
is sent again also after a 503 or 504 that says when to retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, final

import anyio

from pyinformer._runtime.tasks import LoopOwner, Throttle
from pyinformer.client.transport import (
    ChannelConnection,
    ExchangeConnection,
    as_retry,
    check_guard,
    read_bounded,
)
from pyinformer.errors import (
    APIStatusError,
    InvalidArgumentError,
    LifecycleError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.objects import check_integer
from pyinformer.telemetry.tracing import CURRENT_REQUEST

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pyinformer.client.cluster._request_spans import RequestSpans
    from pyinformer.client.transport import (
        Body,
        Channels,
        ConnectionProtocol,
        Query,
        RawResponse,
        RequestMetrics,
    )

R = TypeVar("R")

_MAX_RESPONSE_BYTES: Final = 64 << 20
_BUDGET: Final = "DisruptionBudget"
_UNAVAILABLE: Final = frozenset({503, 504})
_BURST_SECONDS: Final = 2.0  # worth of writes after a pause, as client-go's 10 at 5 per second
_RETRY_TIMEOUT_SECONDS: Final = 30.0  # of all waits of one request: a caller wants to know by then
_MAX_UNAVAILABLE_SECONDS: Final = 10.0  # gateways ask for an hour, and are back after seconds
_DEFAULT_RETRY_AFTER_SECONDS: Final = 1.0  # what kube-apiserver sends


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Bounds of the writes of one Cluster."""

    writes_per_second: float | None = 100.0
    """The average rate; None for no limit. After a pause, two seconds' worth may be sent at once.
    The default keeps an endless loop of writes from slowing down other clients; the server's
    priority and fairness does the rest."""

    retry_limit: int = 10
    """How often a request is sent again after a 429, which means that it was not carried out, and a
    read also after a 503 or 504 with Retry-After; 0 for never. The default is client-go's. Together
    they wait at most 30 s: if the server asks for a longer wait than is left, its error is raised
    at once. After a 503 or 504, the time of the requests counts as well, and a wait is at most
    10 s: gateways ask for hours."""

    def __post_init__(self) -> None:
        rate = self.writes_per_second
        is_rate = isinstance(rate, int | float) and 0 < rate < float("inf")
        if rate is not None and not is_rate:
            reason = f"must be a number above 0, or None for no limit, got {rate!r}"
            raise InvalidArgumentError("writes_per_second", reason)
        check_integer("retry_limit", self.retry_limit, least=0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatistics:
    """Counters of a Cluster's writes so far."""

    sent: int
    """Requests that were sent, retries included."""

    unchanged: int
    """Writes whose response has the resource version that the object had before."""

    unchanged_by: Mapping[str, int]
    """The same by the name of the controller whose reconcile made them; under the empty name those
    made outside of any reconcile."""

    skipped: int
    """Writes that would have changed nothing and were not sent."""

    retried: int
    """Retries after a 429, and of reads after a 503 or 504."""

    waiting: int
    """Requests that currently wait for the rate limit or for a busy server."""

    observer_failures: int
    """How often an observer of writes raised."""

    unstored_fields: Mapping[str, tuple[str, ...]]
    """By resource, the fields of written statuses that the server did not store although it stored
    other fields, such as `status.typo`; at most 256, each logged once."""


@final
class RateLimitedRequests:
    """Sends the requests of one Cluster.

    Args:
        connection: the server.
        options: the rate of writes, and how long a busy server is retried.
        spans: traces requests.
        metrics: where the waits for the rate limit and for a busy server are counted; None for
            nowhere.
    """

    def __init__(
        self,
        connection: ConnectionProtocol,
        options: WriteOptions,
        *,
        spans: RequestSpans,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self.spans: RequestSpans = spans
        """Traces requests; the method that makes a request opens its span."""
        self._connection = connection
        self._metrics = metrics
        self._options = options
        rate = options.writes_per_second
        self._throttle = (
            None
            if rate is None
            else Throttle(per_second=rate, burst=max(1, round(rate * _BURST_SECONDS)))
        )
        self.loop: LoopOwner = LoopOwner("the cluster")
        """The event loop of its first request."""
        self.sent: int = 0
        self.retried: int = 0
        self._busy = 0  # requests that wait before a retry

    @property
    def waiting(self) -> int:
        """How many requests currently wait for the rate limit or for a busy server."""
        return self.waiting_for_server + self.waiting_for_rate

    @property
    def waiting_for_server(self) -> int:
        """How many requests wait before they are sent to a busy server again."""
        return self._busy

    @property
    def waiting_for_rate(self) -> int:
        """How many writes wait for the rate limit."""
        return 0 if self._throttle is None else self._throttle.waiting

    async def write(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        body: bytes | None,
        content_type: str,
        accept: str = "",
    ) -> bytes:
        """Send a write and return the response.

        Raises:
            APIStatusError: the server refused; TooManyRequestsError if it was still busy after the
                last retry.
            TransportError: the response did not arrive; it is unknown whether the write was
                carried out.
            FencedError: it belongs to a term of leader election that is over.

        Cancellation:
            A write that waits is not sent; of one that was sent it is unknown whether it was
            carried out.
        """

        async def attempt() -> bytes:
            """Send the write when the rate limit allows it."""
            await self._wait_for_rate(method)
            check_guard()  # the term may have ended while it waited for its turn
            self.sent += 1
            return await self._connection.request(
                method, path, query=query, body=body, content_type=content_type, accept=accept
            )

        return await self.until_served(attempt)

    async def _wait_for_rate(self, method: str) -> None:
        if self._throttle is None:
            return
        if self._metrics is None:
            await self._throttle.acquire()
            return
        now = asyncio.get_running_loop().time
        began = now()
        await self._throttle.acquire()
        self._metrics.throttled(method, now() - began)

    async def read(self, path: str, accept: str = "", *, query: Query = ()) -> bytes:
        """Send a read, which no rate limits, and return the response.

        Args:
            path: from the server's root.
            accept: the representations that can be read; empty for plain JSON.
            query: names and values.

        Raises:
            APIStatusError: the server refused.
            TransportError: the response did not arrive.

        Cancellation:
            Safe.
        """

        async def attempt() -> bytes:
            """Send the read."""
            if not accept:
                return await self._connection.request("GET", path, query=query)
            stream = self._connection.stream(path, query, watch=False, accept=accept)
            async with stream as body:
                return await read_bounded(body, _MAX_RESPONSE_BYTES)

        with self.spans.of("GET", path):
            return await self.until_served(attempt, is_read=True)

    def stream(self, path: str, query: Query, *, watch: bool) -> AbstractAsyncContextManager[Body]:
        """Open a GET whose body is read as it arrives; see Connection.stream."""
        return self._connection.stream(path, query, watch=watch)

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_seconds: float | None,
        received: RawResponse,
    ) -> bytes:
        """Send a read or a write with headers of the caller, and return the body of the response.

        Args:
            method: the HTTP method.
            path: from the server's root.
            query: names and values.
            headers: the headers beside those of every request.
            body: the body to send, or None.
            timeout_seconds: how long each attempt may take; None for the connection's option.
            received: gets the newest response, also if it is a refusal.

        Raises:
            LifecycleError: the connection cannot send them.
            InformerError: as `read` and `write`.

        Cancellation:
            As `read` and `write`.
        """
        connection, is_read = self._connection, method == "GET"
        if not isinstance(connection, ExchangeConnection):
            kind = type(connection).__name__
            raise LifecycleError(f"a {kind} cannot serve the classes of api(): use connect()")

        async def attempt() -> bytes:
            """Send the request, a write when the rate limit allows it."""
            if not is_read:
                await self._wait_for_rate(method)
                check_guard()
                self.sent += 1
            return await connection.exchange(
                method,
                path,
                query=query,
                headers=headers,
                body=body,
                timeout_seconds=timeout_seconds,
                received=received,
            )

        with self.spans.of(method, path):
            return await self.until_served(attempt, is_read=is_read)

    @property
    def server(self) -> str:
        """The URL of the server."""
        return self._connection.config.server.rstrip("/")

    @asynccontextmanager
    async def channels(
        self, path: str, query: Query, *, protocols: Sequence[str]
    ) -> AsyncIterator[Channels]:
        """Open a conversation, at the rate of writes; see Connection.channels.

        Raises:
            LifecycleError: the connection cannot have conversations.
            APIStatusError: the server refused; TooManyRequestsError if it was still busy after the
                last retry.
            FencedError: it belongs to a term of leader election that is over.

        Cancellation:
            The conversation is ended; one that waits is not begun.
        """
        connection = self._connection
        if not isinstance(connection, ChannelConnection):
            kind = type(connection).__name__
            raise LifecycleError(f"a {kind} cannot run commands in containers: use connect()")
        async with AsyncExitStack() as opened:

            async def attempt() -> Channels:
                """Open the conversation when the rate limit allows it."""
                await self._wait_for_rate("GET")
                check_guard()  # the term may have ended while it waited for its turn
                self.sent += 1
                opening = connection.channels(path, query, protocols=protocols)
                return await opened.enter_async_context(opening)

            yield await self.until_served(attempt)

    async def until_served(
        self, attempt: Callable[[], Awaitable[R]], *, is_read: bool = False
    ) -> R:
        """Return the result of a request, after retries while the server answers 429.

        Args:
            attempt: sends the request once.
            is_read: the request changes nothing, so it may also be repeated after a 503 or 504 that
                says when.

        Raises:
            TooManyRequestsError: the server is still busy; or a disruption budget does not allow
                an eviction, which is not sent again.
            ServerError: the server, or a gateway before it, still cannot serve the read.

        Cancellation:
            That of `attempt`; while it waits, nothing is sent.
        """
        self.loop.claim()
        now = asyncio.get_running_loop().time
        retries = _Retries(self._options, now(), is_read=is_read)
        again = attempt
        while True:
            try:
                return await again()
            except (TooManyRequestsError, ServerError) as error:
                seconds = retries.wait_seconds(error, now())
                if seconds is None:
                    raise
            span = CURRENT_REQUEST.get()
            if span is not None:
                span.retried(seconds)
            self._busy += 1
            if self._metrics is not None:
                self._metrics.retry_after(seconds)
                again = partial(as_retry, attempt)
            try:
                await anyio.sleep(seconds)
            finally:
                self._busy -= 1
            self.retried += 1


@final
class _Retries:
    """Decides how often, and after which waits, one request is sent again."""

    def __init__(self, options: WriteOptions, now: float, *, is_read: bool) -> None:
        self._left_seconds = _RETRY_TIMEOUT_SECONDS
        self._left_retries = options.retry_limit
        self._ends_at = now + _RETRY_TIMEOUT_SECONDS
        self._is_read = is_read

    def wait_seconds(self, error: APIStatusError, now: float) -> float | None:
        """Return how long to wait before the request is sent again; None to raise the error."""
        seconds = error.retry_after_seconds
        if isinstance(error, TooManyRequestsError):
            if _BUDGET in error.causes:  # the server is not busy, and the caller may wait longer
                return None
            seconds = _DEFAULT_RETRY_AFTER_SECONDS if seconds is None else seconds
        else:
            if not self._is_read or error.status not in _UNAVAILABLE or seconds is None:
                return None
            seconds = min(seconds, _MAX_UNAVAILABLE_SECONDS)
            if now + seconds > self._ends_at:  # a gateway may take a minute for each answer
                return None
        self._left_seconds -= seconds
        self._left_retries -= 1
        return None if self._left_seconds < 0 or self._left_retries < 0 else seconds
