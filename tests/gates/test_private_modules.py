"""A module whose name begins with `_` is private to its folder: other folders import the folder.

`from pyinformer.cache.store import Indexer`, never from its `_indexer`; what the folder's `__all__`
lacks is added there, and to tests/gates/test_exports.py where it is public.

A private module may be imported by the modules of its folder and of those below. What is in
`_runtime` is private to the package, and there for all of its folders.

A test states a promise of a folder, so it imports the folder as well. Of its private modules only
the tests of that folder may import some, where the face cannot show the promise; every such file
has to be edited with the inside, so their number may only fall. For the same reason the number of
private attributes that tests read, and of places at which they replace our own code, may only fall.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = "pyinformer"
_RUNTIME: Final = "_runtime"
_MOST_TEST_FILES: Final = 69
_MOST_OF_OTHER_FOLDERS: Final = 0
_MOST_READS: Final = 56  # those of kopf, of kubernetes and of other packages included
_MOST_PATCHES: Final = 20


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
        module: its name, such as `pyinformer.cache.informer._factory`.
        source: its text.

    Returns:
        Lines such as `cache.informer -> cache.store._indexer`.
    """
    own = module.split(".")[1:-1]
    found = set()
    for name in imported(ast.parse(source)):
        package, *parts = name.split(".")
        depth = _depth_of_private(parts)
        if package == _PACKAGE and depth and own[:depth] != parts[:depth]:
            found.add(f"{'.'.join(own) or _PACKAGE} -> {'.'.join(parts[: depth + 1])}")
    return found


def _depth_of_private(parts: list[str]) -> int | None:
    """Return how deep below the package a private module is; 0 for one of the package itself."""
    inside = 1 if parts and parts[0] == _RUNTIME else 0
    for depth, part in enumerate(parts[inside:], inside):
        if part.startswith("_") and not part.startswith("__"):
            return depth
    return None


def test_no_folder_imports_a_private_module_of_another() -> None:
    found: set[str] = set()
    for path in sorted((_ROOT / _PACKAGE).rglob("*.py")):
        module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
        found |= foreign_private(module, path.read_text(encoding="utf-8"))
    assert sorted(found) == []


def private_imports(source: str) -> set[str]:
    """Return the folders of which a test imports a private module.

    Args:
        source: the text of the test.

    Returns:
        Their names, such as `cache.store`; `_runtime` for what is private to the package.
    """
    found = set()
    for name in imported(ast.parse(source)):
        package, *parts = name.split(".")
        if package != _PACKAGE:
            continue
        depth = _depth_of_private(parts)
        if depth is not None:
            found.add(".".join(parts[:depth]) or _RUNTIME)
        elif parts[:1] == [_RUNTIME] and parts[1:2] != ["tasks"]:
            found.add(_RUNTIME)
    return found


def test_no_more_tests_import_private_modules() -> None:
    """Lower the two numbers with each file that no longer does."""
    tests = _ROOT / "tests"
    found = {
        path.relative_to(tests): folders
        for path in sorted(tests.rglob("*.py"))
        if (folders := private_imports(path.read_text(encoding="utf-8")))
    }
    others = {
        str(path)
        for path, folders in found.items()
        if not all(f"{folder}.".startswith(f"{_own_folder(path)}.") for folder in folders)
    }

    assert len(found) <= _MOST_TEST_FILES, sorted(map(str, found))
    assert len(others) <= _MOST_OF_OTHER_FOLDERS, sorted(others)


