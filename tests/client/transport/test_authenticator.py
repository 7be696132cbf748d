"""After a refusal credentials are renewed once, those of users' own classes as well."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme

import pyinformer
from pyinformer.client.transport import ClusterConfig, TokenFileCredentials, config_from_client
from pyinformer.client.transport.config import RenewingCredentials
from pyinformer.client.transport.config._renewing_credentials import Login
from pyinformer.client.transport.http._authenticator import Authenticator
from pyinformer.errors import ConfigurationError, TransportError
from pyinformer.testing import APIServer
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Counted:
    """Credentials of a user's class, with only what the protocol requires."""

    def __init__(self) -> None:
        self.number = 0

    async def headers(self) -> Mapping[str, str]:
        """Return another mapping each time."""
        return {"Authorization": f"Bearer {self.number}"}

    def invalidate(self) -> None:
        """Count the call."""
        self.number += 1


async def test_a_late_refusal_of_old_headers_does_not_renew_the_new_ones() -> None:
    credentials = Counted()
    authenticator = Authenticator(ClusterConfig(server="https://host", credentials=credentials))
    old, same = await authenticator.headers(), await authenticator.headers()
    authenticator.on_unauthorized(old)
    new = await authenticator.headers()
    authenticator.on_unauthorized(same)
    authenticator.on_unauthorized(old)

    assert credentials.number == 1
    assert (await authenticator.headers()) == new


@pytest.mark.parametrize("is_refused", [True, False])
async def test_the_log_of_a_failed_renewal_names_what_is_known_of_the_login(
    caplog: pytest.LogCaptureFixture, *, is_refused: bool
) -> None:
    async def log_in() -> Login:
        raise ConfigurationError("login", "is sealed")

    first = Login({"Authorization": "Bearer t"}, expires_at=time.time() + 60.0)
    credentials = RenewingCredentials(log_in, first=first)
    headers = await credentials.headers()
    if is_refused:
        credentials.on_unauthorized(headers)
    else:
        credentials._due_at = 0.0

    assert await credentials.headers() is headers
    words = "were refused, and stay in use" if is_refused else "are still valid"
    assert (
        f"could not renew credentials (the current ones {words}): login: is sealed" in caplog.text
    )


