"""One server, many ways to write its URL: reads and watches understand each of them alike."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest
import trustme

from pyinformer.client.transport import ClusterConfig, NoCredentials
from pyinformer.errors import ConfigurationError, TransportError
from tests.client.transport.serving import always, connected, response, serving

CA = trustme.CA()
NAMES = {"kube.test", "xn--kbe-hoa.test"}  # the second is kübe.test


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the system know the names of the tests; return what it was asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if name.lower().removesuffix(".") in NAMES and not named.get("flags"):
            asked.append(name)
            return real("127.0.0.1", *arguments, **named)
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def server_tls() -> ssl.SSLContext:
    """Return the settings of a server with all names of the tests."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1", *NAMES, "other.test").configure_cert(tls)
    return tls


@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
@pytest.mark.parametrize(
    ("url", "tls_server_name", "target", "host"),
    [
        ("https://127.0.0.1:{port}", None, "/x", "127.0.0.1"),
        ("HTTPS://127.0.0.1:{port}/", None, "/x", "127.0.0.1"),
        ("https://127.0.0.1:{port}//a/./b//", None, "/a/b/x", "127.0.0.1"),
        ("https://127.0.0.1:{port}/a/../b%2fc%20d", None, "/b/c%20d/x", "127.0.0.1"),
        ("https://kube.test:{port}", None, "/x", "kube.test"),
        ("https://KUBE.test:{port}", None, "/x", "kube.test"),
        ("https://kube.test.:{port}", None, "/x", "kube.test"),
        ("https://kube.test.:{port}", "kube.test", "/x", "kube.test"),
        ("https://kube.test:{port}", "kube.test.", "/x", "kube.test"),
        ("https://127.0.0.1:{port}", "OTHER.test.", "/x", "127.0.0.1"),
        ("https://127.0.0.1:{port}", "127.0.0.1", "/x", "127.0.0.1"),
        ("https://[::ffff:127.0.0.1]:{port}", "other.test", "/x", "[::ffff:127.0.0.1]"),
        ("https://kübe.test:{port}", None, "/x", "xn--kbe-hoa.test"),
        ("https://KÜBE.test.:{port}", None, "/x", "xn--kbe-hoa.test"),
        ("https://xn--kbe-hoa.test.:{port}", "kübe.test", "/x", "xn--kbe-hoa.test"),
        ("https://kube.test:{port}//", None, "/x", "kube.test"),
        ("https://kube.test:{port}/a/b%2Fc/", None, "/a/b/c/x", "kube.test"),
        ("https://kube.test:{port}/ä;v=1", None, "/%C3%A4;v=1/x", "kube.test"),
        ("https://kube.test:{port}/a/../b", None, "/b/x", "kube.test"),
    ],
)
async def test_reads_and_watches_understand_a_url_alike(
    url: str, tls_server_name: str | None, target: str, host: str, http_client: str
) -> None:
    async with serving(always(response()), tls=server_tls()) as server:
        port = server.url.rpartition(":")[2]
        config = ClusterConfig(
            server=url.format(port=port),
            ca_data=CA.cert_pem.bytes().decode(),
            tls_server_name=tls_server_name,
        )
        async with connected("", config=config, http_client=http_client) as connection:
            assert await connection.request("GET", "/x") == b"{}"
            for watch in (True, False):
                async with connection.stream("/x", watch=watch) as body:
                    assert await body.read() == b"{}"
            assert await connection.probe(100)

    for request in server.requests[:3]:
        assert (request.target, request.headers["host"].lower()) == (target, f"{host}:{port}")


