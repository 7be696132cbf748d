"""`auth-provider: oidc`: tokens are renewed over verified TLS, and written back where they were."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import time
import traceback
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import anyio
import pytest
import trustme
import yaml

from pyinformer.client.transport import find_config
from pyinformer.errors import ConfigurationError
from tests.client.transport.serving import response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.client.transport.serving import Request, Server

CA = trustme.CA()
PAST, FUTURE = 1_600_000_000, 4_102_444_800
SECRETS = ("refresh-1-value", "refresh-2-value", "client-secret-value")


def token(name: str, *, exp: float | None = FUTURE) -> str:
    """Return an id token, without a valid signature."""
    claims: dict[str, Any] = {"sub": name} if exp is None else {"sub": name, "exp": exp}
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()) for one in ({"alg": "no"}, claims)]
    return ".".join([*(text.decode().rstrip("=") for text in texts), "sig"])


EXPIRED = token("old", exp=PAST)


@dataclass
class Provider:
    """An OpenID Connect provider that issues a new refresh token at each renewal."""

    server: Server
    metadata: dict[str, Any] = field(default_factory=dict)
    answers: list[tuple[int, Any]] = field(default_factory=list)
    """What it answers instead of tokens, in this order."""
    held: asyncio.Event | None = None
    """While this is not set, token requests are not answered."""
    renewals: int = 1
    redirect: str = ""

    @property
    def posts(self) -> list[Request]:
        """The token requests."""
        return [one for one in self.server.requests if one.method == "POST"]

    def forms(self) -> list[dict[str, str]]:
        """Return what the token requests had in their bodies."""
        return [
            {key: values[0] for key, values in parse_qs(one.body.decode()).items()}
            for one in self.posts
        ]

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer a request."""
        if request.method == "GET":
            known = {"issuer": self.server.url, "token_endpoint": f"{self.server.url}/token"}
            is_known = request.target == "/.well-known/openid-configuration"
            if self.redirect:
                writer.write(response(status=302, headers={"Location": self.redirect}))
            else:
                body = json.dumps({**known, **self.metadata}).encode()
                writer.write(response(body, status=200 if is_known else 404))
            return
        if self.held is not None:
            await self.held.wait()
        status, body = self.answers.pop(0) if self.answers else (200, self.renewed())
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        writer.write(response(raw, status=status))

    def renewed(self) -> Any:
        """Return the next tokens."""
        self.renewals += 1
        number = self.renewals
        known = {"access_token": "unused", "token_type": "Bearer", "expires_in": 300}
        new = {"id_token": token(f"new{number}"), "refresh_token": f"refresh-{number}-value"}
        return {**known, **new}


@asynccontextmanager
async def providing(authority: trustme.CA = CA, **known: Any) -> AsyncIterator[Provider]:
    """Run a provider with TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    made: list[Provider] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        await made[0].answer(request, writer)

    async with serving(answer, tls=tls) as server:
        made.append(Provider(server, **known))
        yield made[0]


def write(path: Path, issuer: str, **config: str | None) -> Path:
    """Write a kubeconfig with comments, whose user logs in at a provider."""
    CA.cert_pem.write_to_path(path.parent / "idp.pem")
    known: dict[str, str | None] = {
        "idp_issuer_url": issuer,
        "idp_certificate_authority": "idp.pem",
        "client_id": "kubernetes",
        "client_secret": SECRETS[2],
        "id_token": EXPIRED,
        "refresh_token": SECRETS[0],
    }
    lines = [
        f"          {key.replace('_', '-')}: {value}  # {key}"
        for key, value in {**known, **config}.items()
        if value is not None
    ]
    path.write_text(
        "\n".join(
            [
                "# écrit à la main",
                "apiVersion: v1",
                "clusters: [{name: one, cluster: {server: 'https://one.example'}}]",
                "contexts: [{name: prod, context: {cluster: one, user: jane}}]",
                "current-context: prod",
                "users:",
                "  - name: other",
                "    user: {token: other}",
                "  - name: jane",
                "    user:",
                "      auth-provider:",
                "        name: oidc",
                "        config:",
                *lines,
                "# the end",
                "",
            ]
        )
    )
    path.chmod(0o600)
    return path


def written(path: Path) -> dict[str, str]:
    """Return the configuration of the provider that a kubeconfig holds."""
    users = {one["name"]: one["user"] for one in yaml.safe_load(path.read_text())["users"]}
    found: dict[str, str] = users["jane"]["auth-provider"]["config"]
    return found


def listed(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(one.name for one in folder.iterdir())


def bearer(id_token: str) -> dict[str, str]:
    """Return the header with a token."""
    return {"Authorization": f"Bearer {id_token}"}


def shown_by(error: BaseException) -> str:
    """Return everything that an error shows."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__cause__)


