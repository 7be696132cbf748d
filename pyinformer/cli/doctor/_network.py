"""Measure the way to an API server step by step: name, connection, TLS, one small request.

Each step runs in a thread with plain sockets, so that its time is its own; the connections of the
library do the steps at once, and keep what they connected.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Final, Literal, TypeAlias, final
from urllib.parse import urlsplit

import anyio

from pyinformer._runtime.clock import monotonic, wall_time
from pyinformer._runtime.tasks import run_in_daemon
from pyinformer.cli.doctor._credential_expiry import Certificate, certificate_of
from pyinformer.client.transport import ClusterConfig, name_for_tls, request_url, with_zone_index

Step: TypeAlias = Literal["lookup", "connect", "tls", "request"]
TLSFailure: TypeAlias = Literal[
    "untrusted", "expired", "ended", "version", "not_tls", "client_certificate", "refused"
]
"""Why a handshake failed: each has a cure of its own."""

_NEXT_ADDRESS_SECONDS: Final = 0.25  # as the connections of the library
_ANSWERS_SECONDS: Final = 1.0  # within which an address that is well answers
_PORTS: Final = {"http": 80, "https": 443}
_OUTSIDE_ITS_TIME: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_EARLY_ENDS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)
# Words in OpenSSL's reasons, the first that fits counts: an alert has the name of what it is about.
_TLS_REASONS: Final[tuple[tuple[str, TLSFailure], ...]] = (
    ("UNEXPECTED_EOF", "ended"),
    ("PROTOCOL_VERSION", "version"),
    ("UNSUPPORTED_PROTOCOL", "version"),
    ("WRONG_VERSION_NUMBER", "not_tls"),  # of a record: it is not one of TLS
    ("HTTP_REQUEST", "not_tls"),
    ("RECORD_LAYER_FAILURE", "not_tls"),
    ("PACKET_LENGTH_TOO_LONG", "not_tls"),
    ("CERTIFICATE", "client_certificate"),
    ("UNKNOWN_CA", "client_certificate"),
)


@final
@dataclass(slots=True, kw_only=True)
class NetworkFacts:
    """What was measured on the way to a server, up to the step that failed."""

    host: str
    port: int
    is_proxy: bool = False
    """Whether host and port are those of a proxy; what is behind it is not measured."""
    addresses: tuple[str, ...] = ()
    dead_addresses: tuple[str, ...] = ()
    """Those to which no connection could be made, while another one answered."""
    seconds: dict[Step, float] = field(default_factory=dict)
    """How long each step took that was taken."""
    tls_version: str = ""
    certificate: Certificate | None = None
    """That of the server; None if it is not verified."""
    step: Step = "lookup"
    """The step that failed, if there is an error."""
    error: str = ""
    is_timeout: bool = False
    """Whether the step failed because no answer came in time."""
    tls_failure: TLSFailure | None = None
    """Why TLS failed, if that is the error."""
    clock_ahead_seconds: float | None = None
    """By how much this host's clock is ahead of the server's; 0 within the precision of the
    server's Date header, a second; None if it sent none."""

    def of_a_timeout(self, timeout_seconds: float) -> NetworkFacts:
        """Return a copy, which says that the step did not end in time if it has no error yet."""
        late = replace(self, seconds=dict(self.seconds))
        if not late.error:
            late.error = f"no answer after {timeout_seconds:g} s"
            late.is_timeout = True
        return late


async def measure_network(
    config: ClusterConfig,
    context: ssl.SSLContext | None,
    *,
    timeout_seconds: float,
    wall_clock: Callable[[], float] = wall_time,
) -> NetworkFacts:
    """Measure the way to a server.

    Args:
        config: how it is reached, with the proxy of the environment if there is one.
        context: its TLS settings; None for plain HTTP.
        timeout_seconds: how long all steps together may take.
        wall_clock: Unix time in seconds.

    Cancellation:
        Safe; a thread that waits for the network ends by itself, and does not delay the exit.
    """
    parts = urlsplit(request_url(config.proxy_url or config.server))
    facts = NetworkFacts(
        host=parts.hostname or "",
        port=parts.port or _PORTS.get(parts.scheme, 443),
        is_proxy=config.proxy_url is not None,
    )
    probe = _Probe(facts, config, context, timeout_seconds, wall_clock)
    with anyio.move_on_after(timeout_seconds) as limit:
        await run_in_daemon("pyinformer doctor", probe.run)
    if not limit.cancelled_caught:
        return facts
    # The thread continues with its own facts; those of the caller do not change any more.
    return facts.of_a_timeout(timeout_seconds)


