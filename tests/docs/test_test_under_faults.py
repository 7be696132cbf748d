"""The tests that the page on faults shows are run, and its table has every fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyinformer.testing.faults import CATALOGUE
from tests.docs import pages

_PAGE = "docs/howto/test-under-faults.md"
_INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    shown = [block.text for block in pages.blocks(_PAGE, "python")]
    (tmp_path / "pytest.ini").write_text(_INI)
    (tmp_path / "test_page.py").write_text("\n\n".join(shown))

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )

    count = sum(text.count("def test_") for text in shown)
    assert f"{count} passed" in result.stdout, result.stdout + result.stderr


def test_the_table_has_every_fault_with_its_arguments() -> None:
    page = (pages.ROOT / _PAGE).read_text()
    for name, kind in CATALOGUE.items():
        arguments = ", ".join(f"`{one}`" for one in sorted(kind.arguments))
        lie = " (a lie)" if kind.is_lie else ""
        assert f"| `{name}` | {kind.part} | {arguments} | {kind.summary}{lie} |" in page