async def refused(path: Path) -> str:
    """Read a kubeconfig that is refused; return the error, which must show no secret."""
    with pytest.raises(ConfigurationError) as raised:
        await find_config(path)
    shown = shown_by(raised.value)
    for secret in (*SECRETS, EXPIRED):
        assert secret not in shown
    assert str(raised.value).startswith(f"{path}: context 'prod': users 'jane': auth-provider")
    return str(raised.value)


@pytest.mark.covers(
    "client-go rest: TestAuthPluginWrapTransport", "client-go rest: TestAuthPluginPersist"
)
async def test_an_expired_token_is_renewed_and_only_its_values_change_in_the_file(
    tmp_path: Path,
) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        before = path.read_text()
        config = await find_config(path)

        assert await config.credentials.headers() == bearer(token("new2"))
        assert provider.forms() == [
            {"grant_type": "refresh_token", "refresh_token": SECRETS[0]},
        ]
        basic = base64.b64encode(f"kubernetes:{SECRETS[2]}".encode()).decode()
        assert provider.posts[0].headers["authorization"] == f"Basic {basic}"
    expected = before.replace(EXPIRED, json.dumps(token("new2")))
    assert path.read_text() == expected.replace(SECRETS[0], json.dumps(SECRETS[1]))
    assert path.stat().st_mode & 0o777 == 0o600
    assert listed(tmp_path) == ["config", "idp.pem"]


async def test_a_rotated_refresh_token_is_used_next_time_by_the_same_and_by_another_login(
    tmp_path: Path,
) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        config = await find_config(path)
        await config.credentials.headers()
        config.credentials.invalidate()

        assert await config.credentials.headers() == bearer(token("new3"))
        assert await (await find_config(path)).credentials.headers() == bearer(token("new3"))
        sent = [form["refresh_token"] for form in provider.forms()]
        assert sent == ["refresh-1-value", "refresh-2-value"]
    assert written(path)["refresh-token"] == "refresh-3-value"


async def test_a_provider_whose_certificate_is_not_trusted_receives_nothing(
    tmp_path: Path,
) -> None:
    for trust in ({"idp_certificate_authority": None}, {}):
        async with providing(trustme.CA()) as provider:
            path = write(tmp_path / "config", provider.server.url, **trust)
            assert "cannot verify the certificate of 127.0.0.1:" in await refused(path)
            assert provider.server.requests == []


@pytest.mark.parametrize("kind", ["root", "intermediate", "one-bad-block"])
async def test_authorities_of_a_provider_may_be_data(tmp_path: Path, kind: str) -> None:
    authority = CA.create_child_ca() if kind == "intermediate" else CA
    pem = authority.cert_pem.bytes()
    if kind == "one-bad-block":
        pem = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" + pem
    async with providing(authority) as provider:
        data = base64.b64encode(pem).decode()
        trust = {"idp_certificate_authority": None, "idp_certificate_authority_data": data}
        config = await find_config(write(tmp_path / "config", provider.server.url, **trust))
        assert await config.credentials.headers() == bearer(token("new2"))


async def test_a_public_client_has_no_secret(tmp_path: Path) -> None:
    async with providing() as provider:
        await find_config(write(tmp_path / "config", provider.server.url, client_secret=None))
        assert [dict(form)["client_id"] for form in provider.forms()] == ["kubernetes"]
        assert "authorization" not in provider.posts[0].headers
        assert "client_secret" not in provider.forms()[0]


async def test_a_provider_that_wants_the_secret_in_the_body_gets_it_there(tmp_path: Path) -> None:
    async with providing(answers=[(401, {"error": "invalid_client"})]) as provider:
        config = await find_config(write(tmp_path / "config", provider.server.url))
        assert await config.credentials.headers() == bearer(token("new2"))
        assert len(provider.posts) == 2
        assert provider.forms()[1]["client_secret"] == SECRETS[2]
        assert "authorization" not in provider.posts[1].headers
    only = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with providing(metadata=only) as provider:
        await find_config(write(tmp_path / "other", provider.server.url))
        assert [form["client_secret"] for form in provider.forms()] == [SECRETS[2]]


