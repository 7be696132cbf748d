"""Kubeconfigs are merged as kubectl does, and errors name the file, the context and the key."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import ssl
import traceback
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
    find_config,
)
from pyinformer.client.transport.config import RenewingCredentials
from pyinformer.errors import ConfigurationError, InformerError, TransportError
from pyinformer.objects import dump_yaml
from tests.client.transport.serving import always, connected, response, serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.transport.serving import Request

SECRET = "do-not-show-me"


def entries(kind: str, **named: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a kubeconfig's list of named entries."""
    one = kind.removesuffix("s")
    return [{"name": name.replace("_", "-"), one: content} for name, content in named.items()]


def write(path: Path, **content: Any) -> str:
    """Write a kubeconfig; keys with underscores."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump_yaml({key.replace("_", "-"): content[key] for key in content}))
    return str(path)


def whole(path: Path, user: dict[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig with one cluster, one context and one user."""
    return write(
        path,
        clusters=entries("clusters", one={"server": "https://one.example", **cluster}),
        users=entries("users", jane=user),
        contexts=entries("contexts", prod={"cluster": "one", "user": "jane"}),
        current_context="prod",
    )


def pem(text: bytes) -> str:
    """Return text as the data of a kubeconfig."""
    return base64.b64encode(text).decode()


@pytest.mark.covers(
    "client-go tools/clientcmd: TestConflictingCurrentContext",
    "client-go tools/clientcmd: TestLoadingEmptyMaps",
    "kube-client src: kubeconfig_merge",
)
async def test_of_several_files_the_first_that_names_an_entry_gives_all_of_it(
    tmp_path: Path,
) -> None:
    first = write(
        tmp_path / "a" / "config",
        users=entries("users", jane={"token": "first"}),
        contexts=entries("contexts", prod={"cluster": "one", "user": "jane"}),
    )
    second = write(
        tmp_path / "b" / "config",
        clusters=entries("clusters", one={"server": "https://second", "tls-server-name": "n"}),
        users=entries("users", jane={"token": "second", "as": "root"}),
        contexts=entries("contexts", prod={"cluster": "other"}, dev={"cluster": "one"}),
        current_context="prod",
    )
    third = write(
        tmp_path / "c" / "config",
        clusters=entries("clusters", one={"server": "https://third", "proxy-url": "http://p"}),
        current_context="dev",
    )
    (tmp_path / "empty").write_text("")
    paths = ["", first, str(tmp_path / "missing"), str(tmp_path / "empty"), second, third, first]
    config = await find_config(environ={"KUBECONFIG": os.pathsep.join(paths)}, home=tmp_path)

    assert (config.server, config.tls_server_name) == ("https://second", "n")
    assert config.proxy_url is None
    assert config.impersonate_user is None
    assert await config.credentials.headers() == {"Authorization": "Bearer first"}
    assert (await find_config(os.pathsep.join(paths), context="dev")).server == "https://second"


@pytest.mark.covers("client-go tools/clientcmd: TestResolveRelativePaths")
async def test_a_path_is_relative_to_the_file_that_holds_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    client = authority.issue_cert("jane@example.org")
    for folder in "ab":
        (tmp_path / folder / "pki").mkdir(parents=True)
    authority.cert_pem.write_to_path(tmp_path / "a" / "pki" / "ca.pem")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "b" / "pki" / "jane.pem")
    where = {"certificate-authority": "pki/ca.pem", "server": "https://one.example"}
    one = write(
        tmp_path / "a" / "config",
        clusters=entries("clusters", one=where),
        contexts=entries("contexts", prod={"cluster": "one", "user": "jane"}),
        current_context="prod",
    )
    two = write(
        tmp_path / "b" / "config",
        users=entries("users", jane={"client-certificate": "pki/jane.pem"}),
    )
    config = await find_config(f"{one}{os.pathsep}{two}")

    assert config.ca_file == str(tmp_path / "a" / "pki" / "ca.pem")
    assert config.client_certificate_file == str(tmp_path / "b" / "pki" / "jane.pem")


