"""TLS: certificates are verified, and an error names the host and the reason."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

import pyinformer
from pyinformer.client.transport import ClusterConfig, Connection
from pyinformer.errors import ConfigurationError, TLSVerificationError, TransportError
from pyinformer.testing import APIServer, FaultProxy
from tests.client.transport.serving import always, connected, response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.every_loop


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "kubernetes.default").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.mark.covers(
    "kube-client src: no_ca_falls_back_to_platform_verifier",
    "client-go transport: TestNew",
    "kube-client src: tls_server_name_drives_sni_and_verification",
)
async def test_a_certificate_of_the_right_authority_is_trusted(
    ca_file: str, server_tls: ssl.SSLContext
) -> None:
    async with serving(always(response()), tls=server_tls) as server:
        config = ClusterConfig(server=server.url, ca_file=ca_file)
        async with connected("", config=config) as connection:
            assert await connection.request("GET", "/a") == b"{}"


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_request_that_was_given_up_leaves_no_socket_to_a_server_that_stands_still(
    method: str,
) -> None:
    with APIServer(tls=True) as server, FaultProxy(server) as proxy:
        config = ClusterConfig(server=proxy.url, ca_file=str(proxy.ca_file))
        async with connected("", config=config) as connection:
            await connection.request("GET", "/version")
            proxy.stall()
            given_up = asyncio.create_task(connection.request(method, "/version"))
            await until(lambda: "/version" in connection.describe_pending("/version"))
            given_up.cancel()
            await asyncio.wait({given_up})

            # asyncio would wait half a minute for the peer's end of TLS.
            await until(lambda: proxy.open == 0, timeout_seconds=15.0)


async def test_a_watch_cancelled_between_its_handshake_and_its_request_is_closed(
    ca_file: str, server_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop of uvloop never reports the end of such a connection: closing would hang."""
    shake_hands = ssl.SSLObject.do_handshake
    cancelled: list[bool] = []

    def cancel_after(tls: ssl.SSLObject) -> None:
        shake_hands(tls)
        if not tls.server_side:
            cancelled.append(task.cancel())

    async with serving(always(response()), tls=server_tls) as server:
        config = ClusterConfig(server=server.url, ca_file=ca_file)
        async with connected("", config=config) as connection:

            async def watch() -> None:
                async with connection.stream("/a", watch=True):
                    pass

            monkeypatch.setattr(ssl.SSLObject, "do_handshake", cancel_after)
            task = asyncio.create_task(watch())
            await asyncio.wait({task})
            assert task.cancelled()
            assert cancelled == [True]
            await server.wait_until(lambda: (server.connections, server.open_connections) == (1, 0))
            async with asyncio.timeout(100):
                await connection.aclose()


@pytest.mark.covers(
    "client-go tools/clientcmd: TestCAOverridesCAData", "client-go transport: TestNew"
)
async def test_authority_data_takes_precedence_over_the_file(
    authority: trustme.CA, server_tls: ssl.SSLContext
) -> None:
    data = authority.cert_pem.bytes().decode()
    async with serving(always(response()), tls=server_tls) as server:
        config = ClusterConfig(server=server.url, ca_data=data)
        async with connected("", config=config) as connection:
            assert await connection.request("GET", "/a") == b"{}"