@pytest.mark.parametrize("exp", [FUTURE, FUTURE + 0.5, None])
async def test_a_valid_token_is_used_without_a_request(tmp_path: Path, exp: float | None) -> None:
    valid = token("??>>~~ÿÿ", exp=exp)  # whose payload has both letters that base64 lacks
    assert {"-", "_"} & {*token("\x7f?>\x7f??>>~~")}
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url, id_token=valid, refresh_token=None)
        config = await find_config(path)
        assert await config.credentials.headers() == bearer(valid)
        assert provider.server.requests == []


async def test_a_token_that_ends_in_a_moment_is_renewed(tmp_path: Path) -> None:
    soon = token("soon", exp=time.time() + 5)
    async with providing() as provider:
        config = await find_config(write(tmp_path / "config", provider.server.url, id_token=soon))
        assert await config.credentials.headers() == bearer(token("new2"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({"client_id": None}, "oidc: client-id: is missing", id="client"),
        pytest.param({"idp_issuer_url": None}, "oidc: idp-issuer-url: is missing", id="issuer"),
        pytest.param({"refresh_token": None}, "there is no refresh-token: log in again", id="none"),
        pytest.param({"idp_certificate_authority": "nowhere.pem"}, "no such file", id="authority"),
        pytest.param(
            {"idp_certificate_authority_data": "'?'"}, "-data: must be base64", id="authority-data"
        ),
        pytest.param({"client_secret": "[1]"}, "client-secret: must be a string", id="list"),
        pytest.param(
            {"idp_issuer_url": "http://issuer.example"},
            "idp-issuer-url must be https: a refresh token is not sent to issuer.example",
            id="plain",
        ),
        pytest.param({"idp_issuer_url": "ftp://x"}, "must be an https URL", id="no-url"),
        pytest.param(
            {"idp_issuer_url": f"https://{'a' * 300}"}, "must be an https URL", id="long-host"
        ),
        pytest.param({"idp_issuer_url": "https://[x"}, "must be an https URL", id="no-host"),
        pytest.param(
            {"idp_issuer_url": "https://127.0.0.1:1"}, "cannot connect to 127.0.0.1:1", id="gone"
        ),
    ],
)
async def test_what_is_missing_or_wrong_is_named_and_no_secret_shown(
    tmp_path: Path, config: dict[str, str | None], words: str
) -> None:
    path = write(tmp_path / "config", "https://127.0.0.1:1", **config)
    assert words in await refused(path)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        pytest.param({"metadata": {"token_endpoint": None}}, "has no token_endpoint", id="none"),
        pytest.param(
            {"metadata": {"token_endpoint": "http://token.example/"}}, "must be https", id="plain"
        ),
        pytest.param({"redirect": "http://127.0.0.2:1/"}, "cannot connect", id="redirected"),
        pytest.param({"redirect": "/elsewhere"}, "failed (TooManyRedirects)", id="circle"),
        pytest.param(
            {"answers": [(400, {"error": "invalid_grant", "error_description": SECRETS[0]})]},
            "refused the refresh-token (invalid_grant)",
            id="spent",
        ),
        pytest.param({"answers": [(400, {"error": SECRETS[2]})] * 2}, "(status 400)", id="echo"),
        pytest.param(
            {"answers": [(403, b"<html>" + SECRETS[0].encode())] * 2}, "(status 403)", id="page"
        ),
        pytest.param({"answers": [(503, {})]}, "(status 503)", id="down"),
        pytest.param({"answers": [(200, SECRETS[0].encode())]}, "tokens in JSON", id="no-json"),
        pytest.param({"answers": [(200, {"id_token": [SECRETS[0]]})]}, "in JSON", id="list"),
        pytest.param({"answers": [(200, {"access_token": "x"})]}, "no id_token", id="no-token"),
        pytest.param({"answers": [(200, {"error": "invalid_grant"})]}, "invalid_grant", id="200"),
        pytest.param({"answers": [(307, {})]}, "answered with a redirect", id="redirect"),
        pytest.param({"answers": [(200, {"id_token": "a\nb"})]}, "special characters", id="line"),
        pytest.param({"answers": [(200, b"x" * (2 << 20))]}, "more than 1048576 bytes", id="long"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_named_and_not_quoted(
    tmp_path: Path, known: dict[str, Any], words: str
) -> None:
    posts = len(known.get("answers", ()))
    async with providing(**known) as provider:
        path = write(tmp_path / "config", provider.server.url)
        before = path.read_bytes()
        assert words in await refused(path)
        assert path.read_bytes() == before
        assert len(provider.posts) == posts


@pytest.mark.covers("client-go rest: TestAuthPluginWrapTransport")
@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("gcp", "gcp is not supported; only oidc is, use the exec plug-in gke-gcloud-auth-plugin"),
        ("azure", "azure is not supported; only oidc is, use the exec plug-in kubelogin instead"),
        ("do-not-show-me", "name: is not supported; only oidc is, use an exec plug-in instead"),
        ("", "name: is not supported"),
    ],
)
async def test_another_provider_is_refused_with_what_to_use_instead(
    tmp_path: Path, provider: str, words: str
) -> None:
    path = write(tmp_path / "config", "https://i")
    path.write_text(path.read_text().replace("name: oidc", f"name: '{provider}'"))
    error = await refused(path)
    assert words in error
    assert "do-not-show-me" not in error