@pytest.mark.covers("client-go tools/clientcmd: TestConfirmUsableBadInfoButOkConfig")
@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        pytest.param(
            {"client-certificate": "config", "client-key": "pki/key.pem"},
            {},
            "context 'prod': users 'jane': client-key: no such file: {folder}/pki/key.pem",
            id="no-key",
        ),
        pytest.param(
            {"client-certificate": "config"},
            {},
            "context 'prod': users 'jane': client certificate {folder}/config, key ",
            id="no-certificate",
        ),
        pytest.param(
            {"client-key": "config"},
            {},
            "context 'prod': users 'jane': client-key: needs a client-certificate",
            id="key-alone",
        ),
        pytest.param(
            {"client-certificate-data": SECRET},
            {},
            "context 'prod': users 'jane': client-certificate-data: must be base64",
            id="no-base64",
        ),
        pytest.param(
            {"client-certificate-data": pem(SECRET.encode())},
            {},
            "context 'prod': users 'jane': client-key: is missing",
            id="data-without-key",
        ),
        pytest.param(
            {
                "client-certificate-data": pem(SECRET.encode()),
                "client-key-data": pem(SECRET.encode()),
            },
            {},
            "context 'prod': users 'jane': client-certificate-data, client-key-data: ",
            id="data-is-no-pem",
        ),
        pytest.param(
            {"token": 1234567},
            {},
            "context 'prod': users 'jane': token: must be a string",
            id="number",
        ),
        pytest.param(
            {"token": f"{SECRET}\n{SECRET}"}, {}, "cannot carry line ends", id="two-lines"
        ),
        pytest.param({"as-groups": {}}, {}, "as-groups: must be a list", id="groups-are-no-list"),
        pytest.param({"as-groups": ["a"]}, {}, "need impersonate_user", id="groups-without-a-user"),
        pytest.param(
            {},
            {"certificate-authority-data": pem(SECRET.encode())},
            "context 'prod': clusters 'one': certificate authority data: ",
            id="no-authority",
        ),
        pytest.param(
            {},
            {"certificate-authority": "nowhere"},
            "context 'prod': clusters 'one': certificate-authority: no such file: {folder}/nowhere",
            id="no-authority-file",
        ),
        pytest.param(
            {},
            {"insecure-skip-tls-verify": "yes"},
            "context 'prod': clusters 'one': insecure-skip-tls-verify: must be true or false",
            id="no-flag",
        ),
        pytest.param(
            {},
            {"proxy-url": f"socks5://u:{SECRET}@proxy"},
            "context 'prod': clusters 'one': proxy '...@proxy' is not an http or https URL",
            id="socks",
        ),
    ],
)
async def test_an_error_names_the_file_the_context_and_the_key_and_shows_no_secret(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    path = whole(tmp_path / "config", user, **cluster)
    with pytest.raises(ConfigurationError) as raised:
        await find_config(path)

    said = str(raised.value)
    assert said.startswith(f"{path}: ")
    assert words.format(folder=tmp_path) in said
    assert SECRET not in said
    assert str(pickle.loads(pickle.dumps(raised.value))) == said  # noqa: S301 - our own


@pytest.mark.covers("client-go tools/clientcmd: TestDuplicateClusterName")
async def test_two_entries_of_one_name_are_refused_as_by_kubectl(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config", users=[*entries("users", a={}), *entries("users", a={"token": "x"})]
    )
    with pytest.raises(ConfigurationError, match=r"users: two entries are named 'a'$"):
        await find_config(path, context="x")


@pytest.mark.covers("client-go tools/clientcmd: TestFullImpersonateConfig")
async def test_impersonation_is_read_from_the_kubeconfig(tmp_path: Path) -> None:
    user = {"token": "t", "as": "root", "as-groups": ["a", "b"], "as-uid": "7"}
    config = await find_config(
        whole(tmp_path / "config", {**user, "as-user-extra": {"scopes": ["x", "y"]}})
    )
    assert (config.impersonate_user, config.impersonate_uid) == ("root", "7")
    assert config.impersonate_groups == ("a", "b")
    assert config.impersonate_extra == (("scopes", "x"), ("scopes", "y"))


async def test_a_certificate_in_the_kubeconfig_is_shown_and_read_again_after_a_refusal(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()

    def user(name: str) -> dict[str, str]:
        one = authority.issue_cert(f"{name}@example.org")
        chain = b"".join(part.bytes() for part in one.cert_chain_pems)
        return {
            "client-certificate-data": pem(chain),
            "client-key-data": pem(one.private_key_pem.bytes()),
        }

    path = tmp_path / "config"
    config = await find_config(whole(path, user("old")))
    assert isinstance(config.credentials, RenewingCredentials)
    first = config.credentials.certificate
    whole(path, user("new"))
    config.credentials.on_unauthorized(await config.credentials.headers())

    assert await config.credentials.headers() == {}
    assert config.credentials.certificate is not first
    assert first is not None


@pytest.mark.covers(
    "client-go transport: TestCheckCAFileAndRotate",
    "client-go transport: TestCARotationConnectionBehavior",
    "client-go transport: TestCARotationConnectionBehavior_Disabled",
    "kube-client src: reloading_verifier",
)
async def test_changed_certificate_files_are_read_again(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    authority = tmp_path / "ca.pem"
    new.cert_pem.write_to_path(authority)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response())

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    new.issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(answer, tls=tls) as server:
        old.cert_pem.write_to_path(authority)
        path = whole(tmp_path / "config", {}, **{"certificate-authority": "ca.pem"})
        config = await find_config(path)
        object.__setattr__(config, "server", server.url)
        async with connected("", config=config) as connection:
            with pytest.raises(ConnectionError, match="certificate"):
                await connection.request("GET", "/a")
            new.cert_pem.write_to_path(authority)
            assert await connection.request("GET", "/a") == b"{}"


@pytest.mark.covers("client-go transport: TestCheckCAFileAndRotate")
@pytest.mark.parametrize("content", ["no certificate", "", None])
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_an_authority_file_that_becomes_unusable_leaves_the_old_one(
    tmp_path: Path, http_client: str, content: str | None
) -> None:
    authority, path = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    close = {"Connection": "close"}
    async with serving(always(response(headers=close)), tls=tls) as server:
        config = ClusterConfig(server=server.url, ca_file=str(path))
        async with connected("", config=config, http_client=http_client) as connection:
            assert await connection.request("GET", "/a") == b"{}"
            path.unlink() if content is None else path.write_text(content)
            assert await connection.request("GET", "/a") == b"{}"
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"


@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_new_connection_of_a_watch_checks_the_files(
    tmp_path: Path, http_client: str
) -> None:
    old, new = trustme.CA(), trustme.CA()
    authority = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(authority)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response())

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    new.issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(answer, tls=tls) as server:
        config = ClusterConfig(server=server.url, ca_file=str(authority))
        async with connected("", config=config, http_client=http_client) as connection:
            with pytest.raises(ConnectionError, match="certificate"):
                async with connection.stream("/w", watch=True):
                    pass
            new.cert_pem.write_to_path(authority)
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"


async def test_only_a_user_without_credentials_is_anonymous(tmp_path: Path) -> None:
    config = await find_config(whole(tmp_path / "config", {}))
    assert isinstance(config.credentials, NoCredentials)


@pytest.mark.covers(
    "client-go rest: TestHTTPProxy",
    "client-go tools/clientcmd: TestProxyURL",
    "kube-client src: decodes_percent_escapes_before_basic_auth_encoding",
)
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_proxy_with_user_and_password_is_used(tmp_path: Path, http_client: str) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response())

    async with serving(answer) as proxy:
        url = proxy.url.replace("http://", "http://jane%40x:s3%2Fcret%zz@")
        cluster = {"server": "http://cluster.example:8080", "proxy-url": url}
        config = await find_config(whole(tmp_path / "config", {"token": "t"}, **cluster))
        async with connected("", config=config, http_client=http_client) as connection:
            assert await connection.request("GET", "/a") == b"{}"
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"

    basic = base64.b64encode(b"jane@x:s3/cret%zz").decode()
    for request in proxy.requests:
        assert request.target.startswith("http://cluster.example:8080/")
        assert request.headers["proxy-authorization"] == f"Basic {basic}"
        assert "authorization" not in request.headers, "the proxy could read it"
    assert "cret" not in repr(config)


