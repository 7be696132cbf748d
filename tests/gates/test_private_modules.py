"""A module whose name begins with `_` is private to its folder: other folders import the folder.

`from pyinformer.store import Indexer`, never `from pyinformer.store._indexer import Indexer`; what
the folder's `__all__` lacks is added there, and to tests/gates/test_exports.py.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = "pyinformer"


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield each module, or name of a module, that a module imports, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def foreign_private(module: str, source: str) -> set[str]:
    """Return the private modules of other folders that a module imports.

    Args:
        module: its name, such as `pyinformer.informer._factory`.
        source: its text.

    Returns:
        Lines such as `informer -> store._indexer`.
    """
    own = (*module.split(".")[1:-1], "")[0]
    found = set()
    for name in imported(ast.parse(source)):
        package, _, rest = name.partition(".")
        folder, _, inside = rest.partition(".")
        if package != _PACKAGE or folder == own or folder.startswith("_"):
            continue  # a private module of the package itself is there for all folders
        parts = inside.split(".")
        private = [depth for depth, part in enumerate(parts, 1) if part.startswith("_")]
        if private:
            found.add(f"{own or _PACKAGE} -> {folder}.{'.'.join(parts[: private[0]])}")
    return found


def test_no_folder_imports_a_private_module_of_another() -> None:
    found: set[str] = set()
    for path in sorted((_ROOT / _PACKAGE).rglob("*.py")):
        module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
        found |= foreign_private(module, path.read_text(encoding="utf-8"))
    assert sorted(found) == []


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from pyinformer.store._indexer import Indexer", id="name-of-a-module"),
        pytest.param("from pyinformer.store import _indexer", id="module-of-a-folder"),
        pytest.param("import pyinformer.store._indexer", id="import"),
        pytest.param("def f():\n    from pyinformer.store._indexer import Indexer", id="late"),
        pytest.param("from pyinformer.store.deep._indexer import Indexer", id="inner-folder"),
    ],
)
def test_an_import_of_a_private_module_is_found(line: str) -> None:
    assert len(foreign_private("pyinformer.informer._factory", line)) == 1
    assert len(foreign_private("pyinformer.__init__", line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from pyinformer.store import Indexer", id="face"),
        pytest.param("from pyinformer.informer._listener import Listener", id="own-module"),
        pytest.param("from pyinformer._clock import now", id="module-of-the-package"),
        pytest.param("from asyncio._x import y", id="other-package"),
    ],
)
def test_other_imports_are_not_found(line: str) -> None:
    assert foreign_private("pyinformer.informer._factory", line) == set()
