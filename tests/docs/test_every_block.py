"""Every program and every command that a page shows is run by a test, or says why it is not.

A page's python blocks count as run if a test beside this one names the page; its console blocks
if such a test also contains `console`. A block that is not run has the reason in the line above:
`<!-- not run: it needs a cluster of yours -->`. Nothing else is left out.
"""

from __future__ import annotations

import pytest

from tests.docs import pages

_RUN = {"python", "console", "sh", "bash", "shell", "pycon"}
_TESTS = [
    path.read_text(encoding="utf-8")
    for path in [
        *(pages.ROOT / "tests/docs").glob("test_*.py"),
        *pages.ROOT.glob("tests/gates/*.py"),
    ]
    if path.name != "test_every_block.py"
]
_PAGES = [page for page in pages.all_pages() if not page.startswith("benchmarks/")]


def is_run(block: pages.Block, tests: list[str]) -> bool:
    """Say whether some test names the page of a block, and runs blocks of its sort."""
    name = block.page.rpartition("/")[2]
    wanted = {'"python"', "```python", "module_of("} if block.language == "python" else {"console"}
    return any(name in test and any(one in test for one in wanted) for test in tests)


@pytest.mark.parametrize("page", _PAGES)
def test_every_block_is_run_or_has_a_reason_why_not(page: str) -> None:
    silent = [
        block.text
        for block in pages.blocks(page)
        if block.language in _RUN
        and not block.comment.startswith("not run: ")
        and not is_run(block, _TESTS)
    ]

    assert silent == [], "name the page in a test of tests/docs, or write <!-- not run: why -->"


@pytest.mark.parametrize("page", _PAGES)
def test_every_block_has_a_language(page: str) -> None:
    assert [block.text for block in pages.blocks(page) if not block.language] == []


@pytest.mark.parametrize(
    ("language", "test", "expected"),
    [
        pytest.param("python", 'PAGE = "shown.md"; blocks(PAGE, "python")', True, id="python"),
        pytest.param("python", 'PAGE = "other.md"; blocks(PAGE, "python")', False, id="other-page"),
        pytest.param(
            "console", 'PAGE = "shown.md"; blocks(PAGE, "python")', False, id="no-console"
        ),
        pytest.param("console", 'PAGE = "shown.md"; blocks(PAGE, "console")', True, id="console"),
    ],
)
def test_only_a_test_that_names_the_page_runs_it(
    language: str, test: str, *, expected: bool
) -> None:
    block = pages.Block(page="docs/shown.md", language=language, text="", comment="")

    assert is_run(block, [test]) is expected