@final
class _Probe:
    """The steps of `measure_network`, for a thread; each is in the facts as soon as it is done."""

    def __init__(
        self,
        facts: NetworkFacts,
        config: ClusterConfig,
        context: ssl.SSLContext | None,
        timeout_seconds: float,
        wall_clock: Callable[[], float],
    ) -> None:
        self._facts = facts
        self._config = config
        self._context = context
        self._timeout_seconds = timeout_seconds
        self._wall_clock = wall_clock

    def run(self) -> None:
        """Take the steps, up to the first that fails."""
        try:
            self._look_up()
            with closing(self._connect()) as plain:
                if not self._facts.is_proxy:
                    self._ask(plain)
        except ssl.SSLCertVerificationError as error:
            self._facts.error = error.verify_message or str(error)
            is_of_time = error.verify_code in _OUTSIDE_ITS_TIME
            self._facts.tls_failure = "expired" if is_of_time else "untrusted"
            self._read_refused_certificate()
        except (OSError, http.client.HTTPException) as error:
            self._facts.error = getattr(error, "strerror", None) or str(error) or repr(error)
            self._facts.is_timeout = isinstance(error, TimeoutError)
            # With TLS 1.3 a server refuses a client certificate when the request is answered.
            is_tls = self._facts.step == "tls" or isinstance(error, ssl.SSLError)
            if is_tls and not self._facts.is_timeout:
                self._facts.tls_failure = _tls_failure(error)

    @contextmanager
    def _timed(self, step: Step) -> Iterator[None]:
        self._facts.step = step
        began_at = monotonic()
        yield
        self._facts.seconds[step] = monotonic() - began_at

    def _look_up(self) -> None:
        facts = self._facts
        with self._timed("lookup"):
            found = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)
        facts.addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def _connect(self) -> socket.socket:
        """Connect to the first address that answers, as the library does."""
        with self._timed("connect"):
            connected = anyio.run(self._race)
        if len(self._facts.addresses) > 1:
            self._facts.dead_addresses = anyio.run(self._dead_addresses)
        return connected

    async def _race(self) -> socket.socket:
        try:
            with anyio.fail_after(self._timeout_seconds):
                transport, _ = await asyncio.get_running_loop().create_connection(
                    asyncio.Protocol, *self._address, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS
                )
        except OSError as error:
            if error.errno is None:  # the errors of several addresses
                raise
            raise OSError(error.errno, os.strerror(error.errno)) from error
        connected: socket.socket = transport.get_extra_info("socket").dup()
        transport.abort()  # closes its own descriptor, not the connection
        connected.settimeout(self._timeout_seconds)
        return connected

    async def _dead_addresses(self) -> tuple[str, ...]:
        """Return the addresses of the name that do not answer soon."""
        addresses, port = self._facts.addresses, self._facts.port
        alive = set[str]()

        async def connect(address: str) -> None:
            """Connect once."""
            with anyio.move_on_after(_ANSWERS_SECONDS), contextlib.suppress(OSError):
                async with await anyio.connect_tcp(address, port):
                    alive.add(address)

        async with anyio.create_task_group() as group:
            for address in addresses:
                group.start_soon(connect, address)
        return tuple(address for address in addresses if address not in alive)

    def _ask(self, plain: socket.socket) -> None:
        if self._context is None:
            self._request(plain)
            return
        with self._timed("tls"):
            secured = self._context.wrap_socket(plain, server_hostname=self._name)
        with closing(secured):
            self._facts.tls_version = secured.version() or ""
            if self._context.verify_mode is not ssl.CERT_NONE:
                self._facts.certificate = certificate_of(secured.getpeercert(binary_form=True))
            self._request(secured)

    def _request(self, stream: socket.socket) -> None:
        """Read the server's version without credentials: even a refusal has a date."""
        facts = self._facts
        connection = http.client.HTTPConnection(name_for_tls(facts.host), facts.port)
        connection.sock = stream
        asked_at = self._wall_clock()
        with self._timed("request"):
            path = f"{urlsplit(self._config.server).path.rstrip('/')}/version"
            connection.request("GET", path, headers={"Connection": "close"})
            date = connection.getresponse().headers.get("Date", "")
        facts.clock_ahead_seconds = clock_ahead(date, asked_at, self._wall_clock())

    def _read_refused_certificate(self) -> None:
        """Connect once more, to read the certificate that was not trusted."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with (
                closing(socket.create_connection(self._address, self._timeout_seconds)) as plain,
                closing(context.wrap_socket(plain, server_hostname=self._name)) as secured,
            ):
                self._facts.certificate = certificate_of(secured.getpeercert(binary_form=True))
        except OSError:
            return  # the error of the first connection is the finding

    @property
    def _address(self) -> tuple[str, int]:
        return with_zone_index(self._facts.host), self._facts.port

    @property
    def _name(self) -> str:
        return name_for_tls(self._config.tls_server_name or self._facts.host)


def _tls_failure(error: Exception) -> TLSFailure:
    """Return why TLS failed with a server whose certificate is trusted."""
    if isinstance(error, _EARLY_ENDS):
        return "ended"
    reason = str(getattr(error, "reason", None) or "")
    return next((failure for word, failure in _TLS_REASONS if word in reason), "refused")


def clock_ahead(date: str, asked_at: float, answered_at: float) -> float | None:
    """Return by how much the local clock is ahead of that of a Date header, as far as is certain.

    Args:
        date: the header, in whole seconds.
        asked_at: local Unix time when the request was sent.
        answered_at: local Unix time when the response had arrived.
    """
    try:
        server = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    least, most = asked_at - (server + 1.0), answered_at - server
    if least <= 0.0 <= most:
        return 0.0
    return least if least > 0.0 else most
