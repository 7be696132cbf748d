"""README and changelog are short; the tests run the programs that the README shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_program_is_the_example(page: str) -> None:
    source = (_ROOT / "docs/examples/quickstart.py").read_text(encoding="utf-8")
    (shown, *_) = pages.blocks(page, "python")

    assert shown.text == source[source.index("import asyncio") :]


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len((_ROOT / "README.md").read_bytes()) < 7_000


def test_the_changelog_is_read_in_three_minutes() -> None:
    assert len((_ROOT / "CHANGELOG.md").read_bytes()) < 7_000


def test_the_readme_shows_a_piece_of_the_example_of_an_operator() -> None:
    source = (_ROOT / "docs/examples/database_operator.py").read_text(encoding="utf-8")
    (piece,) = [
        block.text
        for block in pages.blocks("README.md", "python")
        if block.comment.startswith("not run: a piece of docs/examples/database_operator.py")
    ]

    assert piece.strip() in source
