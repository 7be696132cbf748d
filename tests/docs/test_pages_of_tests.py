"""The tests that pages on testing show are run, each page's as a user's file of tests."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path

_INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


@pytest.mark.parametrize(
    ("page", "timeout_seconds"),
    [
        pytest.param("docs/howto/test-your-code.md", 100, id="your-code"),
        pytest.param("docs/howto/test-under-faults.md", 250, id="under-faults"),
        pytest.param("docs/howto/test-with-interceptors.md", 100, id="interceptors"),
    ],
)
def test_the_tests_of_the_page_pass(tmp_path: Path, page: str, timeout_seconds: int) -> None:
    shown = [block.text for block in pages.blocks(page, "python")]
    (tmp_path / "pytest.ini").write_text(_INI)
    (tmp_path / "test_page.py").write_text("\n\n".join(shown))

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )

    count = sum(text.count("def test_") for text in shown)
    assert f"{count} passed" in result.stdout, result.stdout + result.stderr
