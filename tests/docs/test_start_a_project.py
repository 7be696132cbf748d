"""The page on projects: its command prints what the page says, and its tables are complete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyinformer.cli.project import ManifestSettings
from tests.cli.command_line import here
from tests.cli.projects import files_of
from tests.docs import pages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = "docs/howto/start-a-project.md"


def test_the_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = pages.blocks(PAGE, "console")
    command, _, expected = block.text.partition("\n")
    monkeypatch.chdir(tmp_path)

    done = here(*command.removeprefix("$ pyinformer ").split())

    assert (done.exit_code, done.stdout) == (0, expected)
    text = pages.read(PAGE)
    for path in files_of(tmp_path / "database-operator"):
        is_hidden = path.startswith(".") and "/" not in path
        folder = f"{path.partition('/')[0]}/"
        is_named = f"`{path}`" in text or f"`{folder}`" in text
        assert is_named or is_hidden or path.endswith(("README.md", "__init__.py", "__main__.py"))


def test_the_page_has_all_options_and_settings() -> None:
    text = pages.read(PAGE)
    shown = here("init", "--help", COLUMNS="200").stdout
    options = set(re.findall(r"(?<![\w-])--[a-z-]+", shown)) - {"--help"}

    assert len(options) > 5
    assert {option for option in options if f"`{option}`" not in text} == set()
    assert [each for each in ManifestSettings.__struct_fields__ if f"{each} = " not in text] == []
