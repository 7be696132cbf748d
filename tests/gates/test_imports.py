"""What `import pyinformer` loads, seen from an interpreter of its own."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import pyinformer
from pyinformer import cache, client, controller, telemetry, testing
from pyinformer.telemetry import metrics

_FOLLOWS = "import pyinformer; pyinformer.connect, pyinformer.SharedInformerFactory"


def loaded_modules(program: str) -> set[str]:
    """Run a program in a fresh interpreter and return the names in its sys.modules."""
    probe = f"import json, sys; {program}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True).stdout
    return set(json.loads(output))


def test_import_loads_no_package_that_is_optional_or_slow() -> None:
    tops = {name.partition(".")[0] for name in loaded_modules(_FOLLOWS)}

    assert "pyinformer" in tops
    assert tops.isdisjoint(
        {
            "aiohttp",
            "kopf",
            "kubernetes_asyncio",
            "opentelemetry",
            "pydantic",
            "prometheus_client",
            "pytest",
            "yaml",
            "zstandard",
        }
    )


def test_import_loads_no_registry_of_metrics() -> None:
    loaded = loaded_modules(_FOLLOWS)
    assert "pyinformer.telemetry.metrics" in loaded
    assert loaded.isdisjoint(
        {"pyinformer.telemetry.metrics._registry", "pyinformer.telemetry.metrics._catalogue"}
    )


def test_the_package_alone_loads_objects_and_errors() -> None:
    """And no event loop: a program that only reads objects takes a fourth of the time."""
    loaded = loaded_modules("import pyinformer")
    assert loaded.isdisjoint({"anyio", "asyncio", "pyinformer.client", "pyinformer.cache"})


def test_informers_load_only_what_every_informer_needs() -> None:
    """The rest is loaded when it is first used."""
    loaded = loaded_modules(_FOLLOWS)
    assert loaded.isdisjoint(
        f"pyinformer.{name}"
        for name in ("blocking", "controller", "leaderelection", "operator", "workqueue")
    )
    assert "importlib.resources" not in loaded


def test_every_name_is_there_when_it_is_used() -> None:
    probe = (
        "import pyinformer\n"
        "for name in (*pyinformer.__all__, *pyinformer._HOMES):\n"
        "    assert name in dir(pyinformer), name\n"
        "    assert getattr(pyinformer, name) is getattr(pyinformer, name), name\n"
        "try:\n"
        "    pyinformer.Unheard\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True).stdout
    assert output.decode().strip() == "module 'pyinformer' has no attribute 'Unheard'"


_PACKAGES = [pyinformer, cache, client, controller, telemetry, metrics, testing]


def _homes(package: ModuleType) -> dict[str, str]:
    """Return the names of a package that are loaded late, and the module of each."""
    homes: dict[str, str] = package._HOMES
    return homes


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda one: one.__name__)
def test_the_list_of_what_is_loaded_late_is_what_type_checkers_see(package: ModuleType) -> None:
    """Both are written by hand in the package's `__init__.py`."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    late = next(node for node in tree.body if isinstance(node, ast.If))
    seen: dict[str, str] = {}
    for statement in late.body:
        assert isinstance(statement, ast.ImportFrom)
        module = (statement.module or "").removeprefix(package.__name__).strip(".")
        for alias in statement.names:
            seen[alias.name] = module or alias.name
    assert seen == _homes(package)


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda one: one.__name__)
def test_a_late_name_is_listed_and_stored_and_another_is_an_error(package: ModuleType) -> None:
    for name in _homes(package):
        assert name in dir(package) or name not in package.__all__
        assert getattr(package, name) is vars(package)[name]
    with pytest.raises(AttributeError, match=rf"^module '{package.__name__}' has no attribute 'X'"):
        package.X  # noqa: B018 - it raises


_KIT = """
import http.client
from urllib.parse import urlsplit
from pyinformer.errors import KubeAPIServerNotFoundError
from pyinformer.testing import APIServer
from pyinformer.testing.kube_apiserver import find_or_build

with APIServer() as server:
    for media_type, body in (
        ("json", b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}'),
        ("vnd.kubernetes.protobuf", b"k8s\\0\\n\\7\\n\\2v1\\x12\\1X"),
    ):
        client = http.client.HTTPConnection(urlsplit(server.url).netloc)
        headers = {"Content-Type": f"application/{media_type}"}
        client.request("POST", "/api/v1/namespaces/default/configmaps", body, headers)
        print(client.getresponse().status)
        client.close()
try:
    find_or_build(build=False)
except KubeAPIServerNotFoundError:
    print("not built")
"""


def test_the_test_kit_works_from_a_zip(tmp_path: Path) -> None:
    """As in a zipapp: there are no files beside the modules."""
    package = Path(pyinformer.__file__).parent
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in package.rglob("*"):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(package.parent))
    env = {**os.environ, "PYTHONPATH": "package.zip", "XDG_CACHE_HOME": str(tmp_path)}
    env.pop("KUBEBUILDER_ASSETS", None)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _KIT],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("201\n415\nnot built\n", "")