@pytest.mark.covers("client-go tools/clientcmd: TestProxyURL")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_tunnel_through_a_proxy_carries_tls_for_the_servers_own_name(
    tmp_path: Path, http_client: str
) -> None:
    asked: list[bytes] = []
    port = 0

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer every CONNECT with a tunnel to the same server."""
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pass_on(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
            while data := await one.read(1 << 16):
                other.write(data)

        ways = [asyncio.ensure_future(pass_on(*way)) for way in ((reader, forth), (back, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)
        for end in (writer, forth):
            end.transport.abort()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response())

    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("inside.example").configure_cert(tls)
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    proxy_port = proxy.sockets[0].getsockname()[1]
    cluster = {
        "server": "https://outside.example:6443",
        "tls-server-name": "inside.example",
        "certificate-authority": "ca.pem",
        "proxy-url": f"http://jane:s3cret@127.0.0.1:{proxy_port}",
    }
    async with proxy, serving(answer, tls=tls) as server:
        port = int(server.url.rpartition(":")[2])
        config = await find_config(whole(tmp_path / "config", {"token": "t"}, **cluster))
        async with connected("", config=config, http_client=http_client) as connection:
            assert await connection.request("GET", "/a") == b"{}"
            async with connection.stream("/w", watch=True) as body:
                assert await body.read() == b"{}"

    basic = base64.b64encode(b"jane:s3cret")
    assert len(asked) == 2
    for head in asked:
        assert head.startswith(b"CONNECT outside.example:6443 HTTP/1.1\r\n")
        assert b"Basic " + basic in head
        assert b"Bearer" not in head
    assert [one.headers["authorization"] for one in server.requests] == ["Bearer t"] * 2


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(response(status=407), "407", id="refused"),
        pytest.param(b"no HTTP\r\n\r\n", "the answer is not HTTP: 400 ", id="no-http"),
    ],
)
async def test_a_refusal_of_a_proxy_shows_no_password_in_errors_and_tracebacks(
    scheme: str, method: str, said: bytes, words: str
) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(said)

    async with serving(answer) as proxy:
        config = ClusterConfig(
            server=f"{scheme}://cluster.example",
            proxy_url=proxy.url.replace("http://", f"http://jane:{SECRET}@"),
            credentials=StaticCredentials.bearer(f"token-{SECRET}"),
        )
        async with connected("", config=config) as connection:
            with pytest.raises(InformerError) as raised:
                await connection.request(method, "/a", body=None if method == "GET" else b"{}")

    error = raised.value
    assert words in str(error)
    assert "is not known" not in str(error), "nothing was sent"
    shown = "".join(traceback.format_exception(error)) + repr(error.__cause__)
    assert SECRET not in shown
    assert base64.b64encode(f"jane:{SECRET}".encode()).decode() not in shown


def pair_of(name: str) -> dict[str, str]:
    """Return a user's client certificate as data."""
    one = trustme.CA().issue_cert(f"{name}@example.org")
    chain = b"".join(part.bytes() for part in one.cert_chain_pems)
    return {
        "client-certificate-data": pem(chain),
        "client-key-data": pem(one.private_key_pem.bytes()),
    }


