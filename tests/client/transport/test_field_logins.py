"""Logins and files that public reports describe; docs/reference/field-reports.md."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization

from pyinformer.client.transport import find_config
from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError
from tests.programs import running

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"
TOKEN = "t-0123456789abcdef0123456789"
JSON = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": TOKEN}})
YAML = f"apiVersion: {V1}\nkind: ExecCredential\nstatus:\n  token: {TOKEN}\n"


def kubeconfig(path: Path, **user: Any) -> str:
    """Write a kubeconfig of one user, and return its path."""
    cluster = {"server": "https://127.0.0.1:1"}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


def plugin(folder: Path, printed: str, **more: Any) -> str:
    """Write a kubeconfig whose plug-in prints a text, and return its path."""
    (folder / "printed").write_text(printed)
    spec = {"apiVersion": V1, "command": "cat", "interactiveMode": "Never", **more}
    return kubeconfig(folder / "config", exec={"args": [str(folder / "printed")], **spec})


async def logged_in(path: str) -> dict[str, str]:
    config = await find_config(path)
    return dict(await config.credentials.headers())


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(YAML, id="yaml"),
        pytest.param("\ufeff" + YAML, id="yaml-with-a-mark"),
        pytest.param("# a comment\n---\n" + YAML, id="yaml-with-a-comment"),
        pytest.param(f"apiVersion: {V1}\nstatus: {{token: {TOKEN}}}", id="no-kind"),
        pytest.param("\n " + json.dumps({"apiVersion": V1, "status": {"token": TOKEN}}), id="json"),
    ],
)
async def test_a_plugin_may_answer_as_client_go_reads(tmp_path: Path, printed: str) -> None:
    assert await logged_in(plugin(tmp_path, printed)) == {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        pytest.param(f"WARNING: old\n{JSON}", "not an ExecCredential", id="warning-first"),
        pytest.param(f"{JSON}\ndone", "not an ExecCredential", id="words-behind"),
        pytest.param(f"[{YAML}", "not an ExecCredential", id="malformed"),
        pytest.param(TOKEN, "not an ExecCredential", id="bare-token"),
        pytest.param(f"token: {TOKEN}: {TOKEN}", "not an ExecCredential", id="colons"),
        pytest.param(YAML.replace("/v1", "/__internal"), "__internal", id="internal-version"),
    ],
)
async def test_what_client_go_refuses_of_a_plugin_is_refused_and_not_quoted(
    tmp_path: Path, printed: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        await logged_in(plugin(tmp_path, printed))
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"args": "-n x"}, "args: must be a list of strings", id="args-as-a-text"),
        pytest.param({"args": ["-p", 8080]}, "put numbers in quotes", id="args-with-a-number"),
        pytest.param({"env": {"A": "b"}}, "env: must be a list", id="env-as-a-mapping"),
        pytest.param({"env": [{"name": "A", "value": 1}]}, "both strings", id="env-with-a-number"),
    ],
)
async def test_a_plugin_of_wrong_types_is_refused_before_it_runs(
    tmp_path: Path, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        await find_config(plugin(tmp_path, YAML, **spec))


def pair() -> tuple[str, str]:
    issued = trustme.CA().issue_cert("client")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return (
        base64.b64encode(chain).decode(),
        base64.b64encode(issued.private_key_pem.bytes()).decode(),
    )


async def test_a_certificate_in_a_kubeconfig_needs_no_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = pair()
    path = kubeconfig(
        tmp_path / "config", **{"client-certificate-data": certificate, "client-key-data": key}
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    config = await find_config(path)
    config.ssl_context()


async def test_a_plugin_needs_no_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugin(tmp_path, YAML)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert await logged_in(path) == {"Authorization": f"Bearer {TOKEN}"}


async def test_nothing_is_left_in_a_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = pair()
    path = kubeconfig(
        tmp_path / "config", **{"client-certificate-data": certificate, "client-key-data": key}
    )
    folder = tmp_path / "cleaned"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    config = await find_config(path)
    for _ in range(2):  # a later connection finds no file missing that a cleaner removed
        config.ssl_context()
        assert list(folder.iterdir()) == []


async def test_a_pod_without_the_variable_of_its_server_is_told_so(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    with pytest.raises(ConfigurationNotFoundError, match="KUBERNETES_SERVICE_HOST is not set"):
        await find_config(environ={}, home=tmp_path, service_account_folder=account)


async def test_a_pod_without_a_token_is_told_so(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    with pytest.raises(ConfigurationNotFoundError, match="account has no token"):
        await find_config(
            environ=environ, home=tmp_path, service_account_folder=tmp_path / "account"
        )


async def test_an_encrypted_key_is_refused_and_asks_for_nothing(tmp_path: Path) -> None:
    certificate, key = pair()
    loaded = serialization.load_pem_private_key(base64.b64decode(key), password=None)
    encrypted = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    data = base64.b64encode(encrypted).decode()
    user = {"client-certificate-data": certificate, "client-key-data": data}
    with pytest.raises(ConfigurationError, match="client-key-data"):
        await find_config(kubeconfig(tmp_path / "config", **user))


async def test_a_kubeconfig_is_utf_8_whatever_the_locale_says(tmp_path: Path) -> None:
    path = tmp_path / "config"
    kubeconfig(path, token="t")
    path.write_text("# Grüße, 東京\n" + path.read_text(), encoding="utf-8")
    program = (
        "import asyncio, sys; from pyinformer.client.transport import find_config;"
        "print(asyncio.run(find_config(sys.argv[1])).server)"
    )
    environ = {**os.environ, "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with running([sys.executable, "-c", program, str(path)], env=environ) as started:
        assert started.communicate(timeout=100)[0] == "https://127.0.0.1:1\n"


async def test_a_key_that_openssl_wrote_with_its_parameters_is_loaded(tmp_path: Path) -> None:
    """`openssl ecparam -genkey` puts a block of parameters before the key."""
    issued = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(
        "client", key_type=trustme.KeyType.ECDSA
    )
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    user = {
        "client-certificate-data": base64.b64encode(chain).decode(),
        "client-key-data": base64.b64encode(parameters + issued.private_key_pem.bytes()).decode(),
    }
    config = await find_config(kubeconfig(tmp_path / "config", **user))
    assert config.ssl_context() is not None


async def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    user = {"client-certificate-data": pair()[0], "client-key-data": pair()[1]}
    with pytest.raises(ConfigurationError, match="client-certificate-data, client-key-data"):
        await find_config(kubeconfig(tmp_path / "config", **user))


async def test_certificates_in_lines_that_are_tagged_binary_are_read(tmp_path: Path) -> None:
    def tagged(data: str) -> str:
        lines = base64.encodebytes(base64.encodebytes(base64.b64decode(data))).decode()
        return "!!binary |\n" + textwrap.indent(lines, "      ")

    certificate, key = pair()
    path = kubeconfig(
        tmp_path / "config", **{"client-certificate-data": "CERTIFICATE", "client-key-data": "KEY"}
    )
    text = yaml.safe_dump(json.loads((tmp_path / "config").read_text()))
    text = text.replace("CERTIFICATE", tagged(certificate)).replace("KEY", tagged(key))
    (tmp_path / "config").write_text(text)
    config = await find_config(path)
    config.ssl_context()


@pytest.mark.parametrize("server", ["https://127.0.0.1:1", "http://127.0.0.1:1"])
def test_a_key_log_that_cannot_be_written_is_named(tmp_path: Path, server: str) -> None:
    """Python opens it for each context with the authorities of the system, aiohttp on import."""
    script = (
        "import asyncio, pyinformer\n"
        "from pyinformer.client.cluster import connect\n"
        "async def main():\n"
        f"    async with connect(server={server!r}) as cluster:\n"
        "        await cluster.connection.request('GET', '/version')\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except pyinformer.InformerError as error:\n"
        "    print(error)\n"
    )
    keys = str(tmp_path / "nowhere" / "keys")
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "SSLKEYLOGFILE": keys},
    )
    assert f"SSLKEYLOGFILE: {keys}: No such file or directory; unset" in ended.stdout