async def test_a_link_to_the_kubeconfig_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    async with providing() as provider:
        target = write(tmp_path / "real" / "config", provider.server.url)
        CA.cert_pem.write_to_path(tmp_path / "idp.pem")
        (link := tmp_path / "config").symlink_to(target)
        await find_config(link)
    assert link.is_symlink()
    assert written(target)["refresh-token"] == "refresh-2-value"


def with_alias(text: str) -> str:
    """Let a second user share the provider's configuration: changing one would change both."""
    return text.replace("config:\n", "config: &shared\n") + (
        "  - {name: too, user: {auth-provider: {name: oidc, config: *shared}}}\n"
    )


@pytest.mark.parametrize("obstacle", ["lock", "alias", "folder"])
async def test_tokens_that_cannot_be_written_are_kept_in_memory_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        if obstacle == "lock":
            (tmp_path / "config.lock").touch()
        elif obstacle == "alias":
            path.write_text(with_alias(path.read_text()))
        else:
            (tmp_path / "config.lock").mkdir()
        before = path.read_bytes()
        with caplog.at_level(logging.WARNING, "pyinformer"):
            first = await find_config(path)
            first.credentials.invalidate()
            assert await first.credentials.headers() == bearer(token("new3"))
            del first
            second = await find_config(path)  # the file has a spent token
            assert await second.credentials.headers() == bearer(token("new3"))
        sent = [form["refresh_token"] for form in provider.forms()]
        assert sent == ["refresh-1-value", "refresh-2-value"]
    assert path.read_bytes() == before
    (warning,) = (one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING)
    assert "could not write renewed tokens into" in warning
    assert (f"another program holds {path}.lock" in warning) is (obstacle != "alias")
    assert not [secret for secret in SECRETS if secret in caplog.text]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), id="windows"),
        pytest.param(lambda text: text.encode("utf-16"), id="powershell"),
        pytest.param(lambda text: text.encode("utf-8-sig"), id="mark"),
        pytest.param(lambda text: f"{text}---\nmore: [1\n".encode(), id="documents"),
        pytest.param(
            lambda text: text.replace(f"id-token: {EXPIRED}", "id-token:").encode(), id="empty"
        ),
        pytest.param(
            lambda text: text.replace(f"          id-token: {EXPIRED}  # id_token\n", "").encode(),
            id="absent",
        ),
        pytest.param(lambda text: json.dumps(yaml.safe_load(text)).encode(), id="json"),
        *(
            pytest.param(
                lambda text, style=style, more=more: text.replace(
                    f"id-token: {EXPIRED}  # id_token",
                    f"id-token: {style}\n{' ' * 12}{EXPIRED}{more}",
                ).encode(),
                id=f"{style}{len(more)}",
            )
            for style in (">-", "|", ">+ # long", "|2-")
            for more in ("", "\n\n", "\n   # less indented", "\r\n")
        ),
    ],
)
async def test_tokens_are_written_into_files_of_any_form(tmp_path: Path, change: Any) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        before = yaml.safe_load(path.read_text())
        path.write_bytes(change(path.read_text()))
        config = await find_config(path)
        await config.credentials.headers()
        config = await find_config(path)
        assert await config.credentials.headers() == bearer(token("new2"))
        assert len(provider.posts) == 1
    raw = path.read_bytes()
    text = raw.decode("utf-16" if raw[:2] == b"\xff\xfe" else "utf-8-sig")
    after = next(yaml.safe_load_all(text))
    values = after["users"][1]["user"]["auth-provider"]["config"]
    assert values.pop("id-token") == token("new2")
    assert values.pop("refresh-token") == "refresh-2-value"
    for key in ("id-token", "refresh-token"):
        del before["users"][1]["user"]["auth-provider"]["config"][key]
    assert after == before


