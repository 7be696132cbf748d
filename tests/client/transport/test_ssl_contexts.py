"""How many TLS contexts a connection makes: those with the system's authorities take 20 ms each."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp  # noqa: F401 - importing it makes contexts, once in a process
import pytest
import trustme
import yaml

from pyinformer.client.transport import Connection, find_config
from pyinformer.errors import TransportError

if TYPE_CHECKING:
    from pathlib import Path

_CA = trustme.CA()
_ISSUED = _CA.issue_cert("jane")
_PEM = _ISSUED.private_key_and_cert_chain_pem.bytes()


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """Write a kubeconfig with one cluster, where nothing listens, and one user."""
    path = folder / "config"
    server = {"server": "https://127.0.0.1:1", **cluster}
    content = {
        "clusters": [{"name": "one", "cluster": server}],
        "users": [{"name": "jane", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "jane"}}],
        "current-context": "one",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def data(content: bytes) -> str:
    """Return the text of a kubeconfig's data."""
    return base64.b64encode(content).decode()


class Contexts:
    """Counts the contexts that are made, and how many of them load the system's authorities."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.with_system_authorities = 0
        make, load = ssl.SSLContext.__new__, ssl.SSLContext.load_default_certs

        def counted(*arguments: Any, **named: Any) -> ssl.SSLContext:
            self.made += 1
            context: ssl.SSLContext = make(*arguments, **named)
            return context

        def loaded(context: ssl.SSLContext, *arguments: Any) -> None:
            self.with_system_authorities += 1
            load(context, *arguments)

        patch.setattr(ssl.SSLContext, "__new__", counted)
        patch.setattr(ssl.SSLContext, "load_default_certs", loaded)


_AUTHORITY = {"certificate-authority-data": data(_CA.cert_pem.bytes())}
_INSECURE = {"insecure-skip-tls-verify": True}
_CERTIFICATE = {"client-certificate-data": data(_PEM), "client-key-data": data(_PEM)}
_FILE = {"client-certificate": "jane.pem"}


@pytest.mark.covers("client-go rest: TestTransportForThreadSafe")
@pytest.mark.parametrize(
    ("entries", "checks", "with_system_authorities"),
    [
        pytest.param(({}, {"token": "t"}), 0, 1, id="system-token"),
        pytest.param(({}, _CERTIFICATE), 1, 1, id="system-certificate"),
        pytest.param(({}, _FILE), 1, 1, id="system-certificate-file"),
        pytest.param((_INSECURE, {"token": "t"}), 0, 0, id="insecure-token"),
        pytest.param((_INSECURE, _CERTIFICATE), 1, 0, id="insecure-certificate"),
        pytest.param((_AUTHORITY, {"token": "t"}), 1, 0, id="authority-token"),
        pytest.param((_AUTHORITY, _CERTIFICATE), 2, 0, id="authority-certificate"),
        pytest.param((_AUTHORITY, _FILE), 2, 0, id="authority-certificate-file"),
    ],
)
async def test_a_connection_makes_one_context_and_a_kubeconfig_only_checks_what_it_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entries: tuple[dict[str, Any], dict[str, Any]],
    checks: int,
    with_system_authorities: int,
) -> None:
    (tmp_path / "jane.pem").write_bytes(_PEM)
    path = kubeconfig(tmp_path, *entries)
    contexts = Contexts(monkeypatch)

    config = await find_config(path)
    assert (contexts.made, contexts.with_system_authorities) == (checks, 0)
    connection = Connection(config)
    for _ in range(2):
        with pytest.raises(TransportError):
            await connection.request("GET", "/version")
    await connection.aclose()

    assert contexts.made == checks + 1
    assert contexts.with_system_authorities == with_system_authorities


async def test_a_context_that_verifies_nothing_writes_the_keys_that_a_debugger_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    context = (await find_config(kubeconfig(tmp_path, _INSECURE, {}))).ssl_context()

    assert context is not None
    assert context.keylog_filename == str(tmp_path / "keys")
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
