"""Decides whether a request for a page was made on this host, by the person who uses it.

A loopback peer alone proves neither: a sidecar forwards from loopback, and a web page in a browser
on this host can send requests too, under a name that an attacker resolves to 127.0.0.1. Requests
that cannot be distinguished from those are refused. Probes are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, final
from urllib.parse import urlsplit

_SIDECAR: Final = IPv4Address("127.0.0.6")  # Istio's proxy connects from it for callers outside
_FORWARDING: Final = frozenset(
    {"forwarded", "via", "x-real-ip", "x-original-forwarded-for", "x-client-ip"}
    | {"x-cluster-client-ip", "true-client-ip", "cf-connecting-ip"}
)
_FORWARDING_PREFIXES: Final = ("x-forwarded-", "x-envoy-", "l5d-")
_OWN_SITE: Final = frozenset({"none", "same-origin"})


@final
class PageRequest(NamedTuple):
    """A request: its target, and what shows where it comes from."""

    method: str
    """`GET` or another method."""

    target: str
    """The path with its query, `/status?format=text`."""

    peer: object = None
    """The address of the other end, as the socket returns it."""

    headers: Sequence[tuple[str, str]] = ()
    """Names in lower case, and values, in the order of the request."""


def why_foreign(request: PageRequest, *, bound_host: str) -> str:
    """Return why a request may come from another host or another site; empty if it does not.

    Args:
        request: the request.
        bound_host: the address that the server listens on, which a request may name.
    """
    if not is_loopback(request.peer):
        return "the connection comes from another address"
    for name, _ in request.headers:
        if name in _FORWARDING or name.startswith(_FORWARDING_PREFIXES):
            return f"the header {name} shows that a proxy forwarded the request"
    hosts = [value.strip() for name, value in request.headers if name == "host"]
    if len(hosts) != 1 or not _is_own_name(hosts[0], bound_host.lower()):
        return "the Host header must be localhost or a loopback address"
    if not _is_own_site(request.headers, hosts[0].lower()):
        return "a web page of another site sent the request"
    return ""


def is_loopback(peer: object) -> bool:
    """Return whether an address, as the socket returns it, is loopback and not a sidecar's."""
    host = str(peer[0]).partition("%")[0] if isinstance(peer, tuple) and peer else ""
    return _is_loopback(host) and not _is_sidecar(host)


def _is_sidecar(host: str) -> bool:
    return _address(host) == _SIDECAR


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_own_name(host: str, bound_host: str) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.netloc != host or "@" in host:
        return False
    return name in {"localhost", bound_host} or _is_loopback(name)


def _is_own_site(headers: Sequence[tuple[str, str]], host: str) -> bool:
    for name, value in headers:
        if name == "sec-fetch-site" and value.strip().lower() not in _OWN_SITE:
            return False
        if name == "origin" and value.strip().lower() != f"http://{host}":
            return False
    return True
