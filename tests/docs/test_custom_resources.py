"""The page on custom resources: its models have a definition, and its command counts the rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import here
from tests.docs import pages

PAGE = "docs/howto/custom-resources.md"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the program of the page, and make its folder the current one."""
    (block,) = pages.blocks(PAGE, "python")
    (tmp_path / "pools.py").write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "pools", raising=False)


def test_the_command_of_the_page_counts_the_rules() -> None:
    """The pipe of the `console` block, of which the first half runs in this process."""
    (block,) = pages.blocks(PAGE, "console")
    command, expected = block.text.splitlines()
    first, _, second = command.removeprefix("$ pyinformer ").partition(" | ")

    printed = here(*first.split()).stdout
    counted = subprocess.run(
        ["/bin/sh", "-c", second], input=printed, capture_output=True, text=True, check=True
    )

    assert counted.stdout.strip() == expected
