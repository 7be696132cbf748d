"""Links of every page lead somewhere, read as a forge reads them: files, headings, addresses.

`make docs` checks the links of the built pages; here are those of README.md and of the pages
outside of docs, too, and those that lead into the repository. Addresses outside are looked at
only; `make docs-links` asks for them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.docs import pages

_LINKS = [(page, link) for page in pages.all_pages() for link in pages.links(page)]


def problem_with(page: str, link: str) -> str | None:
    """Say what is wrong with a link of a page, or None."""
    parts = urlsplit(link)
    if parts.scheme:
        is_address = parts.scheme == "https" and "." in parts.netloc
        return None if is_address else "is not an https address"
    target = (pages.ROOT / page).parent / parts.path if parts.path else pages.ROOT / page
    if not target.exists():
        return "leads to no file"
    if not target.resolve().is_relative_to(pages.ROOT):
        return "leads out of the repository"
    inside = str(target.resolve().relative_to(pages.ROOT))
    if parts.fragment and parts.fragment not in pages.anchors(inside):
        return "leads to no heading"
    return None


def test_every_link_leads_somewhere() -> None:
    found = [(page, link, problem_with(page, link)) for page, link in _LINKS]

    assert [one for one in found if one[2]] == []
    assert len(found) > 100


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        pytest.param("docs/index.md", None, id="page"),
        pytest.param("docs/benchmarks/misses.md#metadata-handler", None, id="explicit-anchor"),
        pytest.param(
            "docs/howto/work-queue.md#use-a-work-queue-without-a-controller", None, id="h"
        ),
        pytest.param("docs/howto/work-queue.md#nothing", "leads to no heading", id="no-heading"),
        pytest.param("docs/howto/nothing.md", "leads to no file", id="no-file"),
        pytest.param("../elsewhere", "leads to no file", id="outside"),
        pytest.param("https://kubernetes.io/docs/", None, id="address"),
        pytest.param("http:kubernetes.io", "is not an https address", id="malformed-address"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, problem: str | None) -> None:
    assert problem_with("README.md", link) == problem
