"""Text that may go to a terminal, whatever an object or a server put into it.

What enters is any text; what leaves holds only characters that are printed: no control codes, no
line breaks, nothing that turns the direction of writing around. What is taken out stands there as
its escape. Pure.
"""

from __future__ import annotations

import json
import re

from pyinformer.apimachinery import JSONValue

_CUT = "..."
_LAST_OF_BMP = 0xFFFF


def printable(text: str) -> str:
    """Return a text with everything that is not printed as a Python escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def printable_json(text: str) -> str:
    """Return a JSON text that says the same, with escapes for all that is not printed.

    Such characters stand within strings only: what writes it puts no white space between.
    """
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: _json_escape(found[0]), text)


def value_text(value: JSONValue, limit: int) -> str:
    """Return a value in one line, as JSON, not longer than so many characters."""
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= limit else f"{text[: limit - len(_CUT)]}{_CUT}"


# What isprintable() rejects and JSON allows as it is: everything but the space among the
# separators, and all of the control, format, private and unassigned characters.
_HIDDEN = re.compile(r"[^ -~]", re.DOTALL)


def _json_escape(one: str) -> str:
    if one.isprintable():
        return one
    return json.dumps(one)[1:-1] if ord(one) != 0x7F else "\\u007f"  # noqa: PLR2004 - DEL


def _escape(one: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(one)
    if short:
        return short
    code = ord(one)
    if code <= 0xFF:  # noqa: PLR2004 - as Python writes it
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_OF_BMP else f"\\U{code:08x}"
