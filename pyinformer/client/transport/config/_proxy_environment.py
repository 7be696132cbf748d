"""The proxy that environment variables name for a server, by the rules of Go's HTTP clients.

kubectl and every program on client-go read HTTPS_PROXY, HTTP_PROXY and NO_PROXY. A program that
read them by other rules would reach another cluster, or none, from the same shell. The rules of
Python's libraries differ: NO_PROXY has no address ranges, no ports, or another meaning of suffixes.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyinformer.client.transport.config._error_reasons import url_text
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.client.transport.config._cluster_config import ClusterConfig

_DEFAULT_PORTS = {"http": 80, "https": 443}


def with_environment_proxy(config: ClusterConfig, environment: Mapping[str, str]) -> ClusterConfig:
    """Return the configuration with the proxy of the environment, if it is to have one.

    A `proxy_url` of the configuration takes precedence, and `trust_env=False` ignores the
    environment.

    Raises:
        ConfigurationError: the variable's value is not the URL of an HTTP proxy.
    """
    if config.proxy_url is not None or not config.trust_env:
        return config
    proxy, variable = environment_proxy(config.server, environment)
    if not proxy:
        return config
    return replace(config, proxy_url=proxy, source=f"{config.source}, {variable}")


def environment_proxy(server: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL of the proxy for a server and the variable that names it.

    Both are empty if no proxy is to be used. Hosts that NO_PROXY lists, `localhost` and loopback
    addresses are reached directly. A value without a scheme is an HTTP proxy.

    Raises:
        ConfigurationError: the variable's value is not the URL of an HTTP proxy; or HTTP_PROXY is
            set in a CGI program, where a client may have chosen its value.

    Source:
        golang.org/x/net/http/httpproxy 0.57, FromEnvironment and ProxyFunc.
    """
    scheme = urlsplit(server).scheme
    variable, value = _first(environment, f"{scheme}_proxy")
    if not value or is_loopback(server) or is_listed(server, _first(environment, "no_proxy")[1]):
        return "", ""
    if scheme == "http" and environment.get("REQUEST_METHOD"):
        reason = (
            f"{variable} is not used in a CGI program (REQUEST_METHOD is set), since a client can"
            " set it with a header; pass trust_env=False or a proxy_url"
        )
        raise ConfigurationError("environment", reason)
    return _proxy_url(variable, value), variable


def _first(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable in capitals, or else in small letters, with its value."""
    for variable in (name.upper(), name):
        if value := environment.get(variable, ""):
            return variable, value
    return name.upper(), ""


def _proxy_url(variable: str, value: str) -> str:
    """Return the value as a URL, with `http` if it has no scheme.

    Raises:
        ConfigurationError: it is not the URL of an HTTP proxy.
    """
    try:
        url = value if "://" in value else f"http://{value}"
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.scheme not in _DEFAULT_PORTS:
        reason = (
            f"{variable} names {url_text(value)!r}, which is not an http or https proxy; add the"
            " server to NO_PROXY, set proxy-url in the kubeconfig, or pass trust_env=False"
        )
        raise ConfigurationError("environment", reason)
    return url


def is_listed(server: str, no_proxy: str) -> bool:
    """Say whether a list like that of NO_PROXY has an entry for a server."""
    parts = urlsplit(server)
    host = _ascii(parts.hostname or "")
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    address = _address(host)
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_matches(entry, host, address, port) for entry in entries if entry)


def is_loopback(server: str) -> bool:
    """Return whether a URL leads to this host by its text alone."""
    host = (urlsplit(server).hostname or "").removesuffix(".")
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    """Say whether an entry of NO_PROXY covers a host.

    An entry is `*`, a range such as `10.0.0.0/8`, an address, or a name; an address and a name may
    have a port. A name covers its subdomains too; with a leading dot or `*.` it covers only those.
    """
    if entry == "*":
        return True
    _, slash, bits = entry.partition("/")
    if slash and bits.isdigit():
        return address is not None and _is_in_range(address, entry)
    name, entry_port = _split_port(entry)
    if not name or entry_port not in {"", str(port)}:
        return False
    if address is not None:
        return "%" not in name and _address(name) == address  # Go reads no zone in an entry
    domain = name.removeprefix("*.").removeprefix(".")
    covers_itself = domain == name
    domain = _ascii(domain)
    return (covers_itself and host == domain) or host.endswith(f".{domain}")


def _is_in_range(address: IPv4Address | IPv6Address, entry: str) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """Return the host and the port of `host:port` or `[IPv6]:port`; the port is often empty."""
    host, colon, port = entry.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    is_plain = bool(colon) and not any(mark in host for mark in ":[]")
    return (host, port) if is_plain else (entry, "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a text is, as IPv4 if it is one in IPv6's form; None for a name."""
    try:
        address = ip_address(text.partition("%")[0])  # without the zone of a link-local address
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _ascii(host: str) -> str:
    """Return a name as DNS has it; a name that DNS cannot have is left as it is."""
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return host
