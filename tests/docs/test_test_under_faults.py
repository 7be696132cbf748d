"""The page on faults: its table has every fault."""

from __future__ import annotations

import ast

from pyinformer.testing.faults import CATALOGUE
from tests.docs import pages

_PAGE = "docs/howto/test-under-faults.md"


def test_the_table_has_every_fault_with_its_arguments() -> None:
    page = (pages.ROOT / _PAGE).read_text()
    for name, kind in CATALOGUE.items():
        arguments = ", ".join(f"`{one}`" for one in sorted(kind.arguments))
        lie = " (a lie)" if kind.is_lie else ""
        assert f"| `{name}` | {kind.part} | {arguments} | {kind.summary}{lie} |" in page


def test_the_first_test_has_ten_lines() -> None:
    (test,) = (
        node
        for node in ast.walk(ast.parse(pages.blocks(_PAGE, "python")[0].text))
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
    assert test.end_lineno is not None
    assert test.end_lineno - test.lineno <= 10
