"""Find where a JSON object ends, over several chunks.

The scanner matches braces outside of strings and keeps its state between chunks, so every byte is
read once. It does not validate. It is slow and certain; ListSplitter searches for borders first.
"""

from __future__ import annotations

import re
from typing import Final, final

# The patterns are possessive: no byte is read twice, whatever the input.
_STRING: Final = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_PLAIN: Final = rb'[^{}"]*+(?:"' + _STRING + rb'"[^{}"]*+)*+'
_string_body = re.compile(_STRING, re.DOTALL).match
_outside = re.compile(_PLAIN, re.DOTALL).match
_next_brace = re.compile(_PLAIN + rb"([{}])", re.DOTALL).match

_OPEN: Final = ord("{")
_QUOTE: Final = ord('"')


@final
class ObjectScanner:
    """Finds the end of one JSON object in chunks of bytes."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again: the next byte is the `{` of another object."""
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes, start: int) -> int:
        """Scan `data[start:]`.

        Returns:
            The offset behind the object's closing brace, or -1 if the brace is not in this data.
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
        if rest is not None and rest.end() < len(data):  # stopped by an unfinished string
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
        self._escaped = True  # the last byte is a backslash: the next one is escaped
        return -1
