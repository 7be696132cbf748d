"""The fixtures that users get: what allows a build, and that nothing loads before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = """
import sys

def test_loading(request):
    assert "aiohttp" not in sys.modules
    assert "kubernetes_asyncio" not in sys.modules

def test_embedded(apiserver):
    assert apiserver.list("v1", "pods") == []

def test_asked(kube_apiserver_build):
    assert kube_apiserver_build is {asked}
"""
_REAL = """
def test_real(kube_apiserver):
    pass
"""


def _run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "."]
    cleared = {"KUBEBUILDER_ASSETS": "", "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **cleared, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.mark.parametrize(
    ("arguments", "ini", "environ", "asked"),
    [
        pytest.param([], "", {}, False, id="not-asked"),
        pytest.param(["--pyinformer-build-kube-apiserver"], "", {}, True, id="option"),
        pytest.param([], "pyinformer_build_kube_apiserver = true", {}, True, id="ini"),
        pytest.param([], "", {"PYINFORMER_BUILD_KUBE_APISERVER": "1"}, True, id="variable"),
        pytest.param([], "", {"PYINFORMER_BUILD_KUBE_APISERVER": "0"}, False, id="variable-no"),
    ],
)
def test_a_build_is_allowed_by_option_ini_or_variable(
    tmp_path: Path, arguments: list[str], ini: str, environ: dict[str, str], asked: bool
) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    (tmp_path / "test_it.py").write_text(_TESTS.format(asked=asked))

    result = _run(tmp_path, *arguments, **environ)

    assert "3 passed" in result.stdout, result.stdout + result.stderr


def test_a_missing_real_server_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    """Not a skip: whoever uses the fixture wants the real server."""
    (tmp_path / "test_it.py").write_text(_REAL)

    result = _run(tmp_path)

    assert "1 error" in result.stdout
    assert "KubeAPIServerNotFoundError" in result.stdout
    assert "--pyinformer-build-kube-apiserver" in result.stdout