async def test_a_token_file_is_read_once_for_many_refusals(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFileCredentials(path)
    authenticator = Authenticator(ClusterConfig(server="https://host", credentials=credentials))
    old = await authenticator.headers()
    path.write_text("new")
    authenticator.on_unauthorized(old)
    new = await authenticator.headers()
    path.write_text("newer")
    for _ in range(3):
        authenticator.on_unauthorized(old)

    assert new == {"Authorization": "Bearer new"}
    assert await authenticator.headers() is new


class Failing:
    """Credentials that fail until they are mended."""

    def __init__(self) -> None:
        self.attempts = 0
        self.fails = True

    async def headers(self) -> Mapping[str, str]:
        """Take a moment, and fail."""
        self.attempts += 1
        await elapse(0.1)
        if self.fails:
            raise ConfigurationError("the vault", "is sealed")
        return {"Authorization": "Bearer t"}

    def invalidate(self) -> None:
        """Do nothing."""


def of_kind(kind: str, failing: Failing, folder: Path) -> ClusterConfig:
    """Return a configuration whose credentials fail in each way."""

    async def log_in() -> Login:
        return Login(await failing.headers())

    class Client:
        """The configuration of another client, with a hook."""

        host = "https://127.0.0.1:1"
        ssl_ca_cert = cert_file = key_file = assert_hostname = tls_server_name = proxy = None
        verify_ssl, api_key, username, refresh_api_key_hook = True, None, None, None

        async def auth_settings(self) -> Any:
            """Fail in the way of a program's own code."""
            await failing.headers()
            return {}

    if kind == "hook":
        return config_from_client(Client())
    credentials = {"own": failing, "login": RenewingCredentials(log_in)}[kind]
    return ClusterConfig(server="https://127.0.0.1:1", credentials=credentials)  # type: ignore[arg-type] # both are


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", ["own", "login", "hook"])
async def test_informers_and_reads_share_a_failure_of_credentials(
    tmp_path: Path, kind: str
) -> None:
    """20 informers ran a plug-in 118 times in 10 s, each retry once."""
    failing = Failing()
    config = of_kind(kind, failing, tmp_path)
    async with (
        pyinformer.connect(config=config) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        for number in range(20):
            factory.informer("v1", "pods", namespaces=f"n{number}")
        await factory.start()
        for _ in range(20):
            with pytest.raises(ConfigurationError) as raised:
                await cluster.connection.request("GET", "/version")
            assert "is sealed" in str(raised.value) or "hook failed" in str(raised.value)
            await elapse(0.5)
        assert 2 <= failing.attempts <= 12
        before = failing.attempts
        await elapse(300)
        assert before + 5 <= failing.attempts <= before + 60

        failing.fails = False
        await elapse(30)
        with pytest.raises(TransportError):  # nothing listens there
            await cluster.connection.request("GET", "/version")


@pytest.mark.virtual_time
async def test_a_failure_is_forgotten_after_a_success() -> None:
    failing = Failing()
    config = ClusterConfig(server="https://host", credentials=failing)
    authenticator = Authenticator(config)
    for _ in range(6):
        with pytest.raises(ConfigurationError):
            await authenticator.headers()
        await elapse(30)
    failing.fails = False
    assert await authenticator.headers() == {"Authorization": "Bearer t"}
    failing.fails = True
    with pytest.raises(ConfigurationError):
        await authenticator.headers()
    await elapse(2)
    before = failing.attempts
    with pytest.raises(ConfigurationError):
        await authenticator.headers()
    assert failing.attempts == before + 1, "the first pause is a short one again"


@pytest.mark.virtual_time
async def test_a_cancelled_attempt_is_not_a_failure() -> None:
    failing = Failing()
    failing.fails = False
    authenticator = Authenticator(ClusterConfig(server="https://host", credentials=failing))
    waiting = asyncio.create_task(authenticator.headers())
    await elapse(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with anyio.move_on_after(0.05):
        await authenticator.headers()
    assert await authenticator.headers() == {"Authorization": "Bearer t"}
    assert failing.attempts == 3


async def test_a_certificate_file_that_does_not_answer_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The settings of before stay in use, and a later check finds the new file."""
    monkeypatch.setattr("pyinformer.client.transport.http._authenticator.FILE_SECONDS", 0.2)
    ca = tmp_path / "ca.crt"
    with APIServer(tls=True) as server:
        assert server.ca_file is not None
        text = server.ca_file.read_text()
    ca.write_text(text)
    authenticator = Authenticator(ClusterConfig(server="https://host", ca_file=str(ca)))
    await authenticator.headers()
    first = authenticator.ssl_context()
    ca.unlink()
    os.mkfifo(ca)

    for _ in range(2):
        authenticator.on_connection_failed()
        await authenticator.headers()

    assert authenticator.ssl_context() is first
    words = f"{ca}: cannot be read: no answer within 0.2 s; the last certificates stay in use"
    assert caplog.text.count(words) == 1
    with ca.open("w") as end:  # releases the thread that reads
        end.write(text)
    ca.unlink()
    ca.write_text(text)
    with anyio.fail_after(100):
        while authenticator.ssl_context() is first:
            authenticator.on_connection_failed()
            await authenticator.headers()


@pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client.key"])
@pytest.mark.parametrize("is_there", [True, False], ids=["empty", "gone"])
async def test_a_file_that_a_rotation_breaks_is_named_once_until_it_can_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, *, is_there: bool
) -> None:
    authenticator, write = _rotated(tmp_path)
    write()
    await authenticator.headers()
    first = authenticator.ssl_context()

    for times in (1, 2):
        (tmp_path / name).unlink()
        if is_there:
            (tmp_path / name).touch()
        for _ in range(3):
            authenticator.on_connection_failed()
            await authenticator.headers()
        assert authenticator.ssl_context() is first
        words = "; the last certificates stay in use"
        (*_, said) = logged = [line for line in caplog.messages if line.endswith(words)]
        assert len(logged) == times
        assert said.startswith("my config: ")
        assert str(tmp_path / name) in said
        write()
        authenticator.on_connection_failed()
        await authenticator.headers()
        first, before = authenticator.ssl_context(), first
        assert first is not before


async def test_a_certificate_without_its_key_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator, write = _rotated(tmp_path)
    write()
    await authenticator.headers()
    key = (tmp_path / "client.key").read_text()
    write()
    (tmp_path / "client.key").write_text(key)
    authenticator.on_connection_failed()
    await authenticator.headers()
    assert "client.key: key values mismatch; the last certificates stay in use" in caplog.text


def _rotated(folder: Path) -> tuple[Authenticator, Callable[[], None]]:
    """Return an authenticator of files in a folder, and what writes new ones."""
    config = ClusterConfig(
        server="https://host",
        ca_file=str(folder / "ca.pem"),
        client_certificate_file=str(folder / "client.pem"),
        client_key_file=str(folder / "client.key"),
        source="my config",
    )

    def write() -> None:
        """Write new certificates."""
        authority = trustme.CA()
        client = authority.issue_cert("client@example.com")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        client.cert_chain_pems[0].write_to_path(folder / "client.pem")
        client.private_key_pem.write_to_path(folder / "client.key")

    return Authenticator(config), write


async def test_a_certificate_file_that_never_answered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyinformer.client.transport.http._authenticator.FILE_SECONDS", 0.2)
    ca = tmp_path / "ca.crt"
    os.mkfifo(ca)
    authenticator = Authenticator(ClusterConfig(server="https://host", ca_file=str(ca)))

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"ca\.crt: .* no answer within 0\.2 s"):
            await authenticator.headers()
    ca.write_text("")  # releases the thread that reads


def test_plain_http_has_no_tls() -> None:
    assert Authenticator(ClusterConfig(server="http://host")).ssl_context() is None
