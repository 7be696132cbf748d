"""The map of client-go's symbols: each occurs once, and each name of ours exists.

`client_go/symbols.tsv` lists what client-go v0.37.1 exports (package, kind, name). It is made by

    go run tests/docs/client_go/main.go <folder of k8s.io/client-go> <package>...

from the module that `go mod download k8s.io/client-go@v0.37.1` fetches; it holds facts only.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from functools import cache

import pytest

import pyinformer
from tests.docs import pages

_PAGE = pages.read("docs/reference/client-go-map.md")
_CODE = re.compile(r"`([^`]+)`")
_PATH = re.compile(r"^[A-Za-z_]\w*(\.\w+)*$")
_FOREIGN = {"asyncio", "heapq", "resync_period_seconds", "now"}
_REASONS = ("no counterpart: ", "not here")


@cache
def symbols() -> dict[str, list[str]]:
    """Return what each package of client-go exports."""
    listed: dict[str, list[str]] = {}
    text = (pages.ROOT / "tests/docs/client_go/symbols.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        package, _, name = line.split("\t")
        listed.setdefault(package, []).append(name)
    return listed


@cache
def rows(package: str) -> list[tuple[str, str]]:
    """Return the first two cells of each row of a package's tables."""
    part = re.split(r"^## ", _PAGE, flags=re.MULTILINE)
    (section,) = [one for one in part if one.startswith(f"`{package}`\n")]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    split = [line.removeprefix("| ").split(" | ") for line in lines]
    return [(cells[0], cells[1]) for cells in split]


def covered(package: str, cell: str) -> list[str]:
    """Return the symbols that a first cell stands for."""
    found = []
    for name in _CODE.findall(cell):
        if name.endswith(".*"):
            found += [one for one in symbols()[package] if one.startswith(name[:-1])]
        else:
            found.append(name)
    return found


@cache
def exists(name: str) -> bool:
    """Say whether a name of ours exists: of the package, or of a module that it names."""
    parts = name.removeprefix("pyinformer.").split(".")
    for cut in range(len(parts)):
        try:
            found: object = importlib.import_module(".".join(["pyinformer", *parts[:cut]]))
            for part in parts[cut:]:
                found = None if _is_set_by(found, part) else getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return True
    return False


@pytest.mark.parametrize("package", symbols())
def test_every_symbol_is_listed_once(package: str) -> None:
    counted = Counter(name for cell, _ in rows(package) for name in covered(package, cell))

    assert sorted(set(symbols()[package]) - set(counted)) == []
    assert sorted(set(counted) - set(symbols()[package])) == []
    assert [name for name, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("package", symbols())
def test_every_name_of_ours_exists(package: str) -> None:
    named = [name for _, ours in rows(package) for name in _CODE.findall(ours)]
    paths = [name for name in named if _PATH.match(name) and name.split(".")[0] not in _FOREIGN]

    assert [name for name in paths if not exists(name)] == []


@pytest.mark.parametrize("package", symbols())
def test_a_symbol_without_a_counterpart_has_a_reason(package: str) -> None:
    silent = [
        cell
        for cell, ours in rows(package)
        if not ours.startswith(_REASONS) and not any(map(exists, _names(ours)))
    ]

    assert silent == []


def test_a_name_that_is_not_ours_is_found() -> None:
    assert exists("SharedInformer.add_index")
    assert exists("cache.IndexFunction")
    assert not exists("SharedInformer.add_indexers")
    assert pyinformer.__all__


def _is_set_by(found: object, name: str) -> bool:
    """Say whether a class or one that it extends sets an attribute where it is made."""
    classes = [one for one in getattr(found, "__mro__", ()) if one.__module__.startswith("pyinf")]
    return any(f"self.{name}: " in _source(one) for one in classes)


@cache
def _source(found: type) -> str:
    return inspect.getsource(found)


def _names(cell: str) -> list[str]:
    return [re.split(r"[(\s]", name)[0] for name in _CODE.findall(cell)]
