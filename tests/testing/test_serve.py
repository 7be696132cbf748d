"""`pyinformer serve` with the embedded server; `test_kube_apiserver.py` has the real one."""

from __future__ import annotations

import base64
import io
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from pyinformer.cli import main
from tests.testing.test_definition_files import definition
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal(io.StringIO):
    """A terminal whose user looks at the server when the output says how to stop it, and does."""

    def __init__(self, sent: signal.Signals, look: Callable[[Terminal], object]) -> None:
        super().__init__()
        self.sent = sent
        self.look = look
        self.kubeconfig = Path()
        self.content = ""

    def write(self, text: str) -> int:
        """Take some text."""
        written = super().write(text)
        if "the kubeconfig is " in text:
            self.kubeconfig = Path(text.rpartition(" ")[2])
            self.content = self.kubeconfig.read_text()
        if "Ctrl-C stops it" in text:
            self.look(self)
            signal.raise_signal(self.sent)
        return written

    def wire(self, *, token: str | None = None) -> Wire:
        """Connect as the user of the kubeconfig, or with another token."""
        config = yaml.safe_load(self.content)
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"] or {}
        context = None
        if "certificate-authority-data" in cluster:
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            context = ssl.create_default_context(cadata=authority)
        return Wire(cluster["server"], token=token or user.get("token"), context=context)


def serve(
    *arguments: str,
    sent: signal.Signals = signal.SIGINT,
    look: Callable[[Terminal], object] = lambda terminal: None,
) -> tuple[int, Terminal]:
    """Run `pyinformer serve` in this process until its user ends it."""
    terminal = Terminal(sent, look)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr(sys, "argv", ["pyinformer", "serve", *arguments])
        patched.setattr(sys, "stdout", terminal)
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, terminal


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("named", [True, False])
def test_serve_runs_until_a_signal_and_removes_its_kubeconfig(
    tmp_path: Path, sent: signal.Signals, named: bool
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    path = tmp_path / "kubeconfig"

    status, terminal = serve(*(("--kubeconfig", str(path)) if named else ()), sent=sent)

    assert status == 0
    assert "server: http://127.0.0.1:" in terminal.content
    assert f"export KUBECONFIG={terminal.kubeconfig}\n" in terminal.getvalue()
    assert terminal.getvalue().endswith("stopped\n")
    assert (terminal.kubeconfig == path) is named
    assert not terminal.kubeconfig.exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_existing_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("mine")

    status, terminal = serve("--kubeconfig", str(path))

    assert status == 1
    assert f"{path} exists and is not overwritten" in terminal.getvalue()
    assert path.read_text() == "mine"


def test_a_missing_real_server_is_reported_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    status, terminal = serve("--real")

    assert status == 1
    assert "pyinformer serve --real --build" in terminal.getvalue()


@pytest.mark.covers("controller-runtime pkg/envtest: should set a working KubeConfig")
@pytest.mark.parametrize("flag", ["--rbac", "--tls"])
def test_serve_offers_tls_with_a_ca_that_its_kubeconfig_trusts(flag: str) -> None:
    found: list[int] = []

    def look(terminal: Terminal) -> None:
        with terminal.wire() as wire:
            found.append(wire.get("/api/v1/namespaces").status)

    status, terminal = serve(flag, look=look)

    assert (status, found) == (0, [200])
    assert "server: https://127.0.0.1:" in terminal.content
    assert "certificate-authority-data: " in terminal.content
    assert "token: " in terminal.content  # without one kubectl asks for a user name over TLS


@pytest.mark.covers("controller-runtime pkg/envtest: should set a working KubeConfig")
def test_serve_with_roles_knows_the_user_of_its_kubeconfig() -> None:
    found: list[int] = []

    def look(terminal: Terminal) -> None:
        for token in (None, "another"):
            with terminal.wire(token=token) as wire:
                found.append(wire.get("/api/v1/secrets").status)

    serve("--rbac", look=look)
    assert found == [200, 401]


def test_two_servers_give_no_object_the_same_identity() -> None:
    """A program that follows both by one address would take the second for the first."""
    uids: list[str] = []

    def look(terminal: Terminal) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
        with terminal.wire() as wire:
            made = wire.request("POST", "/api/v1/namespaces", body)
            uids.append(made.json["metadata"]["uid"])

    for _ in range(2):
        serve(look=look)
    assert uids[0] != uids[1]


def test_serve_creates_the_definitions_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(definition("cars"))
    (tmp_path / "b.yaml").write_text(definition("boats"))
    seen: list[int] = []

    def look(terminal: Terminal) -> None:
        with terminal.wire() as wire:
            seen.append(wire.get("/apis/acme.io/v1/cars").status)

    paths = (str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    arguments = (part for path in paths for part in ("--definitions", path))
    status, terminal = serve(*arguments, look=look)

    assert (status, seen) == (0, [200])
    assert "  with cars.acme.io, boats.acme.io\n" in terminal.getvalue()


def test_serve_reports_a_path_without_definitions(tmp_path: Path) -> None:
    status, terminal = serve("--definitions", str(tmp_path / "missing"))

    assert status == 1
    assert f"cannot serve: paths: {tmp_path / 'missing'} does not exist" in terminal.getvalue()
