"""Tests with other programs, such as a browser: only `make test-tools` collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "tools"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect nothing unless these tests are asked for: what they import may not be installed."""
    del collection_path
    wanted = config.option.markexpr
    return None if wanted == _FOLDER else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if _FOLDER in item.path.parts:
            item.add_marker(pytest.mark.tools)
