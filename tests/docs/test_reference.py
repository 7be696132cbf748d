"""The reference shows every public name once, and each of them says what it is."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.gates.test_exports import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXTENSIONS = Path(__file__).parents[2] / "docs/_extensions"
_DIRECTIVE = re.compile(r"^\.\. (?:autoclass|autofunction|py:data):: (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def public_names() -> Iterator[ModuleType]:
    """The part of the documentation's build that needs no Sphinx."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(_EXTENSIONS))
        patch.delitem(sys.modules, "public_names", raising=False)
        yield importlib.import_module("public_names")


@pytest.fixture(scope="module")
def pages(public_names: ModuleType) -> dict[str, str]:
    """The text of each page."""
    made: dict[str, str] = public_names.pages()
    return made


@pytest.fixture(scope="module")
def shown(pages: dict[str, str]) -> list[str]:
    """The names that the pages show."""
    return [path for text in pages.values() for path in _DIRECTIVE.findall(text)]


@pytest.mark.parametrize("namespace", PUBLIC)
def test_every_name_of_a_namespace_is_shown(
    public_names: ModuleType, shown: list[str], namespace: str
) -> None:
    module = importlib.import_module(namespace)
    found = {id(public_names.find(path)) for path in shown}

    assert [name for name in module.__all__ if id(getattr(module, name)) not in found] == []


def test_every_name_is_shown_once(shown: list[str]) -> None:
    assert sorted(shown) == sorted(set(shown))


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


def test_members_inherited_from_a_private_base_are_shown(pages: dict[str, str]) -> None:
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
