"""Bytes of JSON in, the end of the object that starts there out.

It matches braces outside strings and keeps its place between chunks, so every byte is looked at
once, whatever the chunks. It does not validate: whoever needs to know that the object is JSON
decodes it. It is the slow and certain way; the fast one is in `_items`.
"""

from __future__ import annotations

import re
from typing import Final, final

# Possessive throughout: no byte is looked at twice, whatever the input.
_STRING: Final = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_PLAIN: Final = rb'[^{}"]*+(?:"' + _STRING + rb'"[^{}"]*+)*+'
_string_body = re.compile(_STRING, re.DOTALL).match
_outside = re.compile(_PLAIN, re.DOTALL).match
_next_brace = re.compile(_PLAIN + rb"([{}])", re.DOTALL).match

_OPEN: Final = ord("{")
_QUOTE: Final = ord('"')


@final
class ObjectScanner:
    """Find where one JSON object ends."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over: the next byte is the `{` of another object."""
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes, start: int) -> int:
        """Go on with `data[start:]`.

        Returns:
            The offset behind the object's closing brace, or -1 if it is not in this data.
        """
        position = self._leave_string(data, start) if self._in_string else start
        if position < 0:
            return -1
        depth = self._depth
        while match := _next_brace(data, position):
            position = match.end()
            depth += 1 if data[position - 1] == _OPEN else -1
            if depth == 0:
                return position
        self._depth = depth
        self._enter_string(data, position)
        return -1

    def _enter_string(self, data: bytes, position: int) -> None:
        rest = _outside(data, position)
        if rest is not None and rest.end() < len(data):  # only an unfinished string stops it
            self._in_string = True
            self._leave_string(data, rest.end() + 1)

    def _leave_string(self, data: bytes, position: int) -> int:
        if position >= len(data):
            return -1
        body = _string_body(data, position + self._escaped)
        self._escaped = False
        end = len(data) if body is None else body.end()
        if end >= len(data):
            return -1
        if data[end] == _QUOTE:
            self._in_string = False
            return end + 1
        self._escaped = True  # a backslash is the last byte: what it escapes comes next
        return -1
