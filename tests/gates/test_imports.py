"""What `import pyinformer` loads, seen from an interpreter of its own."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pyinformer
from pyinformer import metrics, testing

_PROBE = "import json, sys; import pyinformer; print(json.dumps(sorted(sys.modules)))"


def loaded_modules() -> set[str]:
    """Import pyinformer in a fresh interpreter and return the names in its sys.modules."""
    output = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True).stdout
    return set(json.loads(output))


def test_import_loads_no_package_that_is_optional_or_slow() -> None:
    tops = {name.partition(".")[0] for name in loaded_modules()}

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
    loaded = loaded_modules()
    assert "pyinformer.metrics" in loaded
    assert loaded.isdisjoint({"pyinformer.metrics._registry", "pyinformer.metrics._catalogue"})


def test_import_loads_only_what_every_informer_needs() -> None:
    """The rest is loaded when it is first used: a fourth of the time of an import."""
    loaded = loaded_modules()
    assert loaded.isdisjoint(
        f"pyinformer.{name}"
        for name in ("blocking", "controller", "controllerutil", "crd", "health", "leaderelection")
    )
    assert loaded.isdisjoint({"pyinformer.operator", "pyinformer.sources", "pyinformer.workqueue"})
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


@pytest.mark.parametrize("package", [pyinformer, metrics, testing], ids=lambda one: one.__name__)
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
    assert seen == package._HOMES


@pytest.mark.parametrize("package", [pyinformer, metrics, testing], ids=lambda one: one.__name__)
def test_a_late_name_is_listed_and_stored_and_another_is_an_error(package: ModuleType) -> None:
    for name in package._HOMES:
        assert name in dir(package)
        assert getattr(package, name) is vars(package)[name]
    with pytest.raises(AttributeError, match=rf"^module '{package.__name__}' has no attribute 'X'"):
        package.X  # noqa: B018 - it raises
