"""Reads and informers reach a server by every form of its URL, with every kind of trust."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS
from tests.integration.servers import EITHER_CLIENT

if TYPE_CHECKING:
    from tests.integration.servers import Server

_NAME = "cluster.example"


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system know a name for this host."""
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        known = name.lower().removesuffix(".") == _NAME and not named.get("flags")
        return real("127.0.0.1" if known else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def trusted(kind: str, server: Server) -> dict[str, Any]:
    """Return the fields of a configuration that trusts a server."""
    ca_file = str(server.api.ca_file)
    if kind == "file":
        return {"ca_file": ca_file}
    text = Path(ca_file).read_text()
    if kind == "leaf":
        text = ssl.get_server_certificate(("127.0.0.1", server.port))
    if kind == "bundle":
        text = f"# écrit à la main\n{text[: len(text) // 2]}\n{text}"
    return {"ca_data": text, "ca_file": None}


@EITHER_CLIENT
@pytest.mark.parametrize("trust", ["file", "leaf", "bundle"])
@pytest.mark.parametrize(
    ("url", "tls_server_name"),
    [
        ("https://127.0.0.1:{port}", None),
        ("HTTPS://127.0.0.1:{port}/", None),
        ("https://[::ffff:127.0.0.1]:{port}", "127.0.0.1"),
        (f"https://{_NAME}:{{port}}", "127.0.0.1"),
        (f"https://{_NAME.upper()}.:{{port}}//", "127.0.0.1"),
        (f"https://{_NAME}.:{{port}}", "NAME."),
    ],
)
async def test_reads_and_informers_reach_the_server(
    server: Server, url: str, tls_server_name: str | None, trust: str
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    name = "localhost" if server.name == "embedded" else "kubernetes.default.svc"
    config = replace(
        server.config(url=url.format(port=server.port)),
        tls_server_name=tls_server_name and tls_server_name.replace("NAME", name),
        **trusted(trust, server),
    )
    async with (
        pyinformer.connect(config=config, options=server.options) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        found = await cluster.get("v1", "configmaps", f"{namespace}/one")
        assert found.metadata.name == "one"
        followed = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert followed.names() == ["one"]
