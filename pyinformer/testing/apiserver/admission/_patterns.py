"""Regular expressions as Go reads them, for an engine that reads some of their text otherwise.

The classes of Go, such as that of digits, are of ASCII; those of the library that evaluates CEL are
of all scripts, so a text would pass in a test, and be refused by a real server.

Source:
    Go's regexp/syntax, perl_groups.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_COMPILED: Final = 256
_CLASSES: Final = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}
_BOUNDARIES: Final = {r"\b": r"(?-u:\b)", r"\B": r"(?-u:\B)"}
_OPERATORS: Final = ("&", "~")  # of sets within brackets, where Go has plain characters
_PARTS: Final = re.compile(r"\\.|\[\^?\]?|\[:\^?[a-z]+:\]|.", re.DOTALL)
_NAMED_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")


@lru_cache(maxsize=_COMPILED)
def from_go(pattern: str) -> str:
    """Return a pattern of Go for the crate regex."""
    found: list[str] = []
    place, is_within = 0, False  # brackets
    while place < len(pattern):
        named = _NAMED_CLASS.match(pattern, place) if is_within else None
        part = (named or _PARTS.match(pattern, place) or [""])[0]
        if is_within and named is None and part[0] == "[":
            part = "["  # another opening bracket is a character
        place += len(part)
        found.append(_translated(part, is_within=is_within))
        if named is None and (part[0] == "[" or part == "]"):
            is_within = part != "]"
    return "".join(found)


def _translated(part: str, *, is_within: bool) -> str:
    if part[0] == "\\":
        inner = _CLASSES.get(part[1:].lower())
        if inner is None:
            return part if is_within else _BOUNDARIES.get(part, part)
        if part[1].isupper():
            return f"[^{inner}]"
        return inner if is_within else f"[{inner}]"
    if is_within and (part == "[" or part in _OPERATORS):
        return f"\\{part}"
    return part
