"""The README shows the examples that the tests run, letter by letter."""

from __future__ import annotations

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("marker", "example", "first_line"),
    [
        pytest.param("quickstart", "quickstart.py", "import asyncio\n", id="quickstart"),
        pytest.param("operator", "database_operator.py", "from typing import Any\n", id="operator"),
    ],
)
def test_readme_shows_the_example_as_it_is(marker: str, example: str, first_line: str) -> None:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    source = (_ROOT / "docs/examples" / example).read_text(encoding="utf-8")

    shown = readme.partition(f"<!-- {marker}: begin -->\n```python\n")[2].partition("```")[0]

    assert shown
    assert shown == source[source.index(first_line) :]
