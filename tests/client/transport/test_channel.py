"""Secrets follow the channel: over plain HTTP none are obtained or sent, except on this host."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from kubernetes import client as official

from pyinformer.client.transport import (
    ClusterConfig,
    Connection,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
    config_from_client,
    find_config,
)
from pyinformer.client.transport.http import SessionConnection, SessionTimeouts
from tests.client.transport.serving import always, connected, response, serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.client.transport.serving import Request

SECRET = "the-secret-of-jane"
HOST = "cluster.example"


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system know a host that its URL does not show to be this one."""
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **named: Any) -> Any:
        is_known = host == HOST and not named.get("flags")
        return real("127.0.0.1" if is_known else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the warnings; a program that set the level of the root logger shows more."""
    return [one for one in caplog.records if one.levelno >= logging.WARNING]


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig."""
    path = folder / "config"
    content = {
        "clusters": [{"name": "one", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "jane", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "one", "user": "jane"}}],
        "current-context": "prod",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def users(folder: Path) -> dict[str, dict[str, Any]]:
    """Return each kind of credentials; the plug-in leaves a trace."""
    (folder / "token").write_text(SECRET)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "sh",
        "args": ["-c", f"touch {folder}/has-run; exit 1"],
    }
    oidc = {
        "idp-issuer-url": "https://127.0.0.1:1",
        "client-id": "c",
        "refresh-token": SECRET,
    }
    return {
        "token": {"token": SECRET},
        "file": {"tokenFile": "token"},
        "password": {"username": "jane", "password": SECRET},
        "exec": {"exec": plugin},
        "oidc": {"auth-provider": {"name": "oidc", "config": oidc}},
    }


KINDS = ("token", "file", "password", "exec", "oidc")


async def read_and_watch(connection: Connection) -> None:
    """Send a read, a write and a watch."""
    await connection.request("GET", "/a")
    await connection.request("POST", "/a", body=b"{}")
    async with connection.stream("/w", watch=True) as body:
        await body.read()


@pytest.mark.covers("client-go rest: TestIsConfigTransportTLS")
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_kubeconfig_with_plain_http_sends_no_secret_and_runs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, http_client: str
) -> None:
    async with serving(always(response())) as server:
        url = server.url.replace("127.0.0.1", HOST)
        user = {**users(tmp_path)[kind], "as": "root"}
        config = await find_config(kubeconfig(tmp_path, url, user))
        async with connected("", config=config, http_client=http_client) as connection:
            await read_and_watch(connection)

    assert len(server.requests) == 3
    for request in server.requests:
        assert "authorization" not in request.headers
        assert request.headers["impersonate-user"] == "root", "as kubectl"
    assert not (tmp_path / "has-run").exists()
    (warning,) = logged(caplog)
    assert f"no credentials are sent to {url}" in warning.getMessage()


async def test_an_anonymous_user_needs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(always(response())) as server:
        url = server.url.replace("127.0.0.1", HOST)
        config = await find_config(kubeconfig(tmp_path, url, {}))
        async with connected("", config=config) as connection:
            await read_and_watch(connection)
    assert logged(caplog) == []


class Vault:
    """Credentials of a program; asked for a secret, they leave a trace."""

    def __init__(self) -> None:
        self.asked = 0

    async def headers(self) -> dict[str, str]:
        """Return a secret."""
        self.asked += 1
        return {"X-Vault": SECRET}

    def invalidate(self) -> None:
        """Do nothing."""


def given_in_code(kind: str, url: str, folder: Path) -> ClusterConfig:
    """Return a configuration that is not a kubeconfig."""
    (folder / "token").write_text(SECRET)
    if kind == "client":
        made = official.Configuration(host=url, api_key={"BearerToken": f"Bearer {SECRET}"})
        return config_from_client(made)
    credentials = {
        "token": StaticCredentials.bearer(SECRET),
        "password": StaticCredentials.basic("jane", SECRET),
        "file": TokenFileCredentials(folder / "token"),
        "own": Vault(),
    }[kind]
    return ClusterConfig(server=url, credentials=credentials)  # type: ignore[arg-type] # all are


@pytest.mark.parametrize("kind", ["token", "password", "file", "own", "client"])
async def test_a_configuration_in_code_sends_no_secret_over_plain_http(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async with serving(always(response())) as server:
        config = given_in_code(kind, server.url.replace("127.0.0.1", HOST), tmp_path)
        async with connected("", config=config) as connection:
            await read_and_watch(connection)
    for request in server.requests:
        assert SECRET not in str(request)
        assert "authorization" not in request.headers
    assert [one.levelname for one in logged(caplog)] == ["WARNING"]
    if isinstance(config.credentials, Vault):
        assert config.credentials.asked == 0


@pytest.mark.covers("client-go rest: TestIsConfigTransportTLS")
@pytest.mark.parametrize("kind", ["token", "password", "file", "own", "client"])
async def test_a_server_on_this_host_gets_them_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async with serving(always(response())) as server:
        config = given_in_code(kind, server.url, tmp_path)
        async with connected("", config=config) as connection:
            await read_and_watch(connection)
            await read_and_watch(connection)
    assert all({"authorization", "x-vault"} & {*request.headers} for request in server.requests)
    (message,) = (one.getMessage() for one in logged(caplog))
    assert message.startswith(f"credentials are sent to {server.url} without encryption")
    assert SECRET not in caplog.text


async def test_a_proxy_elsewhere_makes_a_server_on_this_host_a_distant_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(always(response())) as proxy:
        way = {"proxy-url": proxy.url.replace("127.0.0.1", HOST)}
        path = kubeconfig(tmp_path, "http://127.0.0.1:1", users(tmp_path)["exec"], **way)
        config = await find_config(path)
        async with connected("", config=config) as connection:
            await read_and_watch(connection)
    assert isinstance(config.credentials, NoCredentials)
    assert not [one for one in proxy.requests if "authorization" in one.headers]
    assert not (tmp_path / "has-run").exists()


@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_redirect_is_not_followed_with_a_token(http_client: str) -> None:
    async with serving(always(response())) as elsewhere:

        async def redirect(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(response(status=302, headers={"Location": f"{elsewhere.url}/b"}))

        async with serving(redirect) as server:
            credentials = StaticCredentials.bearer(SECRET)
            async with connected(
                server.url, credentials=credentials, http_client=http_client
            ) as connection:
                with pytest.raises(Exception, match="302"):
                    await connection.request("GET", "/a")
                with pytest.raises(Exception, match="302"):
                    async with connection.stream("/w", watch=True):
                        pass
        assert elsewhere.requests == []


async def test_a_redirect_of_a_foreign_session_is_not_followed_with_its_headers() -> None:
    async with serving(always(response())) as elsewhere:

        async def redirect(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(response(status=307, headers={"Location": f"{elsewhere.url}/b"}))

        async with (
            serving(redirect) as server,
            aiohttp.ClientSession(headers={"X-Vault": SECRET}) as session,
        ):

            class Source:
                """Lends the session."""

                server = ""

                def timeouts(self, *, watch: bool) -> SessionTimeouts:
                    """Return the default deadlines."""
                    return SessionTimeouts()

                async def send(
                    self,
                    send: Callable[[aiohttp.ClientSession, str], Awaitable[aiohttp.ClientResponse]],
                ) -> aiohttp.ClientResponse:
                    """Send once."""
                    return await send(session, server.url)

            with pytest.raises(Exception, match="307"):
                await SessionConnection(Source()).request("POST", "/a", body=b"{}")
        assert elsewhere.requests == []
