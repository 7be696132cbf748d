"""A small HTTP server of probes and of status pages for people.

Probes get 200 and `ok`, or 503 and a line for each problem. Metrics are served to all who may ask
probes; pages and the text of problems to the same host only, by default. The server runs in the
program's event loop: if the loop is blocked, it does not answer, and the probe fails. Every
connection is bounded in bytes, in time and in number, and costs no task. A new connection is always
accepted: one that has its answer is closed for it, or else the oldest of the client that has most.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from time import thread_time
from typing import Final, Literal, NamedTuple, TypeAlias, cast, final, get_args
from urllib.parse import parse_qsl

import httptools

from pyinformer._printable import Lines, printable
from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import Startable, error_text
from pyinformer.errors import ConfigurationError, InvalidArgumentError, InvalidTypeError
from pyinformer.objects import JSONObject, check_choice, check_seconds, check_type
from pyinformer.operator._local_request_check import PageRequest, why_foreign
from pyinformer.operator._scrapes import Scrape, Scrapes
from pyinformer.telemetry.metrics import Exposition

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the problems, a line for each; empty if there are none."""

_log = get_logger(__name__)

_PagesFor: TypeAlias = Literal["loopback", "all"]

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
METRICS_PATH: Final = "/metrics"

_ANY: Final = "::"
_WITHOUT_IPV6: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


@final
class Document(NamedTuple):
    """A page that is made in pieces, or has a content type of its own."""

    content_type: str
    pieces: Iterable[bytes]
    """The event loop runs between two of them, so each should take less than a millisecond to
    make. An empty one only lets the loop run."""


Page: TypeAlias = Callable[[Mapping[str, str]], str | JSONObject | Document]
"""Takes the query, `{"key": "default/a"}`; returns text, an object that is served as JSON, or a
document."""

# In a browser a page loads nothing from other servers, runs no code but that of this server's
# own files, and is shown in no frame.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"  # so innerHTML fails
)
_HEAD: Final = (
    "X-Content-Type-Options: nosniff\r\n"
    f"Content-Security-Policy: {_POLICY}\r\n"
    "X-Frame-Options: DENY\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n\r\n"
)
_STEP_SECONDS: Final = 0.001  # for pieces of a document, before the loop runs other things
_BACKLOG: Final = 100  # connections that the loop may accept at once
# More than twice the backlog: those accepted between a probe's connection and its first bytes are
# too few to push it out.
_MAX_CONNECTIONS: Final = 256
_MAX_REQUEST_BYTES: Final = 16_384
_MAX_PORT: Final = 65_535
_REQUEST_SECONDS: Final = 5.0  # from accept to the end of the request's head
_CONNECTION_SECONDS: Final = 10.0  # from the answer to the last byte read by the client
_MAX_UNREAD_BYTES: Final = 32 << 20  # of different answers that clients have not read yet
_SHARED: Final = 20  # times the time that a check took
_MOST_SHARED_SECONDS: Final = 1.0
_PIECE_BYTES: Final = 64 << 10  # of an answer, in the buffer of one connection


@final
class _Answer(NamedTuple):
    status: HTTPStatus
    body: str
    content_type: str = TEXT
    pieces: Iterator[bytes] | None = None
    scrape: str | None = None
    """The Accept headers of a scrape, which is answered later."""


