"""The tests that the page on tests without a server shows are tests that pass."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

_PAGE = Path(__file__).parents[2] / "docs/howto/test-without-a-server.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _shown() -> dict[str, Any]:
    """Run what the page shows, from top to bottom, and return what it defines."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in _BLOCK.findall(_PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(_PAGE), "exec"), namespace)  # noqa: S102 - our own page
    return namespace


_TESTS = {name: shown for name, shown in _shown().items() if name.startswith("test_")}


@pytest.mark.parametrize("name", _TESTS)
def test_a_test_of_the_page_passes(name: str) -> None:
    _TESTS[name]()


def test_the_page_shows_tests() -> None:
    assert len(_TESTS) == 5
