"""The README shows examples that the tests run, letter by letter, and a test that passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyinformer.testing import APIServer
from tests.docs import pages

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("marker", "example", "first_line"),
    [
        pytest.param("quickstart", "quickstart.py", "import asyncio\n", id="quickstart"),
    ],
)
def test_readme_shows_the_example_as_it_is(marker: str, example: str, first_line: str) -> None:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    source = (_ROOT / "docs/examples" / example).read_text(encoding="utf-8")

    shown = readme.partition(f"<!-- {marker}: begin -->\n```python\n")[2].partition("```")[0]

    assert shown
    assert shown == source[source.index(first_line) :]


def test_the_readme_shows_a_piece_of_the_example_of_an_operator() -> None:
    source = (_ROOT / "docs/examples/database_operator.py").read_text(encoding="utf-8")
    (piece,) = [
        block.text
        for block in pages.blocks("README.md", "python")
        if block.comment.startswith("not run: a piece of docs/examples/database_operator.py")
    ]

    assert piece.strip() in source


async def test_the_test_that_the_readme_shows_passes(apiserver: APIServer) -> None:
    await pages.module_of("README.md").test_follows_config_maps(apiserver)