@final
class HealthServer(Startable):
    """Answers `GET` and `HEAD` of a few paths. Use it as `async with HealthServer(...)`.

    Args:
        checks: the check for each path, such as `/healthz`. It is called on the loop and must be
            quick; many requests share a verdict. A check that raises is itself a problem.
        pages: the pages at other paths, such as `/status`; called on the loop, too. An
            InvalidArgumentError is answered with 400 and its text.
        pages_for: `loopback` serves pages, and the text of problems, only to requests from the same
            host, such as those of `kubectl port-forward`, at every address: not to requests that a
            proxy forwards, under a foreign Host header, or from web pages of other sites. `all`
            serves them to all.
        metrics: what `/metrics` shows, to all; rendered in a thread, one rendering at a time.
        host: the address to listen on; loopback by default.
        port: the port; 0 for a free one.
        connection_seconds: how long a client may take to read the answer. Its request must arrive
            within 5 s, or within this if it is less.

    Raises:
        InvalidArgumentError: the port is invalid, or a path has both a check and a page.
        InvalidTypeError: the metrics cannot be shown.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        pages: Mapping[str, Page] | None = None,
        pages_for: _PagesFor = "loopback",
        metrics: Exposition | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        connection_seconds: float = _CONNECTION_SECONDS,
    ) -> None:
        check_seconds("connection_seconds", connection_seconds)
        if not isinstance(port, int) or not 0 <= port <= _MAX_PORT:
            raise InvalidArgumentError("port", f"must be 0 to {_MAX_PORT}, got {port!r}")
        check_choice("pages_for", pages_for, get_args(_PagesFor))
        check_type("checks", checks, Mapping, shown="a mapping of paths to checks")
        if pages is not None:
            check_type("pages", pages, Mapping, shown="a mapping of paths to pages")
        self._checks = {path: _SharedCheck(check) for path, check in checks.items()}
        self._pages = dict(pages or {})
        both = sorted(self._checks.keys() & self._pages.keys())
        if both:
            raise InvalidArgumentError("pages", f"{', '.join(both)} is also the path of a check")
        if metrics is not None and not isinstance(metrics, Exposition):
            reason = f"must have exposition, such as PrometheusMetrics, got {metrics!r}"
            raise InvalidTypeError("metrics", reason)
        self._scrapes = None if metrics is None else Scrapes(metrics)
        if metrics is not None and METRICS_PATH in {*self._checks, *self._pages}:
            raise InvalidArgumentError("metrics", f"{METRICS_PATH} is the path of a check or page")
        self._pages_for = pages_for
        self._host = host
        self._port = port
        self._connection_seconds = connection_seconds
        self._server: asyncio.Server | None = None
        self._connections = _Connections()

    @property
    def port(self) -> int:
        """The port on which it listens; before the start, the port that was given."""
        sockets = self._server.sockets if self._server is not None else ()
        return cast("int", sockets[0].getsockname()[1]) if sockets else self._port

    @property
    def url(self) -> str:
        """The URL, such as `http://127.0.0.1:8081`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: it cannot listen on the address; another program may use it.

        Cancellation:
            Safe; it does not listen then.
        """
        loop = asyncio.get_running_loop()
        try:
            if self._host == _ANY:
                self._server = await loop.create_server(
                    self._connection, sock=_any_address(self._port), backlog=_BACKLOG
                )
            else:
                self._server = await loop.create_server(
                    self._connection, self._host, self._port, backlog=_BACKLOG
                )
        except OSError as error:
            source = f"the health endpoint {self._host}:{self._port}"
            reason = f"{error.strerror or error}; choose another port, 0 for any, None for none"
            raise ConfigurationError(source, reason) from error

    async def aclose(self) -> None:
        """Stop listening and drop every connection. A second call does nothing.

        Cancellation:
            Safe; remaining connections are closed in the loop's next steps.
        """
        if self._server is not None:
            self._server.close()
            for connection in tuple(self._connections):
                connection.drop()
            await self._server.wait_closed()

    def _connection(self) -> _Connection:
        return _Connection(
            self._answer, self._connections, self._connection_seconds, scrapes=self._scrapes
        )

    def _answer(self, request: PageRequest) -> _Answer:
        path, _, query = request.target.partition("?")
        check, page = self._checks.get(path), self._pages.get(path)
        is_scrape = self._scrapes is not None and path == METRICS_PATH
        if check is None and page is None and not is_scrape:
            metrics = () if self._scrapes is None else (METRICS_PATH,)
            paths = " or ".join((*self._checks, *metrics, *self._pages))
            hint = "; metrics= of the operator, or of this server, adds it"
            asked = hint if path == METRICS_PATH else ""
            return _Answer(HTTPStatus.NOT_FOUND, f"not found{asked}; there are {paths}\n")
        if request.method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        if check is not None:
            return self._probe(check, path, request)
        if is_scrape:
            accepted = (value for name, value in request.headers if name == "accept")
            return _Answer(HTTPStatus.OK, "", scrape=",".join(accepted))
        return self._page(cast("Page", page), query, request)

    def _probe(self, check: _SharedCheck, path: str, request: PageRequest) -> _Answer:
        problems = check.problems()
        if not problems:
            return _Answer(HTTPStatus.OK, "ok\n")
        if self._refuses(request):  # it reads the status alone
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            words = f"{path}: {count}, shown to the same host only; use kubectl port-forward\n"
        else:
            words = "".join(f"{printable(each)}\n" for each in problems)
        return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, words)

    def _refuses(self, request: PageRequest) -> str:
        """Return why a request may not see the state of the program; empty if it may."""
        is_open = self._pages_for == "all"
        return "" if is_open else why_foreign(request, bound_host=self._host)

    def _page(self, page: Page, query: str, request: PageRequest) -> _Answer:
        if why := self._refuses(request):
            reason = f"this page is served to the same host only: {why}; use kubectl port-forward\n"
            return _Answer(HTTPStatus.FORBIDDEN, reason)
        return _shown(page, dict(parse_qsl(query, keep_blank_values=True)))


@final
class _SharedCheck:
    """A check whose verdict answers all requests of a moment: strangers decide how many come.

    The status of many informers takes milliseconds. A verdict is used for as long as keeps checks
    to a twentieth of the loop's time, and for a second at most.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._problems: Sequence[str] = ()
        self._valid_until = float("-inf")

    def problems(self) -> Sequence[str]:
        """Return what is wrong; from the loop alone."""
        now = monotonic()
        if now >= self._valid_until:
            began = thread_time()  # not the time of other programs on this processor
            self._problems = _problems_of(self._check)
            seconds = min(_MOST_SHARED_SECONDS, _SHARED * (thread_time() - began))
            self._valid_until = monotonic() + seconds
        return self._problems