def broken_block(kind: str) -> bytes:
    """Return a PEM block that is not a certificate."""
    good = trustme.CA().cert_pem.bytes()
    return {
        "cut": good[: len(good) // 2] + b"\n",
        "no-base64": good.replace(b"\nMII", b"\n!!!"),
        "cut-base64": good[:80] + b"\n-----END CERTIFICATE-----\n",
        "no-der": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "empty": b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "key": trustme.CA().private_key_pem.bytes(),
        "remark": "# l'autorité\n".encode("latin-1"),
    }[kind]


_BROKEN = ("cut", "no-base64", "cut-base64", "no-der", "empty", "key", "remark")


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("kind", _BROKEN)
async def test_a_block_of_a_bundle_that_cannot_be_read_is_left_out(
    authority: trustme.CA, server_tls: ssl.SSLContext, tmp_path: Path, kind: str, order: str
) -> None:
    other, good = trustme.CA().cert_pem.bytes(), authority.cert_pem.bytes()
    parts = [broken_block(kind), good] if order == "before" else [good, broken_block(kind)]
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(other + b"".join(parts))
    configs = (
        {"ca_file": str(bundle)},
        {"ca_data": bundle.read_bytes().decode("utf-8", "replace")},
    )
    async with serving(always(response()), tls=server_tls) as server:
        for trust in configs:
            config = ClusterConfig(server=server.url, **trust)  # type: ignore[arg-type] # texts
            async with connected("", config=config) as connection:
                assert await connection.request("GET", "/a") == b"{}"
                async with connection.stream("/w", watch=True) as body:
                    assert await body.read() == b"{}"


@pytest.mark.parametrize("kind", [*_BROKEN, "nothing"])
def test_a_bundle_without_a_certificate_is_refused_and_never_means_those_of_the_system(
    tmp_path: Path, kind: str
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"" if kind == "nothing" else broken_block(kind))
    config = ClusterConfig(server="https://127.0.0.1:1", ca_file=str(bundle))
    with pytest.raises(ConfigurationError, match="must have a certificate in PEM"):
        config.ssl_context()


@pytest.mark.parametrize("trusted", ["intermediate", "leaf"])
async def test_what_is_trusted_need_not_be_a_root(trusted: str) -> None:
    """As in Go, and as Python 3.13 has it; without it 3.11 and 3.12 want the root as well."""
    middle = trustme.CA().create_child_ca()
    leaf = middle.issue_cert("127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(tls)
    pem = middle.cert_pem if trusted == "intermediate" else leaf.cert_chain_pems[0]
    async with serving(always(response()), tls=tls) as server:
        config = ClusterConfig(server=server.url, ca_data=pem.bytes().decode())
        async with connected("", config=config) as connection:
            assert await connection.request("GET", "/a") == b"{}"
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"
        other = trustme.CA().create_child_ca().cert_pem.bytes().decode()
        config = ClusterConfig(server=server.url, ca_data=other)
        async with connected("", config=config) as connection:
            with pytest.raises(TLSVerificationError):
                await connection.request("GET", "/a")


async def test_a_wrong_authority_is_named_with_its_host(
    tmp_path: Path, server_tls: ssl.SSLContext
) -> None:
    other = tmp_path / "other.crt"
    trustme.CA().cert_pem.write_to_path(other)
    async with serving(always(response()), tls=server_tls) as server:
        config = ClusterConfig(server=server.url, ca_file=str(other))
        async with connected("", config=config) as connection:
            host = server.url.removeprefix("https://")
            words = f"cannot verify the certificate of {host}: .*(issuer|certificate)"
            with pytest.raises(TLSVerificationError, match=words):
                await connection.request("GET", "/a")
            with pytest.raises(TLSVerificationError, match=words):
                async with connection.stream("/a", watch=True):
                    pass


@pytest.mark.covers(
    "client-go tools/clientcmd: TestTLSServerName",
    "kube-client src: tls_server_name_drives_sni_and_verification",
)
async def test_a_wrong_name_is_refused_and_the_servers_name_can_be_set(
    ca_file: str, server_tls: ssl.SSLContext
) -> None:
    async with serving(always(response()), tls=server_tls) as server:
        wrong = ClusterConfig(server=server.url, ca_file=ca_file, tls_server_name="example.org")
        right = ClusterConfig(
            server=server.url, ca_file=ca_file, tls_server_name="kubernetes.default"
        )
        async with connected("", config=wrong) as connection:
            with pytest.raises(TLSVerificationError, match=r"example\.org"):
                await connection.request("GET", "/a")
        async with connected("", config=right) as connection:
            assert await connection.request("GET", "/a") == b"{}"


@pytest.mark.parametrize("identity", ["127.0.0.1", "someone@example.org"])
async def test_the_common_name_of_a_certificate_is_not_a_name_of_the_server(
    authority: trustme.CA, ca_file: str, identity: str
) -> None:
    """It may be the name of a user, who chose it, where an authority signs both."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(identity, common_name="kubernetes.default").configure_cert(tls)
    async with serving(always(response()), tls=tls) as server:
        config = ClusterConfig(
            server=server.url, ca_file=ca_file, tls_server_name="kubernetes.default"
        )
        async with connected("", config=config) as connection:
            with pytest.raises(TLSVerificationError, match=r"kubernetes\.default"):
                await connection.request("GET", "/a")
            with pytest.raises(TLSVerificationError, match=r"kubernetes\.default"):
                async with connection.stream("/a", watch=True):
                    pass


@pytest.mark.covers(
    "client-go transport: TestNew", "kube-client src: tls_server_name_drives_sni_and_verification"
)
async def test_only_an_insecure_configuration_trusts_any_certificate(
    server_tls: ssl.SSLContext,
) -> None:
    async with serving(always(response()), tls=server_tls) as server:
        async with connected(server.url) as connection:
            with pytest.raises(TLSVerificationError):
                await connection.request("GET", "/a")
        config = ClusterConfig(server=server.url, verify_tls=False)
        async with connected("", config=config) as connection:
            assert await connection.request("GET", "/a") == b"{}"


@pytest.mark.covers("client-go transport: TestNew")
async def test_a_client_certificate_is_shown(
    authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    client = authority.issue_cert("someone@example.org")
    both = tmp_path / "client.pem"
    client.private_key_and_cert_chain_pem.write_to_path(both)
    async with serving(always(response()), tls=tls) as server:
        config = ClusterConfig(
            server=server.url, ca_file=ca_file, client_certificate_file=str(both)
        )
        async with connected("", config=config) as connection:
            assert await connection.request("GET", "/a") == b"{}"


async def test_a_server_without_tls_is_not_a_verification_error(ca_file: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"plain text\n")
        await reader.read()  # until the client closes: closing first could reset the connection
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = ClusterConfig(server=f"https://127.0.0.1:{port}", ca_file=ca_file)
        async with connected("", config=config) as connection:
            with pytest.raises(TransportError, match="no TLS connection to") as caught:
                await connection.request("GET", "/a")

    assert not isinstance(caught.value, TLSVerificationError)


@pytest.mark.covers(
    "client-go transport: TestRootCertPoolEmptyData", "client-go transport: TestNew"
)
@pytest.mark.parametrize("content", [None, "no certificate"])
@pytest.mark.parametrize("field", ["ca_file", "client_certificate_file"])
async def test_an_unusable_certificate_file_is_named(
    tmp_path: Path, content: str | None, field: str
) -> None:
    path = tmp_path / "broken.pem"
    if content is not None:
        path.write_text(content)
    files = {field: str(path)}

    config = ClusterConfig(server="https://127.0.0.1:1", source="my config", **files)  # type: ignore[arg-type] # names of text fields
    connection = Connection(config)

    with pytest.raises(ConfigurationError, match=r"my config: .*broken\.pem"):
        await connection.request("GET", "/version")
    await connection.aclose()
    with pytest.raises(ConfigurationError, match=r"my config: .*broken\.pem"):
        await pyinformer.connect(config=config).__aenter__()
