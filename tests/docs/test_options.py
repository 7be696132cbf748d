"""The page of all options is what `make options` writes from today's signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from tests.docs import pages
from tests.gates.test_exports import PUBLIC

_PACKAGE: Final = pages.ROOT / "pyinformer"
# Variables that are not options: they belong to CGI, to tests of color, and to the terminal.
_NOT_OPTIONS: Final = {"REQUEST_METHOD", "FORCE_COLOR", "PY_COLORS"}


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the page."""
    monkeypatch.syspath_prepend(str(pages.ROOT / "docs/_extensions"))
    monkeypatch.delitem(sys.modules, "options", raising=False)
    return importlib.import_module("options")


def test_the_page_is_up_to_date(options: ModuleType) -> None:
    assert options.PAGE.read_text(encoding="utf-8") == options.page(), "run: make options"


def test_every_option_says_what_it_means(options: ModuleType) -> None:
    silent = [
        f"{path}: {one.name}"
        for paths in options.SECTIONS.values()
        for path in paths
        for one in options.options_of(path)
        if not one.meaning
    ]

    assert silent == []


def test_every_public_class_of_options_is_shown(options: ModuleType) -> None:
    shown = {path for paths in options.SECTIONS.values() for path in paths}
    found = {
        value
        for namespace in PUBLIC
        for name, value in vars(importlib.import_module(namespace)).items()
        if name.endswith("Options") and inspect.isclass(value)
    }

    assert found - {options.find(path) for path in shown} == set()


def test_every_environment_variable_that_the_package_reads_is_shown(options: ModuleType) -> None:
    read = {name for path in _PACKAGE.rglob("*.py") for name in variables_of(path)}

    assert read - _NOT_OPTIONS - options.ENVIRONMENT.keys() == set()
    assert "KUBECONFIG" in read


def variables_of(path: Path) -> set[str]:
    """Return the names of environment variables that a module reads, by text or by constant."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        ast.unparse(target): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    keys = [key for node in ast.walk(tree) if (key := key_of(node)) is not None]
    names = [
        key.value if isinstance(key, ast.Constant) else constants.get(ast.unparse(key))
        for key in keys
    ]
    return {name for name in names if isinstance(name, str)}


def key_of(node: ast.AST) -> ast.expr | None:
    """Return the key if a node reads a mapping that has the name of an environment."""
    match node:
        case ast.Call(func=ast.Attribute(value=where, attr="get"), args=[key, *_]):
            pass
        case ast.Subscript(value=where, slice=key):
            pass
        case _:
            return None
    return key if re.search(r"(?:environ|environment|variables)$", ast.unparse(where)) else None
