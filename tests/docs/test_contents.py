"""Every page is listed on the index page of its folder, so that a reader on a forge finds it."""

from __future__ import annotations

import pytest

from tests.docs import pages


@pytest.mark.parametrize("folder", ["tutorials", "howto", "explanation", "reference"])
def test_every_page_is_listed_on_the_index_page_of_its_folder(folder: str) -> None:
    there = {path.name for path in (pages.ROOT / "docs" / folder).glob("*.md")} - {"index.md"}
    listed = {link for link in pages.links(f"docs/{folder}/index.md") if "/" not in link}

    assert sorted(there - listed) == [], f"list these in docs/{folder}/index.md"


def test_the_first_page_leads_to_every_folder() -> None:
    folders = {path.parent.name for path in (pages.ROOT / "docs").glob("*/index.md")}

    assert {f"{folder}/index.md" for folder in folders} <= set(pages.links("docs/index.md"))
