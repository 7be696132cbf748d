"""No secret of a kubeconfig appears in an error, a log record or a repr, whatever goes wrong."""

from __future__ import annotations

import ast
import base64
import json
import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml

import pyinformer.client.transport.config
from pyinformer.client.transport import ClusterConfig, TokenFileCredentials, find_config
from pyinformer.client.transport.config import with_environment_proxy
from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError, InformerError
from tests.client.transport.serving import connected

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "Hidden-Value-4711"
V1 = "client.authentication.k8s.io/v1"
FOLDER = Path(pyinformer.client.transport.config.__file__).parent


def issued() -> dict[str, str]:
    """Return a user's client certificate as data."""
    one = trustme.CA().issue_cert("jane@example.org")
    chain = b"".join(part.bytes() for part in one.cert_chain_pems)
    return {
        "client-certificate-data": base64.b64encode(chain).decode(),
        "client-key-data": base64.b64encode(one.private_key_pem.bytes()).decode(),
    }


PAIR = issued()


def plugin(**more: Any) -> dict[str, Any]:
    """Return a plug-in that fails and repeats what it was given."""
    script = 'echo "refused: $PASS" >&2; exit 1'
    known = {"apiVersion": V1, "interactiveMode": "Never", "command": "sh"}
    return {"exec": {**known, "args": ["-c", script], **more}}


def oidc(**config: Any) -> dict[str, Any]:
    """Return an auth provider that cannot be reached."""
    known = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "c", "refresh-token": "r"}
    named = {key.replace("_", "-"): value for key, value in config.items()}
    return {"auth-provider": {"name": "oidc", "config": {**known, **named}}}


def printing(status: Any) -> dict[str, Any]:
    """Return a plug-in that prints a credential."""
    said = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
    return plugin(command="echo", args=[said])


def encoded(text: str) -> str:
    """Return a text in base64."""
    return base64.b64encode(text.encode()).decode()


# Where a kubeconfig may hold a secret: the user and the cluster with that value in its place.
PLACES: dict[str, Any] = {
    "token": lambda value: ({"token": value}, {}),
    "password": lambda value: ({"username": "jane", "password": value}, {}),
    "client-key-data": lambda value: ({**PAIR, "client-key-data": value}, {}),
    "client-certificate-data": lambda value: ({**PAIR, "client-certificate-data": value}, {}),
    "client-key": lambda _: ({"client-certificate": "config", "client-key": "secret"}, {}),
    "client-certificate": lambda _: ({"client-certificate": "secret"}, {}),
    "tokenFile": lambda _: ({"tokenFile": "secret"}, {}),
    "exec.env": lambda value: (plugin(env=[{"name": "PASS", "value": value}]), {}),
    "exec.env.name": lambda value: (plugin(env=[{"name": value, "value": 1}]), {}),
    "exec.args": lambda value: (plugin(args=["-c", "exit 1", value]), {}),
    "exec.command": lambda value: (plugin(command=f"login --token {value}"), {}),
    "exec.output": lambda value: (printing({"token": value, "clientKeyData": "x"}), {}),
    "exec.output.key": lambda value: (printing({"clientKeyData": value}), {}),
    "exec": lambda value: ({"exec": value}, {}),
    "oidc.id-token": lambda value: (oidc(id_token=value), {}),
    "oidc.refresh-token": lambda value: (oidc(refresh_token=value), {}),
    "oidc.client-secret": lambda value: (oidc(client_secret=value), {}),
    "oidc.issuer": lambda value: (oidc(client_secret=value, idp_issuer_url=""), {}),
    "oidc.issuer.login": lambda value: (oidc(idp_issuer_url=f"https://j:{value}@127.0.0.1"), {}),
    "oidc.client-id": lambda value: (oidc(client_id="", access_token=value), {}),
    "oidc.ca-data": lambda value: (oidc(idp_certificate_authority_data=value), {}),
    "auth-provider.name": lambda value: ({"auth-provider": {"name": value}}, {}),
    "auth-provider": lambda value: ({"auth-provider": value}, {}),
    "gcp.access-token": lambda value: (
        {"auth-provider": {"name": "gcp", "config": {"access-token": value}}},
        {},
    ),
    "proxy-url": lambda value: ({}, {"proxy-url": f"http://jane:{value}@127.0.0.1:1"}),
    "proxy-url.port": lambda value: ({}, {"proxy-url": f"http://jane:{value}@127.0.0.1:x"}),
    "proxy-url.scheme": lambda value: ({}, {"proxy-url": f"jane:{value}@127.0.0.1:1"}),
    "proxy-url.socks": lambda value: ({}, {"proxy-url": f"socks4://jane:{value}@127.0.0.1:1"}),
    "server": lambda value: ({}, {"server": f"https://jane:{value}@127.0.0.1:1"}),
    "user": lambda value: (value, {}),
}
FORMS: dict[str, Any] = {
    "plain": SECRET,
    "base64": encoded(SECRET),
    "list": [SECRET],
    "mapping": {"a": SECRET},
    "lines": f"{SECRET}\n{SECRET}",
    "letters": f"{SECRET}é",
    "pem": encoded(f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----\n"),
    "jwt": f"a.{encoded(SECRET)}.b",
    "zero": f"{SECRET}\0",
    "hash": f"{SECRET}#/?{SECRET}",
}


def kubeconfig(folder: Path, user: Any, cluster: dict[str, Any]) -> Path:
    """Write a kubeconfig, as JSON, which is YAML."""
    path = folder / "config"
    content = {
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "users": [{"name": "jane", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "one", "user": "jane"}}],
        "current-context": "prod",
    }
    path.write_text(json.dumps(content))
    return path


