"""How deep the values of a JSON text are nested, counted in its bytes.

A decoder of nested values uses the stack for each level, and so does every function that reads what
it made. The end of the stack ends the process, unless the interpreter raises RecursionError before:
which of the two, and at which depth, differs between versions of Python and between threads. So the
limit is one of our own, far below all of them.

A text may be cut off, or malformed: what is counted are the levels that a decoder enters before it
notices. Each takes one byte, so short texts need not be counted.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final, TypeAlias, final

import msgspec

MAX_DEPTH: Final = 512
"""The most levels that are decoded. At 630, msgspec overflows a stack of 256 KiB."""

SKIPPED_BYTES: Final = 7 << 10
"""A text up to this length can be skipped on any stack: each level takes 32 bytes of it."""

Text: TypeAlias = bytes | bytearray | memoryview | str

_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_without_escapes = re.compile(rb"\\.", re.DOTALL).sub
_STEPS: Final = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]
_FEW_ARRAYS: Final = 64  # objects have far fewer of them than of other objects
_LARGE_BYTES: Final = 16 << 10  # most texts of this length have more brackets
_PEELINGS: Final = 16  # real objects have fewer levels


@final
class TooDeepError(RecursionError, msgspec.DecodeError):
    """A text was not decoded, since it is nested too deeply.

    Code that catches the errors of a decoder catches it, whichever of the two it names.
    """

    def __init__(self) -> None:
        super().__init__(f"it has more than {MAX_DEPTH} levels")


def check_depth(text: Text) -> None:
    """Refuse a text that is nested too deeply to be decoded.

    Raises:
        TooDeepError: it has more than `MAX_DEPTH` levels.
    """
    if len(text) <= MAX_DEPTH:
        return
    whole = text if type(text) is bytes else _bytes_of(text)
    if not _are_few(whole, b"{", b"[") and _is_deep(whole):
        raise TooDeepError


def check_complete_depth(text: bytes) -> None:
    """Refuse an object that is nested too deeply; it must be complete, as one that was decoded.

    At the deepest place all levels have begun, and none has ended. If it is in the first half of
    the text, they begin there; if not, they end in the second half.

    Raises:
        TooDeepError: it has more than `MAX_DEPTH` levels.
    """
    if len(text) < _LARGE_BYTES and _are_few(text, b"{", b"["):
        return
    middle = len(text) // 2
    if _are_few(text[:middle], b"{", b"[") and _are_few(text[middle:], b"}", b"]"):
        return
    if _is_deep(text):
        raise TooDeepError


def check_skipped_depth(text: Text) -> None:
    """Refuse a text that is nested so deeply that to skip it may overflow the stack.

    Raises:
        TooDeepError: so it is.
    """
    if len(text) > SKIPPED_BYTES and cannot_be_skipped(text):
        raise TooDeepError


def is_nested_too_deeply(text: Text) -> bool:
    """Return whether a text has more than `MAX_DEPTH` levels."""
    whole = _bytes_of(text)
    return not _are_few(whole, b"{", b"[") and _is_deep(whole)


def cannot_be_skipped(text: Text) -> bool:
    """Return whether a text has more than `MAX_DEPTH` levels, and may have too many to skip."""
    whole = _bytes_of(text)
    half = SKIPPED_BYTES // 2
    is_suspect = b"{" in whole.replace(b"{", b"[", half) or b"[" in whole.replace(b"[", b"{", half)
    return is_suspect and _is_deep(whole)


def _bytes_of(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _are_few(text: bytes, objects: bytes, arrays: bytes) -> bool:
    """Return whether a text has at most `MAX_DEPTH` of two brackets; if so, perhaps False as well.

    A replacement by one other byte goes from hit to hit; `count` goes from byte to byte, which
    takes three times as long.
    """
    if arrays not in text.replace(arrays, objects, _FEW_ARRAYS):
        return objects not in text.replace(objects, arrays, MAX_DEPTH - _FEW_ARRAYS)
    half = MAX_DEPTH // 2
    is_half = arrays not in text.replace(arrays, objects, half)
    return is_half and objects not in text.replace(objects, arrays, half)


def _is_deep(text: bytes) -> bool:
    if b"\\" in text:
        text = _without_escapes(b"", text)
    # Quotes and brackets are left. Two quotes side by side are an empty string, or the end of one
    # string and the start of the next: without them, what was inside of a string still is.
    marks = text.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    left = marks
    for peeled in range(_PEELINGS):
        if len(left) + 2 * peeled <= MAX_DEPTH:
            return False
        left = left.replace(b"{}", b"").replace(b"[]", b"")  # one level or two
    return max(accumulate(map(_STEPS.__getitem__, marks), initial=0)) > MAX_DEPTH