def plugin_that_says(token: str) -> dict[str, Any]:
    """Return the `exec` of a user whose plug-in prints a token."""
    version = "client.authentication.k8s.io/v1"
    said = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}
    known = {"apiVersion": version, "interactiveMode": "Never"}
    return {**known, "command": "echo", "args": [json.dumps(said)]}


async def test_a_certificate_as_data_goes_with_a_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    user = {"tokenFile": "token", **pair_of("jane")}
    config = await find_config(whole(tmp_path / "config", user, server="https://127.0.0.1:1"))
    connection = Connection(config)
    try:
        with pytest.raises(TransportError, match="refused"):  # with the certificate loaded
            await connection.request("GET", "/api")
    finally:
        await connection.aclose()
    assert await config.credentials.headers() == {"Authorization": "Bearer t"}
    assert isinstance(config.credentials, TokenFileCredentials)
    assert config.credentials.certificate is not None


@pytest.mark.covers(
    "client-go plugin/pkg/client/auth/exec: TestAuthorizationHeaderPresentCancelsExecAction"
)
@pytest.mark.parametrize(
    ("written", "authorization"),
    [
        pytest.param({"token": "t"}, "Bearer t", id="token"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="password"),
        pytest.param(pair_of("jane"), None, id="certificate"),
    ],
)
async def test_static_credentials_take_precedence_over_a_plugin_as_in_kubectl(
    tmp_path: Path, written: dict[str, str], authorization: str | None
) -> None:
    user = {"exec": plugin_that_says("of the plug-in"), **written}
    config = await find_config(whole(tmp_path / "config", user))
    assert (await config.credentials.headers()).get("Authorization") == authorization
    if authorization is None:
        assert isinstance(config.credentials, RenewingCredentials)
        assert config.credentials.certificate is not None


