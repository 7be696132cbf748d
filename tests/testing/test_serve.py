"""`pyinformer serve` with the embedded server; `test_kube_apiserver.py` has the real one."""

from __future__ import annotations

import io
import signal
import ssl
from pathlib import Path

import pytest

from pyinformer.cli._serve import ServedServer, serve
from pyinformer.testing import APIServer
from tests.testing.wire import Wire


class _Terminal(io.StringIO):
    """A terminal that sends a signal when the output says how to stop, and keeps the kubeconfig."""

    def __init__(self, sent: signal.Signals) -> None:
        super().__init__()
        self.sent = sent
        self.kubeconfig = Path()
        self.content = ""

    def write(self, text: str) -> int:
        """Take some text."""
        written = super().write(text)
        if "the kubeconfig is " in text:
            self.kubeconfig = Path(text.rpartition(" ")[2])
            self.content = self.kubeconfig.read_text()
        if "Ctrl-C stops it" in text:
            signal.raise_signal(self.sent)
        return written


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("named", [True, False])
def test_serve_runs_until_a_signal_and_removes_its_kubeconfig(
    tmp_path: Path, sent: signal.Signals, named: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    path = tmp_path / "kubeconfig" if named else None
    terminal = _Terminal(sent)

    status = serve(ServedServer(), kubeconfig_path=path, output=terminal)

    assert status == 0
    assert "server: http://127.0.0.1:" in terminal.content
    assert f"export KUBECONFIG={terminal.kubeconfig}\n" in terminal.getvalue()
    assert terminal.getvalue().endswith("stopped\n")
    assert path in (None, terminal.kubeconfig)
    assert not terminal.kubeconfig.exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_existing_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("mine")
    output = io.StringIO()

    status = serve(ServedServer(), kubeconfig_path=path, output=output)

    assert status == 1
    assert f"{path} exists and is not overwritten" in output.getvalue()
    assert path.read_text() == "mine"


def test_a_missing_real_server_is_reported_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    output = io.StringIO()

    status = serve(ServedServer(real=True), kubeconfig_path=None, output=output)

    assert status == 1
    assert "pyinformer serve --real --build" in output.getvalue()


@pytest.mark.covers("controller-runtime pkg/envtest: should set a working KubeConfig")
@pytest.mark.parametrize("rbac", [True, False])
def test_serve_offers_tls_with_a_ca_that_its_kubeconfig_trusts(rbac: bool) -> None:
    terminal = _Terminal(signal.SIGINT)

    status = serve(ServedServer(tls=not rbac, rbac=rbac), kubeconfig_path=None, output=terminal)

    assert status == 0
    assert "server: https://127.0.0.1:" in terminal.content
    assert "certificate-authority-data: " in terminal.content
    assert "token: " in terminal.content  # without one kubectl asks for a user name over TLS


@pytest.mark.covers("controller-runtime pkg/envtest: should set a working KubeConfig")
def test_serve_with_roles_knows_the_user_of_its_kubeconfig() -> None:
    server = ServedServer(rbac=True).create(print)
    with server:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        with Wire(server.url, token=server.token, context=context) as administrator:
            assert administrator.get("/api/v1/secrets").status == 200
        with Wire(server.url, token="another", context=context) as stranger:
            assert stranger.get("/api/v1/secrets").status == 401


def test_two_servers_give_no_object_the_same_identity() -> None:
    """A program that follows both by one address would take the second for the first."""
    uids = []
    for _ in range(2):
        with ServedServer().create(print) as server:
            assert isinstance(server, APIServer)
            made = server.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
            )
            uids.append(made["metadata"]["uid"])
    assert uids[0] != uids[1]
