"""Which tests a page of the documentation names as its proof, and which of those exist.

A page names a test by its file below `tests/` and its name, in backticks. A named test must be
defined at the top level of that file.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAME = re.compile(r"`([\w/]+\.py)::(\w+)`")
_ANY_TEST = re.compile(r"`[^`]*\b(?:test_\w|Test[A-Z])[^`]*`")


def named_tests(text: str) -> list[str]:
    """Return the tests that a text names, such as `cache/store/test_lister.py::test_x`."""
    return ["::".join(found) for found in _NAME.findall(text)]


def malformed_names(text: str) -> list[str]:
    """Return what looks like the name of a test, and does not say in which file it stands."""
    return [found for found in _ANY_TEST.findall(text) if not _NAME.fullmatch(found)]


def missing_tests(text: str) -> list[str]:
    """Return those of the named tests that there are not."""
    missing = []
    for name in named_tests(text):
        file, _, test = name.partition("::")
        if test not in _defined_in(ROOT / "tests" / file):
            missing.append(name)
    return missing


@cache
def _defined_in(path: Path) -> frozenset[str]:
    """Return the tests that pytest collects from a file; a state machine's are an assignment."""
    if not path.name.startswith("test_") or not path.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return frozenset(name for name in found if name.lower().startswith("test"))
