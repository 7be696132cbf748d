"""Loggers have the names of rooms, which users configure, never of private modules.

A module that logs has `_log = get_logger(__name__)`, and its folder a row in
docs/reference/logging.md.
"""

from __future__ import annotations

import ast
import importlib
import logging
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = _ROOT / "docs/reference/logging.md"
_ROW: Final = re.compile(r"^\| `(pyinformer[.\w]+)` \| ([A-Z, to]+) \| .+ \|$", re.MULTILINE)
_FIELD_ROW: Final = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \| [a-z, ]+ \| .+ \|$", re.MULTILINE)
_LEVELS: Final = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


def logger_names(source: str) -> list[str]:
    """Return how a module names its loggers: `_log = get_logger(__name__)` is the only way."""
    if "get_logger(" not in source:
        return []
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and "get_logger(" in ast.unparse(node.value)
    ]


def room_of(module: str) -> str:
    """Return the name of a module's room, or of the wing that it is in."""
    return ".".join(name for name in module.split(".")[:3] if not name.startswith("_"))


@cache
def modules_that_log() -> dict[str, list[str]]:
    """Return how each module of the package names its loggers, by the module's name."""
    found = {
        ".".join(path.relative_to(_ROOT).with_suffix("").parts): logger_names(path.read_text())
        for path in sorted((_ROOT / "pyinformer").rglob("*.py"))
    }
    return {module: names for module, names in found.items() if names}


def test_every_logger_is_named_after_its_folder() -> None:
    others = {
        module: names
        for module, names in modules_that_log().items()
        if names != ["_log = get_logger(__name__)"]
    }

    assert others == {}


def test_the_page_lists_every_logger() -> None:
    loggers = set()
    for module in modules_that_log():
        log: logging.LoggerAdapter[logging.Logger] = importlib.import_module(module)._log
        assert log.name == room_of(module)
        loggers.add(log.name)

    shown = [name for name, _ in _ROW.findall(_PAGE.read_text(encoding="utf-8"))]

    assert sorted(loggers) == shown


def log_calls() -> dict[str, list[ast.Call]]:
    """Return the calls of `_log` in the package, by the logger's name."""
    found: dict[str, list[ast.Call]] = {}
    for path in sorted((_ROOT / "pyinformer").rglob("*.py")):
        logger = room_of(".".join(path.relative_to(_ROOT).with_suffix("").parts))
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_log.")
        ]
        found[logger] = [*found.get(logger, []), *calls]
    return {logger: calls for logger, calls in found.items() if calls}


def levels_of(text: str) -> list[str]:
    """Return the levels that a cell of the page names: `DEBUG to ERROR`, `WARNING, ERROR`."""
    first, _, last = text.partition(" to ")
    if not last:
        return text.split(", ")
    return _LEVELS[_LEVELS.index(first) : _LEVELS.index(last) + 1]


def test_the_page_has_the_levels_of_every_logger() -> None:
    shown = dict(_ROW.findall(_PAGE.read_text(encoding="utf-8")))
    for logger, calls in log_calls().items():
        used = {ast.unparse(call.func).removeprefix("_log.").upper() for call in calls}

        assert used & set(_LEVELS) <= set(levels_of(shown[logger])), logger


def test_the_page_lists_every_field_that_is_written_in_place() -> None:
    rows = _FIELD_ROW.findall(_PAGE.read_text(encoding="utf-8"))
    shown = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    used = {
        key.value
        for calls in log_calls().values()
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict)
        for key in keyword.value.keys
        if isinstance(key, ast.Constant)
    }

    assert used - shown == set()
    assert used


@pytest.mark.parametrize(
    "source",
    ['_log = get_logger("pyinformer.x")', "LOG: Logger = get_logger(__name__)"],
    ids=["by-text", "by-another-name"],
)
def test_another_way_to_name_a_logger_is_found(source: str) -> None:
    assert logger_names(source) == [source.replace('"', "'")]
