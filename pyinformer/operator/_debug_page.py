"""The page `/debug` for people: what `/status` has, drawn in a browser, and a box for `/explain`.

Its three files are the same for every program. All that is shown is read by the browser from the
status pages, under the same rules, and becomes text there, never HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from pyinformer.operator._health_server import Document

if TYPE_CHECKING:
    from pyinformer.operator._health_server import Page

_FILES: Final = {  # apart, since the policy of the pages allows no code inside of HTML
    "/debug": ("debug.html", "text/html; charset=utf-8"),
    "/debug.css": ("debug.css", "text/css; charset=utf-8"),
    "/debug.js": ("debug.js", "text/javascript; charset=utf-8"),
}


def debug_pages() -> dict[str, Page]:
    """Return the page and its files by their paths, for a HealthServer."""
    return {path: partial(_show, *file) for path, file in _FILES.items()}


def _show(name: str, content_type: str, _: Mapping[str, str]) -> Document:
    return Document(content_type, (_content_of(name),))


@cache
def _content_of(name: str) -> bytes:
    from importlib.resources import files

    return (files("pyinformer.operator") / "debug" / name).read_bytes()