def shown_by(error: BaseException) -> Iterator[str]:
    """Yield everything that an error and its chain show."""
    yield from ("".join(traceback.format_exception(error)), repr(error), str(error))
    if error.__cause__ is not None:
        yield from shown_by(error.__cause__)


def check(shown: str) -> None:
    """Fail if a text has the secret, as it is or in base64 of any offset."""
    forms = {SECRET, encoded(SECRET), encoded(f"jane:{SECRET}"), encoded(f"x{SECRET}")[4:16]}
    assert not [form for form in forms if form in shown]


def check_prefix(reason: str) -> None:
    """Fail if an error names the entry twice."""
    assert reason.count("context 'prod'") <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
async def test_a_secret_is_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str, form: str
) -> None:
    path = kubeconfig(tmp_path, *PLACES[place](FORMS[form]))
    (tmp_path / "secret").write_text(str(FORMS[form]))  # of the places that name a file
    with caplog.at_level(logging.DEBUG):
        try:
            config = await find_config(path)
            check(repr(config) + repr(config.credentials))
            async with connected("", config=config) as connection:
                check(repr(connection))
                for _ in range(2):
                    config.credentials.invalidate()
                    with pytest.raises(InformerError) as raised:
                        await connection.request("GET", "/a")
                    check("".join(shown_by(raised.value)))
        except InformerError as error:
            check("".join(shown_by(error)))
            check_prefix(str(error))
    for record in caplog.records:
        check(record.getMessage() + repr(record.args))


@pytest.mark.parametrize(
    "text",
    [
        "users: SECRET",
        "users: [SECRET]",
        "users: [{name: [SECRET]}]",
        "users: [{name: jane, user: {token: 'SECRET}}]",
        "users: [{name: jane, user: {token: &a SECRET}}]\nmore: *b",
        "users: [{name: jane, user: {token: !SECRET x}}]",
        "users: [{name: jane, user: {token: !!timestamp SECRET}}]",
        "users: [{name: jane, user: {token: !!int SECRET}}]",
        "users: [{name: jane, user: {token: 2020-02-30}}, SECRET]",
        "? {SECRET: 1}\n: 1",
        "SECRET",
        "token: SECRET\n\tb: 1",
        "'SECRET",
        "a: SECRET\0",
    ],
)
async def test_a_file_that_is_not_a_kubeconfig_is_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text.replace("SECRET", SECRET))
    with pytest.raises(InformerError) as raised:
        await find_config(path)
    check("".join(shown_by(raised.value)))


PEM = f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----\n"
WHOLE = {
    "users": [{"name": "jane", "user": {"token": SECRET}}],
    "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1"}}],
}
CONTENTS = {
    "yaml": yaml.safe_dump(WHOLE),
    "json": json.dumps(WHOLE),
    "base64": encoded(f"{json.dumps(WHOLE)}{'?' * 1000}"),  # has a slash now and then
    "large": f"{yaml.safe_dump(WHOLE)}{'#' * 9000}",
    "pem": PEM,
    "lines-in-one": PEM.replace("\n", "\\n"),
    "null": f"a\0{SECRET}",
}


def check_all(error: BaseException) -> None:
    """Fail if anything that an error shows has the secret, or a part of a long text."""
    shown = "".join(shown_by(error))
    check(shown)
    assert encoded(json.dumps(WHOLE))[:40] not in shown


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("policy", ["trusted", "data-only"])
async def test_the_text_of_a_kubeconfig_in_place_of_its_path_is_not_shown(
    content: str, policy: Any
) -> None:
    for way in ({"kubeconfig": CONTENTS[content]}, {"environ": {"KUBECONFIG": CONTENTS[content]}}):
        given = {"policy": policy} if "kubeconfig" in way else {}
        with pytest.raises(ConfigurationNotFoundError, match="must be the path of") as raised:
            await find_config(**way, **given)
        check_all(raised.value)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("field", ["ca_file", "client_certificate_file", "client_key_file"])