async def test_a_relative_kubeconfig_is_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(tmp_path / "config", {"token": "old"})
    monkeypatch.chdir(tmp_path)
    config = await find_config("config")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    whole(tmp_path / "config", {"token": "new"})
    config.credentials.invalidate()
    assert await config.credentials.headers() == {"Authorization": "Bearer new"}


@pytest.mark.covers("kube-client src: kubeconfig_merge")
async def test_a_kubeconfig_that_powershell_wrote_is_read_as_by_kubectl(tmp_path: Path) -> None:
    path = tmp_path / "config"
    whole(path, {"token": "t"})
    text = path.read_text()
    for encoding in ("utf-16", "utf-8-sig"):
        path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
        config = await find_config(path)
        assert await config.credentials.headers() == {"Authorization": "Bearer t"}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_a_ca_file_may_contain_comments_in_any_language(
    tmp_path: Path, encoding: str
) -> None:
    text = "# Jürgen's authority\n".encode(encoding) + trustme.CA().cert_pem.bytes()
    authority = {"certificate-authority-data": pem(text)}
    config = await find_config(whole(tmp_path / "config", {"token": "t"}, **authority))
    context = config.ssl_context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.covers("client-go tools/clientcmd: TestInsecureOverridesCA")
async def test_insecure_skip_tls_verify_is_refused_beside_an_authority(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "certificate-authority-data": pem(trustme.CA().cert_pem.bytes()),
    }
    with pytest.raises(ConfigurationError, match=r"'one': insecure-skip-tls-verify: .*authority"):
        await find_config(whole(tmp_path / "config", {}, **cluster))


@pytest.mark.parametrize(
    ("key", "content"),
    [
        pytest.param("tokenFile", SECRET * 400, id="longer-than-a-path"),
        pytest.param("tokenFile", SECRET * 10, id="token"),
        pytest.param("client-certificate", f"{SECRET * 10}/a", id="base64"),
    ],
)
async def test_content_where_a_path_should_be_is_not_quoted(
    tmp_path: Path, key: str, content: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"'jane': {key}: ") as raised:
        await find_config(whole(tmp_path / "config", {key: content}))
    assert SECRET not in str(raised.value)


async def test_a_key_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "key.der").write_bytes(b"\xff\xfe\x00")
    user = {**pair_of("jane"), "client-key": "key.der"}
    del user["client-key-data"]
    with pytest.raises(ConfigurationError, match="'jane': client-"):
        await find_config(whole(tmp_path / "config", user))


@pytest.mark.parametrize("method", ["read", "watch"])
@pytest.mark.parametrize("fault", ["certificate", "name", "gone"])
async def test_an_error_on_the_way_to_a_proxy_names_the_proxy(method: str, fault: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response())

    async with serving(answer, tls=tls) as proxy:
        url = proxy.url
        if fault == "name":
            url = "http://proxy.invalid:3128"
        elif fault == "gone":
            url = "http://127.0.0.1:1"
        config = ClusterConfig(
            server="https://cluster.example:6443",
            proxy_url=url,
            ca_data=trustme.CA().cert_pem.bytes().decode(),
        )
        async with connected("", config=config) as connection:
            with pytest.raises(InformerError) as raised:
                if method == "read":
                    await connection.request("GET", "/a")
                else:
                    async with connection.stream("/w", watch=True):
                        pass
    named = url.partition("//")[2]
    words = {
        "certificate": f"cannot verify the certificate of the proxy {named}: ",
        "name": f"cannot resolve the host name of the proxy {named}: ",
        "gone": f"cannot connect to the proxy {named}: ",
    }
    assert words[fault] in str(raised.value)


