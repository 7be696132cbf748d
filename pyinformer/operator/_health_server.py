"""A small HTTP server of probes and of status pages for people.

Probes get 200 and `ok`, or 503 and a line for each problem. Metrics are served to all who may ask
probes, pages to the same host only, by default. The server runs in the program's event loop: if the
loop is blocked, it does not answer, and the probe fails. Every connection is bounded in bytes, in
time and in number, and costs no task. A new connection is always accepted: the oldest one without a
complete request is closed for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, TypeAlias, cast, final, get_args
from urllib.parse import parse_qsl

import httptools

from pyinformer._logging import get_logger
from pyinformer._printable import Lines, printable
from pyinformer.apimachinery import JSONObject, check_choice, check_seconds
from pyinformer.errors import ConfigurationError, InvalidArgumentError, InvalidTypeError
from pyinformer.metrics import Exposition
from pyinformer.operator._same_host import PageRequest, why_foreign
from pyinformer.operator._scrapes import Scrape, Scrapes
from pyinformer.tasks import Startable, error_text

Check: TypeAlias = Callable[[], Sequence[str]]
"""Returns the problems, a line for each; empty if there are none."""

_log = get_logger(__name__)

_PagesFor: TypeAlias = Literal["loopback", "all"]

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
METRICS_PATH: Final = "/metrics"


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
        checks: the check for each path, such as `/healthz`. It is called on the loop for each
            request and must be quick. A check that raises is itself a problem.
        pages: the pages at other paths, such as `/status`; called on the loop, too. An
            InvalidArgumentError is answered with 400 and its text.
        pages_for: `loopback` serves pages only to requests from the same host, such as those of
            `kubectl port-forward`, at every address: not to requests that a proxy forwards, under
            a foreign Host header, or from web pages of other sites. `all` serves them to all.
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
        self._checks = dict(checks)
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
        self._connections: dict[_Connection, None] = {}  # the oldest first

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
            return _Answer(HTTPStatus.NOT_FOUND, f"not found; there are {paths}\n")
        if request.method not in {"GET", "HEAD"}:
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD\n")
        if check is not None:
            return _checked(check)
        if is_scrape:
            accepted = (value for name, value in request.headers if name == "accept")
            return _Answer(HTTPStatus.OK, "", scrape=",".join(accepted))
        return self._page(cast("Page", page), query, request)

    def _page(self, page: Page, query: str, request: PageRequest) -> _Answer:
        if self._pages_for == "loopback" and (why := why_foreign(request, bound_host=self._host)):
            reason = f"this page is served to the same host only: {why}; use kubectl port-forward\n"
            return _Answer(HTTPStatus.FORBIDDEN, reason)
        return _shown(page, dict(parse_qsl(query, keep_blank_values=True)))


def _checked(check: Check) -> _Answer:
    try:
        problems = check()
    except Exception as error:  # noqa: BLE001 - the guard of the program's check
        problems = (f"the check failed with {type(error).__name__}",)
    if problems:
        words = "".join(f"{printable(each)}\n" for each in problems)
        return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, words)
    return _Answer(HTTPStatus.OK, "ok\n")


def _shown(page: Page, query: Mapping[str, str]) -> _Answer:
    try:
        found = page(query)
        if isinstance(found, Document):
            return _Answer(HTTPStatus.OK, "", found.content_type, iter(found.pieces))
        if not isinstance(found, str):
            return _Answer(HTTPStatus.OK, f"{json.dumps(found, indent=2)}\n", JSON)
    except Exception as error:  # noqa: BLE001 - the guard of the program's page
        return _failed(error)
    text = Lines(found)
    return _Answer(HTTPStatus.OK, text if text.endswith("\n") else f"{text}\n")


def _failed(error: Exception) -> _Answer:
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
        open_connections: dict[_Connection, None],
        limit_seconds: float,
        *,
        scrapes: Scrapes | None,
    ) -> None:
        self._answer = answer
        self._scrapes = scrapes
        self._open = open_connections
        self._limit_seconds = limit_seconds
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._read = 0
        self._with_body = True
        self._made: list[bytes] = []
        self.is_answered: bool = False
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; if there are too many, close one, preferably without a request."""
        self._transport = cast("asyncio.Transport", transport)
        if len(self._open) >= _MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            next((one for one in self._open if not one.is_answered), oldest).drop()
        self._open[self] = None
        self._drop_after(min(_REQUEST_SECONDS, self._limit_seconds))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        del exc
        self._open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def drop(self) -> None:
        """Close it, whatever its state."""
        self._open.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

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
        if self not in self._open:
            return
        if scrape.problem:
            self._reply(_Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{scrape.problem}\n"))
        else:
            self._reply(_Answer(HTTPStatus.OK, "", scrape.content_type), scrape.body)

    def _make(self, answer: _Answer, pieces: Iterator[bytes]) -> None:
        """Make pieces of the answer, let the loop run, and continue; then reply."""
        if self not in self._open:
            return
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _STEP_SECONDS
        try:
            for piece in pieces:
                self._made.append(piece)
                if loop.time() >= ends_at:
                    loop.call_soon(self._make, answer, pieces)
                    return
        except Exception as error:  # noqa: BLE001 - the guard of the program's page
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
        if self._transport is not None:
            self._transport.write(head.encode() + (payload if self._with_body else b""))
            # Not close(): with bytes of the client unread, the kernel would reset the connection
            # and take the answer back. The client closes, or the timer does.
            try:
                self._transport.write_eof()
            except OSError:  # the client has left, as a probe whose timeout has passed
                self.drop()
            else:
                self._drop_after(self._limit_seconds)