@final
class _Connections:
    """The open connections of a server, the oldest first; some are closed if there are too many."""

    def __init__(self) -> None:
        self._open: dict[_Connection, None] = {}
        self._unread: dict[_Connection, bytes] = {}  # answers that are not with the kernel yet

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[_Connection]:
        return iter(self._open)

    def add(self, connection: _Connection) -> None:
        """Record a connection; if there are too many, close one."""
        if len(self._open) >= _MAX_CONNECTIONS:
            self._dispensable().drop()
        self._open[connection] = None

    def _dispensable(self) -> _Connection:
        """Return the connection that costs least to close.

        One whose answer is with the kernel, which delivers it nevertheless; a probe has hardly one
        for long. Then one without a request, and last one that waits for an answer or reads it.
        """
        done = next((one for one in self._open if one.is_done), None)
        if done is not None:
            return done
        silent = [one for one in self._open if not one.is_answered]
        return _oldest_of_most(silent or list(self._open))

    def discard(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)
        self._unread.pop(connection, None)

    def hold(self, connection: _Connection, payload: bytes) -> None:
        """Record an answer that the kernel does not take at once; if there are too many, drop some.

        Connections that wait for the same answer share it.
        """
        self._unread[connection] = payload
        while _distinct_bytes(self._unread.values()) > _MAX_UNREAD_BYTES:
            others = [one for one in self._unread if one is not connection]
            if not others:
                return
            _oldest_of_most(others).drop()

    def release(self, connection: _Connection) -> None:
        """Record that the kernel has taken all of an answer but the last piece."""
        self._unread.pop(connection, None)


def _oldest_of_most(connections: Sequence[_Connection]) -> _Connection:
    """Return the oldest connection of the client that has most of them."""
    counts = Counter(one.client for one in connections)
    return max(connections, key=lambda one: counts[one.client])  # of equal ones, the first


def _distinct_bytes(payloads: Iterable[bytes]) -> int:
    return sum(len(payload) for payload in {id(payload): payload for payload in payloads}.values())


def _problems_of(check: Check) -> Sequence[str]:
    try:
        return check()
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 - the guard of the program's check
        return (f"the check failed with {type(error).__name__}",)


def _shown(page: Page, query: Mapping[str, str]) -> _Answer:
    try:
        found = page(query)
        if isinstance(found, Document):
            return _Answer(HTTPStatus.OK, "", found.content_type, iter(found.pieces))
        if not isinstance(found, str):
            return _Answer(HTTPStatus.OK, f"{json.dumps(found, indent=2)}\n", JSON)
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 - the guard of the program's page
        return _failed(error)
    text = Lines(found)
    return _Answer(HTTPStatus.OK, text if text.endswith("\n") else f"{text}\n")


def _failed(error: BaseException) -> _Answer:
    if isinstance(error, InvalidArgumentError):
        return _Answer(HTTPStatus.BAD_REQUEST, f"{error}\n")
    _log.error("a page failed with %s", error_text(error))
    words = f"the page failed with {type(error).__name__}\n"
    return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, words)


