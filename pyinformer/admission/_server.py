"""The HTTPS server of webhooks: requests of the API server, and those of strangers at its port.

Every connection and body is bounded in bytes, in time and in number. It runs in the program's event
loop: a blocked loop refuses writes, which the watchdog reports.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import anyio
from aiohttp import web

from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Host, Startable, error_text, loop_time, run_shielded
from pyinformer.admission._answers import Answer, refused
from pyinformer.errors import ConfigurationError, InternalError
from pyinformer.telemetry.metrics import NO_METRICS, Metrics

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from anyio.abc import TaskGroup

    from pyinformer.telemetry.metrics import Counter as MetricCounter

_log = get_logger(__name__)

Route: TypeAlias = Callable[[bytes, float | None], Awaitable[Answer]]
"""Answers a body, within the seconds that the API server waits, if its URL has them."""

MAX_BODY_BYTES: Final = 8 << 20
"""An object before and after, each as large as etcd takes: 1.5 MiB, more as JSON."""

_MAX_BYTES: Final = 64 << 20  # of all bodies that are read or answered at once
_MAX_REVIEWS: Final = 100
_MAX_CONNECTIONS: Final = 256
_BACKLOG: Final = 256
_HANDSHAKE_SECONDS: Final = 5.0
_BODY_SECONDS: Final = 5.0
_FIRST_REQUEST_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 120.0  # the API server keeps them for 90 s, and has to close them first
_LAST_ANSWERS_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 1.0  # an idle connection costs no more than that
_LOOK_SECONDS: Final = 0.02
_ANY: Final = "::"
# It quotes what strangers send.
_SILENT: Final = logging.Logger("silent", logging.CRITICAL + 1)  # noqa: LOG001 - in no hierarchy
_METRIC: Final = "controller_runtime_webhook"
_SECONDS: Final = re.compile(r"(\d{1,3}(?:\.\d+)?)s")


@final
class WebhookServer(Startable):
    """Serves webhooks. Use it as `async with WebhookServer(...)`, and once.

    Args:
        routes: what answers a POST to each path.
        context: of TLS; None for plain HTTP. A certificate that is loaded into it later is shown in
            later handshakes.
        host: the address to listen on; `::` for all of IPv6 and IPv4.
        port: the port; 0 for a free one.
        limits: how many bytes a body may have, by the paths for which it is not 8 MiB.
        metrics: where figures go.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        context: ssl.SSLContext | None,
        host: str,
        port: int,
        limits: Mapping[str, int] | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._routes = dict(routes)
        self._context = context
        self._host = host
        self._port = port
        self._limits = dict(limits or {})
        self._metrics = metrics.scope()
        self._figures = {path: _Figures(self._metrics, path) for path in self._routes}
        self._listener: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._handshakes: dict[asyncio.Task[None], object] = {}
        self._work: dict[int, _Work] = {}
        self._busy = set[object]()  # the connections whose review is being answered
        # What ends them if they send no request; None if they have sent one.
        self._silent: dict[Any, asyncio.TimerHandle | None] = {}
        self._is_draining = False
        self._accepting = Host("webhooks", self._accept)

    @property
    def port(self) -> int:
        """The port on which it listens; before the start, the port that was given."""
        return self._port if self._listener is None else int(self._listener.getsockname()[1])

    @property
    def is_accepting(self) -> bool:
        """Whether it accepts connections; not before the start, nor after a crash."""
        return self._accepting.is_running

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: it cannot listen on the address; another program may use it.

        Cancellation:
            What was started is stopped.
        """
        try:
            self._listener = _listening(self._host, self._port)
        except OSError as error:
            source = f"the webhooks' port {self._host}:{self._port}"
            why = os.strerror(error.errno) if error.errno else error
            reason = f"{why}; choose another port, 0 for any"
            raise ConfigurationError(source, reason) from error
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            logger=_SILENT,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=_LAST_ANSWERS_SECONDS,
        )
        try:
            await self._runner.setup()
            await self._accepting.start()
        except BaseException:
            await run_shielded("the end of webhooks", self.aclose())
            raise

    async def drain(self, seconds: float, *, is_until_idle: bool) -> None:
        """Answer on, and close each connection after its next answer: so none is cut in the middle.

        The API server keeps connections, and a request that it sends while one is closed fails.

        Args:
            seconds: for how long.
            is_until_idle: whether it ends as soon as no connection is left.

        Cancellation:
            Safe.
        """
        self._is_draining = True
        ends_at = loop_time() + seconds
        while loop_time() < ends_at and (self._connections() or not is_until_idle):  # noqa: ASYNC110 - nothing reports the last one
            await anyio.sleep(min(_LOOK_SECONDS, max(0.0, ends_at - loop_time())))

    async def aclose(self) -> None:
        """Stop listening, answer what has arrived within 5 s, and close every connection.

        It drains before, unless that was done.

        Cancellation:
            Takes effect when that has ended.
        """
        try:
            if not self._is_draining:
                draining = self.drain(_DRAIN_SECONDS, is_until_idle=True)
                await run_shielded("the last reviews", draining)
            await self._accepting.aclose()
        finally:
            listener, self._listener = self._listener, None
            if listener is not None:
                listener.close()
            runner, self._runner = self._runner, None
            self._metrics.close()
            if runner is not None:
                await run_shielded("the last answers of webhooks", _end(runner))

    async def _accept(self, _: TaskGroup, ready: Callable[[], None]) -> None:
        """Accept connections until cancelled; each is shaken hands with in a task of its own."""
        loop = asyncio.get_running_loop()
        listener = self._listener
        if listener is None:
            raise InternalError("webhooks without a listener")
        ready()
        try:
            while True:
                try:
                    connection, address = await loop.sock_accept(listener)
                except OSError as error:  # too many open files, or the other end has left
                    _log.warning("webhooks cannot accept a connection: %s", error_text(error))
                    await anyio.sleep(1.0)
                    continue
                self._make_room()
                task = loop.create_task(self._shake_hands(connection))
                self._handshakes[task] = address[0]
                task.add_done_callback(partial(self._forget, connection))
        finally:
            for task in tuple(self._handshakes):
                task.cancel()
            for timer in filter(None, self._silent.values()):
                timer.cancel()

    def _forget(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            connection.close()  # the task may not have begun
        elif (error := task.exception()) is not None:
            _log.error("a connection of webhooks failed: %s", error_text(error))

    async def _shake_hands(self, connection: socket.socket) -> None:
        """Make an accepted socket a connection; strangers and probes fail here, silently."""
        runner = self._runner
        if runner is not None and runner.server is not None:
            with suppress(OSError, TimeoutError):
                loop = asyncio.get_running_loop()
                protocol = runner.server()
                transport, _ = await loop.connect_accepted_socket(  # whose second is uvloop's own
                    lambda: protocol,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._context else None,
                )
                self._forget_closed()
                if protocol not in self._silent:  # a request may have come meanwhile
                    self._silent[protocol] = loop.call_later(
                        _FIRST_REQUEST_SECONDS, transport.abort
                    )
                return
        connection.close()

    def _forget_closed(self) -> None:
        for connection in [one for one in self._silent if one.transport is None]:
            if (timer := self._silent.pop(connection)) is not None:
                timer.cancel()

    def _make_room(self) -> None:
        """Close a connection if there are too many: one that is not answered, of who has most.

        There is one: far fewer reviews are answered at once.
        """
        idle = [one for one in self._connections() if one not in self._busy]
        if len(self._handshakes) + len(idle) + len(self._busy) < _MAX_CONNECTIONS:
            return
        if self._handshakes and len(self._handshakes) >= len(idle):
            counts = Counter(self._handshakes.values())
            max(self._handshakes, key=lambda one: counts[self._handshakes[one]]).cancel()
        elif idle:
            peers = [one.transport and one.transport.get_extra_info("peername") for one in idle]
            hosts = [peer[0] if peer else None for peer in peers]
            transport = idle[hosts.index(Counter(hosts).most_common(1)[0][0])].transport
            if transport is not None:
                transport.abort()

    def _connections(self) -> list[Any]:
        server = None if self._runner is None else self._runner.server
        return [] if server is None else server.connections

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        connection = request.protocol
        if (timer := self._silent.get(connection)) is not None:
            timer.cancel()
        self._silent[connection] = None
        figures = self._figures.get(request.path)
        if figures is None:  # of a stranger
            answer = refused(HTTPStatus.NOT_FOUND, "no webhook has this path")
        else:
            with figures.measured() as outcome:
                answer = outcome.answer = await self._guarded(request)
        headers = {"Retry-After": "1"} if answer.status == HTTPStatus.TOO_MANY_REQUESTS else None
        response = web.Response(
            body=answer.body,
            status=answer.status,
            headers={"Content-Type": answer.content_type, **(headers or {})},
        )
        if self._is_draining:
            response.force_close()
        return response

    async def _guarded(self, request: web.Request) -> Answer:
        try:
            return await self._answered(request)
        except ConnectionError:  # the client has left
            raise
        except Exception as error:  # noqa: BLE001 - a fence: the server would log it unescaped
            _log.error("%s failed: %s", request.path, error_text(error))
            return refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"failed with {type(error).__name__}")

    async def _answered(self, request: web.Request) -> Answer:
        if request.method != "POST":
            return refused(HTTPStatus.METHOD_NOT_ALLOWED, "only POST")
        if request.content_type != "application/json":
            return refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only application/json")
        if "Content-Encoding" in request.headers:  # it would be unpacked without a bound
            return refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only plain bodies")
        limit = self._limits.get(request.path, MAX_BODY_BYTES)
        if request.content_length is not None and request.content_length > limit:
            return _too_large(limit)
        work = self._work.setdefault(limit, _Work())
        size = 0
        try:
            body = await _body_of(request, limit, work)
            size = len(body)
            if not body:
                return refused(HTTPStatus.BAD_REQUEST, "the request has no body")
            if work.active >= _MAX_REVIEWS:
                return _too_many()
            with work.one(), self._kept(request.protocol):
                seconds = _seconds_of(request.query.get("timeout", ""))
                answering = self._routes[request.path](body, seconds)
                del body  # the route drops it when it is decoded
                return await answering
        except _RefusedError as error:
            return error.answer
        finally:
            work.bytes -= size

    @contextmanager
    def _kept(self, connection: object) -> Iterator[None]:
        """Keep a connection while its review is answered; it sends one after the other."""
        self._busy.add(connection)
        try:
            yield
        finally:
            self._busy.discard(connection)


@final
class _Figures:
    """The metrics of one path."""

    def __init__(self, metrics: Metrics, path: str) -> None:
        self._metrics = metrics
        self._label = {"webhook": path}
        self._in_flight = metrics.gauge(f"{_METRIC}_requests_in_flight", self._label)
        self._latency = metrics.histogram(f"{_METRIC}_latency_seconds", self._label)
        self._answers: dict[HTTPStatus, MetricCounter] = {}
        self._answers_of(HTTPStatus.OK).inc(0.0)
        self._answers_of(HTTPStatus.INTERNAL_SERVER_ERROR).inc(0.0)
        self._active = 0

    def _answers_of(self, status: HTTPStatus) -> MetricCounter:
        if status not in self._answers:
            labels = {**self._label, "code": str(int(status))}
            self._answers[status] = self._metrics.counter(f"{_METRIC}_requests_total", labels)
        return self._answers[status]

    @contextmanager
    def measured(self) -> Iterator[_Outcome]:
        """Measure one review; a review whose client has left has no answer."""
        outcome, began_at = _Outcome(), monotonic()
        self._active += 1
        self._in_flight.set(self._active)
        try:
            yield outcome
        finally:
            self._active -= 1
            self._in_flight.set(self._active)
            if outcome.answer is not None:
                self._latency.observe(monotonic() - began_at)
                self._answers_of(outcome.answer.status).inc()


@final
class _Outcome:
    """What a review is answered with, if it is."""

    answer: Answer | None = None


async def _end(runner: web.AppRunner) -> None:
    """Close a server: what its clients do not close by themselves is cut."""
    connections = [] if runner.server is None else runner.server.connections
    transports = [one.transport for one in connections]
    await runner.cleanup()
    for transport in transports:
        if transport is not None:
            transport.abort()
    await asyncio.sleep(0)  # in which the loop closes their sockets


@final
class _Work:
    """What is held and done for bodies of one limit: conversions do not wait for hooks."""

    def __init__(self) -> None:
        self.active = self.bytes = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one review while it is answered."""
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1