def defined_in_classes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the methods and of the attributes that the classes of a module define."""
    for each in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(each):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    yield name
                case ast.AnnAssign(target=ast.Name(id=name)):
                    yield name


def private_reads(source: str) -> list[str]:
    """Return the private attributes of other objects that a test reads or sets.

    Args:
        source: the text of the test.

    Returns:
        Such as `queue._states`; not those of `self`, or that its own classes define.
    """
    tree = ast.parse(source)
    own = set(defined_in_classes(tree))
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in own
        and ast.unparse(node.value) not in {"self", "cls"}
    ]


def own_patches(source: str) -> list[str]:
    """Return the calls of `monkeypatch.setattr` that replace a part of our modules or classes.

    Args:
        source: the text of the test.

    Returns:
        Their targets; a text is one, too.
    """
    tree = ast.parse(source)
    ours = {name.rpartition(".")[2] for name in imported(tree) if name.startswith(_PACKAGE)}
    ours.add(_PACKAGE)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr":
            target = ast.unparse(node.args[0]).strip("'")
            if target.partition(".")[0] in ours:
                found.append(target)
    return found


@pytest.mark.parametrize(
    ("find", "most"),
    [
        pytest.param(private_reads, _MOST_READS, id="private-attributes"),
        pytest.param(own_patches, _MOST_PATCHES, id="patches-of-our-code"),
    ],
)
def test_no_more_tests_reach_into_our_objects(find: Callable[[str], list[str]], most: int) -> None:
    """Lower the number with each place that no longer does."""
    tests = _ROOT / "tests"
    found = [
        f"{path.relative_to(tests)}: {place}"
        for path in sorted(tests.rglob("*.py"))
        for place in find(path.read_text(encoding="utf-8"))
    ]
    assert len(found) <= most, found


def test_private_attributes_and_patches_of_a_test_are_found() -> None:
    assert private_reads("queue._states = queue.of(1)._again") == [
        "queue._states",
        "queue.of(1)._again",
    ]
    assert private_reads("class A:\n  def _b(self): self._c = d.__e__\na._b, a._c") == []
    by_name = "from pyinformer.kopf import _requests\nmonkeypatch.setattr({}, 'a', 1)"
    assert own_patches(by_name.format("_requests")) == ["_requests"]
    assert own_patches(by_name.format("'pyinformer.kopf._requests.A'")) == [
        "pyinformer.kopf._requests.A"
    ]
    assert own_patches(by_name.format("time")) == own_patches(by_name.format("loop")) == []


def _own_folder(path: Path) -> str:
    """Return the folder of the package whose tests are beside a test."""
    return ".".join(path.parts[:-1]).replace("runtime", _RUNTIME)


def test_private_imports_of_a_test_are_found() -> None:
    source = "from pyinformer.cache.store._index import Index\nfrom pyinformer._{} import a"
    assert private_imports(source.format("runtime.clock")) == {"cache.store", "_runtime"}
    assert private_imports(source.format("printable")) == {"cache.store", "_runtime"}
    assert private_imports("from pyinformer._runtime.tasks._host import a") == {"_runtime.tasks"}
    assert private_imports("from pyinformer._runtime.tasks import Host") == set()
    assert private_imports("from pyinformer.cache.store import Index, _index") == {"cache.store"}
    assert private_imports("from pyinformer.cache.store import Indexer") == set()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from pyinformer.cache.store._indexer import Indexer", id="name-of-a-module"),
        pytest.param("from pyinformer.cache.store import _indexer", id="module-of-a-folder"),
        pytest.param("import pyinformer.cache.store._indexer", id="import"),
        pytest.param(
            "def f():\n    from pyinformer.cache.store._indexer import Indexer", id="late"
        ),
        pytest.param("from pyinformer.cache.store.deep._indexer import Indexer", id="inner-folder"),
    ],
)
def test_an_import_of_a_private_module_is_found(line: str) -> None:
    assert len(foreign_private("pyinformer.cache.informer._factory", line)) == 1
    assert len(foreign_private("pyinformer.__init__", line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from pyinformer.cache.store import Indexer", id="face"),
        pytest.param("from pyinformer.cache.informer._listener import Listener", id="own-module"),
        pytest.param("from pyinformer._runtime.clock import now", id="module-of-the-package"),
        pytest.param("from pyinformer.cache._wing import now", id="module-of-the-wing"),
        pytest.param("from asyncio._x import y", id="other-package"),
    ],
)
def test_other_imports_are_not_found(line: str) -> None:
    assert foreign_private("pyinformer.cache.informer._factory", line) == set()
