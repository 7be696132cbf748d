"""README and changelog are short; the tests run the programs that the README shows."""

from __future__ import annotations

import re
import tomllib
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


def test_what_a_wheel_changes_of_the_readme_is_there() -> None:
    """Its build fails, or its page has sentences that are wrong there, when the README changes."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    hook = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    made = hook["metadata"]["hooks"]["fancy-pypi-readme"]
    marks = [
        one[end] for one in made["fragments"] for end in ("start-at", "end-before") if end in one
    ]
    assert [one for one in marks if one not in readme] == []
    patterns = [one["pattern"] for one in made["substitutions"]]
    assert [one for one in patterns if not re.search(one, readme)] == []


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
