"""Conventions that no linter checks, read from the syntax tree.

The docstring of every public coroutine describes its cancellation; every public duration is a float
of seconds with a name that ends in `_seconds`; no test waits for wall time. Each check also runs on
a sample that breaks it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.measured import TESTS, UNMEASURED_FILES, UNMEASURED_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
_PACKAGE = sorted((_ROOT / "pyinformer").rglob("*.py"))
_TESTS = sorted((_ROOT / "tests").rglob("*.py"))

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Floats that are not durations: an instant, a ratio, a rate, the value of a metric.
_OTHER_FLOAT = re.compile(
    r"^(amount|at|now|per_minute|deadline|factor|jitter|probability|share|sum|until|value)$|_(at|deadline|factor|ratio|per_second)$"
)
_SECONDS = re.compile(r"(^|_)seconds$")


def public_nodes(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of the module and of its public classes, nested ones included."""
    bodies: list[list[ast.stmt]] = [tree.body]
    while bodies:
        for node in bodies.pop():
            yield node
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bodies.append(node.body)


def coroutines_silent_on_cancellation(source: str) -> list[str]:
    """Name the public coroutines whose docstring has no Cancellation line."""
    return [
        f"{node.lineno} {node.name}"
        for node in public_nodes(ast.parse(source))
        if isinstance(node, ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not _inherits_docstring(node)
        and "Cancellation:" not in (ast.get_docstring(node) or "")
    ]


def _inherits_docstring(node: ast.AsyncFunctionDef) -> bool:
    """Return whether the method restates one of its base class, or an overload's other half."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"override", "overload"})


def durations_without_unit(source: str) -> list[str]:
    """Name the public float parameters and fields without _seconds that are not listed."""
    found = []
    for node in public_nodes(ast.parse(source)):
        if isinstance(node, _FUNCTIONS) and not node.name.startswith("_"):
            arguments = node.args
            found += [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(ast.arg(node.target.id, node.annotation, lineno=node.lineno))
    return [
        f"{argument.lineno} {argument.arg}"
        for argument in found
        if _is_float(argument.annotation)
        and not argument.arg.startswith("_")
        and not _SECONDS.search(argument.arg)
        and not _OTHER_FLOAT.search(argument.arg)
    ]


def _is_float(annotation: ast.expr | None) -> bool:
    """Return whether an annotation is float or a union with it."""
    if annotation is None:
        return False
    text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
    return "float" in str(text).replace(" ", "").split("|")


def waits_by_the_clock(source: str) -> list[str]:
    """Name the calls of a sleep with anything but a literal zero."""
    if "sleep" not in source:  # most files: parsing takes a second
        return []
    return [
        f"{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def _report(files: list[Path], check: object) -> list[str]:
    assert callable(check)
    return [
        f"{path.relative_to(_ROOT)}:{finding}"
        for path in files
        for finding in check(path.read_text(encoding="utf-8"))
    ]


def test_every_public_coroutine_documents_its_cancellation() -> None:
    assert _report(_PACKAGE, coroutines_silent_on_cancellation) == []


def test_every_public_duration_ends_in_seconds() -> None:
    assert _report(_PACKAGE, durations_without_unit) == []


def test_the_tests_that_coverage_leaves_out_exist() -> None:
    names = UNMEASURED_FOLDERS | UNMEASURED_FILES
    assert [name for name in sorted(names) if not (TESTS / name).exists()] == []


def test_no_test_waits_by_the_clock() -> None:
    assert _report(_TESTS, waits_by_the_clock) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("async def pop(): ...", id="no-docstring"),
        pytest.param("async def pop():\n    'Take one.'", id="docstring-without-it"),
        pytest.param("class Queue:\n    async def pop(self): ...", id="method"),
        pytest.param(
            "class Queue:\n    class Inner:\n        async def pop(self): ...", id="inner"
        ),
    ],
)
def test_a_coroutine_without_a_cancellation_line_is_found(source: str) -> None:
    assert len(coroutines_silent_on_cancellation(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "async def pop():\n    '''Take.\n\n    Cancellation:\n        Safe.'''", id="says"
        ),
        pytest.param("async def _pop(): ...", id="private"),
        pytest.param("class _Queue:\n    async def pop(self): ...", id="private-class"),
        pytest.param("class Queue:\n    @override\n    async def pop(self): ...", id="override"),
    ],
)
def test_a_documented_or_private_coroutine_is_not_found(source: str) -> None:
    assert coroutines_silent_on_cancellation(source) == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def wait(timeout: float): ...", id="parameter"),
        pytest.param("def wait(*, timeout: float | None = None): ...", id="optional"),
        pytest.param("class Settings:\n    period: 'float' = 1.0", id="field"),
        pytest.param("async def wait(delay_ms: float): ...", id="milliseconds"),
    ],
)
def test_a_duration_without_its_unit_is_found(source: str) -> None:
    assert len(durations_without_unit(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def wait(timeout_seconds: float, now: float): ...", id="seconds-and-now"),
        pytest.param("class Settings:\n    _period: float = 1.0", id="private"),
        pytest.param("def grow(factor: float, limit: int): ...", id="factor"),
    ],
)
def test_other_numbers_are_not_treated_as_durations(source: str) -> None:
    assert durations_without_unit(source) == []


def test_a_sleeping_test_is_found() -> None:
    source = "import asyncio, time\ntime.sleep(1)\nasyncio.sleep(0)\nasyncio.sleep(delay)\n"

    assert waits_by_the_clock(source) == ["2 time.sleep(1)", "4 asyncio.sleep(delay)"]


def test_an_api_version_is_split_in_one_place() -> None:
    """Two parsers of one text differed on `apps/v1/fail`."""
    splits = re.compile(
        r"api_?version\.r?(?:partition|split)\(|\"apiVersion\".*\.r?(?:partition|split)\(",
        re.IGNORECASE,
    )
    found = [
        path.relative_to(_ROOT)
        for path in _PACKAGE
        if splits.search(path.read_text(encoding="utf-8"))
    ]
    assert [str(path) for path in found] == ["pyinformer/objects/_keys_and_kinds.py"]
