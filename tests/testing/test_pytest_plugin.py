"""The fixtures of the pytest plugin: what allows a build, and that modules load only when used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyinformer import ForbiddenError
from pyinformer.testing import APIServer, Connector, KubeAPIServer

pytest_plugins = ["pytester"]

_LOADING = """
import sys

def test_loading(request):
    assert "pyinformer_pytest" in sys.modules
    for name in ("pyinformer", "msgspec", "aiohttp", "anyio", "kubernetes_asyncio"):
        assert name not in sys.modules, name

def test_embedded(apiserver):
    assert apiserver.list("v1", "pods") == []
"""
_ASKED = """
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
    # Measuring coverage would import the modules that must not be imported here.
    environ = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": "", **environ}
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **cleared, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_modules_load_only_when_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(_LOADING + _ASKED.format(asked=False))

    result = _run(tmp_path, "-p", "no:anyio")

    assert "3 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "ini", "variable", "asked"),
    [
        pytest.param([], "", None, False, id="not-asked"),
        pytest.param(["--pyinformer-build-kube-apiserver"], "", None, True, id="option"),
        pytest.param([], "pyinformer_build_kube_apiserver = true", None, True, id="ini"),
        pytest.param([], "", "1", True, id="variable"),
        pytest.param([], "", "0", False, id="variable-no"),
    ],
)
def test_a_build_is_allowed_by_option_ini_or_variable(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    ini: str,
    variable: str | None,
    *,
    asked: bool,
) -> None:
    if variable is not None:
        monkeypatch.setenv("PYINFORMER_BUILD_KUBE_APISERVER", variable)
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope = function\n{ini}\n")
    pytester.makepyfile(_ASKED.format(asked=asked))

    pytester.inline_run(*arguments, "-p", "no:cacheprovider").assertoutcome(passed=1)


def test_a_missing_real_server_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    """A test that uses the fixture needs the real server: it fails, and is not skipped."""
    (tmp_path / "test_it.py").write_text(_REAL)

    result = _run(tmp_path)

    assert "1 error" in result.stdout
    assert "KubeAPIServerNotFoundError" in result.stdout
    assert "--pyinformer-build-kube-apiserver" in result.stdout


_USE = """
import asyncio

import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}}

async def use(apiserver, cluster):
    async with cluster(name="here") as connected:
        await connected.create(POD)
        assert (await connected.get("v1", "pods", "default/a")).metadata.name == "a"
    assert [pod["metadata"]["name"] for pod in apiserver.list("v1", "pods")] == ["a"]
"""
_MODES = {
    "auto": (
        ["-p", "no:anyio"],
        "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function",
        """
async def test_it(apiserver, cluster):
    await use(apiserver, cluster)
""",
    ),
    "strict-beside-anyio": (
        [],
        "asyncio_mode = strict\nasyncio_default_fixture_loop_scope = function",
        """
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.asyncio
async def test_it(apiserver, cluster):
    await use(apiserver, cluster)

@pytest.mark.anyio
async def test_it_with_anyio(apiserver, cluster):
    await use(apiserver, cluster)
""",
    ),
    "no-plugin": (
        ["-p", "no:asyncio", "-p", "no:anyio"],
        "",
        """
def test_it(apiserver, cluster):
    asyncio.run(use(apiserver, cluster))
""",
    ),
}


@pytest.mark.parametrize("mode", _MODES)
def test_the_fixtures_work_beside_every_plugin_for_asynchronous_tests(
    tmp_path: Path, mode: str
) -> None:
    arguments, ini, test = _MODES[mode]
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{ini}\n")
    (tmp_path / "test_it.py").write_text(f"{_USE}\n{test}")

    result = _run(tmp_path, *arguments)

    assert f"{test.count('def test_')} passed" in result.stdout, result.stdout + result.stderr


def test_the_plugin_can_be_loaded_by_hand(tmp_path: Path) -> None:
    """With PYTEST_DISABLE_PLUGIN_AUTOLOAD pytest does not find it by itself."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(apiserver):\n    assert apiserver.url\n")
    by_hand = ["-p", "pyinformer.testing.pytest_plugin"]

    result = _run(tmp_path, *by_hand, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")

    assert "1 passed" in result.stdout, result.stdout + result.stderr


async def test_cluster_connects_to_the_server_and_as_the_user_that_is_asked_for(
    cluster: Connector,
) -> None:
    with APIServer(rbac=True, tls=True) as server:
        async with cluster(server) as admin, cluster(server, token=server.token_for("x")) as user:
            assert await admin.get("v1", "namespaces", "default")
            with pytest.raises(ForbiddenError, match='User "x" cannot get'):
                await user.get("v1", "namespaces", "default")


async def test_cluster_has_the_namespace_that_is_asked_for(cluster: Connector) -> None:
    async with cluster(namespace="ops") as connected:
        assert connected.config.namespace == "ops"


@pytest.mark.real
async def test_cluster_connects_to_the_real_server(
    cluster: Connector, kube_apiserver: KubeAPIServer
) -> None:
    async with cluster(kube_apiserver) as connected:
        namespace = await connected.get("v1", "namespaces", "default")

    assert namespace.metadata.name == "default"