@final
class _Connection(asyncio.Protocol):
    """One request, one answer, and the end; httptools calls the methods named `on_...`."""

    def __init__(
        self,
        answer: Callable[[PageRequest], _Answer],
        connections: _Connections,
        limit_seconds: float,
        *,
        scrapes: Scrapes | None,
    ) -> None:
        self.client: object = None
        """The address of the other end, without its port."""
        self.is_answered: bool = False
        """Whether its request is complete; there may be no answer yet."""
        self._answer = answer
        self._connections = connections
        self._scrapes = scrapes
        self._limit_seconds = limit_seconds
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._read = 0
        self._with_body = True
        self._made: list[bytes] = []
        self._rest: memoryview | None = None  # of the answer; None before there is one
        self._is_paused = self._is_lost = self._is_ended = False
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(0)  # one piece of the answer at a time
        peer = transport.get_extra_info("peername")
        self.client = peer[0] if isinstance(peer, tuple) and peer else peer
        self._connections.add(self)
        self._drop_after(min(_REQUEST_SECONDS, self._limit_seconds))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        del exc
        self._forget()
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Send the next piece."""
        self._is_paused = False
        self._send()

    @property
    def is_done(self) -> bool:
        """Whether the kernel has the whole answer."""
        if self._rest is None or self._rest or self._transport is None:
            return False
        return self._transport.get_write_buffer_size() == 0

    def drop(self) -> None:
        """Close it, whatever its state."""
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        self._is_lost, self._rest = True, None
        self._connections.discard(self)
        if self._scrapes is not None:
            self._scrapes.forget(self._scraped)

    def _drop_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.drop)

    def data_received(self, data: bytes) -> None:
        """Read until there is an answer."""
        if self.is_answered:
            return
        self._read += len(data)
        if self._read > _MAX_REQUEST_BYTES:
            self._reply(_Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too large\n"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.on_headers_complete()  # nothing here is upgraded
        except httptools.HttpParserError:
            if not self.is_answered:  # the head was a request; what follows it is not read
                self._reply(_Answer(HTTPStatus.BAD_REQUEST, "not an HTTP request\n"))

    def on_url(self, url: bytes) -> None:
        """Store a part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; the limit of the request's bytes bounds their number."""
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Answer; a body is ignored."""
        if self.is_answered:
            return
        target = self._url.decode("latin-1")
        method = self._parser.get_method().decode("latin-1")
        transport = self._transport
        peer = None if transport is None else transport.get_extra_info("peername")
        self._with_body = method != "HEAD"
        answer = self._answer(PageRequest(method, target, peer, self._headers))
        self._headers = []
        if answer.pieces is None and answer.scrape is None:
            self._reply(answer)
            return
        self.is_answered = True  # soon, and nothing more is read
        self._drop_after(self._limit_seconds)
        if answer.pieces is not None:
            self._make(answer, answer.pieces)
        elif self._scrapes is not None and answer.scrape is not None:
            self._scrapes.request(answer.scrape, self._scraped)

    def _scraped(self, scrape: Scrape) -> None:
        """Reply to a scrape, unless the client has left or the server is closed."""
        if self._is_lost:
            return
        if scrape.problem:
            self._reply(_Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{scrape.problem}\n"))
        else:
            self._reply(_Answer(HTTPStatus.OK, "", scrape.content_type), scrape.body)

    def _make(self, answer: _Answer, pieces: Iterator[bytes]) -> None:
        """Make pieces of the answer, let the loop run, and continue; then reply."""
        if self._is_lost:
            return
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _STEP_SECONDS
        try:
            for piece in pieces:
                self._made.append(piece)
                if loop.time() >= ends_at:
                    loop.call_soon(self._make, answer, pieces)
                    return
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - the guard of the program's page
            self._reply(_failed(error))
        else:
            self._reply(answer, b"".join(self._made))

    def _reply(self, answer: _Answer, made: bytes | None = None) -> None:
        self.is_answered = True
        payload = answer.body.encode() if made is None else made
        head = (
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(payload)}\r\n"
            f"{_HEAD}"
        )
        if self._transport is None:
            return
        self._made = []
        sent = payload if self._with_body else b""
        self._rest = memoryview(sent)
        self._transport.write(head.encode() + sent[:_PIECE_BYTES])
        self._rest = self._rest[_PIECE_BYTES:]
        if self._rest:
            self._connections.hold(self, sent)
        self._drop_after(self._limit_seconds)
        self._send()

    def _send(self) -> None:
        """Give the kernel what it takes of the answer; the last piece ends the connection."""
        if self._rest is None or self._transport is None:
            return
        while self._rest and not self._is_paused and not self._is_lost:
            piece, self._rest = self._rest[:_PIECE_BYTES], self._rest[_PIECE_BYTES:]
            self._transport.write(piece)
        if self._rest or self._is_ended or self._is_lost:
            return
        self._connections.release(self)
        self._is_ended = True
        # Not close(): with bytes of the client unread, the kernel would reset the connection
        # and take the answer back. The client closes, or the timer does.
        try:
            self._transport.write_eof()
        except OSError:  # the client has left, as a probe whose timeout has passed
            self.drop()


def _any_address(port: int) -> socket.socket:
    """Return a socket for connections over IPv6 and over IPv4, or over IPv4 on a host without IPv6.

    asyncio makes a socket for `::` that takes IPv6 alone.

    Raises:
        OSError: the port is in use.
    """
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server((_ANY, port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _WITHOUT_IPV6:
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 - the caller chose all addresses