def test_the_content_of_a_certificate_file_in_place_of_its_path_is_not_shown(
    content: str, field: str
) -> None:
    files = {"client_certificate_file": "nowhere"} if field == "client_key_file" else {}
    config = ClusterConfig(server="https://host", **files, **{field: CONTENTS[content]})  # type: ignore[arg-type]  # names of text fields
    with pytest.raises(ConfigurationError, match="may be the content of a file") as raised:
        config.ssl_context()
    check_all(raised.value)


TOKENS = {
    "hexadecimal": "0123456789abcdef" * 2,
    "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "openshift": "sha256~0vUxG9PVgLZJEkGWy5Ch3KYBlJtP0xi1e8uGqQ-0pXw",
    "jwt": ".".join(encoded(part * 20).strip("=") for part in ("abc", "def", "ghi")),
}


@pytest.mark.parametrize("token", [*TOKENS, *CONTENTS])
async def test_a_token_in_place_of_the_path_of_its_file_is_not_shown(
    tmp_path: Path, token: str
) -> None:
    text = {**TOKENS, **CONTENTS}[token]
    credentials = TokenFileCredentials(text)
    with pytest.raises(ConfigurationError, match="may be the content of a file") as raised:
        await credentials.headers()
    path = kubeconfig(tmp_path, {"tokenFile": text}, {})
    with pytest.raises(ConfigurationError, match="is it the content of the file") as other:
        await find_config(path)
    for error in (raised.value, other.value):
        check_all(error)
        assert text not in "".join(shown_by(error))
    assert text not in repr(credentials)


async def test_a_path_that_does_not_exist_is_shown(tmp_path: Path) -> None:
    """Unless it looks like the content of a file; one that exists is shown in any case."""
    for path in ("/home/jane/.kube/config", f"{tmp_path}/my-cluster-of-a-customer.yaml"):
        with pytest.raises(ConfigurationNotFoundError, match=rf"^{path}: no such kubeconfig"):
            await find_config(path)
    long = tmp_path / ("a" * 200)
    long.touch()
    with pytest.raises(ConfigurationError, match=str(long)):
        await find_config(long)
    with pytest.raises(ConfigurationError, match=rf"{long}: is empty"):
        await TokenFileCredentials(long).headers()
    with pytest.raises(ConfigurationError, match=str(long)):
        ClusterConfig(server="https://host", ca_file=str(long)).ssl_context()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://host/?token={SECRET}", "'https://host/...'"),
        (f"https://host#{SECRET}", "'https://host...'"),
        (f"https://host/?user=jane@b&token={SECRET}", "'...'"),
        (f"https://jane:{SECRET}?a@host", "'...'"),
        (f"kind: Config\ntoken: {SECRET}", "'kind: Config...'"),
        (json.dumps(WHOLE), "'...'"),
    ],
)
def test_the_query_and_the_login_of_a_url_are_not_shown(url: str, shown: str) -> None:
    for server, proxy in ((url, None), ("https://host", url)):
        with pytest.raises(ConfigurationError) as raised:
            ClusterConfig(server=server, proxy_url=proxy)
        check_all(raised.value)
        assert shown in str(raised.value)
    proxies = {"HTTPS_PROXY": url.replace("https://", "ftp://")}
    with pytest.raises(ConfigurationError, match="HTTPS_PROXY names") as other:
        with_environment_proxy(ClusterConfig(server="https://host"), proxies)
    check_all(other.value)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_no_error_has_the_text_of_a_foreign_exception(path: Path) -> None:
    """Such a text may quote what the library was given: `raise ... from None`, with `reason_of`."""
    found: list[str] = []
    for handler in ast.walk(ast.parse(path.read_text())):
        if not isinstance(handler, ast.ExceptHandler):
            continue
        caught = "" if handler.type is None else ast.unparse(handler.type)
        is_ours = caught in {"ConfigurationError", "InformerError"}
        for node in ast.walk(handler):
            if isinstance(node, ast.Raise) and node.exc is not None:
                cause = ast.unparse(node.cause) if node.cause else ""
                if cause != "None":
                    found.append(f"{path.name}:{node.lineno}: raises with a cause")
            if is_ours or not handler.name:
                continue
            texts: list[ast.expr] = []
            if isinstance(node, ast.FormattedValue):
                texts = [node.value]
            elif isinstance(node, ast.Call) and _names(node.func) in {"str", "repr", "format"}:
                texts = node.args
            if handler.name in map(_names, texts):
                found.append(f"{path.name}:{handler.lineno}: shows the text of {caught}")
    assert found == []


def _names(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
