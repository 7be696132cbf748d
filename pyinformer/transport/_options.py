"""The bounds of a connection: how long, how many.

Every wait on the wire but the one for a watch's next event is bounded by one of these.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, final

from pyinformer.apimachinery import InvalidArgumentError, check_seconds

_MAX_KEEPALIVE_SECONDS = 32_767  # Linux: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL
_MAX_PROBES = 127  # Linux: MAX_TCP_KEEPCNT
_HTTP_CLIENTS = ("direct", "aiohttp")
_WHOLE = frozenset({"keepalive_probes", "max_request_connections"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Bounds of one connection to an API server."""

    connect_timeout_seconds: float = 10.0
    """How long TCP and TLS may take together."""

    headers_timeout_seconds: float = 65.0
    """How long a stream may take to begin: longer than the 60 s a server gives itself to answer."""

    request_timeout_seconds: float = 30.0
    """How long a whole request may take, waiting for a connection included."""

    idle_timeout_seconds: float = 30.0
    """How long a list that began may send nothing. Watches may be silent. An error answer gets the
    same time for its whole body, and at most 5 s: its status is known, and only its words are lost.
    """

    body_timeout_seconds: float = 60.0
    """How long reads of a list, or of one page of it, may wait in all. Each 16 KiB that arrived add
    a second, so the limit ends a server that sends byte after byte, and neither a large list nor a
    slow link."""

    acquire_timeout_seconds: float = 10.0
    """How long to wait for one of the connections that requests and lists share."""

    max_request_connections: int = 32
    """How many connections requests and lists share."""

    keepalive_idle_seconds: float = 10.0
    """After so long without a byte of the peer, the system asks it for a sign of life. With the two
    below: a peer that no packet reaches any more is noticed within 30 s (25 s typical), without any
    request."""

    keepalive_interval_seconds: float = 5.0
    """How long the system waits for a sign of life before it asks again. Systems count in whole
    seconds; fractions are rounded up, as those of `keepalive_idle_seconds`."""

    keepalive_probes: int = 3
    """So often it asks in vain before the connection counts as lost."""

    http_client: Literal["direct", "aiohttp"] = "direct"
    """Who reads the streams of watches. `direct` takes them from the socket itself, which costs
    less CPU time per event; behind a proxy aiohttp reads them in any case, as it does all other
    answers. `aiohttp` is for programs that instrument it, or that meet a server with which
    the direct way has trouble."""

    def __post_init__(self) -> None:
        if self.http_client not in _HTTP_CLIENTS:
            reason = f"{self.http_client!r} is none of {', '.join(_HTTP_CLIENTS)}"
            raise InvalidArgumentError("http_client", reason)
        for option in fields(self):
            if option.name == "http_client":
                continue
            value = getattr(self, option.name)
            if option.name in _WHOLE and (isinstance(value, bool) or not isinstance(value, int)):
                raise InvalidArgumentError(option.name, f"{value!r} is no whole number")
            check_seconds(option.name, value)  # counts as well; without a bound waits have no end
            if not value:
                raise InvalidArgumentError(option.name, f"{value} is not above 0")
        for name in ("keepalive_idle_seconds", "keepalive_interval_seconds", "keepalive_probes"):
            limit = _MAX_PROBES if name == "keepalive_probes" else _MAX_KEEPALIVE_SECONDS
            value = getattr(self, name)
            if value > limit:
                raise InvalidArgumentError(name, f"{value} is above the systems' limit, {limit}")