LOOPBACK = next((pair for pair in socket.if_nameindex() if pair[1].startswith("lo")), (1, "lo"))


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this host has no IPv6")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize(
    "zone",
    [
        pytest.param("", id="none"),
        pytest.param(f"%25{LOOPBACK[1]}", id="name"),
        pytest.param(f"%{LOOPBACK[1]}", id="name-as-shells-write-it"),
        pytest.param(f"%25{LOOPBACK[0]}", id="index"),
    ],
)
async def test_an_address_with_a_zone_is_reached_and_is_not_sent(
    zone: str, http_client: str, is_encrypted: bool
) -> None:
    """RFC 6874; a zone means nothing to another host, and no certificate has one."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if is_encrypted else None
    if tls is not None:
        CA.issue_cert("::1").configure_cert(tls)
    async with serving(always(response()), tls=tls, host="::1") as server:
        config = ClusterConfig(
            server=server.url.replace("::1", f"::1{zone}"),
            ca_data=CA.cert_pem.bytes().decode() if is_encrypted else None,
            credentials=NoCredentials(),
        )
        async with connected("", config=config, http_client=http_client) as connection:
            assert await connection.request("GET", "/x") == b"{}"
            for watch in (True, False):
                async with connection.stream("/x", watch=watch) as body:
                    assert await body.read() == b"{}"
            assert await connection.probe(100)

    port = server.url.rpartition(":")[2]
    assert {one.headers["host"] for one in server.requests} == {f"[::1]:{port}"}


@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_zone_that_this_host_does_not_have_is_named(http_client: str) -> None:
    config = ClusterConfig(server="http://[fe80::1%25nope7]:1", credentials=NoCredentials())
    async with connected("", config=config, http_client=http_client) as connection:
        for watch in (True, False):
            with pytest.raises(TransportError, match="fe80::1%nope7"):
                async with connection.stream("/x", watch=watch):
                    pass


async def test_a_name_with_a_dot_at_its_end_is_looked_up_as_it_is(names: list[str]) -> None:
    """The search list of a pod would be tried first otherwise."""
    async with serving(always(response()), tls=server_tls()) as server:
        url = server.url.replace("127.0.0.1", "kube.test.")
        config = ClusterConfig(server=url, ca_data=CA.cert_pem.bytes().decode())
        async with connected("", config=config) as connection:
            await connection.request("GET", "/x")
            async with connection.stream("/x", watch=True):
                pass
    assert set(names) == {"kube.test."}


@pytest.mark.parametrize(
    "url",
    [
        " https://kube.test",
        "https://kube.test ",
        "https://kube.test\n",
        "https://ku\tbe.test",
        "\x00https://kube.test",
        "https://kube.test/a b",
        "https://kube.test?",
        "https://kube.test#",
        "https://kube.test?x=1",
        "https://kube.test\\more",
        "https://kube<test>",
        "https://kube.test:0",
        "https://kube.test:66000",
        "https://[::1",
        "https://",
        "https:kube.test",
        "kube.test:6443",
        "ftp://kube.test",
    ],
)
def test_a_url_that_readers_would_understand_in_two_ways_is_refused(url: str) -> None:
    """A blank in front once sent watches in the clear, and reads past the own authority."""
    with pytest.raises(ConfigurationError, match="is not an http or https URL with a host"):
        ClusterConfig(server=url)
    with pytest.raises(ConfigurationError, match="is not an http or https URL with a host"):
        ClusterConfig(server="https://kube.test", proxy_url=url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"https://{'a' * 64}.{'b.' * 300_000}test", id="host"),
        pytest.param(f"https://{'é.' * 300_000}test", id="unicode"),
        pytest.param(f"https://kube.test/{'a' * 300_000}", id="path"),
        pytest.param(f"https://kube.test:{'1' * 4000}", id="port"),
        pytest.param(f"https://{'[' * 300_000}", id="brackets"),
        pytest.param(f"https://u:p@{'a' * 300_000}", id="login"),
    ],
)
def test_an_error_about_a_long_url_is_short(url: str) -> None:
    for settings in ({"server": url}, {"server": "https://kube.test", "proxy_url": url}):
        with pytest.raises(ConfigurationError) as refused:
            ClusterConfig(**settings)  # type: ignore[arg-type] # names of text fields
        assert len(str(refused.value)) < 500


def test_an_error_about_a_long_name_for_tls_is_short() -> None:
    with pytest.raises(ConfigurationError, match="tls_server_name must be") as refused:
        ClusterConfig(server="https://kube.test", tls_server_name="é." * 150_000 + "x")
    assert len(str(refused.value)) < 500


def test_the_longest_host_that_dns_knows_is_accepted() -> None:
    host = ".".join(["a" * 63] * 3 + ["b" * 61]) + "."
    assert ClusterConfig(server=f"https://{host}", tls_server_name=host).server.endswith(host)


@pytest.mark.parametrize("name", [".", ".kube.test", "a b", "kube..test", "x" * 64, "a\0b"])
def test_a_name_that_no_certificate_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="tls_server_name must be the name of a host"):
        ClusterConfig(server="https://kube.test", tls_server_name=name)
