"""`pyinformer serve` with the embedded server; `test_kube_apiserver.py` has the real one."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyinformer.cli._serve import serve

_SERVE = """
import sys
from pathlib import Path
from pyinformer.cli._serve import serve
path = Path(sys.argv[1]) if len(sys.argv) > 1 else None
sys.exit(serve(real=False, build=False, port=0, kubeconfig_path=path, output=sys.stdout))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("named", [True, False])
def test_it_serves_until_a_signal_and_removes_its_kubeconfig(
    tmp_path: Path, sent: signal.Signals, named: bool
) -> None:
    arguments = [str(tmp_path / "kubeconfig")] if named else []
    program = subprocess.Popen(
        [sys.executable, "-c", _SERVE, *arguments], stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout is not None
        lines = [program.stdout.readline() for _ in range(3)]
        kubeconfig = Path(lines[0].strip().rpartition(" ")[2])
        assert "server: http://127.0.0.1:" in kubeconfig.read_text()
        assert lines[1] == f"  export KUBECONFIG={kubeconfig}\n"
        program.send_signal(sent)
        rest = program.stdout.read()

    assert (program.returncode, rest) == (0, "stopped\n")
    assert not kubeconfig.exists()


def test_an_existing_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("mine")
    output = io.StringIO()

    status = serve(real=False, build=False, port=0, kubeconfig_path=path, output=output)

    assert status == 1
    assert f"{path} exists and is not overwritten" in output.getvalue()
    assert path.read_text() == "mine"


def test_a_missing_real_server_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    output = io.StringIO()

    status = serve(real=True, build=False, port=0, kubeconfig_path=None, output=output)

    assert status == 1
    assert "pyinformer serve --real --build" in output.getvalue()
