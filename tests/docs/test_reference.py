"""The reference shows every public name once, and each of them says what it is."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.gates.test_exports import PUBLIC

_EXTENSIONS = Path(__file__).parents[2] / "docs/_extensions"
_DIRECTIVE = re.compile(r"^\.\. (?:autoclass|autofunction|py:data):: (\S+)$", re.MULTILINE)


@pytest.fixture
def public_names(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The part of the documentation's build that needs no Sphinx."""
    monkeypatch.syspath_prepend(str(_EXTENSIONS))
    monkeypatch.delitem(sys.modules, "public_names", raising=False)
    return importlib.import_module("public_names")


def shown(public_names: ModuleType) -> list[str]:
    """Return the names that the pages show."""
    return [path for text in public_names.pages().values() for path in _DIRECTIVE.findall(text)]


@pytest.mark.parametrize("namespace", PUBLIC)
def test_every_name_of_a_namespace_is_shown(public_names: ModuleType, namespace: str) -> None:
    module = importlib.import_module(namespace)
    found = {id(public_names.find(path)) for path in shown(public_names)}

    assert [name for name in module.__all__ if id(getattr(module, name)) not in found] == []


def test_every_name_is_shown_once(public_names: ModuleType) -> None:
    paths = shown(public_names)

    assert sorted(paths) == sorted(set(paths))


def test_every_public_name_has_a_description(public_names: ModuleType) -> None:
    silent = [
        one.path
        for namespace in PUBLIC
        for one in public_names.entries(namespace)
        if not (
            public_names.words_of_data(one.path)
            if one.directive == "py:data"
            else inspect.getdoc(public_names.find(one.path))
        )
    ]

    assert silent == []


def test_members_inherited_from_a_private_base_are_shown(public_names: ModuleType) -> None:
    pages = public_names.pages()
    (informer,) = re.findall(
        r"^\.\. autoclass:: pyinformer\.SharedInformer\n((?: .*\n)+)",
        pages["pyinformer"],
        re.MULTILINE,
    )
    (error,) = re.findall(
        r"^\.\. autoclass:: pyinformer\.NotFoundError\n((?: .*\n)+)", pages["errors"], re.MULTILINE
    )

    assert ":inherited-members: object" in informer
    assert ":inherited-members:" not in error
