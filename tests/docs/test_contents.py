"""Each page is listed on the index page of its folder, pages to begin with on the first page."""

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


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_each_kind_of_reader_finds_the_page_to_begin_with(page: str) -> None:
    begins = sorted(path.name for path in (pages.ROOT / "docs/start").glob("*.md"))
    links = {link.rpartition("/")[2] for link in pages.links(page) if "start/" in link}

    assert begins == sorted(links)
