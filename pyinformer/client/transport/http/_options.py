"""The limits of a connection.

Every wait for a server, except the one for the next event of a watch, is bounded by one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from pyinformer.objects import check_choice, check_integer

_HTTP_CLIENTS = ("direct", "aiohttp")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How many connections a Cluster uses, and what reads them."""

    max_request_connections: int = 32
    """How many connections requests and lists share. Writes use at most three quarters of them, so
    that caches are filled and read while all writes wait for a webhook."""

    http_client: Literal["direct", "aiohttp"] = "direct"
    """What reads watches and lists. `direct` reads the socket itself, which costs less CPU time per
    event, and starts sooner; through a proxy aiohttp reads them in any case, as it does all other
    responses.
    `aiohttp` is for programs that instrument aiohttp, and for servers with which `direct` has
    trouble."""

    def __post_init__(self) -> None:
        check_choice("http_client", self.http_client, _HTTP_CLIENTS)
        check_integer("max_request_connections", self.max_request_connections)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """The deadlines of one connection. Programs do not set them: they follow those of the server.

    A leader election shortens one of them.
    """

    connect_seconds: float = 10.0
    """How long TCP and TLS may take together."""

    headers_seconds: float = 65.0
    """How long a stream may take to begin: longer than the 60 s after which a server times out."""

    request_seconds: float = 65.0
    """How long a whole request may take, waiting for a connection included: longer than a server
    takes, which ends reads after 60 s, and writes, with all webhooks, after 34 s. An earlier end
    would hide what became of a write, and which webhook did not answer."""

    idle_seconds: float = 30.0
    """How long a list that has begun may send nothing. Watches may be silent. The body of an error
    response gets the same time in all, and at most 5 s: its status is known, only its text is lost.
    """

    body_seconds: float = 60.0
    """How long the reads of a list, or of one page of it, may wait in all. Each 16 KiB that arrived
    add a second: the limit ends a response that trickles, but not a large list or a slow link."""

    pong_seconds: float = 60.0
    """How long the server of a command may send nothing, pings being sent meanwhile: client-go's
    minute."""

    acquire_seconds: float = 30.0
    """How long to wait for one of the connections that requests and lists share."""
