r"""Text that may be shown in a log, on a page or on a terminal, whatever it was made of.

Objects and servers supply names and messages with any character in them. A shown text holds only
characters that Python prints: no control characters, no line breaks, nothing that changes the
direction of writing. Every other character is replaced by its escape, such as `\n` or `\u202e`.
"""

from __future__ import annotations

import json
import re
from typing import final

_CUT = "..."
_LAST_OF_BMP = 0xFFFF
_DEL = 0x7F


def printable(text: str) -> str:
    """Return a text as one line in which each character that is not printed is escaped.

    A text without such characters is returned as it is, so the function may be applied twice.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


@final
class Lines(str):
    """Several lines of printable text: the one kind of text whose line breaks a log keeps."""

    __slots__ = ()

    def __new__(cls, text: str) -> Lines:
        """Escape each line of a text whose line breaks were written by pyinformer."""
        return super().__new__(cls, "\n".join(map(printable, text.split("\n"))))


def printable_json(text: str) -> str:
    """Return a JSON text of the same value with escapes for all that is not printed.

    Such characters are only in strings: the writers of this JSON put no white space between.
    """
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: _json_escape(found[0]), text)


def shortened(text: str, limit: int) -> str:
    """Return a text cut to a number of characters, with dots at its end if it was longer."""
    return text if len(text) <= limit else f"{text[: limit - len(_CUT)]}{_CUT}"


# What isprintable() rejects and JSON allows as it is: everything but the space among the
# separators, and all of the control, format, private and unassigned characters.
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