def kubeconfig_text(user: str = "{}", more: str = "", context: str = "cluster: c, user: u") -> str:
    """Return a kubeconfig as text."""
    return (
        "current-context: c\n"
        f"contexts: [{{name: c, context: {{{context}}}}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://one.example'}}]\n"
        f"users: [{{name: u, user: {user}}}{more}]\n"
    )


_AS_KUBECTL = {
    "two-documents": kubeconfig_text() + "---\ncurrent-context: other\n",
    "not-yaml-behind": kubeconfig_text() + "---\n[1\n",
    "final-separator": kubeconfig_text() + "---\n",
    "final-dots": kubeconfig_text() + "...\n",
    "leading-separator": "# made by a tool\n---\n" + kubeconfig_text(),
    "nameless": kubeconfig_text(more=", {user: {token: x}}"),
    "empty-name": kubeconfig_text(more=", {name: '', user: {token: x}}"),
    "empty-entry": kubeconfig_text(more=", {}"),
    "null-entry": kubeconfig_text(more=", null"),
    "null-secrets": kubeconfig_text("{username: null, password: null, token: null}"),
    "beta-without-mode": kubeconfig_text(
        "{client-certificate: c.pem, client-key: c.pem, exec: {apiVersion:"
        " client.authentication.k8s.io/v1beta1, command: x}}"
    ),
}


@pytest.mark.covers(
    "client-go tools/clientcmd/api/v1: TestSetDefaults_Config",
    "kube-client src: kubeconfig_multi_document_merge",
    "kube-client src: authinfo_deserialize_null_secret",
)
@pytest.mark.parametrize("text", _AS_KUBECTL.values(), ids=_AS_KUBECTL)
async def test_what_kubectl_reads_is_read(tmp_path: Path, text: str) -> None:
    issued = trustme.CA().issue_cert("jane@example.org")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "c.pem")
    path = tmp_path / "config"
    path.write_text(text)
    config = await find_config(path)
    assert config.server == "https://one.example"
    assert await config.credentials.headers() == {}


async def test_an_entry_without_a_name_is_that_of_a_context_without_a_user(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig_text(more=", {user: {token: x}}", context="cluster: c"))
    config = await find_config(path)
    assert await config.credentials.headers() == {"Authorization": "Bearer x"}


_EXEC = "exec: {apiVersion: client.authentication.k8s.io/v1, command: x%s}"
_NAMELESS = ", interactiveMode: Never, env: [{name: '', value: a}]"
_AS_KUBECTL_REFUSES = {
    "token-username": ("{token: t, username: u}", "token: must not be beside username or"),
    "token-password": ("{token: t, password: u}", "token: must not be beside username or"),
    "file-username": ("{tokenFile: t, username: u}", "tokenFile: must not be beside username"),
    "no-mode": (f"{{{_EXEC % ''}}}", "exec: interactiveMode: is missing; v1 needs one of Never"),
    "no-mode-beside-a-token": (f"{{token: t, {_EXEC % ''}}}", "exec: interactiveMode: is missing"),
    "exec-mode": (
        f"{{{_EXEC % ', interactiveMode: Sometimes'}}}",
        "exec x: interactiveMode: must be one of Never",
    ),
    "exec-version": (
        "{exec: {command: x, interactiveMode: Never}}",
        "exec x: apiVersion: must be client.authentication.k8s.io/v1 or",
    ),
    "exec-command": (
        f"{{{_EXEC.replace('command: x', 'args: [x]') % ', interactiveMode: Never'}}}",
        "exec: command: is missing",
    ),
    "exec-variable": (
        f"{{{_EXEC % ', interactiveMode: Never, env: [{value: a}]'}}}",
        "exec x: env: must be a list of entries with a name",
    ),
    "exec-nameless-variable": (
        f"{{{_EXEC % _NAMELESS}}}",
        "exec x: env: a name must not be empty",
    ),
    "exec-provider": (
        f"{{{_EXEC % ', interactiveMode: Never'}, auth-provider: {{name: oidc}}}}",
        "exec: must not be beside auth-provider",
    ),
    "certificate": (
        "{client-certificate: c, client-certificate-data: YQ==}",
        "client-certificate: must not be beside client-certificate-data",
    ),
    "key": (
        "{client-certificate: c, client-key: c, client-key-data: YQ==}",
        "client-key: must not be beside client-key-data",
    ),
}


