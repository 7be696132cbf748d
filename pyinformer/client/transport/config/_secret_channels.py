"""Which secrets may be sent over the way to a server: credentials are for TLS, or for this host.

kubectl sends none over plain HTTP, and runs no exec plug-in for it. Programs of this host may be an
exception: a test server, or the end of a tunnel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from pyinformer.client.transport.config._proxy_environment import is_loopback

if TYPE_CHECKING:
    from pyinformer.client.transport.config._cluster_config import ClusterConfig

Channel: TypeAlias = Literal["tls", "loopback", "plain"]
"""The way of a request: encrypted, within this host, or readable by the network."""


def channel_of(config: ClusterConfig) -> Channel:
    """Return the way of requests to a server, with the proxy that leads there.

    Args:
        config: how the server is reached, with the proxy of the environment if there is one.

    Source:
        client-go rest/config.go, IsConfigTransportTLS.
    """
    if urlsplit(config.server).scheme == "https":
        return "tls"
    ways = (config.server, config.proxy_url or config.server)
    return "loopback" if all(map(is_loopback, ways)) else "plain"


def withheld_text(config: ClusterConfig) -> str:
    """Return the log text about credentials that are not sent, to be used once."""
    return (
        f"no credentials are sent to {config.server}, and none are obtained: the connection is not"
        " encrypted (kubectl does the same); use https"
    )
