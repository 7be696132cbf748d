"""The proxy of the environment: what it may be, what takes precedence, and that requests use it.

Which hosts NO_PROXY covers is compared with client-go in tests/foreign/test_proxies.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.client.transport import Connection
from pyinformer.client.transport.config import ClusterConfig, with_environment_proxy
from pyinformer.errors import ConfigurationError, TransportError
from tests.client.transport.serving import Request, response, serving

if TYPE_CHECKING:
    import asyncio

_SERVER = "http://cluster.example:8080"
_SECRET = "s3cret"


async def _answer(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(response())


def _proxy(environment: dict[str, str], server: str = "https://a.example", **more: object) -> str:
    config = ClusterConfig(server=server, **more)  # type: ignore[arg-type]
    return with_environment_proxy(config, environment).proxy_url or ""


@pytest.mark.covers("client-go rest: TestHTTPProxy")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_requests_and_watches_go_through_the_proxy_of_the_environment(
    http_client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(_answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", f"//jane:{_SECRET}@"))
        options = pyinformer.client.ConnectionOptions(http_client=http_client)  # type: ignore[arg-type]
        connection = Connection(ClusterConfig(server=_SERVER), options=options)
        try:
            assert await connection.request("GET", "/a") == b"{}"
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"
        finally:
            await connection.aclose()

    assert [one.target for one in proxy.requests] == [f"{_SERVER}/a", f"{_SERVER}/w"]
    assert all("proxy-authorization" in one.headers for one in proxy.requests)
    assert connection.config.source == "given in code, HTTP_PROXY"
    assert _SECRET not in repr(connection.config)


@pytest.mark.covers("client-go rest: TestHTTPProxy")
async def test_a_host_in_no_proxy_is_requested_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(_answer) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", ".invalid")
        connection = Connection(ClusterConfig(server="http://cluster.invalid"))
        try:
            with pytest.raises(TransportError, match="cannot resolve the host name"):
                await connection.request("GET", "/a")
        finally:
            await connection.aclose()
    assert not proxy.requests


async def test_connect_can_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    async with pyinformer.connect(server=_SERVER) as cluster:
        assert cluster.config.proxy_url == "http://proxy.example:3128"
    async with pyinformer.connect(server=_SERVER, trust_env=False) as cluster:
        assert cluster.config.proxy_url is None


async def test_a_proxy_that_cannot_be_reached_is_named(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{unused_tcp_port}")
    connection = Connection(ClusterConfig(server=_SERVER))
    try:
        with pytest.raises(TransportError, match=f"the proxy 127.0.0.1:{unused_tcp_port}: "):
            await connection.request("GET", "/a")
    finally:
        await connection.aclose()


def test_a_proxy_url_takes_precedence_over_the_environment() -> None:
    environment = {"HTTPS_PROXY": "http://other:1"}
    assert _proxy(environment, proxy_url="http://mine:2") == "http://mine:2"


@pytest.mark.parametrize(
    "value", ["socks5://proxy:1080", "ftp://proxy", "http://proxy:99999", "http://", "http://p?q"]
)
def test_a_value_that_is_not_an_http_proxy_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY"):
        _proxy({"HTTPS_PROXY": value})
    assert not _proxy({"HTTPS_PROXY": value, "NO_PROXY": "a.example"}), "it is not used"
    assert not _proxy({"HTTPS_PROXY": value}, trust_env=False)


def test_a_refused_value_shows_no_password() -> None:
    with pytest.raises(ConfigurationError, match=r"\.\.\.@proxy:1080") as refused:
        _proxy({"https_proxy": f"socks5://jane:{_SECRET}@proxy:1080"})
    assert _SECRET not in str(refused.value)


def test_a_cgi_program_does_not_take_the_proxy_of_a_header() -> None:
    environment = {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}
    with pytest.raises(ConfigurationError, match="REQUEST_METHOD"):
        _proxy(environment, "http://a.example")
    assert not _proxy(environment, "https://a.example")
    assert not _proxy({**environment, "NO_PROXY": "*"}, "http://a.example")
