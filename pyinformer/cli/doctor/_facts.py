"""Records of what the doctor has measured and read of a server, for its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

RequestFailure: TypeAlias = Literal[
    "credentials", "certificate", "proxy_login", "proxy", "overload", "no_server"
]
"""Refused are the credentials, the server's certificate, the login of the proxy, or the tunnel."""

if TYPE_CHECKING:
    from pyinformer.cli.doctor._credential_expiry import Certificate
    from pyinformer.cli.doctor._network import NetworkFacts
    from pyinformer.objects import GroupVersionResource


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LoginFacts:
    """The credentials of requests: their kind and expiry, without any secret."""

    kind: str
    """Such as `a token file`."""
    error: str = ""
    """Why there are no credentials; empty if there are."""
    has_token: bool = False
    is_renewed: bool = False
    token_expires_at: float | None = None
    """Unix time; None without a token, or if the token does not say."""
    file_age_seconds: float | None = None
    """How long ago the token's file was written; None without one."""
    certificate: Certificate | None = None
    """The client certificate; None without one."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What was measured and read of a server, and of the way to it."""

    source: str
    """Where the configuration came from."""
    server: str
    login: LoginFacts
    network: NetworkFacts
    version: str = ""
    """Such as `v1.37.1`; empty if it could not be read."""
    request_seconds: float | None = None
    """The median time of a small request on an open connection."""
    error: str = ""
    """Why a request with the credentials failed."""
    failure: RequestFailure | None = None
    """What kind of failure that is, if its cure depends on it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Whether this user may use one verb on a resource, as the server answers."""

    verb: str
    namespace: str | None
    """None for all namespaces."""
    is_allowed: bool
    reason: str = ""


AT_ONCE_SECONDS: Final = 0.25
"""How far apart the first byte and the end of a watch may be that a proxy sends as one piece."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTimes:
    """When the response to a watch arrived, in seconds from the request."""

    requested_seconds: float
    """After how long the server was asked to end the watch."""
    opened_seconds: float
    """When the head of the response had arrived."""
    line_seconds: float | None = None
    """When the first line had; None if there was none."""
    ended_seconds: float | None = None
    """When the watch had ended; None if it was closed before."""

    @property
    def arrived_seconds(self) -> float:
        """When the first line had arrived, or the head of a response without lines."""
        return self.opened_seconds if self.line_seconds is None else self.line_seconds

    @property
    def is_late(self) -> bool:
        """Whether that was only when the server had ended the watch, or later."""
        return self.arrived_seconds >= self.requested_seconds - AT_ONCE_SECONDS

    @property
    def is_held(self) -> bool:
        """Whether all of the response arrived together, at the end of the watch.

        A server that is slow to open a watch keeps it open for the requested time.
        """
        ended = self.ended_seconds
        return (
            self.is_late and ended is not None and ended - self.arrived_seconds <= AT_ONCE_SECONDS
        )


@final
@dataclass(slots=True, kw_only=True)
class ResourceFacts:
    """What the server offers for one resource, in the namespaces that were named."""

    resource: GroupVersionResource
    namespaces: tuple[str, ...] | None
    """None for all, and for a resource without namespaces."""
    rights: tuple[Right, ...] = ()
    rights_error: str = ""
    list_error: str = ""
    list_seconds: float | None = None
    """How long the first page took."""
    list_version: str = ""
    """The resource version of the list; empty if it has none, so that no watch can follow it."""
    page_objects: int = 0
    page_bytes: int = 0
    more: int | None = 0
    """How many objects follow the page; None if the server does not say."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """Bytes for one object of the page by `memory=` mode."""
    watch_list_seconds: float | None = None
    """How long a watch-list without objects took; None if there was none."""
    watch_list_error: str = ""
    watch_list_times: WatchTimes | None = None
    """None if there was no response."""
    watch_error: str = ""
    bookmark_seconds: float | None = None
    """When a bookmark arrived, from the start of the watch; None if none did."""
    watch_seconds: float = 0.0
    """How long bookmarks were waited for."""
    watch_times: WatchTimes | None = None
    """None if there was no response."""
    idle_seconds: float | None = None
    """How long a silent watch stayed open; None if that was not tried."""
    idle_wanted_seconds: float = 0.0
    idle_error: str = ""
    """How it ended, if it ended too early; else empty."""

    @property
    def held(self) -> WatchTimes | None:
        """The times that show that something holds watches back until they end; None if none do.

        A line that arrived in time shows the opposite. A quiet server may have sent nothing.
        """
        known = [one for one in (self.watch_times, self.watch_list_times) if one is not None]
        if any(one.line_seconds is not None and not one.is_late for one in known):
            return None
        return next((one for one in known if one.is_held), None)

    @property
    def total(self) -> int | None:
        """The number of objects; None if the server does not say."""
        return None if self.more is None else self.page_objects + self.more
