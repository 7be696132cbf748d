"""Which modules may import an event loop, or a package that has one door.

The order of the folders is in .importlinter.
"""

from __future__ import annotations

import ast
import configparser
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).parents[2]
_MARK: Final = "\n# Pure: it knows no event loop.\n"
_MARK_OF_A_FOLDER: Final = "\n# Pure, as all modules below: it knows no event loop.\n"
_LOOPS: Final = frozenset({"anyio", "asyncio"})

# Only these import the package; the rest of pyinformer reaches it through them.
_DOORS: Final = {
    "aiohttp": (
        "admission/_server.py",  # the server of webhooks
        "client/transport/",
        "testing/",
        "kopf/_vault_session.py",  # the types of kopf's session
        "cli/scenes/_plain_informer.py",  # the errors that kubernetes_asyncio lets through
    ),
    "cryptography": (
        "admission/certificates/_x509.py",
        "cli/doctor/_credential_expiry.py",  # the extra `cli` brings it, too
    ),
    "kopf": ("kopf/",),
    "kubernetes_asyncio": ("cli/scenes/_plain_informer.py",),  # a plain program, beside ours
    "opentelemetry": ("telemetry/opentelemetry/",),
    "prometheus_client": ("telemetry/prometheus.py",),
    "zstandard": ("objects/_zstd.py",),
}


@cache
def _imported(path: Path) -> frozenset[str]:
    """Return the packages that a module imports anywhere, for type checkers as well."""
    names = _imported_modules(ast.parse(path.read_bytes()))
    return frozenset(name.partition(".")[0] for name in names)


def _imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module


def _pure_modules(package: Path) -> set[Path]:
    marked = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    pure = {path for path, text in marked.items() if _MARK in text}
    for path, text in marked.items():
        if _MARK_OF_A_FOLDER in text:
            pure |= set(path.parent.rglob("*.py"))
    return pure


def _impure(package: Path) -> list[str]:
    return sorted(
        path.relative_to(package).as_posix()
        for path in _pure_modules(package)
        if _LOOPS & _imported(path)
    )


def test_the_table_of_rooms_has_each_folder_in_the_order_of_the_layers() -> None:
    layers = configparser.ConfigParser()
    layers.read(_ROOT / ".importlinter")
    text = layers["importlinter:contract:layers"]["layers"]
    ranks = {
        room: -rank
        for rank, line in enumerate(text.split("\n"))
        for room in line.replace("|", " ").split()
        if (_ROOT / "pyinformer" / room / "__init__.py").is_file()
    }
    table = (_ROOT / "CONTRIBUTING.md").read_text().partition("| room |")[2].partition("\n\n")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(rooms) == sorted(ranks)
    assert rooms == sorted(rooms, key=ranks.__getitem__)


def test_a_pure_module_knows_no_event_loop() -> None:
    assert len(_pure_modules(_ROOT / "pyinformer")) > 100
    assert _impure(_ROOT / "pyinformer") == []


@pytest.mark.parametrize("package", _DOORS)
def test_a_package_with_one_door_is_imported_there_alone(package: str) -> None:
    root = _ROOT / "pyinformer"
    importers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if package in _imported(path)
    }
    doors = _DOORS[package]

    assert [path for path in importers if not path.startswith(doors)] == []
    assert [door for door in doors if not any(path.startswith(door) for path in importers)] == []


def test_an_import_of_an_event_loop_is_found(tmp_path: Path) -> None:
    for name, mark in (("a.py", _MARK), ("b.py", ""), ("below/__init__.py", _MARK_OF_A_FOLDER)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'"""Text."""\n{mark}\nimport asyncio\n', encoding="utf-8")
    source = '"""Text."""\n\ndef late():\n    from anyio import Event\n    return Event\n'
    (tmp_path / "below/c.py").write_text(source, encoding="utf-8")

    assert _impure(tmp_path) == ["a.py", "below/__init__.py", "below/c.py"]
