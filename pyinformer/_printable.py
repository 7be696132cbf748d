r"""Escape text for logs, pages and terminals.

Names and messages of objects and servers may contain any character. Escaped text has only printable
characters: no control characters, no line breaks, nothing that changes the direction of writing.
Every other character is replaced by its escape, such as `\n` or `\u202e`.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import json
import re
from typing import final

_CUT = "..."
_LAST_OF_BMP = 0xFFFF
_DEL = 0x7F


def printable(text: str) -> str:
    """Return a text as one line, with every character escaped that is not printable.

    Printable text is returned unchanged, so the function may be applied twice.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


@final
class Lines(str):
    """Several lines of printable text. Logs keep the line breaks of this type only."""

    __slots__ = ()

    def __new__(cls, text: str) -> Lines:
        """Escape each line of a text that pyinformer has broken into lines."""
        return super().__new__(cls, "\n".join(map(printable, text.split("\n"))))


def printable_json(text: str) -> str:
    """Return JSON of the same value, with every character escaped that is not printable.

    Such characters occur in strings only: this JSON is written without white space.
    """
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: _json_escape(found[0]), text)


def shortened(text: str, limit: int) -> str:
    """Return a text cut to a number of characters; a longer text ends with dots."""
    return text if len(text) <= limit else f"{text[: limit - len(_CUT)]}{_CUT}"


# Candidates for escapes: isprintable() rejects separators except the space, and all control,
# format, private and unassigned characters.
_HIDDEN = re.compile(r"[^ -~]", re.DOTALL)


def _json_escape(one: str) -> str:
    if one.isprintable():
        return one
    return json.dumps(one)[1:-1] if ord(one) != _DEL else "\\u007f"


def _escape(one: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(one)
    if short:
        return short
    code = ord(one)
    if code <= 0xFF:  # noqa: PLR2004 - as Python writes it
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_OF_BMP else f"\\U{code:08x}"