@pytest.mark.parametrize("cancel", ["scope", "task"])
async def test_a_renewal_whose_caller_is_cancelled_loses_no_token(
    tmp_path: Path, cancel: str
) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url, id_token=token("valid"))
        config = await find_config(path)
        config.credentials.invalidate()
        provider.held = asyncio.Event()
        if cancel == "task":
            waiting = asyncio.create_task(config.credentials.headers())
            await provider.server.wait_until(lambda: bool(provider.posts))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(config.credentials.headers)
                await provider.server.wait_until(lambda: bool(provider.posts))
                group.cancel_scope.cancel()
        provider.held.set()

        assert await config.credentials.headers() == bearer(token("new2"))
        assert len(provider.posts) == 1
        assert written(path)["refresh-token"] == "refresh-2-value"


async def test_a_loop_that_ends_during_a_renewal_loses_no_token(tmp_path: Path) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        provider.held = asyncio.Event()

        def program() -> None:
            async def main() -> None:
                async with asyncio.timeout(0.2):
                    await find_config(path)

            with pytest.raises(TimeoutError):
                asyncio.run(main())

        await asyncio.to_thread(program)
        if not provider.posts:
            await provider.server.wait_until(lambda: bool(provider.posts))
        provider.held.set()
        await until(lambda: written(path)["refresh-token"] == "refresh-2-value")


async def test_logins_of_one_entry_share_a_renewal(tmp_path: Path) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url)
        configs = await asyncio.gather(*(find_config(path) for _ in range(5)))
        for config in configs:
            assert await config.credentials.headers() == bearer(token("new2"))
        assert len(provider.posts) == 1


async def test_tokens_that_another_program_wrote_are_used_without_a_renewal(
    tmp_path: Path,
) -> None:
    async with providing(answers=[(400, {"error": "invalid_grant"})]) as provider:
        path = write(tmp_path / "config", provider.server.url, id_token=token("first"))
        config = await find_config(path)
        write(path, provider.server.url, id_token=token("second"))
        config.credentials.invalidate()
        assert await config.credentials.headers() == bearer(token("second"))
        assert provider.posts == []

        provider.held = asyncio.Event()
        config.credentials.invalidate()
        waiting = asyncio.create_task(config.credentials.headers())
        await provider.server.wait_until(lambda: bool(provider.posts))
        write(path, provider.server.url, id_token=token("third"))
        provider.held.set()
        assert await waiting == bearer(token("third"))


async def test_a_user_of_another_name_is_followed_and_its_own_tokens_are_written(
    tmp_path: Path,
) -> None:
    async with providing() as provider:
        path = write(tmp_path / "config", provider.server.url, id_token=token("first"))
        config = await find_config(path)
        write(path, provider.server.url)
        renamed = path.read_text().replace("user: jane", "user: jane-prod")
        renamed = renamed.replace("name: jane", "name: jane-prod")
        path.write_text(renamed.replace("name: other", "name: jane"))
        config.credentials.invalidate()

        assert await config.credentials.headers() == bearer(token("new2"))
    users = {one["name"]: one["user"] for one in yaml.safe_load(path.read_text())["users"]}
    assert users["jane"] == {"token": "other"}
    assert users["jane-prod"]["auth-provider"]["config"]["refresh-token"] == SECRETS[1]


@pytest.mark.parametrize("trust_env", [True, False])
async def test_a_proxy_of_the_environment_leads_to_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust_env: bool
) -> None:
    async def refuse(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status=403))

    async with serving(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        path = write(tmp_path / "config", "https://provider.invalid:8443")
        with pytest.raises(ConfigurationError) as raised:
            await find_config(path, trust_env=trust_env)
    asked = [(one.method, one.target) for one in proxy.requests]
    assert asked == ([("CONNECT", "provider.invalid:8443")] if trust_env else [])
    words = "the proxy for provider.invalid:8443 answered with status 403"
    assert (words in str(raised.value)) is trust_env
