"""Texts that a tenant can put where a program shows them, and a check of what the program shows."""

from __future__ import annotations

import re
from typing import Final

FORGED: Final = "ERROR pyinformer.controller: the forged line"

HOSTILE: Final = (
    f"a\n{FORGED}",
    f"a\r\n{FORGED}",
    f"a\r{FORGED}",
    f"a\x0b{FORGED}",
    f"a\x0c{FORGED}",
    f"a\x1c{FORGED}",
    f"a\x85{FORGED}",
    f"a\u2028{FORGED}",
    f"a\u2029{FORGED}",
    "a\x1b[2J\x1b[31mred",
    "a\x1b]0;title\x07",
    "a\x9b2J",
    "a\x00b",
    "a\x08\x08b",
    "a\x7fb",
    "a\u202eb\u202c",
    "a\u2066b\u2069",
    "a\u200fb",
    "a\ufeffb",
    "a\ud800b",
    "a\udcffb",
    "a\U000e0041b",
)
"""Each begins with `a`, so that a test can find the name that it stands in."""

STORABLE: Final = tuple(text for text in HOSTILE if not re.search("[\ud800-\udfff]", text))
"""Those that an API server stores: a lone surrogate is not Unicode, and no decoder takes it."""


def assert_shown_safely(text: str, *, lines: int = 1) -> None:
    """Check that a text has only printed characters, so many lines, and no line that is forged.

    Args:
        text: what a log, a page or a terminal shows, without a line break at its end.
        lines: how many lines the program meant.
    """
    shown = text.splitlines()
    assert len(shown) == lines, text
    assert all(line.isprintable() for line in shown), ascii(text)
    assert not any(line.lstrip().startswith(FORGED) for line in shown), text