@pytest.mark.covers(
    "client-go tools/clientcmd: TestValidateCertDataOverridesFiles",
    "client-go tools/clientcmd: TestValidateMultipleMethodsAuthInfo",
    "client-go tools/clientcmd: TestValidateAuthInfoExecWithAuthProvider",
    "client-go tools/clientcmd: TestValidateAuthInfoExecInteractiveModeMissing",
    "client-go tools/clientcmd/api/v1: TestSetDefaults_Config",
    "client-go tools/clientcmd: TestValidateAuthInfoExec",
)
@pytest.mark.parametrize(("user", "words"), _AS_KUBECTL_REFUSES.values(), ids=_AS_KUBECTL_REFUSES)
async def test_what_kubectl_refuses_is_refused(tmp_path: Path, user: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig_text(user))
    with pytest.raises(ConfigurationError, match=f"^{path}: context 'c': users 'u': {words}"):
        await find_config(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kubeconfig_text(more=", {}, {}"), "users: two entries are named ''"),
        (kubeconfig_text(more=", text"), "users: an entry must be a mapping with a name"),
        (kubeconfig_text(more=", {name: 7}"), "users: an entry must be a mapping with a name"),
        ("---\n---\n" + kubeconfig_text(), "is not a kubeconfig with clusters, contexts and"),
        ("{kind: Cluster, apiVersion: v1}", "kind: is 'Cluster'; that of a kubeconfig is 'Config'"),
        ("{apiVersion: eksctl.io/v1alpha5}", "apiVersion: is 'eksctl.io/v1alpha5'; that of"),
    ],
)
async def test_a_file_that_kubectl_cannot_read_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        await find_config(path)


async def test_an_authority_is_a_file_or_data(tmp_path: Path) -> None:
    authority = {"certificate-authority": "config", "certificate-authority-data": pem(b"x")}
    with pytest.raises(ConfigurationError, match="'one': certificate-authority: must not be besi"):
        await find_config(whole(tmp_path / "config", {}, **authority))


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"tls-server-name": 7}, "tls-server-name: must be a string"),
        ({"tls-server-name": ".a"}, "tls_server_name must be the name of a host"),
        ({"proxy-url": ["x"]}, "proxy-url: must be a string"),
        ({"proxy-url": "socks5://proxy"}, "proxy 'socks5://proxy' is not an http or https URL"),
        ({"certificate-authority": "none"}, "certificate-authority: no such file: "),
        ({"server": 7}, "server: must be a string"),
        ({"server": "x"}, "server 'x' is not an http or https URL with a host"),
    ],
)
async def test_an_error_names_a_cluster_once(
    tmp_path: Path, cluster: dict[str, Any], words: str
) -> None:
    path = whole(tmp_path / "config", {}, **cluster)
    with pytest.raises(ConfigurationError) as raised:
        await find_config(path)
    assert str(raised.value).startswith(f"{path}: context 'prod': clusters 'one': {words}")


@pytest.mark.parametrize(
    "user", [{"username": "u", "password": 7}, {"username": 7}, {"token": ["t"]}, {"as": 7}]
)
async def test_an_error_names_a_user_once(tmp_path: Path, user: dict[str, Any]) -> None:
    path = whole(tmp_path / "config", user)
    with pytest.raises(ConfigurationError) as raised:
        await find_config(path)
    (key,) = [name for name, value in user.items() if value != "u"]
    start = f"{path}: context 'prod': users 'jane': {key}: must be a string"
    assert str(raised.value).startswith(start)