@final
class _RefusedError(Exception):
    """A body is not read to its end."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


async def _body_of(request: web.Request, limit: int, work: _Work) -> bytes:
    """Read a body; what has arrived counts until the review is answered.

    Raises:
        _RefusedError: it is too large, or does not come, or too many bodies are held.
    """
    pieces, size = list[bytes](), 0
    try:
        # What has arrived already, as most bodies, needs no timer.
        has_arrived = request.content.is_eof()
        with nullcontext() if has_arrived else anyio.fail_after(_BODY_SECONDS):
            async for piece in request.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                work.bytes += len(piece)
                if size > limit:
                    raise _RefusedError(_too_large(limit))
                if work.bytes > _MAX_BYTES and work.bytes > size:  # one alone may be as large
                    raise _RefusedError(_too_many())
        return b"".join(pieces)
    except BaseException as error:
        work.bytes -= size
        if isinstance(error, TimeoutError):
            reason = f"no whole body within {_BODY_SECONDS:g} s"
            raise _RefusedError(refused(HTTPStatus.REQUEST_TIMEOUT, reason)) from error
        raise


def _too_many() -> Answer:
    return refused(HTTPStatus.TOO_MANY_REQUESTS, "too many reviews at once")


def _too_large(limit: int) -> Answer:
    return refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {limit} bytes")


def _seconds_of(timeout: str) -> float | None:
    """Return how long the API server waits, as it says in the URL; None if it does not."""
    found = _SECONDS.fullmatch(timeout)
    return float(found[1]) or None if found else None


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; on a host without IPv6, all addresses are those of IPv4."""
    if host != _ANY:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    elif socket.has_dualstack_ipv6():
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
        )
    else:
        listener = socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)  # noqa: S104 - as asked
    listener.setblocking(False)
    return listener
