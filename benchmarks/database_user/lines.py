"""Counts the lines of a program by one rule for Python, Go and Java.

A line counts as code unless it is blank, a comment, a docstring, or part of an import or a
package clause; imports are counted by themselves.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import NamedTuple, TypeGuard


class Lines(NamedTuple):
    """How many lines a program has."""

    code: int
    imports: int

    def __add__(self, other: object) -> Lines:
        """Return the sum; not that of tuples."""
        if not isinstance(other, Lines):
            return NotImplemented
        return Lines(self.code + other.code, self.imports + other.imports)


def count(paths: list[Path]) -> Lines:
    """Return the lines of these files; of other formats than Python, Go and Java all are code."""
    found = Lines(0, 0)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found += _python(text) if path.suffix == ".py" else _braces(text)
    return found


def _python(text: str) -> Lines:
    imports, left_out = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _lines_of(node)
        elif _is_docstring(node):
            left_out |= _lines_of(node)
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in skipped and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    return Lines(len(code - imports - left_out), len(imports))


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _braces(text: str) -> Lines:
    code = imports = 0
    in_comment = in_imports = False
    for line in map(str.strip, text.splitlines()):
        if in_comment or line.startswith(("/*", "<!--")):
            in_comment = not line.endswith(("*/", "-->"))
        elif not line or line.startswith(("//", "#")):
            continue
        elif in_imports or line.startswith(("import ", "package ")):
            imports += 1
            in_imports = (in_imports or line == "import (") and line != ")"
        else:
            code += 1
    return Lines(code, imports)
