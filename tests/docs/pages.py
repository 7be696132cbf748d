"""Parse pages of the documentation: fenced blocks, links, headings.

A block has the comment above it, which may have the reason why it is not run. Anchors are made as a
forge makes them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n)?"
    r"^(?P<fence>```+)(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"(?<!`)\[(?:[^\[\]`]|`[^`]*`|!?\[[^\]]*\]\([^)]*\))*\]\(<?([^)\s>]*)>?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_EXPLICIT = re.compile(r'<a (?:id|name)="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: str
    """The page, relative to the repository: `docs/howto/indexes.md`."""

    language: str
    """What stands behind the fence: `python`, `console`, `yaml`; empty if nothing does."""

    text: str
    """What is between the fences."""

    comment: str
    """The comment in the line above, such as `not run: needs a cluster`; empty if there is none."""


def all_pages() -> list[str]:
    """Return every Markdown page that is published, relative to the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def read(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page, or those of one language."""
    return [
        Block(page=page, language=one["language"], text=one["text"], comment=one["comment"] or "")
        for one in _FENCE.finditer(read(page))
        if language in {None, one["language"]}
    ]


def module_of(page: str) -> ModuleType:
    """Run the python blocks of a page from top to bottom, as one module, and return it."""
    module = ModuleType("page_" + Path(page).stem.replace("-", "_"))
    sys.modules[module.__name__] = module  # where annotations of its classes are looked up
    for block in blocks(page, "python"):
        if not block.comment.startswith("not run: "):
            exec(compile(block.text, page, "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


def links(page: str) -> list[str]:
    """Return where the links of a page lead, those in code left out."""
    return _LINK.findall(_without_code(read(page)))


def anchors(page: str) -> set[str]:
    """Return what a link into a page may name: its headings as a forge writes them, and its ids."""
    text = _FENCE.sub("", read(page))
    found = set(_EXPLICIT.findall(text))
    for heading in _HEADING.findall(text):
        slug = _slug(heading)
        number = 0
        while (made := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(made)
    return found


def _slug(heading: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


def _without_code(text: str) -> str:
    return re.sub(r"^    .*$", "", _FENCE.sub("", text), flags=re.MULTILINE)
