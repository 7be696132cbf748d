"""The README shows the quickstart that the tests run, letter by letter."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_readme_shows_the_quickstart_as_it_is() -> None:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    quickstart = (_ROOT / "docs/examples/quickstart.py").read_text(encoding="utf-8")

    shown = readme.partition("<!-- quickstart: begin -->\n```python\n")[2].partition("```")[0]

    assert shown
    assert shown == quickstart[quickstart.index("import asyncio\n") :]
